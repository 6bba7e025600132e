//! Times of single calls, with the clock's own cost taken out.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How often every call is decided; each figure is the least over the rounds, since what the
/// machine does beside them only ever adds.
const ROUNDS: usize = 25;

/// What a series of times looks like.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub least: Duration,
    pub median: Duration,
    pub p99: Duration,
}

impl Spread {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        Self { least: at(0), median: at(50), p99: at(99) }
    }
}

fn timed<T>(act: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(act());
    start.elapsed()
}

/// Times each call by itself. What `prepare` makes of it is in the processor's caches then, as a
/// request is that has just been read; what decides it is there only by chance.
pub fn decisions<C, R>(
    calls: &[C],
    prepare: impl Fn(&C) -> R,
    mut decide: impl FnMut(&R) -> bool,
) -> Spread {
    let clock = Spread::of((0..10_000).map(|_| timed(|| ())).collect()).median;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let time = |call: &C| {
            let request = black_box(prepare(call));
            timed(|| decide(&request)).saturating_sub(clock)
        };
        rounds.push(Spread::of(calls.iter().map(time).collect()));
    }
    let least = |field: fn(&Spread) -> Duration| rounds.iter().map(field).min().unwrap_or_default();
    Spread {
        least: least(|round| round.least),
        median: least(|round| round.median),
        p99: least(|round| round.p99),
    }
}

/// Writes microseconds for a table.
pub fn micros(time: Duration) -> String {
    format!("{:6.2}", time.as_secs_f64() * 1e6)
}
