//! Matching: from a well-formed argument vector to the one template that can fit it.
//!
//! Allow by shape: a token that the template does not list refuses the call. Steps never
//! backtrack, order in the file never matters, and `[[refuse]]`, `[[instead]]` and `forbid`
//! choose words only. Nothing is allocated before a call is refused.
#![forbid(unsafe_code)]

use super::answer::{self, Unfit};
use super::cpython::{self, Runs};
use super::forms::Selected;
use super::shape;
use super::template::{Program, Route, Scan, Template};
use super::trace::{Role, Trace};
use super::walk::Walk;
use super::{Catalog, words};
use crate::record::{Code, Digest, Refusal, Verdict};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What stands in `inject_after_sub` for the address of the operator's package index.
pub const INDEX: &str = "{operator_index_url}";

/// The program behind which the `cpython` scan finds package management.
const PIP: &str = "pip";

/// Folders of installed packages: a file run from there is the package run by its path.
const PACKAGE_FOLDERS: [&str; 2] = ["site-packages", "dist-packages"];

/// How a call came to its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via<'c> {
    /// The template's program was called.
    Itself,
    /// An interpreter was called that runs the template's program as a module; this is the
    /// interpreter's template.
    Interpreter(&'c Template),
    /// No template fits, and the catalog asks a person then.
    Unlisted,
}

/// A call that fits a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only the verdict says whether the call may run"]
pub struct Matched<'c> {
    /// The template.
    pub template: &'c Template,
    /// The decision.
    pub verdict: Verdict,
    /// How the call came to it.
    pub via: Via<'c>,
    /// Where the template's tokens are put in: the index of the first element behind the
    /// subcommand.
    pub inject_at: usize,
    /// One bit for each element of the requested argv that is an operand.
    operands: u64,
}

/// A decision with what it was made of.
#[derive(Debug)]
pub struct Explained<'c> {
    /// The template that the program and the subcommand select, also where the call does not fit.
    pub selected: Option<&'c Template>,
    /// What each element was taken for.
    pub trace: Trace,
    /// The decision.
    pub result: Result<Matched<'c>, Refusal>,
}

impl Matched<'_> {
    /// Returns the argv to execute: the requested one with the template's tokens added
    /// behind the subcommand. `{operator_index_url}` stays as it is.
    pub fn executed(&self, argv: &[OsString]) -> Vec<OsString> {
        let (head, rest) = argv.split_at(self.inject_at.min(argv.len()));
        let injected = self.template.inject_after_sub.iter().map(OsString::from);
        head.iter().cloned().chain(injected).chain(rest.iter().cloned()).collect()
    }

    /// Returns the bare name of the program whose file is started.
    pub fn program<'a>(&'a self, argv: &'a [OsString]) -> &'a OsStr {
        match self.via {
            Via::Itself => OsStr::new(&self.template.program),
            Via::Interpreter(interpreter) => OsStr::new(&interpreter.program),
            Via::Unlisted => argv.first().map_or(OsStr::new(""), OsString::as_os_str),
        }
    }

    /// Returns the only digest that the program's file may have, where the catalog pins it.
    pub fn pinned(&self) -> Option<Digest> {
        match self.via {
            Via::Interpreter(interpreter) => interpreter.sha256,
            _ => self.template.sha256,
        }
    }

    /// Returns variables of the call beside those of the template. An interpreter puts the
    /// workspace first where it looks for modules, unless it is told not to.
    pub fn environment(&self) -> &'static [(&'static str, &'static str)] {
        match self.via {
            Via::Interpreter(_) => &[("PYTHONSAFEPATH", "1")],
            _ => &[],
        }
    }

    /// Returns the positions, in the requested argv, of the operands that name paths;
    /// values of options are not among them.
    pub fn operand_indices(&self) -> impl Iterator<Item = usize> + use<> {
        let is_path = self.template.operands.spec.kind.is_path();
        let bits = if is_path { self.operands } else { 0 };
        (0..shape::ARGS_MAX).filter(move |index| bits >> index & 1 == 1)
    }

    /// Returns the refusal, where the template's decision is to refuse.
    pub fn refusal(&self, argv: &[OsString]) -> Option<Refusal> {
        let refuses = self.verdict == Verdict::Refuse;
        refuses.then(|| answer::template_refuses(argv, self.template))
    }
}

