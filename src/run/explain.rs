//! What would become of a call, and why: the same decision and plan as a run's, told.

use super::circumstances::with_index;
use super::{Request, Supervisor};
use crate::catalog::{Role, UNLISTED};
use crate::plan::Plan;
use crate::record::{Decision, Refusal, Text, Verdict};
use serde::Serialize;
use std::ffi::OsString;

/// One element of the requested vector, and what it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// The element.
    pub token: Text,
    /// What the matcher took it for.
    #[serde(rename = "as")]
    pub role: Role,
    /// The option that it is, or whose value it is.
    pub option: Option<String>,
    /// The kind that it was checked by.
    pub kind: Option<&'static str>,
}

/// What would become of a call.
#[derive(Debug)]
pub struct Explanation {
    /// The decision: that of a run with a person attached.
    pub decision: Decision,
    /// The refusal, where it is one.
    pub refusal: Option<Refusal>,
    /// What the catalog makes of the vector.
    pub matching: Matching,
    /// The plan, where the call would run or be shown to a person.
    pub plan: Option<Plan>,
}

/// What the catalog makes of a vector; nothing where there is no vector.
#[derive(Debug, Default)]
pub struct Matching {
    /// The id of the template that the program and the subcommand select, also where the call
    /// does not fit it.
    pub selected: Option<String>,
    /// What that template is for.
    pub describe: Option<String>,
    /// Each element with what it was taken for.
    pub tokens: Vec<Token>,
    /// The vector that would be executed, where a template fits.
    pub executed: Option<Vec<Text>>,
}

impl Supervisor {
    /// Explains a call: decides and plans it as [`Supervisor::run`] does, and runs and records
    /// nothing.
    pub fn explain(&self, request: &Request) -> Explanation {
        let matching = match self.argv(request) {
            Ok(argv) => self.matching(&argv),
            Err(_) => Matching::default(),
        };
        let (decision, refusal, plan) = match self.preview(request) {
            Ok(preview) => (preview.decision, None, Some(preview.plan)),
            Err((refusal, template)) => {
                (Decision::refused(&refusal, template.as_deref()), Some(refusal), None)
            }
        };
        Explanation { decision, refusal, matching, plan }
    }

    fn matching(&self, argv: &[OsString]) -> Matching {
        let Ok(rules) = &self.rules else { return Matching::default() };
        let explained = rules.catalog.explain(argv);
        let token = |(at, word): (usize, &OsString)| {
            let named = explained.selected.map(|it| explained.trace.option_and_kind(at, it));
            let (option, kind) = named.unwrap_or_default();
            let (token, option) = (Text::from(word), option.map(str::to_owned));
            Token { token, role: explained.trace.role(at), option, kind }
        };
        let fits = explained.result.as_ref().ok().filter(|it| it.verdict != Verdict::Refuse);
        let executed = fits.map(|matched| {
            // Without an index the call is refused, and what would be executed has its token.
            let argv = with_index(matched, argv, rules).unwrap_or_else(|_| matched.executed(argv));
            argv.iter().map(Text::from).collect()
        });
        let unlisted = fits.filter(|matched| matched.template.id == UNLISTED);
        let selected = unlisted.map(|matched| matched.template).or(explained.selected);
        Matching {
            selected: selected.map(|template| template.id.clone()),
            describe: selected.map(|template| template.describe.clone()),
            tokens: argv.iter().enumerate().map(token).collect(),
            executed,
        }
    }
}
