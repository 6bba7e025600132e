//! System calls: what a command may ask of the kernel, and what it is told where it may not.
//!
//! Most rows are raw calls whose arguments fail without effect: outside they give one errno,
//! inside another, so that the difference shows the layer and nothing happens where it is gone.

use crate::support::{Env, is_root, skip};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const PROFILES: [&str; 5] = ["look", "repo", "build", "gate", "read"];
/// Exit code of a process that the kernel killed for a call.
const BY_SIGSYS: i32 = 128 + libc::SIGSYS;
const TIOCSTI: &str = "0x5412";
const TIOCLINUX: &str = "0x541c";

/// Makes a host whose workspace suits every profile.
fn host() -> Option<Env> {
    let env = Env::new()?;
    env.repository();
    std::fs::create_dir(env.workspace().join("scripts")).expect("a folder");
    Some(env)
}

/// Reads lines of a name and what it gave.
fn table(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(' ')).collect()
}

/// What the sandbox does not know looks like a kernel that does not have it.
const UNKNOWN: [&str; 8] = [
    "mount_setattr",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "seccomp",
    "openat2",
    "clone3",
    "landlock_create_ruleset",
];

/// Refused to an ordinary user outside too; only root's run of this test shows these.
const ROOTS: [&str; 12] = [
    "pivot_root",
    "fsopen",
    "fsmount",
    "fspick",
    "move_mount",
    "fanotify_init",
    "swapoff",
    "reboot",
    "acct",
    "syslog",
    "sethostname",
    "setdomainname",
];

#[test]
fn b10_b11_b15_b16_b17_b20_calls_refused_by_name_give_eperm_and_unknown_ones_enosys() {
    let Some(env) = host() else { return };
    let outside = env.outside(&["refusals"]);
    let outside = table(&outside);
    assert!(outside.len() > 50, "the table has its rows: {outside:?}");
    for profile in PROFILES {
        let inside = env.inside(profile, &["refusals"]);
        let inside = table(&inside);
        assert_eq!(inside.len(), outside.len(), "{profile}");
        for (name, told) in &inside {
            let expected = if UNKNOWN.contains(name) { "ENOSYS" } else { "EPERM" };
            assert_eq!(*told, expected, "{name} in {profile}");
            let proven = outside[name] != expected;
            let excused = !is_root() && ROOTS.contains(name);
            assert!(proven || excused, "{name}: outside {} proves nothing", outside[name]);
        }
    }
}

#[test]
fn b08_a_call_from_the_future_is_enosys_and_newer_calls_work_or_are_enosys() {
    let Some(env) = host() else { return };
    let file = env.file("a.txt", "a");
    // AT_FDCWD; words that begin with a dash are options.
    let cwd = "0xffffffffffffff9c";
    for profile in PROFILES {
        env.refused(profile, &["syscall", "999"], &["ENOSYS"]);
        env.refused(profile, &["syscall", "700"], &["ENOSYS"]);
        // Bad pointers and numbers: the call is let through to the kernel, which says so.
        for (call, kernels) in [
            (vec!["syscall", "faccessat2", cwd, "0", "0", "0"], "EFAULT"),
            (vec!["syscall", "close_range", "900", "1000", "0"], "ok"),
            (vec!["syscall", "statx", cwd, "0", "0", "0", "0"], "EFAULT"),
            (vec!["syscall", "fchmodat2", cwd, "0", "0", "0"], "EFAULT"),
        ] {
            assert_eq!(env.outside(&call), kernels, "{call:?}");
            assert_eq!(env.inside(profile, &call), kernels, "{call:?} in {profile}");
        }
    }
    env.allowed("build", &["chmod", &file, "0o644"]);
}

#[test]
fn b07_clone3_looks_unimplemented_and_threads_and_fork_work() {
    let Some(env) = host() else { return };
    for profile in PROFILES {
        env.denied(profile, &["clone3", "0"], &["ENOSYS"]);
        env.refused(profile, &["clone3", "0x10000000"], &["ENOSYS"]);
        env.allowed(profile, &["thread-and-fork"]);
    }
}

