//! The kernel: the only unsafe code of the project. Knows nothing of policy, profiles or trails.
//!
//! Each file holds one kernel feature. [`step`] is what parent and child agree on, [`spawn`] is
//! the only file that clones, [`child`] walks the steps between clone and exec and never
//! returns. Everything that can fail for lack of memory, a bad name or a missing file happens
//! in the parent; the child makes raw system calls on values that were prepared for it.
//!
//! A crash here means: before the gate opened nothing ran; after it, the tree's init sees its
//! life pipe close and the kernel ends the whole tree with it.
#![allow(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless
)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the system call tables and the clone sequence are for Linux on x86-64 only");

pub mod cgroup;
pub mod child;
pub mod cover;
pub mod fd;
pub mod idmap;
pub mod landlock;
pub mod mount;
pub mod netns;
pub mod notify;
pub mod seccomp;
pub mod signal;
pub mod spawn;
pub mod step;
pub mod wait;
