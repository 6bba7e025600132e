//! Refusals: why something did not run, and the code that stands for it.

use serde::Serialize;
use std::fmt;

/// Defines [`Code`] from one table: variant, name, exit code, meaning.
macro_rules! codes {
    ($($variant:ident $name:literal $exit:literal $means:literal,)*) => {
        /// Why something was refused or failed before anything ran; never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $means] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name that stands in replies and records.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the exit code of `pinfold run` for it: 125, 126 or 127.
            pub fn exit(self) -> u8 {
                match self { $(Self::$variant => $exit,)* }
            }

            /// Returns the sentence that says what the code means.
            pub fn means(self) -> &'static str {
                match self { $(Self::$variant => $means,)* }
            }
        }
    };
}

codes! {
    EmptyCall "empty-call" 126 "The request has no argument vector.",
    TooManyArgs "too-many-args" 126 "The argument vector has too many elements.",
    EmptyArg "empty-arg" 126 "An argument is the empty string.",
    ArgTooLong "arg-too-long" 126 "An argument is too long.",
    NotUtf8 "not-utf8" 126 "An argument is not valid UTF-8.",
    Nul "nul" 126 "An argument contains a NUL byte.",
    ControlChar "control-char" 126 "An argument contains a control character.",
    InvisibleChar "invisible-char" 126 "An argument contains an invisible or bidi character.",
    DoubleDash "double-dash" 126 "An argument is `--`, which no template matches.",
    ProgramPath "program-path" 126 "The program is named by a path instead of its bare name.",
    ProgramName "program-name" 126 "The program's name has a character that no name has.",
    Instead "instead" 126 "The program has no template; another way is named.",
    UnknownProgram "unknown-program" 126 "No template of the catalog names this program.",
    OptionBeforeSub "option-before-sub" 126 "An option stands before the subcommand.",
    FlagRepeated "flag-repeated" 126 "An option occurs more than once.",
    SubMissing "sub-missing" 126 "The program needs a subcommand.",
    SubUnknown "sub-unknown" 126 "The subcommand is not in the catalog.",
    ListedRefusal "listed-refusal" 126 "The catalog lists this subcommand as refused.",
    OptionAfterOperand "option-after-operand" 126 "An option follows an operand.",
    ValueMissing "value-missing" 126 "An option that takes a value has none.",
    ValueForm "value-form" 126 "An option's value is written in a form that is not listed.",
    FlagUnknown "flag-unknown" 126 "An option is not listed in the template.",
    FlagCluster "flag-cluster" 126 "Several options are written as one.",
    FlagForbidden "flag-forbidden" 126 "The template names this option as forbidden.",
    ValueKind "value-kind" 126 "An option's value is not of the listed kind.",
    OperandKind "operand-kind" 126 "An operand is not of the listed kind.",
    OperandCount "operand-count" 126 "There are too few or too many operands.",
    OperandUnexpected "operand-unexpected" 126 "The template takes no operand here.",
    FlagRequired "flag-required" 126 "An option that the template requires is missing.",
    InterpreterOption "interpreter-option" 126 "The interpreter itself refuses this option.",
    InterpreterStdin "interpreter-stdin" 126 "The interpreter would read a program from its input.",
    ModuleRunner "module-runner" 126 "The module runs other modules.",
    PipInternal "pip-internal" 126 "The call reaches the inside of pip.",
    NobodyToAsk "nobody-to-ask" 126 "It needs a person, and none is there.",
    ProgramUnavailable "program-unavailable" 127 "It is not installed, or not trustworthy.",
    ProfileUnavailable "profile-unavailable" 126 "Something the profile needs cannot be given.",
    Rung "rung" 126 "This host enforces less than the profile asks for.",
    Workspace "workspace" 126 "The folder cannot serve as a workspace.",
    Cwd "cwd" 126 "The working folder is not a folder of the workspace.",
    Masked "mask-alias" 126 "A masked file can be reached under another name.",
    Present "already-there" 126 "The profile starts only where a path does not exist yet.",
    TimeoutValue "timeout-value" 126 "The timeout is not a whole number of seconds in range.",
    StdinTooLarge "stdin-too-large" 126 "Standard input is larger than a run may be given.",
    TrailUnavailable "trail-unavailable" 125 "The record cannot be made durable.",
    Config "config" 125 "The configuration, catalog or a profile has faults.",
    Host "host" 125 "The host or Pinfold itself failed before anything ran.",
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.as_str())
    }
}

/// Why a request was not run: the five parts that every refusal has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// What was refused, already escaped.
    pub what: String,
    /// Why.
    pub reason: String,
    /// What to do next.
    pub next: String,
    /// Whether it counts towards the session's limit of uncatalogued calls.
    pub counted: bool,
    /// More for whoever must mend it, such as every fault of a file with its source line.
    pub detail: Option<String>,
}

impl Refusal {
    /// Makes a refusal that does not count.
    pub fn new(
        code: Code,
        what: impl Into<String>,
        reason: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (what, reason, next) = (what.into(), reason.into(), next.into());
        Self { code, what, reason, next, counted: false, detail: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, what, reason, next, counted, detail } = self;
        let word = if code.exit() == 125 { "failed" } else { "refused" };
        write!(out, "{word} [{code}] {what}: {reason}. Nothing ran. Next: {next}.")?;
        out.write_str(if *counted { " Counts as a refusal." } else { "" })?;
        detail.iter().try_for_each(|detail| write!(out, "\n{detail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_are_unique() {
        let names: std::collections::HashSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
