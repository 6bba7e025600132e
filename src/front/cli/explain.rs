//! `pinfold explain`: what a code means, an example, what to do.

use super::{print, say_fault};
use crate::record::{Code, Text};
use serde_json::{Value, json};

/// How many codes are named where the one that was asked for does not exist.
const NEAREST: usize = 3;

/// Explains one code, or lists all of them.
pub(super) fn explain(name: Option<&str>, json: bool) -> u8 {
    let Some(name) = name else {
        let all = Code::ALL.iter().copied();
        return print(&if json {
            Value::Array(all.map(object).collect()).to_string()
        } else {
            let line = |code: Code| format!("{:<20}  {}", code.as_str(), code.means());
            all.map(line).collect::<Vec<_>>().join("\n")
        });
    };
    // Messages show a code in brackets.
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match Code::ALL.iter().copied().find(|code| code.as_str() == bare) {
        Some(code) if json => print(&object(code).to_string()),
        Some(code) => print(&page(code)),
        None => say_fault(&format!(
            "no code `{}`. Nearest: {}. Next: `pinfold explain` lists all codes",
            Text::from(name).shown(),
            nearest(bare).join(", ")
        )),
    }
}

fn object(code: Code) -> Value {
    json!({
        "code": code, "exit": code.exit(), "means": code.means(), "example": code.example(),
        "next": code.next(),
    })
}

fn page(code: Code) -> String {
    format!(
        "{code}: {}\n\nExample: {}\nNext: {}\nExit code of `pinfold run`: {}. Nothing ran.",
        code.means(),
        code.example(),
        code.next(),
        code.exit()
    )
}

/// The known codes that look most like a name.
fn nearest(name: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let name = name.to_lowercase();
    names.sort_by(|a, b| {
        let like = |known: &str| strsim::jaro_winkler(&name, known);
        like(b).total_cmp(&like(a))
    });
    names.truncate(NEAREST);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_codes_come_first() {
        assert_eq!(nearest("operand-kin")[0], "operand-kind");
        assert_eq!(nearest("unknown-programm")[0], "unknown-program");
        assert_eq!(nearest("FLAG_UNKNOWN")[0], "flag-unknown");
        assert_eq!(nearest("").len(), NEAREST);
    }
}
