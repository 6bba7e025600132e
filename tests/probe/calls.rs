//! Raw system calls, with arguments that do no harm where the layer is missing.

use crate::{Act, number, result};
use std::arch::asm;

pub(crate) fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("syscall", [name, rest @ ..]) if rest.len() <= 6 => syscall(name, rest),
        ("x32", [name]) => x32(name),
        ("int80", [nr]) => int80(nr),
        ("tiocsti", [high]) => tiocsti(high),
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
    if result < 0 { Err(std::io::Error::from_raw_os_error(-result)) } else { crate::ok() }
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
