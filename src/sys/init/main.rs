//! Process 1 of a tree: reaps, reports how the program ended, and ends with the supervisor.
//!
//! A static program without the standard library, so that starting it costs as little as
//! possible; it is built by `build.rs` and carried inside the supervisor's binary. It starts
//! with every signal blocked, no capability, and these descriptors: 3, where it writes the wait
//! status of process 2; and 4, the life pipe, whose only write end the supervisor holds.
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
const SYS_WAIT4: usize = 61;
const SYS_KILL: usize = 62;
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

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

// The kernel enters with the stack pointer 16-byte aligned; a function expects it to be 8 off.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "call {main}", "ud2", main = sym main);

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

/// Reaps everything that has ended; writes the status of the program and ends with it.
fn reap() {
    loop {
        let mut status: i32 = 0;
        let pid = call(SYS_WAIT4, usize::MAX, &raw mut status as usize, WNOHANG, 0);
        if pid == PROGRAM {
            call(SYS_WRITE, STATUS, &raw const status as usize, size_of::<i32>(), 0);
            exit();
        }
        if pid <= 0 {
            return;
        }
    }
}

extern "C" fn main() -> ! {
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
    reap();
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
            reap();
        }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit()
}
