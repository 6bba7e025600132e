//! Test vectors: calls with the decisions that a catalog must give them, one JSON object a line.
//!
//! Only the catalog decides here: a person is there, every program and profile is, and an index is
//! configured. Members that this file does not know are for people.
#![forbid(unsafe_code)]

use super::Catalog;
use crate::record::{Text, Verdict};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// What became of a file of vectors.
#[derive(Debug, PartialEq, Eq)]
pub struct Tested {
    /// How many rows it has.
    pub rows: usize,
    /// The rows that got another decision, in the order of the file.
    pub differing: Vec<Difference>,
    /// Names of catalogs that rows speak of and that are not this one's, in order.
    pub other_catalogs: Vec<String>,
}

/// A row that got another decision than it wants.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its line, from 1.
    pub line: usize,
    /// Its `id`, or its call where it has none.
    pub name: String,
    /// What it wants and what it got, for each member that differs.
    pub members: Vec<(&'static str, Value, Value)>,
}

/// Why a file of vectors is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong.
    pub fault: String,
}

/// One row.
struct Row {
    name: String,
    call: Call,
    /// What it says of `expect`, `template`, `code` and `executed`.
    wants: Map<String, Value>,
    policy: Option<String>,
}

enum Call {
    Argv(Vec<OsString>),
    Line(String),
}

/// Members that a row may compare, beside `expect`.
const COMPARED: [&str; 3] = ["template", "code", "executed"];

impl Catalog {
    /// Decides every row of a file and compares.
    ///
    /// # Errors
    /// The first line that is no row, or that the file has none.
    pub fn test(&self, text: &str) -> Result<Tested, Malformed> {
        let mut tested = Tested { rows: 0, differing: Vec::new(), other_catalogs: Vec::new() };
        let (mut names, mut others) = (HashSet::new(), HashSet::new());
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let line_number = index + 1;
            let malformed = |column, fault| Malformed { line: line_number, column, fault };
            let Members(members) = serde_json::from_str(line).map_err(|error| {
                // The place is that of the row; the reader knows the line only.
                let text = error.to_string();
                let fault = text.split(" at line ").next().unwrap_or_default().to_owned();
                malformed(error.column().max(1), fault)
            })?;
            let row = row(members, line_number).map_err(|fault| malformed(1, fault))?;
            if !names.insert(row.name.clone()) {
                return Err(malformed(1, format!("the id `{}` is used twice", row.name)));
            }
            tested.rows += 1;
            let members = self.compare(&row);
            if !members.is_empty() {
                let name = row.name;
                tested.differing.push(Difference { line: line_number, name, members });
            }
            if let Some(other) = row.policy.filter(|policy| *policy != self.name)
                && others.insert(other.clone())
            {
                tested.other_catalogs.push(other);
            }
        }
        match tested.rows {
            0 => Err(Malformed { line: 1, column: 1, fault: "it has no row".to_owned() }),
            _ => Ok(tested),
        }
    }

    /// Lists the members of a row that differ from what the catalog says.
    fn compare(&self, row: &Row) -> Vec<(&'static str, Value, Value)> {
        let argv = match &row.call {
            Call::Argv(argv) => Ok(argv.clone()),
            Call::Line(line) => self.split(OsStr::new(line)),
        };
        let decided = argv.and_then(|argv| self.decide(&argv).map(|matched| (argv, matched)));
        let (verdict, template, code, executed) = match &decided {
            Ok((argv, matched)) => {
                let executed = matched.executed(argv);
                let executed: Vec<Text> = executed.iter().map(Text::from).collect();
                let refusal = matched.refusal(argv);
                let runs = refusal.is_none().then(|| serde_json::json!(executed));
                let code = refusal.map(|refusal| refusal.code.as_str());
                (matched.verdict, Some(matched.template.id.as_str()), code, runs)
            }
            Err(refusal) => (Verdict::Refuse, None, Some(refusal.code.as_str()), None),
        };
        let got = [
            ("expect", serde_json::json!(verdict)),
            ("template", serde_json::json!(template)),
            ("code", serde_json::json!(code)),
            ("executed", executed.unwrap_or(Value::Null)),
        ];
        let differs = |(name, got): (&'static str, Value)| {
            let wanted = row.wants.get(name)?;
            (*wanted != got).then(|| (name, wanted.clone(), got))
        };
        got.into_iter().filter_map(differs).collect()
    }
}

/// The members of a row, none of them twice: of two, a reader could take either.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Members;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a row, which is a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if members.contains_key(&name) {
                        return Err(A::Error::custom(format!(
                            "the member `{name}` is there twice"
                        )));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Once)
    }
}

