//! Small catalogs made at random, with names that nearly clash, and calls of their words.

use crate::calls::Argv;
use crate::chance::Chance;
use std::ffi::OsString;
use toml::{Table, Value};

const PROGRAMS: [&str; 3] = ["p", "q", "o"];
/// None is spelled like another option with its value, which is a fault.
const FLAGS: [&str; 10] = ["-a", "-b", "-c", "-1", "-n", "--a", "--ab", "--no-a", "--a-b", "-vv"];
const VALUES: [&str; 5] = ["-n", "-c", "--a", "--v", "-b"];
const KINDS: [&str; 11] = [
    "path",
    "file",
    "uint",
    "uint-plus",
    "name",
    "ident",
    "branch",
    "text",
    "message",
    "pkgname",
    "testnode",
];
const WORDS: [&str; 44] = [
    "-a", "-b", "-c", "-n", "-1", "-ab", "-aa", "-a1", "-abc", "-z", "-n5", "-nx", "-c1", "-cx",
    "-b/", "-vv", "-v", "--a", "--ab", "--a=5", "--a=x", "--a=", "--v", "--v=x", "--v=", "--no-a",
    "--a-b", "--ab=1", "--g", "--h", "-", "x", "5", "a.sh", "d/x", "+5", ".", "a b", "x::t", "s",
    "t", "u", "é", "--a=-x",
];

fn list(words: impl IntoIterator<Item = impl Into<String>>) -> Value {
    Value::Array(words.into_iter().map(|word| Value::String(word.into())).collect())
}

/// The members of a list that are taken, each with the same chance.
fn some<'a>(chance: &mut Chance, percent: usize, list: &[&'a str]) -> Vec<&'a str> {
    list.iter().copied().filter(|_| chance.happens(percent)).collect()
}

fn value(chance: &mut Chance, name: &str) -> Value {
    let known: &[&str] = if name.starts_with("--") { &["sep", "eq"] } else { &["sep", "att"] };
    let mut forms = some(chance, 60, known);
    if forms.is_empty() {
        forms.push("sep");
    }
    let mut made = Table::new();
    made.insert("name".into(), name.into());
    made.insert("kind".into(), (chance.pick(&KINDS)).into());
    made.insert("forms".into(), list(forms));
    made.into()
}

fn operands(chance: &mut Chance, subs: &[Vec<&str>]) -> Value {
    let mut made = Table::new();
    if chance.happens(30) {
        made.insert("kind".into(), "none".into());
        return made.into();
    }
    made.insert("kind".into(), (chance.pick(&KINDS)).into());
    let min = i64::from(chance.happens(30));
    made.insert("min".into(), min.into());
    made.insert("max".into(), (min + i64::from(chance.happens(70)) * 2).into());
    if let [first, _, ..] = subs
        && chance.happens(50)
    {
        made.insert("only_sub".into(), first[0].into());
    }
    made.into()
}

