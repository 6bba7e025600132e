//! Why a layer is missing, and what would bring it.

use super::tries::{Failed, MOUNTING_PROC};
use super::{GUARDIAN_ABI, Missing};
use crate::record::Text;
use crate::sys::cgroup::Kept;
use nix::errno::Errno;
use std::fs;
use std::io;

/// The sysctl of Ubuntu and Debian by which AppArmor takes the rights in user namespaces away.
const APPARMOR_SWITCH: &str = "kernel.apparmor_restrict_unprivileged_userns";
/// Namespaces that a run makes, as `user.max_…_namespaces` names them.
const COUNTED: [&str; 7] = ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"];

/// What the host says of itself.
pub(super) struct Signs<'a> {
    /// Reads a file of `/proc` or `/sys`.
    pub(super) read: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a seccomp filter is on this process, as in containers.
    pub(super) filtered: bool,
}

impl Signs<'_> {
    /// Those of this host.
    pub(super) fn of_host() -> Self {
        let filtered = crate::sys::seccomp::is_filtered();
        Self { read: &|path| fs::read_to_string(path).ok(), filtered }
    }

    fn text(&self, path: &str) -> String {
        (self.read)(path).unwrap_or_default().trim().to_owned()
    }

    fn sysctl(&self, name: &str) -> String {
        self.text(&format!("/proc/sys/{}", name.replace('.', "/")))
    }
}

fn missing(layer: &'static str, why: impl Into<String>, fix: impl Into<String>) -> Missing {
    Missing { layer, why: why.into(), fix: fix.into(), detail: None }
}

pub(super) fn capabilities() -> Missing {
    missing(
        "capabilities",
        "root here lacks capabilities that namespaces need",
        "start Pinfold as an ordinary user, or give root CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID, \
         CAP_SETPCAP, CAP_KILL and CAP_DAC_OVERRIDE",
    )
}

pub(super) fn ids() -> Missing {
    missing(
        "ids",
        "root here lacks CAP_SETUID and CAP_SETGID, so a command would have to be uid 0",
        "start Pinfold as an ordinary user (Docker: --user 1000; Kubernetes: runAsUser)",
    )
}

pub(super) fn unmapped_ids(failed: &Failed, first: u32) -> Missing {
    missing(
        "ids",
        format!("commands of root have user ids from {first}, and {failed}"),
        format!(
            "map the ids from {first} to 64095 into this user namespace, or start Pinfold as an \
             ordinary user"
        ),
    )
}

pub(super) fn landlock(signs: &Signs<'_>) -> Missing {
    let list = signs.text("/sys/kernel/security/lsm");
    let is_off = !list.is_empty() && list.split(',').all(|name| name != "landlock");
    let boot = is_off.then(|| format!("the boot parameter: lsm=landlock,{list}"));
    let pass = "in a container: let its seccomp profile pass landlock_*".to_owned();
    let detail = boot.or_else(|| signs.filtered.then_some(pass));
    let missing = missing(
        "landlock",
        "the kernel has no Landlock, it is not in the boot parameter lsm=, or a container refuses \
         its calls",
        "boot a kernel with CONFIG_SECURITY_LANDLOCK and landlock in lsm=",
    );
    Missing { detail, ..missing }
}

pub(super) fn landlock_refused(failed: &Failed) -> Missing {
    let fix = "let the container's seccomp profile pass landlock_*";
    missing("landlock", failed.to_string(), fix)
}

pub(super) fn seccomp() -> Missing {
    missing(
        "seccomp",
        "the kernel takes no seccomp filter",
        "boot a kernel with CONFIG_SECCOMP_FILTER",
    )
}

pub(super) fn seccomp_refused(failed: &Failed) -> Missing {
    missing("seccomp", failed.to_string(), "let the container's seccomp profile pass seccomp")
}

/// Says why a run has no group of its own, and how it would get one.
pub(super) fn group(failed: &Failed) -> Missing {
    let fix = match failed.error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM) => {
            "delegate one: start Pinfold by `systemd-run --user --scope -p Delegate=yes`, or with \
             Delegate=yes in its systemd unit; or start it as root"
        }
        Some(Errno::EROFS) => {
            "give the container a cgroup namespace of its own and a writable /sys/fs/cgroup \
             (Docker: --cgroupns=private and --security-opt writable-cgroups=true, or mount it \
             yourself; Podman: --security-opt unmask=/sys/fs/cgroup)"
        }
        Some(Errno::ENOSYS) => "let the container's seccomp profile pass clone3",
        _ => {
            "mount the version 2 hierarchy at /sys/fs/cgroup or /sys/fs/cgroup/unified (mount -t \
             cgroup2 cgroup2 FOLDER), on Linux 5.14 or later"
        }
    };
    missing("cgroup-kill", failed.to_string(), fix)
}

