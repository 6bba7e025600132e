//! Chance that can be repeated: everything random comes from one seed, which is printed.

use std::io::Write;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the seed of this run: `PINFOLD_SEED`, or else the clock.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = match std::env::var("PINFOLD_SEED") {
            Ok(text) => text.parse().expect("PINFOLD_SEED is a number"),
            Err(_) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
                now.as_secs() << 20 | u64::from(now.subsec_micros())
            }
        };
        tell(&format!("PINFOLD_SEED={seed} repeats this run"));
        seed
    })
}

/// Returns whether the long run was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var_os("PINFOLD_LONG").is_some_and(|value| value == "1")
}

/// Prints past the capture of the test runner, so that it is seen when the test passes.
pub(crate) fn tell(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error is open");
}

/// A sequence of numbers (splitmix64).
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The sequence of this run for one use; uses do not disturb each other.
    pub(crate) fn of(name: &str) -> Self {
        let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(seed(), mix))
    }

    /// The sequence that one number stands for.
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    /// A number below `bound`; 0 where `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a size").max(1);
        usize::try_from(self.number() % bound).expect("a size")
    }

    /// Whether something that happens `percent` times in a hundred happens.
    pub(crate) fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    pub(crate) fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
