//! `pinfold doctor` on hosts that give less: its answer changes against the control, names the
//! layer and the fix, and a run agrees with it.

use crate::config::edit;
use crate::support::contained::{docker, refuse, without_namespaces};
use crate::support::{Answer, Env, binary, copy_program, is_root, skip};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use serde_json::Value;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Gives a command less of the host.
type Less<'a> = &'a dyn Fn(&mut Command);

/// What is missing where no group can be made.
const NO_GROUP: [&str; 2] = ["cgroup-kill", "cgroup-limits"];
/// A user that is nobody else, for tests of root that need an ordinary one.
const ORDINARY: u32 = 61_235;
/// What Docker leaves to root.
const DOCKER_KEEPS: [caps::Capability; 14] = [
    caps::Capability::CAP_CHOWN,
    caps::Capability::CAP_DAC_OVERRIDE,
    caps::Capability::CAP_FSETID,
    caps::Capability::CAP_FOWNER,
    caps::Capability::CAP_MKNOD,
    caps::Capability::CAP_NET_RAW,
    caps::Capability::CAP_SETGID,
    caps::Capability::CAP_SETUID,
    caps::Capability::CAP_SETFCAP,
    caps::Capability::CAP_SETPCAP,
    caps::Capability::CAP_NET_BIND_SERVICE,
    caps::Capability::CAP_SYS_CHROOT,
    caps::Capability::CAP_KILL,
    caps::Capability::CAP_AUDIT_WRITE,
];

/// Doctor's answer with its exit code.
struct Told {
    exit: i32,
    json: Value,
}

impl Told {
    fn rung(&self) -> &str {
        self.json["rung"].as_str().expect("a rung")
    }

    fn missing(&self) -> Vec<&str> {
        let missing = self.json["missing"].as_array().expect("a list");
        missing.iter().map(|missing| missing["layer"].as_str().expect("a name")).collect()
    }

    /// The fix of a layer that is missing.
    fn fix(&self, layer: &str) -> &str {
        let missing = self.json["missing"].as_array().expect("a list");
        let of_layer = missing.iter().find(|missing| missing["layer"] == layer);
        let of_layer = of_layer.unwrap_or_else(|| panic!("{layer} is missing: {}", self.json));
        assert!(!of_layer["why"].as_str().expect("a reason").is_empty());
        of_layer["fix"].as_str().expect("a fix")
    }

    fn profile(&self, name: &str) -> &Value {
        let profiles = self.json["profiles"].as_array().expect("a list");
        profiles.iter().find(|profile| profile["name"] == name).expect("the profile")
    }
}

fn doctor(env: &Env, less: Less<'_>) -> Told {
    let mut command = env.command(&["doctor", "--json"]);
    less(&mut command);
    let output = command.output().expect("pinfold starts");
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON ({error}): {output:?}"));
    let members: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(
        members,
        [
            "rung",
            "layers",
            "missing",
            "lacks",
            "profiles",
            "folder",
            "stores",
            "configuration",
            "duration_ms"
        ]
    );
    let exit = output.status.code().expect("an exit code");
    let told = Told { exit, json };
    let by_rung = match told.rung() {
        "A" | "B" => 0,
        "C" => 1,
        _ => 2,
    };
    assert_eq!(exit, by_rung, "{}", told.json);
    told
}

fn text(env: &Env, less: Less<'_>) -> String {
    let mut command = env.command(&["doctor"]);
    less(&mut command);
    let output = command.output().expect("pinfold starts");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn run(env: &Env, less: Less<'_>, words: &[&str]) -> Answer {
    let mut command = env.command(&[&["run", "--json", "--"], words].concat());
    less(&mut command);
    Answer::of(command.output().expect("pinfold starts"))
}

/// A run in the same host says what doctor said: it has that rung and those layers, or it is
/// refused with the code `rung` and the first layer that is missing.
fn agrees(env: &Env, told: &Told, less: Less<'_>) {
    let answer = run(env, less, &["probe", "look", "ids"]);
    if told.profile("look")["runs"] == true {
        assert_eq!(answer.outcome(), "ok", "{answer:?}");
        assert_eq!(answer.reply["rung"], told.json["rung"]);
        assert_eq!(answer.reply["layers"], told.json["layers"]);
        let intent = env.records_of("intent").pop().expect("an intent");
        assert_eq!(intent["lacks"], told.json["lacks"], "{intent}");
    } else {
        assert_eq!(answer.refusal(), "rung", "{answer:?}");
        let why = answer.reply["decision"]["reason"].as_str().expect("a reason");
        let told = format!("gives {}: no {},", told.rung(), told.missing()[0]);
        assert!(why.contains(&told), "{told}: {why}");
        assert_eq!(env.records_of("intent").len(), 0, "something ran");
    }
}

/// The control: this host as it is gives more than a rung, and the layer among it.
fn control(env: &Env, layer: &str) {
    let told = doctor(env, &|_| ());
    assert!(["A", "B"].contains(&told.rung()), "{}", told.json);
    assert!(!told.missing().contains(&layer), "{}", told.json);
    let line = |line: &str| line.starts_with("works") && line.contains(&format!(" {layer} "));
    assert!(text(env, &|_| ()).lines().any(line), "{layer}");
}

/// Has a command do this before it starts.
fn before(command: &mut Command, act: impl Fn() -> nix::Result<()> + Send + Sync + 'static) {
    unsafe { command.pre_exec(move || act().map_err(io::Error::from)) };
}

const NO_PATH: Option<&str> = None;

/// Enters a mount namespace from which nothing spreads.
fn own_mounts() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NO_PATH, "/", NO_PATH, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NO_PATH)
}