/// Says which limits no group keeps, and who would have to hand on the controllers.
pub(super) fn limits(kept: Kept) -> Missing {
    let of = [(kept.memory, "memory"), (kept.pids, "processes"), (kept.cpu, "processor time")];
    let lost: Vec<&str> = of.iter().filter(|(kept, _)| !kept).map(|(_, name)| *name).collect();
    missing(
        "cgroup-limits",
        format!("no group limits the {} of a tree as a whole", lost.join(", ")),
        "start Pinfold as root, or in a group below one that it may write and that hands on both \
         controllers: Delegate=yes in a systemd unit, Pinfold in a group below the unit's, and \
         `+memory +pids` in the unit's cgroup.subtree_control",
    )
}

/// Says what it costs that owners cannot be swapped in the current folder.
pub(super) fn idmap(error: &io::Error, kind: &str) -> Missing {
    missing(
        "idmap",
        format!(
            "{kind} here cannot be mounted with swapped owners ({error}): a command that writes \
             runs as the workspace's owner, and where that is root it is refused"
        ),
        "chown -R the workspace to an ordinary user, or have it on ext4, xfs, btrfs or tmpfs (in \
         a container: on a volume), or set run_as_owner = true in the profile",
    )
}

pub(super) fn guardian_abi(abi: u8) -> Missing {
    missing(
        "guardian",
        format!(
            "without namespaces the whole tree can be ended only with Landlock ABI \
             {GUARDIAN_ABI}, and this kernel has {abi}"
        ),
        "boot Linux 6.12 or later, or allow namespaces",
    )
}

pub(super) fn guardian(failed: &Failed) -> Missing {
    missing(
        "guardian",
        format!("a tree cannot be held without namespaces: {failed}"),
        "let the container's filter pass landlock_*, seccomp and prctl",
    )
}

pub(super) fn listener(failed: &Failed) -> Missing {
    missing(
        "metadata",
        format!("changes of modes and times cannot be brokered ({failed}), and are refused"),
        "run Pinfold where no other seccomp listener stands above it",
    )
}

/// Says why namespaces cannot be had, and how this host would give them.
pub(super) fn namespaces(failed: &Failed, signs: &Signs<'_>) -> Missing {
    if failed.doing == MOUNTING_PROC {
        return missing(
            "proc",
            failed.to_string(),
            "start the container with an unmasked /proc (Docker: --security-opt \
             systempaths=unconfined; Kubernetes: procMount: Unmasked, with hostUsers: false)",
        );
    }
    if failed.error.raw_os_error().is_none() {
        // It is not the kernel's answer to the clone, but what the thread could not do before.
        let why = format!("what every child inherits cannot be prepared: {}", failed.error);
        return missing("seccomp", why, "let the container's filter pass seccomp and prctl");
    }
    match failed.error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSYS) if !signs.filtered => {
            missing("namespaces", failed.to_string(), "boot Linux 5.14 or later")
        }
        errno => forbidden(failed.to_string(), errno == Some(Errno::ENOSPC), signs),
    }
}

/// What forbids namespaces here, as far as the host says it.
fn forbidden(why: String, used_up: bool, signs: &Signs<'_>) -> Missing {
    if signs.sysctl("kernel.unprivileged_userns_clone") == "0" {
        let fix = "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1";
        return missing("namespaces", why, fix);
    }
    let limits = COUNTED.map(|name| format!("user.max_{name}_namespaces"));
    let none: Vec<&String> = limits.iter().filter(|name| signs.sysctl(name) == "0").collect();
    if !none.is_empty() {
        let set: Vec<String> = none.iter().map(|name| format!("{name}=15000")).collect();
        let fix = format!("allow namespaces: sysctl -w {}", set.join(" "));
        return missing("namespaces", why, fix);
    }
    if used_up {
        let fix = format!("raise the sysctls {}", limits.join(", "));
        return missing("namespaces", why, fix);
    }
    if signs.sysctl(APPARMOR_SWITCH) == "1" {
        let why = format!("{why}; AppArmor restricts user namespaces ({APPARMOR_SWITCH} is 1)");
        let fix = "give Pinfold an AppArmor profile with `userns,` in /etc/apparmor.d/pinfold, and \
                   load it with apparmor_parser -r /etc/apparmor.d/pinfold";
        return Missing { detail: Some(apparmor_profile()), ..missing("namespaces", why, fix) };
    }
    if signs.filtered {
        let fix = "give the container a seccomp profile with clone, unshare and the mount calls \
                   (Docker: --security-opt seccomp=FILE)";
        let more = "in Kubernetes: seccompProfile with type: Localhost".to_owned();
        return Missing { detail: Some(more), ..missing("namespaces", why, fix) };
    }
    let label = signs.text("/proc/self/attr/apparmor/current");
    if label.ends_with("(enforce)") {
        let why = format!("{why}; AppArmor confines Pinfold as {label}");
        let fix = "start the container without that profile (Docker: --security-opt \
                   apparmor=unconfined; Kubernetes: appArmorProfile with type: Unconfined)";
        return missing("namespaces", why, fix);
    }
    let fix = "allow user namespaces for this user, or start Pinfold as root";
    missing("namespaces", why, fix)
}