/// One `[[tool]]`; two after each other share a program.
fn tool(place: usize, number: u64) -> Table {
    let mut chance = Chance::from_number(number);
    let mut made = Table::new();
    let even: [&[Vec<&str>]; 3] = [&[vec![]], &[vec!["s"]], &[vec!["s"], vec!["u"]]];
    let odd: [&[Vec<&str>]; 2] = [&[vec!["t"]], &[vec!["t", "s"]]];
    let subs = if place.is_multiple_of(2) { chance.pick(&even) } else { chance.pick(&odd) };
    for (key, text) in [
        ("id", format!("t{place}").as_str()),
        ("program", PROGRAMS[place / 2 % PROGRAMS.len()]),
        ("describe", "d"),
        ("access", "none"),
        ("profile", "look"),
        ("decision", chance.pick(&["auto", "auto", "auto", "ask", "refuse"])),
    ] {
        made.insert(key.into(), text.into());
    }
    if !subs[0].is_empty() {
        let words = subs.iter().map(|words| list(words.iter().copied()));
        made.insert("sub_any".into(), words.collect::<Vec<_>>().into());
        made.insert("globals".into(), list(some(&mut chance, 40, &["--g", "--h"])));
    }
    let cluster = chance.happens(30);
    let mut flags = some(&mut chance, 50, if cluster { &FLAGS[..5] } else { &FLAGS });
    let mut values = if cluster { Vec::new() } else { some(&mut chance, 40, &VALUES) };
    values.dedup();
    flags.retain(|flag| !values.contains(flag));
    let listed = values.iter().map(|name| value(&mut chance, name));
    made.insert("values".into(), listed.collect::<Vec<_>>().into());
    let names = [flags.clone(), values].concat();
    made.insert("repeat".into(), list(some(&mut chance, 20, &names)));
    if !names.is_empty() && chance.happens(30) {
        let mut group = some(&mut chance, 40, &names);
        group.push(chance.pick(&names));
        group.sort_unstable();
        group.dedup();
        made.insert("required_any".into(), vec![list(group)].into());
    }
    made.insert("flags".into(), list(flags));
    made.insert("cluster".into(), cluster.into());
    made.insert("permute".into(), chance.happens(50).into());
    let forbid = ["-z", "--x"].map(|flag| (flag.to_owned(), Value::from("no")));
    made.insert("forbid".into(), Table::from_iter(forbid).into());
    if chance.happens(30) {
        made.insert("inject_after_sub".into(), list(["--y", "5"]));
    }
    made.insert("operands".into(), operands(&mut chance, subs));
    made.insert("match".into(), list(["a", "b"]));
    made.insert("no_match".into(), list(["a", "b"]));
    made
}

/// A catalog with a template for each number; its examples say nothing.
pub(crate) fn catalog(numbers: &[u64]) -> Table {
    let head = "schema = 1\nname = \"made\"\n[policy]\npath = [\"/bin\"]\nprofiles = [\"look\"]\n\
                max_args = 64\nmax_arg_bytes = 4096\nmax_line_bytes = 8192\n\
                [[refuse]]\nprogram = \"p\"\nsubs = [\"w\"]\nclass = \"c\"\nreason = \"r\"\n\
                next = \"n\"\n[[instead]]\nprograms = [\"i\"]\nreason = \"r\"\nuse = \"u\"\n";
    let mut made: Table = toml::from_str(head).expect("TOML");
    let tools = numbers.iter().enumerate().map(|(place, number)| tool(place, *number).into());
    made.insert("tool".into(), tools.collect::<Vec<Value>>().into());
    made
}

/// A call of such a catalog's words; one in two is made of what one template lists.
pub(crate) fn call(table: &Table, number: u64) -> Argv {
    let mut chance = Chance::from_number(number);
    let mut argv: Vec<String> = Vec::new();
    let mut say = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
    if chance.happens(50) {
        let tools = table["tool"].as_array().expect("tools");
        let tool = chance.one_of(tools).as_table().expect("a tool");
        listed(tool, &mut chance, &mut say);
    } else {
        say(&[chance.pick(&["p", "p", "p", "q", "q", "o", "i", "x"])]);
        if chance.happens(20) {
            say(&[chance.pick(&["--g", "--h", "-a"])]);
        }
        say(chance.pick(&[&[][..], &["s"], &["s"], &["u"], &["t"], &["t", "s"], &["w"]]));
        (0..chance.below(4)).for_each(|_| say(&[chance.pick(&WORDS)]));
    }
    argv.into_iter().map(OsString::from).collect()
}

/// Says a call of what a template lists; whether the values fit their kinds is left open.
fn listed(tool: &Table, chance: &mut Chance, say: &mut impl FnMut(&[&str])) {
    let list = |key: &str| tool.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    say(&[&text(&tool["program"])]);
    if let Some(sub) = list("sub_any").first().and_then(Value::as_array) {
        sub.iter().for_each(|word| say(&[&text(word)]));
    }
    for flag in list("flags").iter().filter(|_| chance.below(4) == 0) {
        say(&[&text(flag)]);
    }
    for value in list("values") {
        let (name, word) = (text(&value["name"]), chance.pick(&["5", "x"]));
        match chance.below(8) {
            0 => say(&[&name, word]),
            1 if name.starts_with("--") => say(&[&format!("{name}={word}")]),
            1 => say(&[&format!("{name}{word}")]),
            _ => {}
        }
    }
    (0..chance.below(3)).for_each(|_| say(&[chance.pick(&["5", "x", "x", "."])]));
}