/// Makes a command that of a copied program and of an ordinary user, with a file of `/proc` masked,
/// in the group with this entrance.
/// The same user needs a user namespace to mask anything, in which root's files are nobody's.
fn as_ordinary(
    env: &Env,
    command: &mut Command,
    mask: Option<&'static str>,
    entrance: Option<PathBuf>,
) {
    let mut other = Command::new(env.path("bin/pinfold"));
    other.args(command.get_args()).current_dir(env.workspace());
    other.env_clear();
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other.stdin(std::process::Stdio::null());
    *command = other;
    if let Some(entrance) = entrance {
        before(command, move || {
            let entered = fs::write(&entrance, "0");
            entered.map_err(|error| nix::Error::from_raw(error.raw_os_error().unwrap_or(0)))
        });
    }
    let masked = move || match mask {
        Some(mask) => mount(Some("/dev/null"), mask, NO_PATH, MsFlags::MS_BIND, NO_PATH),
        None => Ok(()),
    };
    if is_root() {
        for folder in ["state", "ws", "home"].map(|name| env.path(name)) {
            fs::create_dir_all(&folder).expect("a folder");
            std::os::unix::fs::chown(&folder, Some(ORDINARY), Some(ORDINARY)).expect("an owner");
        }
        return before(command, move || {
            own_mounts()?;
            masked()?;
            setgroups(&[])?;
            setgid(Gid::from_raw(ORDINARY))?;
            setuid(Uid::from_raw(ORDINARY))
        });
    }
    let (uid, gid) = (Uid::current(), Gid::current());
    before(command, move || {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        let write = |file: &str, text: String| {
            let written = fs::write(format!("/proc/self/{file}"), text);
            written.map_err(|error| nix::Error::from_raw(error.raw_os_error().unwrap_or(0)))
        };
        write("setgroups", "deny".to_owned())?;
        write("uid_map", format!("{uid} {uid} 1"))?;
        write("gid_map", format!("{gid} {gid} 1"))?;
        masked()
    });
}

