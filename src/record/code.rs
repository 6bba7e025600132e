//! The codes of refusals and faults: one table, from which `pinfold explain`, `docs/CODES.md` and
//! the exit codes come.

use serde::Serialize;
use std::fmt;

/// Defines [`Code`] from one table: variant, name, exit code, and three texts of whole sentences.
///
/// An example that is nothing but one command line in backquotes is run by the suite, which
/// compares the code it gets.
macro_rules! codes {
    ($($variant:ident $name:literal $exit:literal {
        means: $means:literal,
        example: $example:literal,
        next: $next:literal,
    })*) => {
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

            /// Returns a command line, or a situation, that gives the code.
            pub fn example(self) -> &'static str {
                match self { $(Self::$variant => $example,)* }
            }

            /// Returns what to do about it.
            pub fn next(self) -> &'static str {
                match self { $(Self::$variant => $next,)* }
            }
        }
    };
}

codes! {
    LineTooLong "line-too-long" 126 {
        means: "The line has too many bytes.",
        example: "`pinfold run --line \"echo $(printf %09000d 0)\"`",
        next: "Split the call into smaller ones. The catalog's `max_line_bytes` is the limit, at \
               most 8192.",
    }
    ShellMeta "shell-meta" 126 {
        means: "The line has a character that a shell would act on.",
        example: "`pinfold run --line 'cat README.md | head'`",
        next: "Call one program per request, and quote characters that are meant as they are.",
    }
    Assignment "assignment" 126 {
        means: "The line sets a variable in front of the program.",
        example: "`pinfold run --line 'PAGER=x git diff'`",
        next: "Leave it out. What a command finds in its environment is the operator's choice.",
    }
    UnterminatedQuote "unterminated-quote" 126 {
        means: "A quotation mark of the line has no second one.",
        example: "`pinfold run --line \"echo 'a\"`",
        next: "Close the quotation, or hand over the arguments as a list.",
    }
    EmptyCall "empty-call" 126 {
        means: "The request names no program.",
        example: "`pinfold run --line ' '`",
        next: "Give the program and its arguments as a list of strings.",
    }
    TooManyArgs "too-many-args" 126 {
        means: "The argument vector has too many elements.",
        example: "`pinfold run -- echo $(seq 70)`",
        next: "Split the call into smaller ones. The catalog's `max_args` sets the limit.",
    }
    EmptyArg "empty-arg" 126 {
        means: "An argument is the empty string.",
        example: "`pinfold run -- echo ''`",
        next: "Leave the empty argument out.",
    }
    ArgTooLong "arg-too-long" 126 {
        means: "An argument is too long.",
        example: "`pinfold run -- echo $(printf %05000d 0)`",
        next: "Split the call, or put the text into a file of the workspace. The catalog's \
               `max_arg_bytes` is the limit, at most 4096.",
    }
    NotUtf8 "not-utf8" 126 {
        means: "An argument is not valid UTF-8.",
        example: r"`pinfold run -- echo $'a\xff'`",
        next: "Remove the bytes that are no text. A file with such a name must be renamed first.",
    }
    Nul "nul" 126 {
        means: "An argument contains a NUL byte.",
        example: "A door hands over such an argument. No command line can.",
        next: "Remove the character.",
    }
    ControlChar "control-char" 126 {
        means: "An argument contains a control character.",
        example: r"`pinfold run -- echo $'a\e[2Jb'`",
        next: "Remove the character. Line breaks and tabs pass here; few templates take them.",
    }
    InvisibleChar "invisible-char" 126 {
        means: "An argument contains an invisible or bidi character.",
        example: r"`pinfold run -- echo $'a\xe2\x80\xaeb'`",
        next: "Remove the character: people who read the call would not see it.",
    }
    DoubleDash "double-dash" 126 {
        means: "An argument is `--`, which no template matches.",
        example: "`pinfold run -- cat -- README.md`",
        next: "Leave `--` out. No operand starts with `-`, so it is never needed.",
    }
    ProgramPath "program-path" 126 {
        means: "The program is named by a path instead of its bare name.",
        example: "`pinfold run -- /bin/ls`",
        next: "Call the program by its bare name. The catalog's `path` says where it is looked up.",
    }
    ProgramName "program-name" 126 {
        means: "The program's name has a character that no name has.",
        example: "`pinfold run -- 'A=1 ls'`",
        next: "Name one program. Variables, pipes and other shell text are not accepted.",
    }
    Instead "instead" 126 {
        means: "The program has no template; another way is named.",
        example: "`pinfold run -- curl https://example.com`",
        next: "Do what the message names. It counts as a refusal of an unlisted program.",
    }
    UnknownProgram "unknown-program" 126 {
        means: "No template of the catalog names this program.",
        example: "`pinfold run -- frobnicate`",
        next: "Use a program of the catalog, or ask the operator for an entry. It counts as a \
               refusal of an unlisted program.",
    }
    OptionBeforeSub "option-before-sub" 126 {
        means: "An option stands before the subcommand.",
        example: "`pinfold run -- git -C .. status`",
        next: "Put the subcommand first. What such options usually do is done by `--cwd`, or not \
               at all.",
    }
    FlagRepeated "flag-repeated" 126 {
        means: "An option occurs more than once.",
        example: "`pinfold run -- ls -l -l`",
        next: "Give the option once.",
    }
    SubMissing "sub-missing" 126 {
        means: "The program needs a subcommand.",
        example: "`pinfold run -- git`",
        next: "Add one of the subcommands that the message lists.",
    }
    SubUnknown "sub-unknown" 126 {
        means: "The subcommand is not in the catalog.",
        example: "`pinfold run -- git frobnicate`",
        next: "Use one of the subcommands that the message lists.",
    }
    ListedRefusal "listed-refusal" 126 {
        means: "The catalog lists this subcommand as refused.",
        example: "`pinfold run -- git push`",
        next: "Do what the message names instead. The operator decided against this one.",
    }
    OptionAfterOperand "option-after-operand" 126 {
        means: "An option follows an operand.",
        example: "`pinfold run -- cat README.md -n`",
        next: "Put the options before the operands.",
    }
    ValueMissing "value-missing" 126 {
        means: "An option that takes a value has none.",
        example: "`pinfold run -- head -n`",
        next: "Add the value behind the option.",
    }
    ValueForm "value-form" 126 {
        means: "An option's value is written in a form that is not listed.",
        example: "`pinfold run -- git init --initial-branch main`",
        next: "Join or separate option and value as the template's options show, such as \
               `--initial-branch=main`.",
    }
    FlagUnknown "flag-unknown" 126 {
        means: "An option is not listed in the template.",
        example: "`pinfold run -- ls --color=always`",
        next: "Leave it out, or use one of the options that the message lists.",
    }
    FlagCluster "flag-cluster" 126 {
        means: "Several options are written as one.",
        example: "`pinfold run -- cat -nE README.md`",
        next: "Write each option as an element of its own.",
    }
    FlagForbidden "flag-forbidden" 126 {
        means: "The template names this option as forbidden.",
        example: "`pinfold run -- tail -f log.txt`",
        next: "Leave it out. The message says why it is forbidden.",
    }
    ValueKind "value-kind" 126 {
        means: "An option's value is not of the listed kind.",
        example: "`pinfold run -- head -n many README.md`",
        next: "Give a value of the kind that the message names.",
    }
    OperandKind "operand-kind" 126 {
        means: "An operand is not of the listed kind.",
        example: "`pinfold run -- cat /etc/passwd`",
        next: "Give an operand of the kind that the message names; a path is relative and below \
               the workspace.",
    }
    OperandCount "operand-count" 126 {
        means: "There are too few or too many operands.",
        example: "`pinfold run -- cat`",
        next: "Give as many operands as the message says; split a long list into several calls.",
    }
    OperandUnexpected "operand-unexpected" 126 {
        means: "The template takes no operand here.",
        example: "`pinfold run -- pwd src`",
        next: "Leave the operand out.",
    }
    FlagRequired "flag-required" 126 {
        means: "An option that the template requires is missing.",
        example: "`pinfold run -- cargo build`",
        next: "Add one of the options that the message names.",
    }
    InterpreterOption "interpreter-option" 126 {
        means: "The interpreter itself refuses this option.",
        example: "`pinfold run -- python3 -J x`",
        next: "Leave the option out.",
    }
    InterpreterStdin "interpreter-stdin" 126 {
        means: "The interpreter would read a program from its input.",
        example: "`pinfold run -- python3 -`",
        next: "Put the program into a file of the workspace and name the file.",
    }
    ModuleRunner "module-runner" 126 {
        means: "The module runs other modules.",
        example: "`pinfold run -- python3 -m runpy pip install six`",
        next: "Run the module that is meant by its own name.",
    }
    PipInternal "pip-internal" 126 {
        means: "The call reaches the inside of pip.",
        example: "`pinfold run -- python3 -m pip._internal install six`",
        next: "Call `pip` with one of the subcommands of the catalog.",
    }
    NobodyToAsk "nobody-to-ask" 126 {
        means: "It needs a person, and none is there.",
        example: "`pinfold run -- python3 -c 1`",
        next: "Do something else, or tell the operator what is needed and why.",
    }
    NoIndex "no-index" 126 {
        means: "Packages come from the operator's index, and none is named.",
        example: "`pinfold run -- pip install six`",
        next: "The operator names one in pinfold.toml: `[index]` with `pip` and its address.",
    }
    ProgramUnavailable "program-unavailable" 127 {
        means: "It is not installed, or not trustworthy.",
        example: "`pinfold run -- forge build`, where forge is not installed or a file that others \
                  can write.",
        next: "The operator installs the program in a folder of the catalog's `path`, owned by \
               root and written by nobody else.",
    }
    ProfileUnavailable "profile-unavailable" 126 {
        means: "Something the profile needs cannot be given.",
        example: "`pinfold run -- pip install six`, where the configuration names an index.",
        next: "Do what the message names. `pinfold profile show NAME` prints what the profile asks \
               for.",
    }
    Rung "rung" 126 {
        means: "This host enforces less than the profile asks for.",
        example: "A run in a container without user namespaces, or of a profile that asks for rung \
                  A where no cgroup can be made.",
        next: "Give the host what the message names as missing.",
    }
    Workspace "workspace" 126 {
        means: "The folder cannot serve as a workspace.",
        example: "`pinfold run --workspace /etc -- ls`",
        next: "Name a project folder of its own, apart from system folders, homes themselves and \
               Pinfold's own files.",
    }
    Cwd "cwd" 126 {
        means: "The working folder is not a folder of the workspace.",
        example: "`pinfold run --cwd .. -- ls`",
        next: "Name a folder below the workspace: relative, without `..`.",
    }
    Masked "mask-alias" 126 {
        means: "A masked file can be reached under another name.",
        example: "`.env`, which profile `build` masks, has a second hard link.",
        next: "Give the file a single name, or move it out of reach.",
    }
    GitRedirect "git-redirect" 126 {
        means: "`.git` leads elsewhere, and not to a repository that the operator registered.",
        example: "`pinfold run -- git status` in a linked worktree that `worktrees` of \
                  pinfold.toml does not name.",
        next: "The operator adds the folder to `worktrees` in pinfold.toml, where `.git` leads to \
               the repository that is meant.",
    }
    Present "already-there" 126 {
        means: "The profile starts only where a path does not exist yet.",
        example: "`pinfold run -- git init` in a workspace that has a `.git`.",
        next: "Use what is there, or let a person remove it first.",
    }
    TimeoutValue "timeout-value" 126 {
        means: "The timeout is not a whole number of seconds in range.",
        example: "`pinfold run --timeout 1h -- ls`",
        next: "Give N, Ns or Nm, from one second to a day.",
    }
    StdinTooLarge "stdin-too-large" 126 {
        means: "Standard input is larger than a run may be given.",
        example: "`head -c 20M /dev/zero | pinfold run --stdin -- pwd`",
        next: "Write it to a file of the workspace and name the file.",
    }
    GitState "git-state" 126 {
        means: "The repository's own state would lead git elsewhere, or is not the workspace's.",
        example: "`pinfold run -- git status` where `.git` has a file `commondir`.",
        next: "A person looks at the repository outside of Pinfold, with care, and mends it.",
    }
    TrailUnavailable "trail-unavailable" 125 {
        means: "The record cannot be made durable.",
        example: "The disk of the state folder is full, or the trail was damaged.",
        next: "Do what the message names. Without a record nothing runs.",
    }
    Config "config" 125 {
        means: "The configuration, catalog or a profile has faults.",
        example: "`pinfold.toml` has a key that nobody knows. Every fault is shown at its place.",
        next: "Correct the places shown; the compiled-in rules do not step in for broken ones.",
    }
    Host "host" 125 {
        means: "The host or Pinfold itself failed before anything ran.",
        example: "The state folder's `uids` is not a folder, so the command gets no user id.",
        next: "Do what the message names; `pinfold -vv run` prints more.",
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_are_unique() {
        let names: std::collections::HashSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn every_text_of_the_table_is_a_sentence_and_no_table_of_its_own() {
        for code in Code::ALL {
            let ends = |text: &str| text.ends_with('.') && !text.contains("  ");
            assert!(ends(code.means()) && ends(code.next()), "{code}");
            let command = code.example().starts_with('`') && code.example().ends_with('`');
            assert!(command || ends(code.example()), "{code}");
            for text in [code.means(), code.example(), code.next()] {
                assert!(!text.contains('\n') && !text.contains('|') || command, "{code}");
            }
        }
    }
}
