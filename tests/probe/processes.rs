//! Acts on processes, and what a process can tell about itself.

use crate::{Act, c, number, ok, result};
use std::fs;
use std::io::{self, Write};
use std::time::Duration;

pub(crate) fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("ids", []) => ids(),
        ("status", [key]) => status(key),
        ("env", []) => env(),
        ("pids", []) => pids(),
        ("kill", [pid, signal]) => {
            result(unsafe { libc::kill(number(pid) as i32, number(signal) as i32) }.into())
        }
        ("exec", [path, rest @ ..]) => exec(path, rest),
        ("memfd-exec", []) => memfd_exec(),
        ("sleep", [ms]) => {
            std::thread::sleep(Duration::from_millis(number(ms)));
            ok()
        }
        ("exit", [code]) => std::process::exit(number(code) as i32),
        ("die", [signal]) => die(signal),
        ("tree", [tag]) => tree(tag),
        ("daemon", [tag]) => daemon(tag),
        ("hold", [which]) => hold(which),
        ("deaf", []) => deaf(),
        ("closed", []) => closed(),
        ("orphans", [count]) => orphans(count),
        ("flood", [count]) => flood(count),
        ("thread-and-fork", []) => thread_and_fork(),
        _ => return None,
    })
}

/// Prints user and group ids and what the kernel says of rights.
fn ids() -> Act {
    let text = fs::read_to_string("/proc/self/status")?;
    let keys = [
        "Uid",
        "Gid",
        "Groups",
        "NoNewPrivs",
        "Seccomp",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
    ];
    let mut out = Vec::new();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(':') {
            if keys.contains(&key) {
                out.push(format!(
                    "{key}={}",
                    value.split_whitespace().collect::<Vec<_>>().join(",")
                ));
            }
        }
    }
    Ok(out.join(" "))
}

fn status(key: &str) -> Act {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    Ok(line.unwrap_or_default().trim().to_owned())
}

fn env() -> Act {
    let mut lines: Vec<String> =
        std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    lines.sort();
    Ok(lines.join("\n"))
}

fn pids() -> Act {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(format!("{pids:?}"))
}

/// Executes a program in place of the probe; only a failure returns.
fn exec(path: &str, rest: &[&str]) -> Act {
    let argv: Vec<_> = [path].iter().chain(rest).map(|word| c(word)).collect();
    let mut pointers: Vec<_> = argv.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
    Err(io::Error::last_os_error())
}

/// Copies itself into a memory file and executes that.
fn memfd_exec() -> Act {
    let fd = unsafe { libc::memfd_create(c("probe").as_ptr(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut file: fs::File = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
    file.write_all(&fs::read("/proc/self/exe")?)?;
    exec(&format!("/proc/self/fd/{fd}"), &["inside", "sleep", "0"])
}

fn die(signal: &str) -> Act {
    unsafe { libc::raise(number(signal) as i32) };
    ok()
}

/// Forks; the child runs `child` and ends.
fn fork(child: impl FnOnce()) -> io::Result<i32> {
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            child();
            unsafe { libc::_exit(0) }
        }
        pid => Ok(pid),
    }
}

fn forever() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Leaves three generations behind that ignore what they can: one in a session of its own, one
/// forked twice, one stopped; prints `up` when they stand and waits. `tag` is for finding them.
fn tree(tag: &str) -> Act {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    assert!(std::env::args().any(|arg| arg == tag), "the tag is in the command line");
    fork(|| {
        unsafe { libc::setsid() };
        drop(fork(forever));
        forever();
    })?;
    fork(|| {
        drop(fork(|| {
            drop(fork(forever));
            forever();
        }));
    })?;
    fork(|| {
        unsafe { libc::raise(libc::SIGSTOP) };
        forever();
    })?;
    println!("up");
    io::stdout().flush()?;
    forever();
    ok()
}

/// Leaves a process behind in a session of its own, with its output elsewhere, and ends.
fn daemon(tag: &str) -> Act {
    assert!(std::env::args().any(|arg| arg == tag), "the tag is in the command line");
    fork(|| {
        unsafe { libc::setsid() };
        for fd in 0..3 {
            unsafe { libc::close(fd) };
        }
        drop(fork(forever));
        forever();
    })?;
    ok()
}

/// Leaves a process behind that holds pipes open, and ends.
fn hold(which: &str) -> Act {
    fork(|| {
        match which {
            "both" => {}
            "stderr" => assert_eq!(unsafe { libc::close(1) }, 0),
            _ => (0..3).for_each(|fd| assert_eq!(unsafe { libc::close(fd) }, 0)),
        }
        forever();
    })?;
    ok()
}

/// Ignores every signal that can be ignored and goes on.
fn deaf() -> Act {
    for signal in 1..32 {
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    println!("up");
    io::stdout().flush()?;
    forever();
    ok()
}

/// Closes its output and goes on.
fn closed() -> Act {
    for fd in [1, 2] {
        unsafe { libc::close(fd) };
    }
    forever();
    ok()
}

/// Makes orphans that end, and counts what is left of them in `/proc`.
fn orphans(count: &str) -> Act {
    for _ in 0..number(count) {
        let middle = fork(|| drop(fork(|| {})))?;
        unsafe { libc::waitpid(middle, std::ptr::null_mut(), 0) };
    }
    std::thread::sleep(Duration::from_millis(100));
    pids()
}

/// Writes so many bytes to standard output, and as many to standard error.
fn flood(count: &str) -> Act {
    let chunk = [b'x'; 65536];
    let mut left = number(count);
    while left > 0 {
        let now = left.min(chunk.len() as u64) as usize;
        io::stdout().write_all(&chunk[..now])?;
        left -= now as u64;
    }
    ok()
}

fn thread_and_fork() -> Act {
    std::thread::spawn(|| ()).join().expect("a thread ends");
    let pid = fork(|| ())?;
    let mut status = 0;
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    result(if reaped == pid && status == 0 { 0 } else { -1 })
}