#[test]
fn g03_dockers_refusals_make_it_rung_c_with_the_containers_settings() {
    let Some(env) = Env::new() else { return };
    control(&env, "namespaces");
    let told = doctor(&env, &docker);
    assert_eq!((told.exit, told.rung()), (1, "C"), "{}", told.json);
    let fix = told.fix("namespaces");
    assert!(fix.contains("--security-opt seccomp=") && fix.contains("seccompProfile"), "{fix}");
    assert!(told.json["lacks"].as_array().expect("a list").len() > 8);
    assert_eq!(told.profile("look")["runs"], false);
    agrees(&env, &told, &docker);
    let shown = text(&env, &docker);
    for part in [
        "missing  namespaces ",
        "to have it    give the container a seccomp profile",
        "unused   proc ",
        "works    guardian ",
        "this host gives rung C",
        "not kept: names and metadata outside",
        "refused: look, which asks for rung B: this host gives rung C; [rungs] can accept",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // With less accepted it runs, with the layers that doctor names.
    edit(&env, "pinfold.toml", |text| format!("{text}[rungs]\nlook = \"C\"\n"));
    let told = doctor(&env, &docker);
    let look = told.profile("look");
    let rungs = [&look["asks"], &look["accepts"], &look["runs"]];
    assert_eq!(rungs, [&Value::from("B"), &Value::from("C"), &Value::from(true)]);
    assert_eq!(told.profile("build")["runs"], false);
    assert!(told.json["layers"].as_array().expect("a list").contains(&Value::from("guardian")));
    agrees(&env, &told, &docker);
}

#[test]
fn without_unshare_namespaces_are_missing() {
    let Some(env) = Env::new() else { return };
    control(&env, "namespaces");
    let told = doctor(&env, &without_namespaces);
    assert_eq!((told.exit, told.rung()), (1, "C"), "{}", told.json);
    assert_eq!(told.missing(), ["namespaces"]);
    agrees(&env, &told, &without_namespaces);
}

#[test]
fn g05_without_landlock_nothing_runs_and_the_boot_parameter_is_named() {
    let Some(env) = Env::new() else { return };
    control(&env, "landlock");
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
        let less: Less<'_> =
            &|command| refuse(command, &[libc::SYS_landlock_create_ruleset], errno);
        let told = doctor(&env, less);
        assert_eq!((told.exit, told.rung()), (2, "0"), "{}", told.json);
        assert!(told.fix("landlock").contains("landlock in lsm="), "{}", told.json);
        assert_eq!(told.json["layers"], serde_json::json!([]));
        assert_eq!(told.profile("look")["runs"], false);
        agrees(&env, &told, less);
        assert!(text(&env, less).contains("this host gives rung 0: nothing runs"));
    }
    // Where rules can be made and not enforced, doctor finds it before a run does.
    let less: Less<'_> =
        &|command| refuse(command, &[libc::SYS_landlock_restrict_self], libc::EPERM);
    let told = doctor(&env, less);
    assert_eq!((told.exit, told.missing()), (2, vec!["landlock"]), "{}", told.json);
    assert_eq!(run(&env, less, &["probe", "look", "ids"]).outcome(), "error");
}

#[test]
fn without_seccomp_nothing_runs() {
    let Some(env) = Env::new() else { return };
    control(&env, "seccomp");
    let less: Less<'_> = &|command| refuse(command, &[libc::SYS_seccomp], libc::ENOSYS);
    let told = doctor(&env, less);
    assert_eq!((told.exit, told.missing()[0]), (2, "seccomp"), "{}", told.json);
    assert!(told.fix("seccomp").contains("CONFIG_SECCOMP_FILTER"), "{}", told.json);
    agrees(&env, &told, less);
}

#[test]
fn without_a_cgroup_it_is_rung_b_and_the_fix_says_how_to_delegate_or_mount_one() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        let told = doctor(&env, &|_| ());
        if told.rung() == "A" {
            return skip("a group is delegated to this user");
        }
        assert_eq!((told.exit, told.rung(), told.missing()), (0, "B", NO_GROUP.to_vec()));
        let fix = told.fix("cgroup-kill");
        assert!(fix.contains("Delegate=yes") || fix.contains("/sys/fs/cgroup"), "{fix}");
        return agrees(&env, &told, &|_| ());
    }
    control(&env, "cgroup-kill");
    let told = doctor(&env, &|_| ());
    assert_eq!(told.rung(), "A");
    agrees(&env, &told, &|_| ());
    let less: Less<'_> = &|command| {
        before(command, || {
            own_mounts()?;
            let kind = Some("tmpfs");
            mount(kind, "/sys/fs/cgroup", kind, MsFlags::empty(), NO_PATH)
        });
    };
    let told = doctor(&env, less);
    assert_eq!((told.exit, told.rung(), told.missing()), (0, "B", NO_GROUP.to_vec()));
    assert!(told.fix("cgroup-kill").contains("mount -t cgroup2"), "{}", told.json);
    agrees(&env, &told, less);
    // A container's hierarchy that is there and cannot be written.
    let less: Less<'_> = &|command| {
        before(command, || {
            own_mounts()?;
            let top = if Path::new("/sys/fs/cgroup/cgroup.procs").exists() {
                "/sys/fs/cgroup"
            } else {
                "/sys/fs/cgroup/unified"
            };
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount(NO_PATH, top, NO_PATH, flags, NO_PATH)
        });
    };
    let told = doctor(&env, less);
    assert_eq!((told.rung(), told.missing()[0]), ("B", "cgroup-kill"));
    assert!(told.fix("cgroup-kill").contains("writable /sys/fs/cgroup"), "{}", told.json);
}

