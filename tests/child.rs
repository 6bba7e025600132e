//! Between clone and exec the child allocates nothing and frees nothing.
//!
//! The child runs in the supervisor's memory, beside its other threads: an allocator that finds
//! itself called by another process than the one that started counts it, and the count is seen
//! here because the memory is shared. The control is a child that does allocate.
#![allow(clippy::disallowed_methods, reason = "tests make files and read their switches")]
#![allow(unsafe_code, reason = "an allocator and a child of the test's own")]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]
#![allow(missing_docs, reason = "tests are named as sentences")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use pinfold::front::config::Reader;
use pinfold::plan::toolchains::Homes;
use pinfold::record::Outcome;
use pinfold::run::{Request, Stdin, Supervisor, Words};
use pinfold::supervise::{Sink, Stream};
use std::alloc::{GlobalAlloc, Layout, System};
use std::arch::asm;
use std::ffi::c_void;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Counts what a child asks of it; everything is passed on to the system's allocator.
struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// The process that may allocate; 0 until a test looks.
static PARENT: AtomicI64 = AtomicI64::new(0);
static BY_CHILDREN: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: the count is one for the whole process.
static ONE_TEST: Mutex<()> = Mutex::new(());

/// Asks the kernel, with no library between that might remember.
fn process_id() -> i64 {
    let pid: i64;
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_getpid => pid, lateout("rcx") _,
             lateout("r11") _, options(nostack));
    }
    pid
}

fn count() {
    let parent = PARENT.load(Ordering::Relaxed);
    if parent != 0 && process_id() != parent {
        BY_CHILDREN.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Counts what children ask of the allocator while `act` runs.
fn counted(act: impl FnOnce()) -> usize {
    BY_CHILDREN.store(0, Ordering::Relaxed);
    PARENT.store(process_id(), Ordering::Relaxed);
    act();
    PARENT.store(0, Ordering::Relaxed);
    BY_CHILDREN.load(Ordering::Relaxed)
}

extern "C" fn allocates(_: *mut c_void) -> i32 {
    drop(std::hint::black_box(Box::new([7_u8; 100])));
    0
}

#[test]
fn a_child_that_allocates_is_counted() {
    let _one = ONE_TEST.lock().expect("the other test passed");
    let mut stack = vec![0_u8; 256 << 10];
    let made = counted(|| {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = unsafe { stack.as_mut_ptr().add(stack.len() & !15) };
        let none = std::ptr::null_mut();
        let pid = unsafe { libc::clone(allocates, top.cast(), flags, none) };
        assert!(pid > 0, "a child");
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
    });
    assert_eq!(made, 2, "one allocation, one release");
}

struct Kept(Vec<u8>);

impl Sink for Kept {
    fn take(&mut self, _: Stream, chunk: &[u8]) -> bool {
        self.0.extend_from_slice(chunk);
        true
    }
}

/// Makes one run in this process, with the compiled-in rules.
fn run(supervisor: &Supervisor, workspace: &Path, argv: &[&str]) -> (Outcome, Vec<u8>) {
    let request = Request {
        tool: "run_command",
        session: None,
        words: Words::Argv(argv.iter().map(Into::into).collect()),
        workspace: workspace.to_owned(),
        cwd: None,
        timeout: None,
        stdin: Stdin::Bytes(b"input".to_vec()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut kept = Kept(Vec::new());
    let never = std::future::pending();
    let answer = supervisor.run(request, &mut kept, never);
    let reply = runtime.expect("a runtime").block_on(answer);
    (reply.outcome, kept.0)
}

#[test]
fn the_child_of_a_run_neither_allocates_nor_frees() {
    let _one = ONE_TEST.lock().expect("the other test passed");
    let base = std::env::var_os("PINFOLD_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
    let host = tempfile::Builder::new().prefix("pinfold-").tempdir_in(base).expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(host.path(), open).expect("a mode");
    let [workspace, state] = ["ws", "state"].map(|name| host.path().join(name));
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("a.txt"), "content").expect("a file");
    let uid = nix::unistd::geteuid().as_raw();
    let loaded = Reader { uid, homes: Homes::default() }.load(None, None);
    let supervisor = Supervisor::start(&state, || (loaded.rules, loaded.places));
    let supervisor = supervisor.expect("a supervisor");
    // The first run also asks what the host can do, by throw-away children of the same kind.
    let mut runs = Vec::new();
    let made = counted(|| {
        for argv in [&["cat", "a.txt"][..], &["ls"], &["cat", "none"]] {
            runs.push(run(&supervisor, &workspace, argv));
        }
    });
    if runs.iter().all(|(outcome, _)| *outcome == Outcome::Refused) {
        let required = std::env::var_os("PINFOLD_REQUIRE").is_some();
        assert!(!required, "nothing ran, and PINFOLD_REQUIRE is set");
        eprintln!("SKIPPED: this host gives neither rung A nor B");
        return;
    }
    assert_eq!(runs[0], (Outcome::Ok, b"content".to_vec()));
    assert_eq!(runs[1], (Outcome::Ok, b"a.txt\n".to_vec()));
    assert_eq!(runs[2].0, Outcome::Nonzero);
    assert_eq!(made, 0, "a child allocated or freed between clone and exec");
}
