//! Acts on files.

use crate::{Act, c, number, ok, result};
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};

pub(crate) fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("read", [path]) => read(path),
        ("print", [path]) => fs::read_to_string(path),
        ("list", [path]) => list(path),
        ("write", [path]) => write(path),
        ("create", [path]) => create(path),
        ("truncate", [path]) => {
            OpenOptions::new().write(true).truncate(true).open(path).and_then(|_| ok())
        }
        ("mkdir", [path]) => fs::create_dir(path).and_then(|()| ok()),
        ("mkdir", [path, mode]) => mkdir(path, mode),
        ("rename", [from, to]) => fs::rename(from, to).and_then(|()| ok()),
        ("exchange", [a, b]) => rename_with(a, b, libc::RENAME_EXCHANGE),
        ("whiteout", [a, b]) => rename_with(a, b, libc::RENAME_WHITEOUT),
        ("link", [from, to]) => fs::hard_link(from, to).and_then(|()| ok()),
        ("symlink", [to, path]) => std::os::unix::fs::symlink(to, path).and_then(|()| ok()),
        ("unlink", [path]) => fs::remove_file(path).and_then(|()| ok()),
        ("rmdir", [path]) => fs::remove_dir(path).and_then(|()| ok()),
        ("chmod", [path, mode]) => {
            result(unsafe { libc::chmod(c(path).as_ptr(), number(mode) as libc::mode_t) }.into())
        }
        ("fchmod", [path, mode]) => fchmod(path, mode),
        ("fchmodat2", [path, mode]) => fchmodat2(path, mode),
        ("mode", [call, path, mode]) => raw_mode(call, path, mode),
        ("setcap", [path]) => setcap(path),
        ("creat", [path, mode]) => {
            result(unsafe { libc::creat(c(path).as_ptr(), number(mode) as libc::mode_t) }.into())
        }
        ("utimes", [path]) => result(
            unsafe { libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), std::ptr::null(), 0) }
                .into(),
        ),
        ("chown", [path, uid, gid]) => {
            let (uid, gid) = (number(uid) as u32, number(gid) as u32);
            result(unsafe { libc::chown(c(path).as_ptr(), uid, gid) }.into())
        }
        ("setxattr", [path]) => setxattr(path),
        ("open-mode", [path, flags, mode]) => open_mode(path, flags, mode),
        ("mknod", [path, mode, major, minor]) => mknod(path, mode, major, minor),
        ("umount", [path]) => {
            result(unsafe { libc::umount2(c(path).as_ptr(), libc::MNT_DETACH) }.into())
        }
        ("remount", [path]) => remount(path),
        ("readlink", [path]) => fs::read_link(path).map(|to| to.display().to_string()),
        ("exists", [path]) => fs::symlink_metadata(path).and_then(|_| ok()),
        ("fds", []) => fds(),
        ("fd-kinds", []) => fd_kinds(),
        ("fill", [folder, most]) => fill(folder, most),
        ("inodes", [folder, most]) => inodes(folder, most),
        ("open-many", [most]) => open_many(most),
        ("grow", [path, at]) => {
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            grow(path, at)
        }
        ("grow-or-die", [path, at]) => grow(path, at),
        _ => return None,
    })
}

fn read(path: &str) -> Act {
    let mut byte = [0];
    // An empty file can be read as well as any.
    fs::File::open(path)?.read(&mut byte).and_then(|_| ok())
}

fn list(path: &str) -> Act {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(format!("[{}]", names.join(" ")))
}

fn write(path: &str) -> Act {
    OpenOptions::new().append(true).open(path)?.write_all(b"probe")?;
    ok()
}

fn create(path: &str) -> Act {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(b"probe")?;
    // A control that made the file leaves the place free for the attempt.
    if std::env::args().nth(1).is_some_and(|place| place == "outside") {
        fs::remove_file(path)?;
    }
    ok()
}

fn mkdir(path: &str, mode: &str) -> Act {
    let made = unsafe { libc::mkdir(c(path).as_ptr(), number(mode) as libc::mode_t) };
    result(made.into())
}

fn rename_with(a: &str, b: &str, flags: libc::c_uint) -> Act {
    let (a, b) = (c(a), c(b));
    let at = libc::AT_FDCWD;
    let done = unsafe { libc::renameat2(at, a.as_ptr(), at, b.as_ptr(), flags) };
    result(done.into())
}

fn fchmod(path: &str, mode: &str) -> Act {
    let file = fs::File::open(path)?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    result(unsafe { libc::fchmod(fd, number(mode) as libc::mode_t) }.into())
}