#[test]
fn as_an_ordinary_user_where_only_a_group_is_missing_delegation_is_the_fix() {
    let Some(env) = Env::new() else { return };
    copy_program(&binary("pinfold"), &env.path("bin/pinfold"));
    let less: Less<'_> = &|command| as_ordinary(&env, command, None, None);
    let told = doctor(&env, less);
    if told.rung() == "A" {
        return skip("a group is delegated to this user");
    }
    assert_eq!((told.exit, told.rung(), told.missing()), (0, "B", NO_GROUP.to_vec()));
    let fix = told.fix("cgroup-kill");
    if is_root() {
        assert!(fix.contains("systemd-run --user --scope -p Delegate=yes"), "{fix}");
        agrees(&env, &told, less);
    }
}

/// A version 2 group that belongs to the ordinary user; removed when dropped.
struct Delegated(PathBuf);

impl Delegated {
    fn make() -> Option<Self> {
        let tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let top = tops.into_iter().find(|top| top.join("cgroup.procs").exists())?;
        let group = Self(top.join(format!("doctor-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        for name in ["", "cgroup.procs"].map(|name| group.0.join(name)) {
            std::os::unix::fs::chown(name, Some(ORDINARY), Some(ORDINARY)).expect("an owner");
        }
        Some(group)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).expect("nobody is left in it");
    }
}

#[test]
fn with_a_delegated_group_an_ordinary_user_has_rung_a() {
    if !is_root() {
        return skip("only root can delegate a group");
    }
    let Some(env) = Env::new() else { return };
    let Some(group) = Delegated::make() else {
        return skip("no version 2 group can be made here");
    };
    copy_program(&binary("pinfold"), &env.path("bin/pinfold"));
    let less: Less<'_> = &|command| {
        let entrance = group.0.join("cgroup.procs");
        as_ordinary(&env, command, None, Some(entrance));
    };
    let told = doctor(&env, less);
    assert_eq!((told.exit, told.rung()), (0, "A"), "{}", told.json);
    assert!(!told.missing().contains(&"cgroup-kill"));
    // The controllers are another matter.
    let layers = told.json["layers"].as_array().expect("a list");
    let limits = layers.contains(&Value::from("cgroup-limits"));
    assert_eq!(limits, !told.missing().contains(&"cgroup-limits"), "{}", told.json);
    agrees(&env, &told, less);
}

#[test]
fn with_a_masked_proc_it_is_rung_c_and_the_fix_says_how_to_unmask_it() {
    let Some(env) = Env::new() else { return };
    copy_program(&binary("pinfold"), &env.path("bin/pinfold"));
    let control = doctor(&env, &|command| as_ordinary(&env, command, None, None));
    assert_eq!(control.rung(), "B", "{}", control.json);
    let less: Less<'_> = &|command| as_ordinary(&env, command, Some("/proc/keys"), None);
    let told = doctor(&env, less);
    assert_eq!((told.exit, told.rung(), told.missing()), (1, "C", vec!["proc"]));
    let fix = told.fix("proc");
    assert!(fix.contains("systempaths=unconfined") && fix.contains("procMount: Unmasked"), "{fix}");
    if !is_root() {
        return skip("in a user namespace of a test no configuration and no program is root's");
    }
    agrees(&env, &told, less);
    let shown = text(&env, less);
    assert!(shown.contains("works    namespaces ") && shown.contains("missing  proc "), "{shown}");
}

#[test]
fn root_without_capabilities_gives_nothing_and_with_dockers_rung_c() {
    if !is_root() {
        return skip("only root has capabilities to lose");
    }
    let Some(env) = Env::new() else { return };
    control(&env, "capabilities");
    control(&env, "ids");
    let bound_to = |kept: &'static [caps::Capability]| {
        move |command: &mut Command| {
            before(command, || {
                for lost in caps::all().iter().filter(|lost| !kept.contains(lost)) {
                    let dropped = caps::drop(None, caps::CapSet::Bounding, *lost);
                    dropped.map_err(|_| nix::Error::EPERM)?;
                }
                Ok(())
            });
        }
    };
    let less = bound_to(&[]);
    let told = doctor(&env, &less);
    assert_eq!((told.exit, told.rung()), (2, "0"), "{}", told.json);
    assert_eq!(told.missing()[0], "capabilities");
    assert!(told.fix("ids").contains("runAsUser"), "{}", told.json);
    agrees(&env, &told, &less);
    let less = bound_to(&DOCKER_KEEPS);
    let told = doctor(&env, &less);
    assert_eq!((told.exit, told.rung()), (1, "C"), "{}", told.json);
    assert!(told.missing().contains(&"capabilities") && !told.missing().contains(&"ids"));
    agrees(&env, &told, &less);
    edit(&env, "pinfold.toml", |text| format!("{text}[rungs]\nlook = \"C\"\n"));
    agrees(&env, &doctor(&env, &less), &less);
}

