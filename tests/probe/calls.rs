//! Raw system calls, with arguments that do no harm where the layer is missing.

use crate::{Act, errno_name, number, result};
use std::arch::asm;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

pub(crate) fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("syscall", [name, rest @ ..]) if rest.len() <= 6 => syscall(name, rest),
        ("x32", [name]) => x32(name),
        ("int80", [nr]) => int80(nr),
        ("tiocsti", [high]) => tiocsti(high),
        ("pty-ioctl", [request, high]) => pty_ioctl(request, high),
        ("own-tiocsti", []) => own_tiocsti(),
        ("refusals", []) => refusals(),
        ("clone3", [flags]) => clone3(flags),
        ("clone", [flags]) => clone(flags),
        ("personality", [persona]) => {
            result(unsafe { libc::personality(number(persona) as libc::c_ulong) }.into())
        }
        _ => return None,
    })
}

/// Numbers of the calls that tests name.
fn number_of(name: &str) -> i64 {
    match name {
        "ptrace" => libc::SYS_ptrace,
        "process_vm_readv" => libc::SYS_process_vm_readv,
        "pidfd_getfd" => libc::SYS_pidfd_getfd,
        "kcmp" => libc::SYS_kcmp,
        "keyctl" => libc::SYS_keyctl,
        "add_key" => libc::SYS_add_key,
        "request_key" => libc::SYS_request_key,
        "bpf" => libc::SYS_bpf,
        "userfaultfd" => libc::SYS_userfaultfd,
        "perf_event_open" => libc::SYS_perf_event_open,
        "mount" => libc::SYS_mount,
        "umount2" => libc::SYS_umount2,
        "pivot_root" => libc::SYS_pivot_root,
        "chroot" => libc::SYS_chroot,
        "setns" => libc::SYS_setns,
        "unshare" => libc::SYS_unshare,
        "fsopen" => libc::SYS_fsopen,
        "fsconfig" => libc::SYS_fsconfig,
        "fsmount" => libc::SYS_fsmount,
        "fspick" => libc::SYS_fspick,
        "open_tree" => libc::SYS_open_tree,
        "move_mount" => libc::SYS_move_mount,
        "mount_setattr" => libc::SYS_mount_setattr,
        "fanotify_init" => libc::SYS_fanotify_init,
        "kexec_load" => libc::SYS_kexec_load,
        "init_module" => libc::SYS_init_module,
        "finit_module" => libc::SYS_finit_module,
        "quotactl" => libc::SYS_quotactl,
        "swapon" => libc::SYS_swapon,
        "reboot" => libc::SYS_reboot,
        "acct" => libc::SYS_acct,
        "settimeofday" => libc::SYS_settimeofday,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        "seccomp" => libc::SYS_seccomp,
        "openat2" => libc::SYS_openat2,
        "faccessat2" => libc::SYS_faccessat2,
        "close_range" => libc::SYS_close_range,
        "statx" => libc::SYS_statx,
        "fchmodat2" => libc::SYS_fchmodat2,
        "memfd_create" => libc::SYS_memfd_create,
        "getpid" => libc::SYS_getpid,
        "socket" => libc::SYS_socket,
        other => number(other) as i64,
    }
}

fn syscall(name: &str, args: &[&str]) -> Act {
    let mut six = [0_u64; 6];
    for (place, text) in six.iter_mut().zip(args) {
        *place = number(text);
    }
    let [a, b, c, d, e, f] = six;
    result(unsafe { libc::syscall(number_of(name), a, b, c, d, e, f) })
}

/// Makes a call by the x32 numbers.
fn x32(name: &str) -> Act {
    result(unsafe { libc::syscall(0x4000_0000 + number_of(name), 0, 0, 0) })
}

/// Makes a call by the 32-bit entry and its numbers.
fn int80(nr: &str) -> Act {
    let result: i32;
    unsafe {
        asm!("push rbx", "xor ebx, ebx", "int 0x80", "pop rbx",
             inlateout("eax") number(nr) as i32 => result, in("ecx") 0, in("edx") 0);
    }
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { crate::ok() }
}

/// Pushes a character into the terminal's input; `high` sets a bit above the 32 that count.
fn tiocsti(high: &str) -> Act {
    let request = 0x5412_u64 | number(high) << 32;
    let character = b"x";
    result(unsafe { libc::syscall(libc::SYS_ioctl, 0, request, character.as_ptr()) })
}