/// What matching one call needs and leaves behind.
struct Call<'c, 'w> {
    words: &'w [&'w str],
    selected: Option<Selected<'c>>,
    trace: Trace,
}

impl Catalog {
    /// Splits a line into an argument vector; no shell ever reads it.
    ///
    /// # Errors
    /// What a shell would not pass on as it is.
    pub fn split(&self, line: &OsStr) -> Result<Vec<OsString>, Refusal> {
        words::split(line.as_bytes(), self.policy.limits.line_bytes).map_err(answer::line)
    }

    /// Decides a call. A template that fits gives its decision, which may be to refuse.
    ///
    /// # Errors
    /// Why no template fits.
    pub fn decide<'c>(&'c self, argv: &[OsString]) -> Result<Matched<'c>, Refusal> {
        self.explain(argv).result
    }

    /// Decides a call and says what it was made of.
    pub fn explain<'c>(&'c self, argv: &[OsString]) -> Explained<'c> {
        let mut room = [""; shape::ARGS_MAX];
        let mut call = Call { words: &[], selected: None, trace: Trace::new() };
        let result = shape::check(argv, &self.policy.limits, &mut room).and_then(|words| {
            call.words = words;
            self.named(&mut call)
        });
        let selected = call.selected.map(|selected| selected.template);
        Explained { selected, trace: call.trace, result }
    }

    /// Decides by the program's own name.
    fn named<'c>(&'c self, call: &mut Call<'c, '_>) -> Result<Matched<'c>, Refusal> {
        let name = call.words[0];
        call.trace.note(0, Role::Program);
        let Some(program) = self.programs.get(name) else {
            let refusal = answer::unknown(name, self.instead_for(name));
            return self.otherwise(self.policy.unknown_program, refusal);
        };
        let matched = match self.fit(call, (name, program), 1) {
            Ok(matched) => matched,
            Err(refusal) => return self.otherwise(self.policy.unmatched, refusal),
        };
        match call.selected.and_then(|selected| selected.brief.scan) {
            Some(Scan::Cpython) => self.scan(call, matched),
            None => Ok(matched),
        }
    }

    /// What a call gets that no template accepts: the catalog's word for such calls.
    fn otherwise<'c>(&'c self, word: Verdict, refusal: Refusal) -> Result<Matched<'c>, Refusal> {
        match (&self.unlisted, word) {
            (Some(template), Verdict::Ask) => Ok(Matched {
                template,
                verdict: template.decision,
                via: Via::Unlisted,
                inject_at: 0,
                operands: 0,
            }),
            _ => Err(refusal),
        }
    }

    /// Selects the template of a program and walks the elements behind it, which begin at `start`.
    fn fit<'c>(
        &'c self,
        call: &mut Call<'c, '_>,
        (name, program): (&str, &'c Program),
        start: usize,
    ) -> Result<Matched<'c>, Refusal> {
        let (selected, sub, inject_at) = self.select(call, (name, program), start)?;
        call.selected = Some(selected);
        let Selected { template, brief, .. } = selected;
        let (words, trace) = (call.words, &mut call.trace);
        let mut walk = Walk { selected, sub, words, at: inject_at, seen: 0, operands: 0, trace };
        let fits = if brief.opaque {
            (inject_at..words.len()).for_each(|at| walk.trace.note(at, Role::Free));
            walk.check_count(words.len() - inject_at)
        } else {
            walk.run()
        };
        fits.map_err(|unfit| answer::argv(unfit, template))?;
        let operands = walk.operands;
        Ok(Matched { template, verdict: brief.verdict, via: Via::Itself, inject_at, operands })
    }

    /// Reads an interpreter's arguments, and decides what it would run where that is pip.
    fn scan<'c>(
        &'c self,
        call: &mut Call<'c, '_>,
        interpreter: Matched<'c>,
    ) -> Result<Matched<'c>, Refusal> {
        let refuse = |code, what: &str| Err(answer::interpreter(code, what));
        let (module, rest) = match cpython::scan(call.words) {
            Runs::Code | Runs::Information => return Ok(interpreter),
            Runs::Script(path) if path.split('/').any(|part| PACKAGE_FOLDERS.contains(&part)) => {
                return refuse(Code::PipInternal, path);
            }
            Runs::Script(_) => return Ok(interpreter),
            Runs::Module(module, rest) => (module, rest),
            Runs::Input => return refuse(Code::InterpreterStdin, call.words[0]),
            Runs::Refused(option) => return refuse(Code::InterpreterOption, option),
        };
        match module.strip_prefix(PIP) {
            Some("" | ".__main__") => {}
            Some(inner) if inner.starts_with('.') => return refuse(Code::PipInternal, module),
            _ if cpython::RUNNERS.contains(&module) => return refuse(Code::ModuleRunner, module),
            _ => return Ok(interpreter),
        }
        let Some(program) = self.programs.get(PIP) else {
            return Err(answer::unknown(PIP, self.instead_for(PIP)));
        };
        let matched = self.fit(call, (PIP, program), rest)?;
        // The interpreter puts the workspace first on its import path, so a person looks at it.
        let verdict = matched.verdict.max(Verdict::Ask);
        Ok(Matched { verdict, via: Via::Interpreter(interpreter.template), ..matched })
    }

    /// Selects by program and subcommand alone, which begins at `start`; gives the template, its
    /// subcommand and the index of the first element behind it.
    fn select<'c>(
        &'c self,
        call: &mut Call<'c, '_>,
        (name, program): (&str, &'c Program),
        start: usize,
    ) -> Result<(Selected<'c>, &'c [String], usize), Refusal> {
        if let Some(template) = program.only {
            return Ok((self.templates.select(template), &[], start));
        }
        let refuse = |code, what: &str, reason: &str| {
            let unfit = Unfit::new(code, what.as_bytes(), reason);
            Err(answer::subcommand(unfit, name, program))
        };
        let behind = &call.words[start..];
        let is_flag = |word: &&&str| word.starts_with('-');
        let globals = &behind[..behind.iter().take_while(is_flag).count()];
        for (index, flag) in globals.iter().enumerate() {
            if !program.globals.iter().any(|global| global == flag) {
                let reason = "no option is accepted before the subcommand here";
                return refuse(Code::OptionBeforeSub, flag, reason);
            }
            if globals[..index].contains(flag) {
                return refuse(Code::FlagRepeated, flag, "the option occurs twice");
            }
            call.trace.note(start + index, Role::Global);
        }
        let rest = &behind[globals.len()..];
        let Some(sub) = rest.first() else {
            return refuse(Code::SubMissing, name, "the program needs a subcommand");
        };
        let Some(route) = program.route(rest) else {
            return match self.listed_refusal(name, sub) {
                Some(entry) => Err(answer::listed(name, sub, entry)),
                None => refuse(Code::SubUnknown, sub, "the catalog has no such subcommand"),
            };
        };
        let selected = self.templates.select(route.template);
        let foreign =
            |flag: &&&str| !selected.template.globals.iter().any(|global| global == **flag);
        if let Some(flag) = globals.iter().find(foreign) {
            let reason = "this subcommand accepts no such option before it";
            return refuse(Code::OptionBeforeSub, flag, reason);
        }
        let sub_at = start + globals.len();
        let end = sub_at + route.sub.len();
        (sub_at..end).for_each(|at| call.trace.note(at, Role::Sub));
        Ok((selected, &route.sub, end))
    }
}

impl Program {
    /// Finds the route whose words start `rest`.
    ///
    /// Because no route's words start another's, only the last one that sorts at or before
    /// `rest` can fit.
    fn route(&self, rest: &[&str]) -> Option<&Route> {
        let words = |sub: &[String]| sub.iter().map(String::as_str).cmp(rest.iter().copied());
        let after = self.routes.partition_point(|route| words(&route.sub).is_le());
        let route = &self.routes[after.checked_sub(1)?];
        let given = rest.get(..route.sub.len())?;
        (route.sub.iter().eq(given.iter().copied())).then_some(route)
    }
}
