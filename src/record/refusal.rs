//! Refusals: why something did not run, in a message that is never too long to be read.

use super::code::Code;
use super::text::fit;
use std::fmt;

/// Most characters of what was refused, why, and what to do next, together. With the longest
/// code, the words around them and Pinfold's name in front, a message stays below 400 characters.
const PARTS_CHARS_MAX: usize = 300;

/// Why a request was not run: the five parts that every refusal has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// What was refused, why, and what to do next; cut where they are long together.
    parts: [String; 3],
    /// Whether it counts towards the session's limit of uncatalogued calls.
    pub counted: bool,
    /// More for whoever must mend it, such as every fault of a file with its source line.
    pub detail: Option<String>,
}

impl Refusal {
    /// Makes a refusal that does not count. `what` is escaped already. The texts are parts of a
    /// sentence, without a full stop; where they are too long together, the longest end in `…`.
    pub fn new(
        code: Code,
        what: impl Into<String>,
        reason: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let parts = fit([what.into(), reason.into(), next.into()], PARTS_CHARS_MAX);
        Self { code, parts, counted: false, detail: None }
    }

    /// Returns what was refused, escaped.
    pub fn what(&self) -> &str {
        &self.parts[0]
    }

    /// Returns why.
    pub fn reason(&self) -> &str {
        &self.parts[1]
    }

    /// Returns what to do next.
    pub fn next(&self) -> &str {
        &self.parts[2]
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, parts: [what, reason, next], counted, detail } = self;
        let word = if code.exit() == 125 { "failed" } else { "refused" };
        write!(out, "{word} [{code}] {what}: {reason}. Nothing ran. Next: {next}.")?;
        out.write_str(if *counted { " Counts as a refusal." } else { "" })?;
        detail.iter().try_for_each(|detail| write!(out, "\n{detail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MESSAGE_CHARS_MAX;

    #[test]
    fn no_text_makes_a_message_too_long() {
        let lengths = [0, 1, 100, 299, 301, 5_000];
        for code in Code::ALL {
            for (what, reason, next) in lengths
                .iter()
                .flat_map(|a| lengths.iter().flat_map(move |b| lengths.map(|c| (*a, *b, c))))
            {
                let text = |length| "é".repeat(length);
                let refusal = Refusal::new(*code, text(what), text(reason), text(next));
                let refusal = Refusal { counted: true, ..refusal };
                let length = format!("pinfold: {refusal}").chars().count();
                assert!(length <= MESSAGE_CHARS_MAX, "{code}: {length}");
                assert_eq!(
                    what + reason + next > PARTS_CHARS_MAX,
                    refusal.to_string().contains('…')
                );
            }
        }
    }
}
