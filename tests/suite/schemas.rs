//! The JSON Schemas of the three files agree with their readers: the same keys in each table, and
//! what is shipped and documented is valid.

use crate::support::binary;
use jsonschema::Validator;
use pinfold::catalog::Catalog;
use pinfold::front::config::Reader;
use pinfold::plan::toolchains::Homes;
use pinfold::profile::Profiles;
use pinfold::source::{Faults, Source};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const CATALOG: &str = include_str!("../../sandbox-profiles/catalog.toml");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Config,
    Catalog,
    Profile,
}

impl Kind {
    fn schema(self) -> Value {
        let name = format!("{self:?}").to_lowercase();
        let shown = Command::new(binary("pinfold"))
            .args(["config", "schema", &name])
            .env("HOME", "/nonexistent")
            .output()
            .expect("pinfold starts");
        assert!(shown.status.success(), "{shown:?}");
        serde_json::from_slice(&shown.stdout).expect("JSON")
    }

    fn validator(self) -> Validator {
        jsonschema::draft202012::new(&self.schema()).expect("a sound schema")
    }

    /// Reads a text as Pinfold does.
    fn read(self, text: &str) -> Result<(), Faults> {
        let source = Source::new("zz.toml", text);
        match self {
            Self::Config => {
                let uid = nix::unistd::geteuid().as_raw();
                let reader = Reader { uid, homes: Homes::default() };
                reader.accepts(Path::new("/zz.toml"), text)
            }
            Self::Catalog => Catalog::parse(source).map(drop),
            Self::Profile => Profiles::load(vec![source]).map(drop),
        }
    }
}

fn json(text: &str) -> Value {
    let table: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    serde_json::to_value(table).expect("TOML without dates is JSON")
}

#[test]
fn the_schemas_are_schemas_of_the_draft_that_they_name() {
    for kind in [Kind::Config, Kind::Catalog, Kind::Profile] {
        let schema = kind.schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{kind:?}");
    }
}

/// Tables of each file: where the schema has it, and a text with an unknown key `zzz` in it.
const TABLES: [(Kind, &str, &str); 22] = [
    (Kind::Config, "", "zzz = 1"),
    (Kind::Config, "/properties/tools/items", "[[tools]]\nzzz = 1"),
    (Kind::Config, "/properties/index", "[index]\nzzz = 1"),
    (Kind::Catalog, "", "zzz = 1"),
    (Kind::Catalog, "/properties/policy", "[policy]\nzzz = 1"),
    (Kind::Catalog, "/properties/tool/items", "[[tool]]\nzzz = 1"),
    (
        Kind::Catalog,
        "/properties/tool/items/properties/values/items",
        "[[tool]]\nvalues = [{ zzz = 1 }]",
    ),
    (
        Kind::Catalog,
        "/properties/tool/items/properties/operands",
        "[[tool]]\noperands = { zzz = 1 }",
    ),
    (Kind::Catalog, "/properties/refuse/items", "[[refuse]]\nzzz = 1"),
    (Kind::Catalog, "/properties/instead/items", "[[instead]]\nzzz = 1"),
    (Kind::Profile, "", "zzz = 1"),
    (Kind::Profile, "/properties/read/items", "[[read]]\nzzz = 1"),
    (Kind::Profile, "/properties/write/items", "[[write]]\nzzz = 1"),
    (Kind::Profile, "/properties/execute/items", "[[execute]]\nzzz = 1"),
    (Kind::Profile, "/properties/protect/items", "[[protect]]\nzzz = 1"),
    (Kind::Profile, "/properties/mask/items", "[[mask]]\nzzz = 1"),
    (Kind::Profile, "/properties/absent/items", "[[absent]]\nzzz = 1"),
    (Kind::Profile, "/properties/network", "[network]\nzzz = 1"),
    (Kind::Profile, "/properties/syscalls", "[syscalls]\nzzz = 1"),
    (Kind::Profile, "/properties/limits", "[limits]\nzzz = 1"),
    (Kind::Profile, "/properties/nested", "[nested]\nzzz = 1"),
    // Tables with keys of the operator's own, which have no list of known ones.
    (Kind::Profile, "/properties/environment", ""),
];

