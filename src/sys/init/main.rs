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
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

const STATUS: usize = 3;
const LIFE: usize = 4;
const PROGRAM: isize = 2;

const SYS_READ: usize = 0;
const SYS_WRITE: usize = 1;
const SYS_POLL: usize = 7;
const SYS_FORK: usize = 57;
const SYS_WAIT4: usize = 61;
const SYS_KILL: usize = 62;
const SYS_STATFS: usize = 137;
const SYS_PRCTL: usize = 157;
const SYS_EXIT_GROUP: usize = 231;
const SYS_SIGNALFD4: usize = 289;
const SYS_CLOSE_RANGE: usize = 436;

const PR_SET_DUMPABLE: usize = 4;
const SIGTERM: usize = 15;
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

/// Reaps everything that has ended; writes the status of the program and ends with it.
fn reap(try_pids: bool) {
    loop {
        let mut status: i32 = 0;
        let pid = call(SYS_WAIT4, usize::MAX, &raw mut status as usize, WNOHANG, 0);
        if pid == PROGRAM {
            let told = [status as u32, reached(try_pids)];
            call(SYS_WRITE, STATUS, told.as_ptr() as usize, size_of_val(&told), 0);
            exit();
        }
        if pid <= 0 {
            return;
        }
    }
}

extern "C" fn main(arguments: usize) -> ! {
    let try_pids = arguments > 1;
    call(SYS_PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
    call(SYS_CLOSE_RANGE, 0, 2, 0, 0);
    call(SYS_CLOSE_RANGE, 5, u32::MAX as usize, 0, 0);
    let mask = SIGCHLD_MASK;
    let children = call(
        SYS_SIGNALFD4,
        usize::MAX,
        &raw const mask as usize,
        size_of::<u64>(),
        SFD_NONBLOCK,
    );
    if children < 0 {
        exit();
    }
    reap(try_pids);
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
                exit();
            }
            call(SYS_KILL, usize::MAX, SIGTERM, 0, 0);
        }
        if child.revents != 0 {
            let mut info = [0_u8; 128];
            call(SYS_READ, children as usize, info.as_mut_ptr() as usize, info.len(), 0);
            reap(try_pids);
        }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit()
}