#[test]
fn b05_a_call_by_x32_numbers_kills_the_process() {
    let Some(env) = host() else { return };
    for profile in PROFILES {
        for call in ["ptrace", "mount", "socket", "getpid"] {
            let control = env.outside(&["x32", call]);
            assert!(!control.is_empty(), "outside the process lives on");
            let answer = env.cmd(&["probe", profile, "x32", call]);
            assert_eq!(answer.code, BY_SIGSYS, "{call} in {profile}: {answer:?}");
            assert_eq!(answer.reply["signal"], libc::SIGSYS);
            assert_eq!(answer.stdout(), "");
        }
    }
}

#[test]
fn b06_the_32_bit_entry_kills_the_process() {
    let Some(env) = host() else { return };
    const GETPID: &str = "20";
    let control = Command::new(env.path("bin/probe")).args(["outside", "int80", GETPID]).output();
    if !control.expect("the probe starts").status.success() {
        return skip("this kernel has no 32-bit entry");
    }
    // 102 is socketcall, 21 is mount.
    for number in [GETPID, "102", "21"] {
        let answer = env.cmd(&["probe", "build", "int80", number]);
        assert_eq!(answer.code, BY_SIGSYS, "{number}: {answer:?}");
    }
}

#[test]
fn b18_no_namespace_can_be_made() {
    let Some(env) = host() else { return };
    const SIGHAND: u64 = 0x800;
    const NEWUSER: u64 = 0x1000_0000;
    let spaces: [u64; 7] =
        [0x20000, 0x0200_0000, 0x0400_0000, 0x0800_0000, NEWUSER, 0x2000_0000, 0x4000_0000];
    for flag in spaces {
        // Flags that do not go together: EINVAL from the kernel, nothing is made.
        let bad = format!("{}", flag | SIGHAND);
        assert_eq!(env.outside(&["clone", &bad]), "EINVAL");
        let real = format!("{}", if is_root() { flag } else { flag | NEWUSER });
        for profile in ["look", "build"] {
            env.refused(profile, &["clone", &bad], &["EPERM"]);
            env.denied(profile, &["clone", &real], &["EPERM"]);
        }
    }
    for profile in PROFILES {
        // The upper half of the word is not looked at by the kernel, and hides nothing.
        let high = format!("{}", NEWUSER | 1 << 32);
        env.refused(profile, &["clone", &high], &["EPERM"]);
        env.denied(profile, &["syscall", "unshare", "0x10000000"], &["EPERM"]);
        env.allowed(profile, &["clone", "0"]);
    }
}

#[test]
fn b21_b22_no_privilege_is_left_and_none_can_be_gained() {
    let Some(env) = host() else { return };
    let outside = env.outside(&["ids"]);
    assert!(outside.contains("NoNewPrivs=0") && outside.contains("Seccomp=0"), "{outside}");
    assert!(!outside.contains("CapBnd=0000000000000000"), "{outside}");
    for profile in PROFILES.into_iter().chain(["none"]) {
        let inside = env.inside(profile, &["ids"]);
        assert!(inside.contains("NoNewPrivs=1 Seccomp=2"), "{profile}: {inside}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(inside.contains(&format!("{set}=0000000000000000")), "{profile}: {inside}");
        }
        assert!(!inside.contains("Uid=0"), "{profile}: {inside}");
    }
}

#[test]
fn b21_a_set_uid_program_gains_nothing() {
    let Some(env) = host() else { return };
    if !is_root() {
        return skip("only root can make a set-uid program of another user");
    }
    let program = env.workspace().join("suid");
    std::fs::copy(env.path("bin/probe"), &program).expect("a copy");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("a mode");
    let mut control = Command::new(&program);
    let control = control.args(["outside", "ids"]).uid(65534).gid(65534).output();
    let control = String::from_utf8(control.expect("it runs").stdout).expect("UTF-8");
    assert!(control.contains("Uid=65534,0,0,0"), "outside it is root: {control}");
    let path = program.to_str().expect("UTF-8");
    let inside = env.inside("build", &["exec", path, "inside", "ids"]);
    let plain = env.inside("build", &["ids"]);
    assert!(!inside.contains(",0,"), "{inside}");
    assert_eq!(inside.split(' ').next(), plain.split(' ').next(), "the same user id");
}