/// The keys that the reader names when it meets an unknown one.
fn known_keys(kind: Kind, text: &str) -> BTreeSet<String> {
    let shown = kind.read(text).expect_err("an unknown key").to_string();
    let (_, after) = shown.split_once("unknown key `zzz`").expect("the unknown key");
    let (_, known) = after.split_once("known keys here: ").expect("the known ones");
    known.lines().next().expect("a line").split(", ").map(str::to_owned).collect()
}

/// Where a schema has tables without further keys.
fn closed_tables(schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if schema["additionalProperties"] == false {
                into.insert(at.to_owned());
            }
            for (name, member) in members {
                closed_tables(member, &format!("{at}/{name}"), into);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                closed_tables(item, &format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
}

#[test]
fn each_table_of_a_schema_has_the_keys_that_the_reader_knows() {
    for kind in [Kind::Config, Kind::Catalog, Kind::Profile] {
        let schema = kind.schema();
        let mut closed = BTreeSet::new();
        closed_tables(&schema, "", &mut closed);
        for at in &closed {
            let table = schema.pointer(at).expect("a table of the schema");
            for key in table["properties"].as_object().expect("keys").keys() {
                let banned = ["force", "yes", "unsafe", "sandbox", "disable", "skip"];
                assert!(banned.iter().all(|word| !key.contains(word)), "{kind:?} {at}: {key}");
            }
        }
        for (_, at, text) in TABLES.iter().filter(|(of, _, text)| *of == kind && !text.is_empty()) {
            let table = schema.pointer(at).expect("a table of the schema");
            let keys = table["properties"].as_object().expect("keys").keys().cloned().collect();
            assert_eq!(known_keys(kind, text), keys, "{kind:?} {at}");
            assert!(closed.remove(*at), "{kind:?} {at} takes any key");
        }
        assert!(closed.is_empty(), "{kind:?}: tables that no text tries: {closed:?}");
    }
}

/// Every TOML example of a page.
fn examples(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_is_shipped_and_documented_is_valid() {
    let shipped = [
        include_str!("../../sandbox-profiles/base.toml"),
        include_str!("../../sandbox-profiles/build.toml"),
        include_str!("../../sandbox-profiles/fetch.toml"),
        include_str!("../../sandbox-profiles/gate.toml"),
        include_str!("../../sandbox-profiles/look.toml"),
        include_str!("../../sandbox-profiles/repo.toml"),
        include_str!("../../sandbox-profiles/repo-init.toml"),
    ];
    let pages = [
        include_str!("../../README.md"),
        include_str!("../../docs/CONFIG.md"),
        include_str!("../../docs/POLICY.md"),
        include_str!("../../docs/PROFILES.md"),
    ];
    let mut texts: Vec<String> = shipped.iter().map(|text| (*text).to_owned()).collect();
    texts.push(CATALOG.to_owned());
    texts.extend(pages.iter().flat_map(|page| examples(page)));
    let mut counts = [0; 3];
    for text in texts {
        let value = json(&text);
        let (at, kind) = match () {
            () if value.get("policy").is_some() => (0, Kind::Catalog),
            () if value.get("why").is_some() => (1, Kind::Profile),
            () => (2, Kind::Config),
        };
        counts[at] += 1;
        let faults: Vec<String> =
            kind.validator().iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{faults:#?}\n{text}");
    }
    assert!(counts[0] >= 1 && counts[1] >= 8 && counts[2] >= 4, "{counts:?}");
}

const CONFIG: &str = "schema = 1\n";
const PROFILE: &str = "schema = 1\nname = \"zz\"\nwhy = \"x\"\nrung = \"B\"\n\
    [syscalls]\nsets = [\"base\"]\n";
const TOOL: &str = "schema = 1\nname = \"c\"\n[policy]\npath = [\"/bin\"]\nprofiles = [\"look\"]\n\
    [[tool]]\nid = \"t\"\nprogram = \"t\"\ndescribe = \"T.\"\naccess = \"none\"\n\
    decision = \"auto\"\nprofile = \"look\"\noperands = { kind = \"none\" }\nmatch = [\"t\"]\n\
    no_match = [\"t x\"]\n";

/// A sound text, what is replaced in it, and by what: reader and schema both refuse the result.
const BROKEN: [(Kind, &str, &str, &str); 36] = [
    (Kind::Config, CONFIG, "1", "2"),
    (Kind::Config, CONFIG, "schema = 1\n", ""),
    (Kind::Config, CONFIG, "1\n", "1\ncatalog = 7\n"),
    (Kind::Config, CONFIG, "1\n", "1\nprojects = [\"/x\"]\n"),
    (Kind::Config, CONFIG, "1\n", "1\ngit_identity = \"nobody\"\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[[tools]]\nbin = \"/usr/bin\"\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[[tools]]\nroot = \"/usr\"\nenv = { LD_X = \"1\" }\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[[tools]]\nroot = \"/usr\"\nenv = { PATH = \"/\" }\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[[tools]]\nroot = \"/usr\"\nenv = { 1A = \"/\" }\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[[tools]]\nroot = 7\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[rungs]\nbuild = \"D\"\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[rungs]\nbuild = 1\n"),
    (Kind::Config, CONFIG, "1\n", "1\n[rungs]\n\"\" = \"C\"\n"),
    (Kind::Profile, PROFILE, "why = \"x\"\n", ""),
    (Kind::Profile, PROFILE, "\"B\"", "\"D\""),
    (Kind::Profile, PROFILE, "\"base\"", "\"bass\""),
    (Kind::Profile, PROFILE, "[\"base\"]", "[]"),
    (Kind::Profile, PROFILE, "[sys", "[[read]]\npath = \"{workspace}\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[[read]]\npath = \"relative\"\nwhy = \"x\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[[write]]\npath = \"{system}\"\nwhy = \"x\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[[protect]]\npath = \"/x\"\nwhy = \"x\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[network]\nmode = \"all\"\nwhy = \"x\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[limits]\npids = 0\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[limits]\nmemory = \"4GB\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[environment]\nLD_PRELOAD = \"x\"\n[sys"),
    (Kind::Profile, PROFILE, "[sys", "[nested]\nmode = \"on\"\n[sys"),
    (Kind::Catalog, TOOL, "name = \"c\"\n", ""),
    (Kind::Catalog, TOOL, "path = [\"/bin\"]\n", ""),
    (Kind::Catalog, TOOL, "\"/bin\"", "\"bin\""),
    (Kind::Catalog, TOOL, "program = \"t\"", "program = \"/bin/t\""),
    (Kind::Catalog, TOOL, "\"none\"\ndec", "\"network\"\ndec"),
    (Kind::Catalog, TOOL, "kind = \"none\"", "kind = \"path\""),
    (Kind::Catalog, TOOL, "kind = \"none\"", "kind = \"choice\", max = 1"),
    (Kind::Catalog, TOOL, "match = [\"t\"]\n", ""),
    (Kind::Catalog, TOOL, "operands", "flags = [\"x\"]\noperands"),
    (Kind::Catalog, TOOL, "operands", "timeout_s = 0\noperands"),
];

#[test]
fn what_is_broken_is_refused_by_reader_and_schema() {
    for (kind, sound, old, new) in BROKEN {
        let validator = kind.validator();
        kind.read(sound).unwrap_or_else(|faults| panic!("the control: {faults}"));
        assert!(validator.is_valid(&json(sound)), "the control of the schema: {sound}");
        let broken = sound.replacen(old, new, 1);
        assert_ne!(broken, sound, "the edit changes nothing");
        assert!(kind.read(&broken).is_err(), "the reader takes it:\n{broken}");
        assert!(!validator.is_valid(&json(&broken)), "the schema takes it:\n{broken}");
    }
}