#[test]
fn g31_a_file_system_that_cannot_swap_owners_is_told_with_what_follows() {
    if !is_root() {
        return skip("only commands of root have another owner than their files");
    }
    let Some(env) = Env::new() else { return };
    control(&env, "idmap");
    for name in ["lower", "upper", "work"] {
        fs::create_dir(env.path(name)).expect("a folder");
    }
    let (place, at) = (env.path(""), env.workspace());
    let less: Less<'_> = &|command| {
        let options = ["lowerdir=lower", "upperdir=upper", "workdir=work"];
        let options = options.map(|option| option.replace('=', &format!("={}", place.display())));
        let (options, at) = (options.join(","), at.clone());
        before(command, move || {
            own_mounts()?;
            let kind = Some("overlay");
            mount(kind, &at, kind, MsFlags::empty(), Some(options.as_str()))?;
            nix::unistd::chdir(&at)
        });
    };
    let told = doctor(&env, less);
    assert_eq!((told.exit, told.rung(), told.missing()), (0, "A", vec!["idmap"]));
    assert!(told.fix("idmap").contains("chown -R"), "{}", told.json);
    assert_eq!(told.json["folder"]["file_system"], "overlay");
    let limit = told.json["folder"]["limit"].as_str().expect("a limit");
    assert!(limit.contains("merged tree"), "{limit}");
    // As doctor says: what only reads runs, what writes is refused in a workspace of root.
    agrees(&env, &told, less);
    let write = ["probe", "build", "create", "made"];
    let answer = run(&env, less, &write);
    assert_eq!(answer.refusal(), "workspace", "{answer:?}");
    for name in ["lower", "upper"] {
        std::os::unix::fs::chown(env.path(name), Some(ORDINARY), Some(ORDINARY)).expect("owner");
    }
    let answer = run(&env, less, &write);
    assert_eq!((answer.outcome(), answer.stdout()), ("ok", "ok\n"), "{answer:?}");
    assert!(env.path("upper/made").exists());
}

#[test]
fn a_faulty_configuration_is_said_and_hides_nothing_of_the_host() {
    let Some(env) = Env::new() else { return };
    let sound = doctor(&env, &|_| ());
    assert_eq!(sound.json["configuration"]["faults"], Value::Null);
    edit(&env, "pinfold.toml", |text| format!("{text}catalogue = 1\n"));
    let told = doctor(&env, &|_| ());
    for same in ["rung", "layers", "missing", "lacks", "folder"] {
        assert_eq!(told.json[same], sound.json[same], "{same}");
    }
    assert_eq!(told.json["profiles"], serde_json::json!([]));
    let faults = told.json["configuration"]["faults"].as_str().expect("faults");
    assert!(faults.contains("catalogue") && faults.contains("pinfold.toml:4:1"), "{faults}");
    let output = env.pinfold(&["doctor"]);
    assert_eq!(output.status.code(), Some(told.exit));
    let (out, said) = (String::from_utf8_lossy(&output.stdout), &output.stderr);
    assert!(out.contains("no profile runs: the configuration has faults"), "{out}");
    let said = String::from_utf8_lossy(said);
    assert!(said.contains("catalogue") && said.ends_with("1 fault\n"), "{said}");
}

#[test]
fn what_runs_remember_of_the_host_is_found_out_again() {
    let Some(env) = Env::new() else { return };
    // Both hosts have two filters, so a run takes them for one.
    let more: Less<'_> = &|command| {
        refuse(command, &[libc::SYS_acct], libc::EPERM);
        refuse(command, &[libc::SYS_swapon], libc::EPERM);
    };
    let look = ["probe", "look", "ids"];
    assert_eq!(run(&env, more, &look).outcome(), "ok");
    assert!(fs::exists(env.path("state/cache/host")).expect("a folder"));
    assert_eq!(doctor(&env, &without_namespaces).rung(), "C");
    let answer = run(&env, &without_namespaces, &look);
    assert_eq!(answer.refusal(), "rung", "the memory was wrong: {answer:?}");
    // And back again.
    assert!(["A", "B"].contains(&doctor(&env, more).rung()));
    assert_eq!(run(&env, more, &look).outcome(), "ok");
}

#[test]
fn doctor_records_nothing_and_leaves_no_group() {
    let Some(env) = Env::new() else { return };
    let told = doctor(&env, &|_| ());
    assert!(told.json["duration_ms"].is_u64());
    assert!(!env.path("state").exists(), "no state folder was made");
    let output = env.pinfold(&["trail", "stats"]);
    assert_eq!(output.status.code(), Some(125), "there is no trail: {output:?}");
}