#[test]
fn b26_the_loader_cannot_run_a_file_where_own_code_may_not_run() {
    let Some(env) = host() else { return };
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let program = env.workspace().join("p");
    std::fs::copy(env.path("bin/probe"), &program).expect("a copy");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let program = program.to_str().expect("UTF-8");
    let control = Command::new(loader).args([program, "x", "exit", "7"]).status();
    assert_eq!(control.expect("the loader runs").code(), Some(7), "outside it runs");
    for profile in ["repo", "read"] {
        let answer = env.cmd(&["probe", profile, "exec", loader, program, "x", "exit", "7"]);
        // The loader starts and cannot map the file, or may not start at all.
        let refused = answer.code == 127 || answer.stdout().trim() == "EACCES";
        assert!(refused, "{profile}: {answer:?}");
    }
    let answer = env.cmd(&["probe", "look", "exec", loader, program, "x", "exit", "7"]);
    assert_ne!(answer.code, 7, "{answer:?}");
    let answer = env.cmd(&["probe", "build", "exec", loader, program, "x", "exit", "7"]);
    assert_eq!(answer.code, 7, "where own code may run, this is no other: {answer:?}");
}

#[test]
fn b26_it_is_the_mounts_that_stop_the_loader() {
    let loader = "/lib64/ld-linux-x86-64.so.2";
    for (without, code) in [("landlock", 127), ("mounts", 7)] {
        let Some(env) = Env::without(without) else { return };
        let program = env.workspace().join("p");
        std::fs::copy(env.path("bin/probe"), &program).expect("a copy");
        let program = program.to_str().expect("UTF-8");
        let answer = env.cmd(&["probe", "read", "exec", loader, program, "x", "exit", "7"]);
        assert_eq!(answer.code, code, "without {without}: {answer:?}");
    }
}

#[test]
fn b26_a_memory_file_can_be_executed_only_where_own_code_may_run() {
    let Some(env) = host() else { return };
    for profile in ["look", "repo", "read"] {
        env.denied(profile, &["memfd-exec"], &["ENOSYS"]);
    }
    for profile in ["build", "gate"] {
        env.allowed(profile, &["memfd-exec"]);
    }
}

#[test]
fn b29_the_kernels_own_settings_cannot_be_written() {
    let Some(env) = host() else { return };
    for setting in ["kernel/core_pattern", "kernel/hostname", "vm/swappiness"] {
        let path = format!("/proc/sys/{setting}");
        for profile in ["look", "build", "gate"] {
            let act = ["open-mode", &path, "0", "0"];
            if is_root() {
                env.denied(profile, &act, &["EACCES", "EROFS"]);
            } else {
                env.refused(profile, &act, &["EACCES", "EROFS"]);
            }
        }
    }
    // Where the host has the file system, it is not there inside; elsewhere it cannot be had.
    let register = "/proc/sys/fs/binfmt_misc/register";
    env.refused("build", &["open-mode", register, "0", "0"], &["ENOENT", "EACCES", "EROFS"]);
}

#[test]
fn b30_only_harmless_personalities_can_be_taken() {
    let Some(env) = host() else { return };
    for persona in ["0xffffffff", "0", "8", "0x20000", "0x20008"] {
        env.allowed("build", &["personality", persona]);
    }
    let (no_randomize, read_implies_exec, both) = ("0x40000", "0x400000", "0x440000");
    for persona in [no_randomize, read_implies_exec, both, "0x100000000", "0x140000"] {
        // Above the 32 bits that count nothing is hidden, and nothing is refused for it.
        let expected = if persona == "0x100000000" { "ok" } else { "EPERM" };
        assert_eq!(env.outside(&["personality", persona]), "ok", "{persona}");
        for profile in ["look", "build"] {
            assert_eq!(env.inside(profile, &["personality", persona]), expected, "{persona}");
        }
    }
}

/// A process of the host, ended when dropped.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start() -> Self {
        let sleep = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
        Self(sleep.expect("sleep starts"))
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("it can be waited for").is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().expect("it can be ended");
        self.0.wait().expect("it ends");
    }
}

