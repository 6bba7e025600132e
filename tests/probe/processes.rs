//! Acts on processes, and what a process can tell about itself.

use crate::{Act, c, number, ok, result};
use std::fs;
use std::io::{self, Write};
use std::time::Duration;

pub(crate) fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("ids", []) => ids(),
        ("status", [key]) => status(key),
        ("thread-status", [key]) => {
            let key = (*key).to_owned();
            std::thread::spawn(move || status_of("/proc/thread-self/status", &key))
                .join()
                .expect("a thread ends")
        }
        ("argv", [..]) => Ok(format!("{:?}", std::env::args().collect::<Vec<_>>())),
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
        ("hold", [which, ..]) => hold(which),
        ("deaf", [..]) => deaf(),
        ("closed", [..]) => closed(),
        ("orphans", [count]) => orphans(count),
        ("flood", [count]) => flood(count),
        ("forks", [most]) => forks(most),
        ("forks-stay", [most]) => forks_stay(most),
        ("eat", [mib]) => eat(mib),
        ("spin-many", [count]) => spin_many(count),
        ("spin", [..]) => loop {
            std::hint::spin_loop();
        },
        ("up", [tag]) => up(tag),
        ("stop-and-up", [tag]) => {
            unsafe { libc::kill(0, libc::SIGSTOP) };
            up(tag)
        }
        ("lines", [count, ms]) => lines(count, ms),
        ("stdin", []) => stdin(),
        ("stdin-rights", []) => Ok(stdin_rights()),
        ("both", []) => {
            eprintln!("to standard error");
            Ok("to standard output".to_owned())
        }
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
        let Some((key, value)) = line.split_once(':') else { continue };
        if keys.contains(&key) {
            out.push(format!("{key}={}", value.split_whitespace().collect::<Vec<_>>().join(",")));
        }
    }
    Ok(out.join(" "))
}

fn status(key: &str) -> Act {
    status_of("/proc/self/status", key)
}

fn status_of(file: &str, key: &str) -> Act {
    let text = fs::read_to_string(file)?;
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
    let signal = number(signal) as i32;
    // Rust ignores some signals and catches others.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    unsafe { libc::raise(signal) };
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

/// Forks children that stay until a fork fails or there are `most`; prints how many there were
/// and why there were no more.
fn forks(most: &str) -> Act {
    let mut made = Vec::new();
    let mut why = "ok".to_owned();
    while (made.len() as u64) < number(most) {
        match fork(forever) {
            Ok(pid) => made.push(pid),
            Err(error) => {
                why = crate::errno_name(&error);
                break;
            }
        }
    }
    for pid in &made {
        unsafe { libc::kill(*pid, libc::SIGKILL) };
        unsafe { libc::waitpid(*pid, std::ptr::null_mut(), 0) };
    }
    Ok(format!("{} {why}", made.len()))
}

/// As `forks`, but ends while the children stay.
fn forks_stay(most: &str) -> Act {
    for made in 0..number(most) {
        if let Err(error) = fork(forever) {
            return Ok(format!("{made} {}", crate::errno_name(&error)));
        }
    }
    Ok(format!("{most} ok"))
}

/// Takes memory, and writes to it, until there is no more or there are so many MiB; prints how
/// many there were and why there were no more.
fn eat(mib: &str) -> Act {
    let mut held: Vec<Vec<u8>> = Vec::new();
    while (held.len() as u64) < number(mib) {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(1 << 20).is_err() {
            return Ok(format!("{} ENOMEM", held.len()));
        }
        piece.resize(1 << 20, 1);
        held.push(piece);
    }
    Ok(format!("{} ok", held.len()))
}

/// Forks children that use all the processor time they get, and waits for them.
fn spin_many(count: &str) -> Act {
    for _ in 0..number(count) {
        fork(|| {
            loop {
                std::hint::spin_loop();
            }
        })?;
    }
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
    ok()
}

/// Prints `up` and stays.
fn up(tag: &str) -> Act {
    assert!(std::env::args().any(|arg| arg == tag), "the tag is in the command line");
    println!("up");
    io::stdout().flush()?;
    forever();
    ok()
}

/// Prints numbered lines with a pause after each.
fn lines(count: &str, ms: &str) -> Act {
    for line in 0..number(count) {
        writeln!(io::stdout(), "line {line}")?;
        io::stdout().flush()?;
        std::thread::sleep(Duration::from_millis(number(ms)));
    }
    ok()
}

/// Prints how many bytes standard input has, and the first of them.
fn stdin() -> Act {
    use std::io::Read;
    let mut content = Vec::new();
    io::stdin().read_to_end(&mut content)?;
    let start = &content[..content.len().min(16)];
    Ok(format!("{} {}", content.len(), String::from_utf8_lossy(start).escape_debug()))
}

/// Prints what can be done with standard input but reading: write, execute, open anew.
fn stdin_rights() -> String {
    let told = |act: Act| act.unwrap_or_else(|error| crate::errno_name(&error));
    let written = told(result(unsafe { libc::write(0, b"x".as_ptr().cast(), 1) } as i64));
    let opened = fs::OpenOptions::new().append(true).open("/proc/self/fd/0");
    let rewritten = told(opened.and_then(|mut file| file.write_all(b"x")).and_then(|()| ok()));
    let argv = [c"x".as_ptr(), std::ptr::null()];
    let empty = [std::ptr::null::<libc::c_char>()];
    let executed = told(result(unsafe {
        let (path, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
        libc::syscall(libc::SYS_execveat, 0, path, argv.as_ptr(), empty.as_ptr(), flags)
    }));
    format!("{written} {rewritten} {executed}")
}