fn row(mut members: Map<String, Value>, line: usize) -> Result<Row, String> {
    let call = match (members.remove("argv"), members.remove("line")) {
        (Some(argv), None) => {
            let Value::Array(words) = argv else { return Err("`argv` is not a list".to_owned()) };
            let word = |word: Value| match word {
                Value::String(word) => Ok(OsString::from(word)),
                other => Err(format!("`argv` has {other}, which is not a string")),
            };
            Call::Argv(words.into_iter().map(word).collect::<Result<_, _>>()?)
        }
        (None, Some(Value::String(line))) => Call::Line(line),
        (None, Some(_)) => return Err("`line` is not a string".to_owned()),
        (None, None) => return Err("it has neither `argv` nor `line`".to_owned()),
        (Some(_), Some(_)) => return Err("it has both `argv` and `line`".to_owned()),
    };
    let mut wants = Map::new();
    match members.remove("expect") {
        Some(Value::String(word)) if ["auto", "ask", "refuse"].contains(&word.as_str()) => {
            wants.insert("expect".to_owned(), Value::String(word));
        }
        Some(other) => return Err(format!("`expect` is {other}, not auto, ask or refuse")),
        None => return Err("`expect` is missing".to_owned()),
    }
    for name in COMPARED {
        let Some(wanted) = members.remove(name) else { continue };
        let sound = match &wanted {
            Value::Null => true,
            Value::String(_) => name != "executed",
            Value::Array(words) => name == "executed" && words.iter().all(Value::is_string),
            _ => false,
        };
        if !sound {
            let form = if name == "executed" { "a list of strings" } else { "a string" };
            return Err(format!("`{name}` is not {form}"));
        }
        wants.insert(name.to_owned(), wanted);
    }
    let mut text = |name: &str| match members.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` is not a string")),
    };
    let (name, policy) = (text("id")?, text("policy")?);
    let name = name.unwrap_or_else(|| format!("line {line}"));
    Ok(Row { name, call, wants, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> Result<Tested, Malformed> {
        Catalog::shipped().expect("sound").test(text)
    }

    #[test]
    fn a_row_that_differs_is_told_with_what_it_got() {
        let text = "{\"id\":\"a\",\"argv\":[\"ls\"],\"expect\":\"auto\",\"template\":\"ls\"}\n\n\
            {\"argv\":[\"ls\",\"/\"],\"expect\":\"auto\",\"code\":\"flag-unknown\",\"x\":1}\n\
            {\"id\":\"c\",\"line\":\"pwd\",\"expect\":\"auto\",\"executed\":[\"ls\"],\
            \"policy\":\"p\"}";
        let tested = test(text).expect("rows");
        assert_eq!((tested.rows, tested.differing.len()), (3, 2));
        let [first, second] = tested.differing.as_slice() else { panic!("two differ") };
        assert_eq!((first.line, first.name.as_str()), (3, "line 3"));
        let named: Vec<_> = first.members.iter().map(|member| member.0).collect();
        assert_eq!(named, ["expect", "code"]);
        assert_eq!(second.members[0].2, serde_json::json!(["pwd"]));
        assert_eq!(tested.other_catalogs, ["p"]);
    }

    #[test]
    fn what_is_no_row_is_an_error_at_its_place() {
        let sound = "{\"argv\":[\"ls\"],\"expect\":\"auto\"}\n";
        for (row, fault) in [
            ("", "it has no row"),
            ("[1]", "a row, which is a JSON object"),
            ("{\"argv\":[],\"expect\":\"auto\",\"expect\":\"ask\"}", "is there twice"),
            ("{\"expect\":\"auto\"}", "neither `argv` nor `line`"),
            ("{\"argv\":[],\"line\":\"\",\"expect\":\"auto\"}", "both"),
            ("{\"argv\":\"ls\",\"expect\":\"auto\"}", "`argv` is not a list"),
            ("{\"argv\":[1],\"expect\":\"auto\"}", "which is not a string"),
            ("{\"line\":1,\"expect\":\"auto\"}", "`line` is not a string"),
            ("{\"argv\":[]}", "`expect` is missing"),
            ("{\"argv\":[],\"expect\":\"allow\"}", "not auto, ask or refuse"),
            ("{\"argv\":[],\"expect\":\"ask\",\"code\":1}", "`code` is not a string"),
            ("{\"argv\":[],\"expect\":\"ask\",\"executed\":\"x\"}", "`executed` is not a list"),
            ("{\"argv\":[],\"expect\":\"ask\",\"id\":1}", "`id` is not a string"),
        ] {
            let error = test(row).expect_err(row);
            assert!(error.fault.contains(fault), "{row}: {error:?}");
            if !row.is_empty() {
                assert_eq!(test(&format!("{sound}{row}")).expect_err(row).line, 2);
            }
        }
        let broken = test(&format!("{sound}{{\"argv\": }}")).expect_err("no JSON");
        assert_eq!((broken.line, broken.column), (2, 10));
        let twice = "{\"id\":\"a\",\"argv\":[],\"expect\":\"refuse\"}\n";
        assert!(test(&twice.repeat(2)).expect_err("twice").fault.contains("used twice"));
    }
}
