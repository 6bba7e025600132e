//! Process 1 of a tree: reaps, reports how the program ended, and ends with the supervisor.
//!
//! A static program without the standard library, so that starting it costs as little as
//! possible; it is built by `build.rs` and carried inside the supervisor's binary. It starts
//! with every signal blocked, no capability, and these descriptors: 3, where it writes the wait
//! status of process 2 and which limits it found reached then; and 4, the life pipe, whose only
//! write end the supervisor holds. An argument `pids` says that the number of processes is limited
//! for each user and not by a group that counts.
//!
//! A byte on the life pipe asks every process to end (`SIGTERM`). The pipe's end, or the end of
//! process 2, ends this process; the kernel then kills what is left of the namespace.
//!
//! Where there is no namespace it is the tree's **guardian** instead. It is the parent of all
//! orphans of the tree and stands in a Landlock domain that holds signals, so that a signal to
//! everybody reaches exactly the tree, and nobody in the tree can signal it. Descriptor 5 gives it
//! the program's process id. Before it ends it kills the tree itself. It outlives the supervisor
//! until that is done.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

const STATUS: usize = 3;
const LIFE: usize = 4;
const PROGRAM_ID: usize = 5;

const SYS_READ: usize = 0;
const SYS_WRITE: usize = 1;
const SYS_POLL: usize = 7;
const SYS_GETPID: usize = 39;
const SYS_FORK: usize = 57;
const SYS_WAIT4: usize = 61;
const SYS_KILL: usize = 62;
const SYS_STATFS: usize = 137;
const SYS_PRCTL: usize = 157;
const SYS_EXIT_GROUP: usize = 231;
const SYS_SIGNALFD4: usize = 289;
const SYS_CLOSE_RANGE: usize = 436;

const PR_SET_DUMPABLE: usize = 4;
const SIGKILL: usize = 9;
const SIGTERM: usize = 15;
const EVERYBODY: usize = usize::MAX;
const ECHILD: isize = -10;
const SIGCHLD_MASK: u64 = 1 << (17 - 1);
const SFD_NONBLOCK: usize = 0o4000;
const WNOHANG: usize = 1;
const POLLIN: i16 = 1;

const EAGAIN: isize = 11;

/// What is written to `STATUS` after the wait status: which limits were reached. The supervisor
/// knows the same numbers (`sys/wait.rs`).
const FULL: u32 = 1;
const NO_INODES: u32 = 2;
const NO_PIDS: u32 = 4;

/// Members of `struct statfs`, 120 bytes: blocks, free blocks, free inodes.
const STATFS_WORDS: usize = 15;
const BLOCKS: usize = 2;
const FREE_BLOCKS: usize = 3;
const FREE_INODES: usize = 6;

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

// The kernel enters with the stack pointer 16-byte aligned, at the number of arguments; a function
// expects it to be 8 off.
global_asm!(
    ".globl _start", "_start:", "xor ebp, ebp", "mov rdi, [rsp]", "call {main}", "ud2",
    main = sym main
);

/// Makes one system call.
fn call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the `syscall` instruction clobbers only rcx and r11 besides its result; every
    // pointer handed over below is to a live local of the right size for that call.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b,
             in("rdx") c, in("r10") d, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn exit() -> ! {
    loop {
        call(SYS_EXIT_GROUP, 0, 0, 0, 0);
    }
}

/// Looks at the scratch folders and, where it is asked to, whether the tree with the program has
/// as many processes as it may have.
fn reached(try_pids: bool) -> u32 {
    let mut flags = 0;
    for folder in [c"/tmp", c"/dev/shm"] {
        let mut found = [0_u64; STATFS_WORDS];
        let at = found.as_mut_ptr() as usize;
        // A file system without a size has no blocks to run out of.
        if call(SYS_STATFS, folder.as_ptr() as usize, at, 0, 0) == 0 && found[BLOCKS] > 0 {
            flags |= if found[FREE_BLOCKS] == 0 { FULL } else { 0 };
            flags |= if found[FREE_INODES] == 0 { NO_INODES } else { 0 };
        }
    }
    // The program is gone, so there is room for one again; ended children count until reaped.
    for _ in 0..if try_pids { 2 } else { 0 } {
        match call(SYS_FORK, 0, 0, 0, 0) {
            0 => exit(),
            made if made == -EAGAIN => flags |= NO_PIDS,
            _ => {}
        }
    }
    flags
}