#[test]
fn b11_b31_no_process_outside_can_be_signalled_or_traced() {
    let Some(env) = host() else { return };
    let mut sleeper = Sleeper::start();
    let pid = sleeper.0.id().to_string();
    let own = std::process::id().to_string();
    // -1 in 32 bits: everything that can be signalled.
    let all = "0xffffffff";
    for profile in ["look", "build", "gate"] {
        env.denied(profile, &["kill", &pid, "0"], &["ESRCH", "EPERM"]);
        env.denied(profile, &["kill", &own, "0"], &["ESRCH", "EPERM"]);
        env.refused(profile, &["kill", &pid, "9"], &["ESRCH", "EPERM"]);
        env.refused(profile, &["syscall", "ptrace", "16", &pid], &["EPERM"]);
        env.refused(profile, &["kill", all, "9"], &["ESRCH", "EPERM"]);
        assert!(sleeper.is_alive(), "{profile}");
    }
    const PTRACE_SEIZE: &str = "0x4206";
    env.denied("build", &["syscall", "ptrace", PTRACE_SEIZE, &pid], &["EPERM"]);
    env.allowed("build", &["kill", "0", "0"]);
}

#[test]
fn b31_landlock_alone_keeps_signals_from_the_trees_init() {
    let Some(env) = Env::without("landlock") else { return };
    env.allowed("build", &["kill", "1", "0"]);
    let Some(env) = Env::new() else { return };
    env.refused("build", &["kill", "1", "0"], &["EPERM"]);
}

#[test]
fn b41_a_thread_is_confined_like_its_process() {
    let Some(env) = host() else { return };
    assert_eq!(env.outside(&["thread-status", "Seccomp"]), "0");
    for profile in PROFILES {
        assert_eq!(env.inside(profile, &["thread-status", "Seccomp"]), "2");
        assert_eq!(env.inside(profile, &["thread-status", "NoNewPrivs"]), "1");
    }
}

#[test]
fn b01_b03_no_character_can_be_pushed_into_a_terminal() {
    let Some(env) = host() else { return };
    // Outside, the command is the terminal's word: done, or refused with its own errno.
    let injected = env.outside(&["pty-ioctl", TIOCSTI, "0"]);
    if injected == "EPERM" {
        return skip("this host refuses TIOCSTI with the same errno");
    }
    for high in ["0", "1", "0x80000000"] {
        assert_eq!(env.outside(&["pty-ioctl", TIOCSTI, high]), injected);
        assert_eq!(env.outside(&["tiocsti", high]), "ENOTTY");
        for profile in PROFILES {
            env.refused(profile, &["pty-ioctl", TIOCSTI, high], &["EPERM"]);
            env.refused(profile, &["tiocsti", high], &["EPERM"]);
        }
    }
    assert_ne!(env.outside(&["pty-ioctl", TIOCLINUX, "0"]), "EPERM");
    env.refused("build", &["pty-ioctl", TIOCLINUX, "0"], &["EPERM"]);
    // Another command of the same terminal works: it is not the terminal that is missing.
    const TIOCOUTQ: &str = "0x5411";
    env.allowed("build", &["pty-ioctl", TIOCOUTQ, "0"]);
}