/// Gives a mode by exactly this system call, whatever the library would make of it.
fn raw_mode(call: &str, path: &str, mode: &str) -> Act {
    let (path, mode) = (c(path), number(mode));
    let (path, at, making) = (path.as_ptr(), libc::AT_FDCWD, libc::O_CREAT | libc::O_WRONLY);
    result(unsafe {
        match call {
            "chmod" => libc::syscall(libc::SYS_chmod, path, mode),
            "fchmodat" => libc::syscall(libc::SYS_fchmodat, at, path, mode),
            "fchmodat2" => libc::syscall(libc::SYS_fchmodat2, at, path, mode, 0),
            "creat" => libc::syscall(libc::SYS_creat, path, mode),
            "open" => libc::syscall(libc::SYS_open, path, making, mode),
            "openat" => libc::syscall(libc::SYS_openat, at, path, making, mode),
            "mkdir" => libc::syscall(libc::SYS_mkdir, path, mode),
            "mkdirat" => libc::syscall(libc::SYS_mkdirat, at, path, mode),
            "mknod" => libc::syscall(libc::SYS_mknod, path, mode, 0),
            "mknodat" => libc::syscall(libc::SYS_mknodat, at, path, mode, 0),
            "openat2" => {
                let how = [making as u64, mode, 0];
                libc::syscall(libc::SYS_openat2, at, path, how.as_ptr(), size_of_val(&how))
            }
            _ => return Err(std::io::Error::other("no such call")),
        }
    })
}

/// Lets a file give its caller every right, as `setcap` does.
fn setcap(path: &str) -> Act {
    let rights: [u32; 5] = [0x0200_0001, u32::MAX, 0, 0x1ff, 0];
    let (path, name) = (c(path), c("security.capability"));
    let (path, value) = (path.as_ptr(), rights.as_ptr().cast());
    let set = unsafe { libc::setxattr(path, name.as_ptr(), value, size_of_val(&rights), 0) };
    result(set.into())
}

/// As the kernel's newest call for it, which no library uses yet.
fn fchmodat2(path: &str, mode: &str) -> Act {
    let path = c(path);
    let mode = number(mode);
    result(unsafe { libc::syscall(libc::SYS_fchmodat2, libc::AT_FDCWD, path.as_ptr(), mode, 0) })
}

/// Makes a bind mount writable.
fn remount(path: &str) -> Act {
    let (path, flags) = (c(path), libc::MS_REMOUNT | libc::MS_BIND);
    let null = std::ptr::null();
    let done = unsafe { libc::mount(null, path.as_ptr(), null, flags, null.cast()) };
    result(done.into())
}

fn setxattr(path: &str) -> Act {
    let (path, name, value) = (c(path), c("user.probe"), b"1");
    let set = unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    result(set.into())
}

fn open_mode(path: &str, flags: &str, mode: &str) -> Act {
    let (path, flags) = (c(path), number(flags) as i32 | libc::O_WRONLY);
    result(unsafe { libc::open(path.as_ptr(), flags, number(mode) as libc::c_uint) }.into())
}

fn mknod(path: &str, mode: &str, major: &str, minor: &str) -> Act {
    let device = libc::makedev(number(major) as u32, number(minor) as u32);
    result(unsafe { libc::mknod(c(path).as_ptr(), number(mode) as libc::mode_t, device) }.into())
}

/// Lists the descriptors that were open when the program started.
fn fds() -> Act {
    let mut open = Vec::new();
    for fd in 0..1024 {
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0 {
            open.push(fd.to_string());
        }
    }
    Ok(format!("[{}]", open.join(" ")))
}

/// Says what descriptors 0, 1 and 2 are.
fn fd_kinds() -> Act {
    let links: Result<Vec<_>, _> =
        (0..3).map(|fd| fs::read_link(format!("/proc/self/fd/{fd}"))).collect();
    let kind = |link: &std::path::PathBuf| {
        let link = link.to_string_lossy();
        link.split_once(':').map_or(link.as_ref(), |(kind, _)| kind).to_owned()
    };
    Ok(links?.iter().map(kind).collect::<Vec<_>>().join(" "))
}

/// Fills a folder with files of 8 MiB; prints how many bytes fitted and why there were no more.
fn fill(folder: &str, most: &str) -> Act {
    let chunk = vec![b'x'; 1 << 20];
    let mut total = 0_u64;
    let mut why = "ok".to_owned();
    let most = number(most);
    'files: for index in 0_u64.. {
        let mut file = fs::File::create(format!("{folder}/fill-{index}"))?;
        for _ in 0..8 {
            if total >= most {
                break 'files;
            }
            match file.write(&chunk) {
                Ok(count) => total += count as u64,
                Err(error) => {
                    why = crate::errno_name(&error);
                    break 'files;
                }
            }
        }
    }
    Ok(format!("{total} {why}"))
}

/// Makes empty files; prints how many and why there were no more.
fn inodes(folder: &str, most: &str) -> Act {
    for index in 0..number(most) {
        if let Err(error) = fs::File::create(format!("{folder}/inode-{index}")) {
            return Ok(format!("{index} {}", crate::errno_name(&error)));
        }
    }
    Ok(format!("{} ok", number(most)))
}

/// Opens descriptors; prints the highest number and why there were no more.
fn open_many(most: &str) -> Act {
    let mut held = Vec::new();
    let mut highest = 2;
    let mut why = "ok".to_owned();
    while (held.len() as u64) < number(most) {
        match fs::File::open("/dev/null") {
            Ok(file) => {
                highest = std::os::fd::AsRawFd::as_raw_fd(&file);
                held.push(file);
            }
            Err(error) => {
                why = crate::errno_name(&error);
                break;
            }
        }
    }
    Ok(format!("{highest} {why}"))
}

/// Writes one byte at a place beyond the end of a file.
fn grow(path: &str, at: &str) -> Act {
    use std::os::unix::fs::FileExt;
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(b"x", number(at))?;
    ok()
}
