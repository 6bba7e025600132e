//! What is recorded and said of places that a host program uncovered.

use crate::record::{Body, Text, Word, fit};
use crate::sandbox::Lost;
use crate::supervise::Ended;
use std::time::Duration;

/// Most characters of the path in the message.
const PATH_CHARS_MAX: usize = 120;

/// Makes one record of each.
pub(super) fn records(ended: &Ended) -> impl Iterator<Item = Body> {
    ended.losses.lost.iter().map(|lost| Body::MaskLost {
        path: Word::one(lost.path.as_path()),
        lost_us: micros(lost.length),
        opens_refused: lost.refused,
    })
}

/// Says what was uncovered, the longest first; `None` where nothing was.
pub(super) fn message(ended: &Ended) -> Option<String> {
    let worst = ended.losses.lost.iter().max_by_key(|lost| lost.severity());
    let Lost { path, length, refused } = worst?;
    let [path] = fit([Text::from(path.as_path()).shown()], PATH_CHARS_MAX);
    let opens = if *refused {
        "opens of it were refused meanwhile"
    } else {
        "the command could reach it meanwhile"
    };
    let others = (ended.losses.lost.len() as u64 + ended.losses.more).saturating_sub(1);
    let times = if others > 0 { format!(", and that {others} times more") } else { String::new() };
    Some(format!(
        "a host program replaced {path}, which was uncovered for {} us{times}; {opens}. Next: save \
         it while nothing runs, or mask the folder; see mask.lost in `pinfold trail show`.",
        micros(*length)
    ))
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MESSAGE_CHARS_MAX;
    use crate::supervise::{Captured, Losses};
    use crate::sys::wait::Usage;

    #[test]
    fn the_worst_loss_is_told_and_its_message_is_never_too_long() {
        let lost = |path: &str, us, refused| Lost {
            path: path.into(),
            length: Duration::from_micros(us),
            refused,
        };
        let mut ended = Ended {
            program: None,
            stopped: None,
            limit: None,
            losses: Losses::default(),
            usage: Usage::default(),
            duration: Duration::ZERO,
            stdout: Captured::default(),
            stderr: Captured::default(),
        };
        assert_eq!(message(&ended), None);
        ended.losses.lost =
            vec![lost("/w/closed", 900, true), lost(&"/é".repeat(2_000), 300, false)];
        ended.losses.more = u64::MAX / 2;
        let told = message(&ended).expect("there were losses");
        assert!(told.contains("300 us") && told.contains("could reach it"), "{told}");
        assert!(format!("pinfold: {told}").chars().count() <= MESSAGE_CHARS_MAX, "{told}");
        assert_eq!(records(&ended).count(), 2);
    }
}
