//! Acts that reach what is outside a tree without namespaces: metadata of files by every way there
//! is, and other processes.

use crate::{Act, c, number, result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("change", [way, path]) => change(way, path),
        ("race-chmod", [link, inside, outside, ms]) => race_chmod(link, inside, outside, ms),
        ("signal-parent", [signal]) => {
            let parent = unsafe { libc::getppid() };
            result(unsafe { libc::kill(parent, number(signal) as i32) }.into())
        }
        ("renice", [pid]) => renice(pid),
        ("tgkill", [pid, thread, signal]) => {
            let (pid, thread) = (number(pid) as i32, number(thread) as i32);
            result(unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, number(signal)) })
        }
        ("cap-files", [pid]) => cap_files(pid),
        ("socketpair-of", [kind]) => {
            let mut ends = [0; 2];
            let kind = number(kind) as i32;
            result(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }.into())
        }
        ("set-flags", [path]) => set_flags(path),
        ("lease", [path]) => {
            let file = File::open(path).ok()?;
            result(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) }.into())
        }
        ("deep", [folder, many]) => deep(folder, many),
        ("affinity", [pid]) => affinity(pid),
        ("shmget", []) => shmget(),
        ("breed", [tag, many]) => breed(tag, many),
        _ => return None,
    })
}

/// Changes metadata of a file, each way another call or another way to name the file.
fn change(way: &str, path: &str) -> Act {
    let name = c(path);
    let here = libc::AT_FDCWD;
    let open = || File::open(path);
    let mode = 0o640;
    let times = [libc::timespec { tv_sec: 1_000, tv_nsec: 5 }; 2];
    let micros = [libc::timeval { tv_sec: 1_000, tv_usec: 5 }; 2];
    let seconds = libc::utimbuf { actime: 1_000, modtime: 1_000 };
    let none = std::ptr::null::<libc::timespec>();
    let by_link = |file: &File| c(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    let value = unsafe {
        match way {
            "chmod" => libc::chmod(name.as_ptr(), mode).into(),
            "fchmod" => libc::fchmod(open()?.as_raw_fd(), mode).into(),
            "fchmodat" => libc::fchmodat(here, name.as_ptr(), mode, 0).into(),
            "fchmodat2" => libc::syscall(libc::SYS_fchmodat2, here, name.as_ptr(), mode, 0),
            "fchmodat2-open" => {
                let (file, empty) = (open()?, c(""));
                let flags = libc::AT_EMPTY_PATH;
                libc::syscall(libc::SYS_fchmodat2, file.as_raw_fd(), empty.as_ptr(), mode, flags)
            }
            "chmod-link" => {
                let file = open()?;
                libc::chmod(by_link(&file).as_ptr(), mode).into()
            }
            "utime" => libc::syscall(libc::SYS_utime, name.as_ptr(), &raw const seconds),
            "utimes" => libc::syscall(libc::SYS_utimes, name.as_ptr(), &raw const micros),
            "futimesat" => {
                libc::syscall(libc::SYS_futimesat, here, name.as_ptr(), &raw const micros)
            }
            "utimensat" => libc::utimensat(here, name.as_ptr(), times.as_ptr(), 0).into(),
            "utimensat-now" => libc::utimensat(here, name.as_ptr(), none, 0).into(),
            "utimensat-nofollow" => {
                let flags = libc::AT_SYMLINK_NOFOLLOW;
                libc::utimensat(here, name.as_ptr(), times.as_ptr(), flags).into()
            }
            "futimens" => libc::futimens(open()?.as_raw_fd(), times.as_ptr()).into(),
            "chown" => libc::chown(name.as_ptr(), libc::getuid(), libc::getgid()).into(),
            "fchown" => libc::fchown(open()?.as_raw_fd(), libc::getuid(), libc::getgid()).into(),
            "lchown" => libc::lchown(name.as_ptr(), libc::getuid(), libc::getgid()).into(),
            "setxattr" => setxattr(&name),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    };
    result(value)
}

fn setxattr(name: &std::ffi::CStr) -> i64 {
    let (key, value) = (c("user.probe"), b"x");
    unsafe {
        libc::setxattr(name.as_ptr(), key.as_ptr(), value.as_ptr().cast(), value.len(), 0).into()
    }
}

/// Changes the mode of a link again and again while a thread points it inside and outside in turn.
fn race_chmod(link: &str, inside: &str, outside: &str, ms: &str) -> Act {
    let done = Arc::new(AtomicBool::new(false));
    let other = Arc::clone(&done);
    let (name, targets) = (link.to_owned(), [inside.to_owned(), outside.to_owned()]);
    let swap = std::thread::spawn(move || -> io::Result<()> {
        let fresh = format!("{name}.new");
        for at in 0.. {
            if other.load(Ordering::Relaxed) {
                break;
            }
            let target: &String = &targets[at % 2];
            std::os::unix::fs::symlink(target, &fresh)?;
            fs::rename(&fresh, &name)?;
        }
        Ok(())
    });
    let start = Instant::now();
    let (mut changed, mut refused) = (0, 0);
    while start.elapsed() < Duration::from_millis(number(ms)) {
        match unsafe { libc::chmod(c(link).as_ptr(), 0o640) } {
            0 => changed += 1,
            _ => refused += 1,
        }
    }
    done.store(true, Ordering::Relaxed);
    swap.join().expect("the thread ends")?;
    Ok(format!("{changed} changed, {refused} refused"))
}

/// Makes a shared memory segment and removes it again.
fn shmget() -> Act {
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
    if id >= 0 {
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
    result(id.into())
}

/// Limits the size of files of another process to what it may be already.
fn cap_files(pid: &str) -> Act {
    let most = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let none = std::ptr::null_mut();
    let pid = number(pid) as i32;
    result(unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const most, none) }.into())
}

/// Sets the flag of a file that says not to dump it, through a descriptor that only reads.
fn set_flags(path: &str) -> Act {
    const NO_DUMP: libc::c_int = 0x40;
    let file = File::open(path)?;
    let flags = NO_DUMP;
    result(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) }.into())
}

/// Nests folders, each in the one before.
fn deep(folder: &str, many: &str) -> Act {
    std::env::set_current_dir(folder)?;
    for _ in 0..number(many) {
        fs::create_dir("d")?;
        std::env::set_current_dir("d")?;
    }
    crate::ok()
}

fn renice(pid: &str) -> Act {
    result(unsafe { libc::setpriority(libc::PRIO_PROCESS, number(pid) as u32, 19) }.into())
}

fn affinity(pid: &str) -> Act {
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    unsafe { libc::CPU_SET(0, &mut set) };
    let size = size_of::<libc::cpu_set_t>();
    result(unsafe { libc::sched_setaffinity(number(pid) as i32, size, &raw const set) }.into())
}

/// Has lines of processes of which each makes the next and ends, in sessions of their own; prints
/// `up` and waits. Who kills what is there at one moment meets another one at the next.
fn breed(tag: &str, many: &str) -> Act {
    assert!(std::env::args().any(|arg| arg == tag), "the tag is in the command line");
    for _ in 0..number(many) {
        if unsafe { libc::fork() } == 0 {
            loop {
                unsafe { libc::setsid() };
                if unsafe { libc::fork() } > 0 {
                    unsafe { libc::_exit(0) };
                }
            }
        }
    }
    println!("up");
    io::stdout().flush()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