/// Starts a command as leader of a session whose terminal is new; returns what it printed and
/// what stands in the terminal's input afterwards.
fn on_terminal(mut command: Command) -> (String, Vec<u8>) {
    let (mut main, mut side) = (-1, -1);
    let none = std::ptr::null_mut();
    let opened =
        unsafe { libc::openpty(&raw mut main, &raw mut side, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "a terminal");
    let [_main, side] = [main, side].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let own = side.try_clone().expect("a copy");
    command.stdin(own).stdout(Stdio::piped()).stderr(Stdio::null());
    let take = || {
        let led = unsafe { libc::setsid() } >= 0;
        let owned = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } == 0;
        if led && owned { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    unsafe { command.pre_exec(take) };
    let output = command.output().expect("it runs");
    let mut settings = unsafe { std::mem::zeroed::<libc::termios>() };
    let fd = side.as_raw_fd();
    unsafe { libc::tcgetattr(fd, &raw mut settings) };
    settings.c_lflag &= !libc::ICANON;
    unsafe { libc::tcsetattr(fd, libc::TCSANOW, &raw const settings) };
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    let mut input = vec![0; 16];
    let count = File::from(side).read(&mut input).unwrap_or(0);
    input.truncate(count);
    (String::from_utf8_lossy(&output.stdout).trim().to_owned(), input)
}

#[test]
fn b01_b43_a_command_has_neither_the_callers_terminal_nor_its_input() {
    let Some(env) = host() else { return };
    let outside = |act: &[&str]| {
        let mut probe = Command::new(env.path("bin/probe"));
        probe.arg("outside").args(act);
        on_terminal(probe)
    };
    let inside =
        |act: &[&str]| on_terminal(env.command(&[&["run", "--", "probe", "build"], act].concat()));
    let open = ["open-mode", "/dev/tty", "0", "0"];
    assert_eq!(outside(&open).0, "ok");
    assert_eq!(inside(&open).0, "ENXIO");
    let (told, input) = outside(&["own-tiocsti"]);
    if told == "ok" {
        assert_eq!(input, b"x", "outside the character arrives");
    } else {
        assert_eq!(told, "EIO", "this kernel refuses it to users, by another errno");
    }
    assert_eq!(inside(&["own-tiocsti"]), ("ENXIO".to_owned(), Vec::new()));
    assert_eq!(inside(&["tiocsti", "0"]), ("EPERM".to_owned(), Vec::new()));
    assert!(outside(&["fd-kinds"]).0.starts_with("/dev/pts/"));
    assert_eq!(inside(&["fd-kinds"]).0, "/dev/null pipe pipe");
}

/// Makes `pinfold` run where the kernel answers one call with an errno.
pub(crate) fn where_the_kernel_refuses(
    call: i64,
    first: Option<u64>,
    errno: i32,
    command: &mut Command,
) {
    use seccompiler::{SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, SeccompCondition, SeccompRule};
    let is = |value| SeccompCondition::new(0, Dword, Eq, value).expect("a condition");
    let rules = first.map(|value| SeccompRule::new(vec![is(value)]).expect("a rule"));
    let rules = [(call, rules.into_iter().collect())].into_iter().collect();
    crate::support::contained::under(command, rules, errno);
}

#[test]
fn b44_a_layer_that_cannot_be_put_in_place_stops_the_run_and_is_named() {
    let Some(env) = host() else { return };
    let words = ["run", "--json", "--", "probe", "build", "create", "made"];
    let made = env.workspace().join("made");
    let set_filter = Some(u64::from(libc::SECCOMP_SET_MODE_FILTER));
    for (call, first, layer) in [
        (libc::SYS_landlock_restrict_self, None, "enforce Landlock"),
        (libc::SYS_seccomp, set_filter, "install a seccomp filter"),
        (libc::SYS_capset, None, "give up capabilities"),
        (libc::SYS_pivot_root, None, "make the view the root"),
    ] {
        let mut command = env.command(&words);
        where_the_kernel_refuses(call, first, libc::EOPNOTSUPP, &mut command);
        let output = command.output().expect("pinfold starts");
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(125), "{layer}: {told}");
        assert!(told.contains(layer), "{layer}: {told}");
        assert!(told.contains("Nothing ran"), "{layer}: {told}");
        assert!(!made.exists(), "{layer}");
    }
    let last = env.records_of("end").pop().expect("an end is recorded");
    assert_eq!(last["outcome"], "error");
    let mut command = env.command(&words);
    where_the_kernel_refuses(libc::SYS_swapoff, None, libc::EOPNOTSUPP, &mut command);
    assert!(command.output().expect("pinfold starts").status.success());
    assert!(made.exists(), "with another call refused it runs");
}

#[test]
fn b45_an_empty_command_or_program_name_is_refused() {
    let Some(env) = host() else { return };
    let nothing = env.pinfold(&["run", "--json", "--"]);
    assert_eq!(nothing.status.code(), Some(125), "no command is wrong usage: {nothing:?}");
    for argv in [&[""] as &[&str], &["", "probe"], &["probe", "", "ids"]] {
        let answer = env.cmd(argv);
        assert_eq!(answer.outcome(), "refused", "{argv:?}: {answer:?}");
        assert!([126, 127].contains(&answer.code), "{argv:?}: {answer:?}");
        assert!(!answer.said.contains("panicked"), "{argv:?}: {answer:?}");
    }
    assert_eq!(env.records_of("intent").len(), 0);
    assert_eq!(env.records_of("refusal").len(), 3);
}