/// Who this process watches, and as what.
#[derive(Clone, Copy)]
struct Tree {
    /// The program's process id.
    program: isize,
    /// Whether the tree must be killed by hand, because no namespace ends with this process.
    guarded: bool,
    /// Whether it is asked to find out at the end if there are as many processes as may be.
    try_pids: bool,
}

impl Tree {
    /// The first process of a namespace has cloned the program as the second. A guardian is told.
    fn find(try_pids: bool) -> Self {
        if call(SYS_GETPID, 0, 0, 0, 0) == 1 {
            return Self { program: 2, guarded: false, try_pids };
        }
        let mut pid: i32 = 0;
        let size = size_of::<i32>();
        if call(SYS_READ, PROGRAM_ID, &raw mut pid as usize, size, 0) != size as isize {
            // Without it the program's end would not be seen; nothing has run yet.
            pid = -1;
        }
        Self { program: pid as isize, guarded: true, try_pids }
    }

    /// Reaps everything that has ended; writes the status of the program and ends with it.
    fn reap(self) {
        loop {
            let mut status: i32 = 0;
            let pid = call(SYS_WAIT4, EVERYBODY, &raw mut status as usize, WNOHANG, 0);
            if pid == self.program {
                self.end(Some(status));
            }
            if pid <= 0 {
                return;
            }
        }
    }

    /// Ends the tree, says how the program ended, and ends.
    fn end(self, mut status: Option<i32>) -> ! {
        // One pass reaches every process of the domain, one that forks among them: its child is
        // not made while a kill is pending. What was an orphan's child meanwhile comes back here.
        while self.guarded {
            call(SYS_KILL, EVERYBODY, SIGKILL, 0, 0);
            let mut ended: i32 = 0;
            let pid = call(SYS_WAIT4, EVERYBODY, &raw mut ended as usize, 0, 0);
            if pid == self.program {
                status = Some(ended);
            }
            if pid == ECHILD {
                break;
            }
        }
        if let Some(status) = status {
            // A guardian has no scratch folder of its own that could be full.
            let flags = if self.guarded { 0 } else { reached(self.try_pids) };
            let told = [status as u32, flags];
            call(SYS_WRITE, STATUS, told.as_ptr() as usize, size_of_val(&told), 0);
        }
        exit()
    }
}

extern "C" fn main(arguments: usize) -> ! {
    call(SYS_PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
    call(SYS_CLOSE_RANGE, 0, 2, 0, 0);
    let tree = Tree::find(arguments > 1);
    call(SYS_CLOSE_RANGE, 5, u32::MAX as usize, 0, 0);
    let mask = SIGCHLD_MASK;
    let children = call(
        SYS_SIGNALFD4,
        usize::MAX,
        &raw const mask as usize,
        size_of::<u64>(),
        SFD_NONBLOCK,
    );
    if children < 0 || tree.program < 0 {
        tree.end(None);
    }
    tree.reap();
    loop {
        let mut ready = [
            PollFd { fd: LIFE as i32, events: POLLIN, revents: 0 },
            PollFd { fd: children as i32, events: POLLIN, revents: 0 },
        ];
        if call(SYS_POLL, ready.as_mut_ptr() as usize, ready.len(), usize::MAX, 0) < 0 {
            continue;
        }
        let [life, child] = ready;
        if life.revents != 0 {
            let mut byte = 0_u8;
            if call(SYS_READ, LIFE, &raw mut byte as usize, 1, 0) != 1 {
                tree.end(None);
            }
            call(SYS_KILL, EVERYBODY, SIGTERM, 0, 0);
        }
        if child.revents != 0 {
            let mut info = [0_u8; 128];
            call(SYS_READ, children as usize, info.as_mut_ptr() as usize, info.len(), 0);
            tree.reap();
        }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit()
}