/// A profile that lets this very program make user namespaces.
fn apparmor_profile() -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/pinfold".into());
    let own = Text::from(own.as_path()).escaped();
    format!(
        "abi <abi/4.0>,\ninclude <tunables/global>\nprofile pinfold {own} flags=(unconfined) {{\n  \
         userns,\n}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The advice where making a child fails with `errno` and the host has these files.
    fn advice(errno: Errno, filtered: bool, files: &[(&str, &str)]) -> Missing {
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| format!("{text}\n"))
        };
        let failed = Failed { doing: "making the child", error: errno.into() };
        namespaces(&failed, &Signs { read: &read, filtered })
    }

    const ONE: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

    #[test]
    fn g01_apparmors_switch_is_named_with_the_whole_profile() {
        for errno in [Errno::EACCES, Errno::EPERM] {
            let missing = advice(errno, false, &[(ONE, "1")]);
            assert_eq!(missing.layer, "namespaces");
            assert!(missing.why.contains(APPARMOR_SWITCH), "{missing:?}");
            assert!(missing.fix.contains("apparmor_parser -r"), "{missing:?}");
            let profile = missing.detail.expect("a profile");
            let own = std::env::current_exe().expect("a path");
            let head = format!("profile pinfold {} flags=(unconfined) {{", own.display());
            assert!(profile.contains(&head) && profile.contains("\n  userns,\n}"), "{profile}");
        }
        let control = advice(Errno::EPERM, false, &[(ONE, "0")]);
        assert_eq!(control.detail, None);
        assert!(!control.why.contains("AppArmor"), "{control:?}");
    }

    #[test]
    fn each_switch_of_the_host_has_its_own_advice() {
        let clone = "/proc/sys/kernel/unprivileged_userns_clone";
        let net = "/proc/sys/user/max_net_namespaces";
        let label = "/proc/self/attr/apparmor/current";
        let cases: [(_, _, &[(&str, &str)], _); 9] = [
            (Errno::EPERM, false, &[(clone, "0")], "kernel.unprivileged_userns_clone=1"),
            (Errno::EPERM, true, &[(clone, "0"), (ONE, "1")], "unprivileged_userns_clone=1"),
            (Errno::EPERM, true, &[(clone, "1")], "--security-opt seccomp=FILE"),
            (Errno::ENOSPC, false, &[(net, "0")], "sysctl -w user.max_net_namespaces=15000"),
            (Errno::ENOSPC, false, &[(net, "9")], "user.max_user_namespaces, user.max_mnt"),
            (Errno::ENOSYS, false, &[], "boot Linux 5.14"),
            (Errno::ENOSYS, true, &[], "--security-opt seccomp=FILE"),
            (Errno::EACCES, false, &[(label, "docker-default (enforce)")], "apparmor=unconfined"),
            (Errno::EPERM, false, &[(label, "unconfined")], "or start Pinfold as root"),
        ];
        for (errno, filtered, files, fix) in cases {
            let missing = advice(errno, filtered, files);
            assert!(missing.fix.contains(fix), "{fix}: {missing:?}");
            assert_eq!(missing.layer, "namespaces");
        }
    }

    #[test]
    fn a_masked_proc_is_told_from_missing_namespaces() {
        let failed = Failed { doing: MOUNTING_PROC, error: Errno::EPERM.into() };
        let missing = namespaces(&failed, &Signs { read: &|_| None, filtered: true });
        assert_eq!(missing.layer, "proc");
        for part in ["systempaths=unconfined", "procMount: Unmasked"] {
            assert!(missing.fix.contains(part), "{missing:?}");
        }
    }

    #[test]
    fn g05_the_boot_parameter_is_written_out_where_the_kernel_lists_its_modules() {
        let with = |list: Option<&str>, filtered| {
            let list = list.map(str::to_owned);
            landlock(&Signs { read: &move |_| list.clone(), filtered })
        };
        let off = with(Some("capability,yama,apparmor\n"), false);
        assert_eq!(
            off.detail.as_deref(),
            Some("the boot parameter: lsm=landlock,capability,yama,apparmor")
        );
        assert!(off.why.contains("lsm=") && off.fix.contains("lsm="), "{off:?}");
        let refused = with(Some("capability,landlock"), true);
        assert!(refused.detail.is_some_and(|detail| detail.contains("landlock_*")));
        assert_eq!(with(None, false).detail, None);
    }

    #[test]
    fn a_group_is_delegated_mounted_or_made_writable() {
        for (errno, part) in [
            (Errno::EACCES, "systemd-run --user --scope -p Delegate=yes"),
            (Errno::EROFS, "writable /sys/fs/cgroup"),
            (Errno::ENOSYS, "clone3"),
            (Errno::ENOENT, "mount -t cgroup2"),
        ] {
            let failed = Failed { doing: "making a group", error: errno.into() };
            let missing = group(&failed);
            assert!(missing.fix.contains(part), "{missing:?}");
            assert_eq!(missing.layer, "cgroup-kill");
        }
    }
}