/// Makes a child by `clone3` with these flags; the child ends at once.
fn clone3(flags: &str) -> Act {
    let mut args = [0_u64; 8];
    args[0] = number(flags);
    args[4] = libc::SIGCHLD as u64;
    let made = unsafe { libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args)) };
    if made == 0 {
        unsafe { libc::_exit(0) };
    }
    result(made)
}

/// Makes a child by `clone` with these flags; the child ends at once.
fn clone(flags: &str) -> Act {
    let flags = number(flags) | libc::SIGCHLD as u64;
    let made = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if made == 0 {
        unsafe { libc::_exit(0) };
    }
    result(made)
}

/// Pushes a character into the input of the controlling terminal, by whatever name it has.
fn own_tiocsti() -> Act {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, b"x".as_ptr()) }.into())
}

/// Does an ioctl on a terminal of its own, whose other side nobody reads.
fn pty_ioctl(request: &str, high: &str) -> Act {
    // Fails where the probe leads a session already, which is as good. The session's terminal
    // hangs up when this act ends.
    unsafe { libc::setsid() };
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let main = OpenOptions::new().read(true).write(true).open("/dev/ptmx")?;
    let mut name = [0_u8; 64];
    let opened = unsafe {
        let (fd, size) = (main.as_raw_fd(), name.len());
        libc::grantpt(fd) == 0
            && libc::unlockpt(fd) == 0
            && libc::ptsname_r(fd, name.as_mut_ptr().cast(), size) == 0
    };
    if !opened {
        return Err(io::Error::last_os_error());
    }
    let name = std::ffi::CStr::from_bytes_until_nul(&name).expect("a name");
    let name = name.to_str().expect("a plain name");
    // The first terminal that a session leader opens becomes its own.
    let terminal = OpenOptions::new().read(true).write(true).open(name)?;
    let request = number(request) | number(high) << 32;
    let mut bytes = *b"x\0\0\0\0\0\0\0";
    let (fd, call) = (terminal.as_raw_fd(), libc::SYS_ioctl);
    result(unsafe { libc::syscall(call, fd, request, bytes.as_mut_ptr()) })
}

const BAD: i64 = -1;

