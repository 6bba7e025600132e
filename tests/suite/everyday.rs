//! What makes people switch a sandbox off: ordinary things that stop working in one. They work here
//! as outside, or say at once why not.

use crate::programs::host;
use crate::support::{Answer, Env};
use std::path::Path;
use std::time::{Duration, Instant};

/// Has make run these lines of shell; they must succeed.
fn shell(env: &Env, lines: &str) -> Answer {
    let recipe: String = lines.lines().map(|line| format!("\t@{}\n", line.trim())).collect();
    env.file("Makefile", &format!("all:\n{recipe}"));
    let answer = env.cmd(&["make"]);
    assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{lines}: {answer:?}");
    answer
}

/// Has Python run a program; it must succeed.
fn python(env: &Env, program: &str) -> Answer {
    env.file("t.py", program);
    shell(env, "/usr/bin/python3 t.py")
}

#[test]
fn g07_g09_files_move_and_are_linked_between_folders() {
    let Some(env) = host(&["make"]) else { return };
    let lines = "mkdir a b && echo x > a/f
        mv a/f b/f && ln b/f a/g && test a/g -ef b/f
        mv a c && test -e c/g && ln -s ../b/f c/h && cat c/h";
    assert_eq!(shell(&env, lines).stdout(), "x\n");
}

#[test]
fn g15_path_sockets_work_in_the_scratch_folder() {
    let Some(env) = host(&["make", "python3"]) else { return };
    let program = "
import multiprocessing as m, os, socket, tempfile, threading
path = os.path.join(tempfile.mkdtemp(), 's')
server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(path)
server.accept()[0].sendall(b'hello')
assert client.recv(5) == b'hello'
if __name__ == '__main__':
    with m.Manager() as manager:
        d = manager.dict(); d['a'] = 1; print(d['a'])
";
    assert_eq!(python(&env, program).stdout(), "1\n");
}

#[test]
fn g16_servers_work_on_the_runs_own_loopback() {
    let Some(env) = host(&["make", "python3"]) else { return };
    let program = "
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = 'http://127.0.0.1:%d/t.py' % server.server_port
print(urllib.request.urlopen(url).status)
";
    assert_eq!(python(&env, program).stdout(), "200\n");
    let Some(env) = host(&["make", "node"]) else { return };
    let inspect = "node --inspect=127.0.0.1:0 -e 'console.log(1)'";
    let answer = shell(&env, inspect);
    assert_eq!(answer.stdout(), "1\n");
    let said = answer.reply["stderr"].as_str().unwrap_or_default();
    assert!(said.contains("Debugger listening on ws://127.0.0.1:"), "{said}");
}

#[test]
fn g17_shared_memory_and_semaphores_work() {
    let Some(env) = host(&["make", "python3"]) else { return };
    let program = "
import multiprocessing as m
from multiprocessing import shared_memory
with m.Lock(): pass
s = shared_memory.SharedMemory(create=True, size=10); s.buf[0] = 7; print(s.buf[0])
s.close(); s.unlink()
";
    assert_eq!(python(&env, program).stdout(), "7\n");
}

#[test]
fn g22_the_folders_above_belong_to_somebody_that_programs_trust() {
    let Some(env) = host(&["make", "stat", "git"]) else { return };
    let answer = shell(&env, "stat -c %u / . && id -u");
    let owners: Vec<&str> = answer.stdout().lines().collect();
    let [root, workspace, own] = owners[..] else { panic!("{owners:?}") };
    assert!(root == "0" || root == own, "{owners:?}");
    assert_eq!(workspace, own, "{owners:?}");
    env.repository();
    assert_eq!(env.cmd(&["git", "status", "--porcelain"]).code, 0);
}

#[test]
fn g27_a_repository_that_wants_signed_commits_is_committed_to_without_a_signature() {
    let Some(env) = host(&["git"]) else { return };
    env.repository();
    env.git(&["config", "commit.gpgsign", "true"]);
    env.git(&["config", "user.signingkey", "0xDEADBEEF"]);
    env.file("tracked.txt", "changed\n");
    assert_eq!(env.cmd(&["git", "add", "tracked.txt"]).code, 0);
    let answer = env.cmd(&["git", "commit", "-m", "second"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(env.git(&["log", "-1", "--format=%s %G?"]).trim(), "second N");
}

#[test]
fn g31_locks_and_renames_work_in_the_workspace() {
    let Some(env) = host(&["make", "flock"]) else { return };
    let lines = "touch a && flock -n a echo locked && mv a b && test ! -e a";
    assert_eq!(shell(&env, lines).stdout(), "locked\n");
}

#[test]
fn g33_temporary_files_go_to_the_private_folder() {
    let Some(env) = host(&["make", "mktemp", "python3"]) else { return };
    let answer = shell(&env, "mktemp -d\nTMPDIR= mktemp -d\necho $$TMPDIR");
    let lines: Vec<&str> = answer.stdout().lines().collect();
    assert!(lines[..2].iter().all(|line| line.starts_with("/tmp/")), "{lines:?}");
    assert_eq!(lines[2], "/tmp");
    assert!(lines[..2].iter().all(|line| !Path::new(line).exists()), "none is the host's");
    let told = python(&env, "import tempfile\nprint(tempfile.gettempdir())\n");
    assert_eq!(told.stdout(), "/tmp\n");
    // An empty variable in front of `rm -rf` takes nothing but what the run has itself.
    env.file("kept.txt", "kept");
    let answer = env.cmd(&["probe", "none", "list", "/tmp"]);
    assert_eq!(answer.stdout(), "[home]\n", "{answer:?}");
}

#[test]
fn g35_a_question_to_nobody_fails_at_once() {
    let Some(env) = host(&["make", "python3"]) else { return };
    let start = Instant::now();
    let lines = "read answer; test $$? != 0
        read answer < /dev/tty || echo no terminal";
    let answer = shell(&env, lines);
    assert_eq!(answer.stdout(), "no terminal\n");
    let program = "
try: input('? ')
except EOFError: print('nobody')
import getpass
try: getpass.getpass()
except EOFError: print('nobody')
";
    assert!(python(&env, program).stdout().ends_with("nobody\nnobody\n"));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
