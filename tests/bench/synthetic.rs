//! A catalog of any size, and calls for it of which it is known whether they fit.
//!
//! The bench of the catalog and its peers use it alike. Each template has a program of its own
//! and one of four shapes: operands with flags, subcommands, a value option, and no operands.

use std::ffi::OsString;
use std::fmt::Write as _;

/// What a call wants of a tool, as an engine is asked that does not read argument vectors.
#[derive(Debug)]
pub struct Call {
    /// The whole vector.
    pub argv: Vec<OsString>,
    /// Its program.
    pub program: String,
    /// Its subcommand; empty where it has none.
    pub sub: &'static str,
    /// Its options, without their values.
    pub flags: Vec<&'static str>,
    /// How many operands it has.
    pub operands: u32,
    /// What the catalog makes of it.
    pub fate: Fate,
}

/// What the catalog makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It fits a template and runs.
    Auto,
    /// No template has its program.
    Unknown,
    /// It does not fit the template of its program.
    Unfit,
}

/// A template, as an engine is told of it that does not read argument vectors.
#[derive(Debug)]
pub struct Template {
    pub program: String,
    /// Its subcommands; a single empty one if there are none.
    pub subs: &'static [&'static str],
    /// The options that it accepts.
    pub flags: &'static [&'static str],
    /// How many operands it takes, at least and at most.
    pub counts: (u32, u32),
    shape: &'static Shape,
}

/// One of the shapes that templates have.
#[derive(Debug)]
struct Shape {
    subs: &'static [&'static str],
    flags: &'static [&'static str],
    counts: (u32, u32),
    /// The rest of its table; `$` is the program.
    table: &'static str,
    /// A call that fits, and one whose option, subcommand or count of operands does not: the
    /// elements behind the program, the subcommand, the options, the number of operands.
    calls: [(&'static [&'static str], &'static str, &'static [&'static str], u32); 2],
}

const SHAPES: [Shape; 4] = [
    Shape {
        subs: &[""],
        flags: &["-a", "-q", "--long"],
        counts: (1, 4),
        table: "flags = [\"-a\", \"-q\", \"--long\"]\n\
                operands = { kind = \"path\", min = 1, max = 4 }\n\
                match = [\"$ -q src/main.rs\"]\nno_match = [\"$ /etc\"]\n",
        calls: [
            (&["-a", "--long", "src/lib.rs", "docs"], "", &["-a", "--long"], 2),
            (&["-a", "--all", "src"], "", &["-a", "--all"], 1),
        ],
    },
    Shape {
        subs: &["build", "test"],
        flags: &["-q", "--offline"],
        counts: (0, 1),
        table: "sub_any = [[\"build\"], [\"test\"]]\nflags = [\"-q\", \"--offline\"]\n\
                operands = { kind = \"name\", max = 1 }\n\
                match = [\"$ test -q unit\"]\nno_match = [\"$ run\"]\n",
        calls: [
            (&["test", "--offline", "unit"], "test", &["--offline"], 1),
            (&["publish", "-q"], "publish", &["-q"], 0),
        ],
    },
    Shape {
        subs: &[""],
        flags: &["-v", "-n"],
        counts: (0, 8),
        table: "flags = [\"-v\"]\n\
                values = [{ name = \"-n\", kind = \"uint\", forms = [\"sep\", \"att\"] }]\n\
                operands = { kind = \"file\", max = 8 }\n\
                match = [\"$ -n 5 a.txt\"]\nno_match = [\"$ -x\"]\n",
        calls: [
            (&["-v", "-n", "20", "log.txt", "notes.md"], "", &["-v", "-n"], 2),
            (&["-f", "log.txt"], "", &["-f"], 1),
        ],
    },
    Shape {
        subs: &[""],
        flags: &["-L", "-P"],
        counts: (0, 0),
        table: "flags = [\"-L\", \"-P\"]\noperands = { kind = \"none\" }\n\
                match = [\"$ -P\"]\nno_match = [\"$ x\"]\n",
        calls: [(&["-P"], "", &["-P"], 0), (&["-P", "src"], "", &["-P"], 1)],
    },
];

/// Returns a template by its number.
pub fn template(number: usize) -> Template {
    let shape = &SHAPES[number % SHAPES.len()];
    let Shape { subs, flags, counts, .. } = *shape;
    Template { program: format!("tool{number:05}"), subs, flags, counts, shape }
}

/// Writes a catalog.
pub fn catalog(templates: usize) -> String {
    let mut text = "schema = 1\nname = \"synthetic\"\n\n[policy]\npath = [\"/usr/bin\"]\n\
                    profiles = [\"look\"]\n"
        .to_owned();
    for number in 0..templates {
        let Template { program, shape, .. } = template(number);
        let table = shape.table.replace('$', &program);
        let written = write!(
            text,
            "\n[[tool]]\nid = \"{program}\"\nprogram = \"{program}\"\n\
             describe = \"Look at one part of the project.\"\naccess = \"read-only\"\n\
             decision = \"auto\"\nprofile = \"look\"\n{table}"
        );
        written.expect("a string takes every text");
    }
    text
}

/// Makes calls of programs that are picked at random, always the same: of ten calls eight fit,
/// one has a program without a template, and one fits no template.
pub fn calls(templates: usize, count: usize) -> Vec<Call> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        // A xorshift generator: no call's program tells the next one's.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let call = |_| {
        let Template { mut program, shape, .. } = template(random(templates));
        let fate = match random(10) {
            0 => Fate::Unknown,
            1 => Fate::Unfit,
            _ => Fate::Auto,
        };
        if fate == Fate::Unknown {
            program.insert(0, 'x');
        }
        let (words, sub, flags, operands) = shape.calls[usize::from(fate == Fate::Unfit)];
        let argv = std::iter::once(&*program).chain(words.iter().copied());
        let argv = argv.map(OsString::from).collect();
        Call { argv, program, sub, flags: flags.to_vec(), operands, fate }
    };
    (0..count).map(call).collect()
}