/// Calls that every profile refuses by name, and some that it does not know, each with
/// arguments that fail without effect where nothing refuses them.
const REFUSALS: &[(&str, i64, [i64; 5])] = &[
    ("ptrace", libc::SYS_ptrace, [16, BAD, 0, 0, 0]),
    ("process_vm_readv", libc::SYS_process_vm_readv, [BAD, 0, 0, 0, 0]),
    ("process_vm_writev", libc::SYS_process_vm_writev, [BAD, 0, 0, 0, 0]),
    ("process_madvise", libc::SYS_process_madvise, [BAD, 0, 0, 0, 0]),
    ("kcmp", libc::SYS_kcmp, [BAD, BAD, 0, 0, 0]),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [BAD, BAD, 0, 0, 0]),
    ("keyctl", libc::SYS_keyctl, [BAD, 0, 0, 0, 0]),
    ("add_key", libc::SYS_add_key, [0, 0, 0, 0, 0]),
    ("request_key", libc::SYS_request_key, [0, 0, 0, 0, 0]),
    ("bpf", libc::SYS_bpf, [BAD, 0, 0, 0, 0]),
    ("userfaultfd", libc::SYS_userfaultfd, [BAD, 0, 0, 0, 0]),
    ("userfaultfd-user", libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
    ("perf_event_open", libc::SYS_perf_event_open, [0, 0, 0, 0, 0]),
    ("mount", libc::SYS_mount, [0, 0, 0, 0, 0]),
    ("umount2", libc::SYS_umount2, [0, BAD, 0, 0, 0]),
    ("pivot_root", libc::SYS_pivot_root, [0, 0, 0, 0, 0]),
    ("chroot", libc::SYS_chroot, [0, 0, 0, 0, 0]),
    ("setns", libc::SYS_setns, [BAD, 0, 0, 0, 0]),
    ("unshare", libc::SYS_unshare, [1, 0, 0, 0, 0]),
    ("fsopen", libc::SYS_fsopen, [0, BAD, 0, 0, 0]),
    ("fsconfig", libc::SYS_fsconfig, [BAD, 0, 0, 0, 0]),
    ("fsmount", libc::SYS_fsmount, [BAD, BAD, 0, 0, 0]),
    ("fspick", libc::SYS_fspick, [BAD, 0, BAD, 0, 0]),
    ("open_tree", libc::SYS_open_tree, [BAD, 0, BAD, 0, 0]),
    ("move_mount", libc::SYS_move_mount, [BAD, 0, BAD, 0, BAD]),
    ("fanotify_init", libc::SYS_fanotify_init, [BAD, BAD, 0, 0, 0]),
    ("fanotify_mark", libc::SYS_fanotify_mark, [BAD, 0, 0, 0, 0]),
    ("kexec_load", libc::SYS_kexec_load, [0, BAD, 0, BAD, 0]),
    ("kexec_file_load", libc::SYS_kexec_file_load, [BAD, BAD, 0, 0, BAD]),
    ("init_module", libc::SYS_init_module, [0, 0, 0, 0, 0]),
    ("finit_module", libc::SYS_finit_module, [BAD, 0, BAD, 0, 0]),
    ("delete_module", libc::SYS_delete_module, [0, 0, 0, 0, 0]),
    ("quotactl", libc::SYS_quotactl, [BAD, 0, 0, 0, 0]),
    ("quotactl_fd", libc::SYS_quotactl_fd, [BAD, 0, 0, 0, 0]),
    ("swapon", libc::SYS_swapon, [0, BAD, 0, 0, 0]),
    ("swapoff", libc::SYS_swapoff, [0, 0, 0, 0, 0]),
    ("reboot", libc::SYS_reboot, [0, 0, 0, 0, 0]),
    ("acct", libc::SYS_acct, [1, 0, 0, 0, 0]),
    ("settimeofday", libc::SYS_settimeofday, [1, 0, 0, 0, 0]),
    ("clock_settime", libc::SYS_clock_settime, [1000, 0, 0, 0, 0]),
    ("adjtimex", libc::SYS_adjtimex, [0, 0, 0, 0, 0]),
    ("clock_adjtime", libc::SYS_clock_adjtime, [0, 0, 0, 0, 0]),
    ("syslog", libc::SYS_syslog, [BAD, 0, 0, 0, 0]),
    ("sethostname", libc::SYS_sethostname, [0, BAD, 0, 0, 0]),
    ("setdomainname", libc::SYS_setdomainname, [0, BAD, 0, 0, 0]),
    ("iopl", libc::SYS_iopl, [9, 0, 0, 0, 0]),
    ("ioperm", libc::SYS_ioperm, [BAD, BAD, 0, 0, 0]),
    ("name_to_handle_at", libc::SYS_name_to_handle_at, [BAD, 0, 0, 0, BAD]),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [BAD, 0, 0, 0, 0]),
    ("migrate_pages", libc::SYS_migrate_pages, [BAD, BAD, 0, 0, 0]),
    ("move_pages", libc::SYS_move_pages, [0, 0, 0, 0, 0]),
    ("mount_setattr", libc::SYS_mount_setattr, [BAD, 0, BAD, 0, 0]),
    ("io_uring_setup", libc::SYS_io_uring_setup, [0, 0, 0, 0, 0]),
    ("io_uring_enter", libc::SYS_io_uring_enter, [BAD, 0, 0, 0, 0]),
    ("io_uring_register", libc::SYS_io_uring_register, [BAD, 0, 0, 0, 0]),
    ("seccomp", libc::SYS_seccomp, [BAD, 0, 0, 0, 0]),
    ("openat2", libc::SYS_openat2, [BAD, 0, 0, 0, 0]),
    ("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0]),
    ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset, [0, 0, 2, 0, 0]),
];

/// Makes each of them and prints its name and what it gave.
fn refusals() -> Act {
    let mut lines = Vec::new();
    for (name, call, [a, b, c, d, e]) in REFUSALS {
        let made = unsafe { libc::syscall(*call, *a, *b, *c, *d, *e, 0) };
        let told = result(made).unwrap_or_else(|error| errno_name(&error));
        lines.push(format!("{name} {told}"));
    }
    Ok(lines.join("\n"))
}
