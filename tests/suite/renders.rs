//! `policy test` compares what is wanted with what the catalog decides, and `policy render` prints
//! the catalog as others read it.

use crate::policy::{SHIPPED, catalog, says, vectors};
use crate::support::Env;
use serde_json::{Value, json};
use std::fs;

/// A host with the shipped catalog.
fn host() -> Option<Env> {
    let env = Env::new()?;
    catalog(&env, SHIPPED);
    Some(env)
}

/// Tests a file of rows: its name, the exit code, standard output and standard error.
fn tested(env: &Env, rows: &[u8]) -> (String, i32, String, String) {
    let file = env.path("rows.jsonl");
    fs::write(&file, rows).expect("a file");
    let name = file.to_str().expect("UTF-8").to_owned();
    let (code, shown, said) = says(env, &["policy", "test", &name]);
    (name, code, shown, said)
}

#[test]
fn the_vectors_agree_and_each_row_that_is_changed_is_named_with_both_values() {
    let Some(env) = host() else { return };
    let rows = vectors();
    let text = |rows: &[Value]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    let (_, code, shown, said) = tested(&env, text(&rows).as_bytes());
    assert_eq!((code, shown.as_str(), said.as_str()), (0, "587 rows, 0 differ\n", ""));
    let at = |verdict: &str| rows.iter().position(|row| row["expect"] == verdict).expect(verdict);
    let (auto, ask, refuse) = (at("auto"), at("ask"), at("refuse"));
    let changes = [
        (auto, "expect", json!("ask")),
        (auto, "template", json!("pwd")),
        (auto, "template", json!(null)),
        (auto, "executed", json!(["ls", "-l"])),
        (auto, "code", json!("flag-unknown")),
        (ask, "expect", json!("auto")),
        (refuse, "expect", json!("auto")),
        (refuse, "code", json!("nul")),
        (refuse, "template", json!("ls")),
        (refuse, "executed", json!([])),
    ];
    for (index, member, value) in &changes {
        let mut changed = rows.clone();
        let was = std::mem::replace(&mut changed[*index][*member], value.clone());
        let (name, code, shown, said) = tested(&env, text(&changed).as_bytes());
        let id = rows[*index]["id"].as_str().expect("an id");
        let line = format!("{name}:{}: {id}: {member} should be {value}, is {was}\n", index + 1);
        assert_eq!((code, said.as_str()), (1, ""), "{shown}");
        assert_eq!(shown, format!("{line}587 rows, 1 differ\n"));
    }
    let mut all = rows.clone();
    for (index, _, _) in &changes {
        all[*index]["expect"] = json!(if *index == refuse { "ask" } else { "refuse" });
    }
    let (_, code, shown, _) = tested(&env, text(&all).as_bytes());
    assert_eq!((code, shown.lines().count()), (1, 4), "every row that differs: {shown}");
}

#[test]
fn a_file_of_rows_may_have_what_this_version_does_not_know() {
    let Some(env) = host() else { return };
    let row = "{\"argv\": [\"ls\", \"é\"], \"expect\": \"auto\"}";
    for (rows, count) in [
        (format!("{row}\n"), 1),
        // Without a line end, with those of another system, with empty lines between.
        (row.to_owned(), 1),
        (format!("{row}\r\n{row}\r\n"), 2),
        (format!("\n{row}\n\n  \n{row}\n"), 2),
        (
            "{\"line\": \"ls -la\", \"expect\": \"auto\", \"why\": 1, \"x\": {\"y\": []}}\n".into(),
            1,
        ),
        ("{\"argv\": [], \"expect\": \"refuse\", \"code\": \"empty-call\"}\n".into(), 1),
        (
            "{\"argv\": [\"ls\", \"\\u0000\"], \"expect\": \"refuse\", \"code\": \"nul\"}\n".into(),
            1,
        ),
        ("{\"line\": \"ls | wc\", \"expect\": \"refuse\", \"executed\": null}\n".into(), 1),
        (
            "{\"argv\": [\"ls\"], \"expect\": \"auto\", \"template\": \"ls\", \"code\": null}"
                .into(),
            1,
        ),
    ] {
        let (_, code, shown, said) = tested(&env, rows.as_bytes());
        let wanted = format!("{count} rows, 0 differ\n");
        assert_eq!((code, shown.as_str(), said.as_str()), (0, wanted.as_str(), ""), "{rows:?}");
    }
    // A row without an id is named by its line.
    let (name, code, shown, _) =
        tested(&env, format!("\n{row}\n").replace("auto", "ask").as_bytes());
    let line =
        format!("{name}:2: line 2: expect should be \"ask\", is \"auto\"\n1 rows, 1 differ\n");
    assert_eq!((code, shown), (1, line));
}

#[test]
fn a_file_that_is_no_list_of_rows_is_an_error_at_its_place() {
    let Some(env) = host() else { return };
    let sound = "{\"id\": \"a\", \"argv\": [\"ls\"], \"expect\": \"auto\"}\n";
    assert_eq!(tested(&env, sound.as_bytes()).1, 0, "the control");
    for (rows, place, fault) in [
        (String::new(), "1:1", "it has no row"),
        ("\n \n".into(), "1:1", "it has no row"),
        (format!("{sound}{{\"argv\": }}\n"), "2:10", "expected value"),
        (format!("{sound}{{\"argv\": [\"ls\"]\n"), "2:15", "EOF"),
        (format!("{sound}[\"ls\"]\n"), "2:1", "a row, which is a JSON object"),
        (sound.replace("\"argv\"", "\"line\": \"ls\", \"argv\""), "1:1", "both `argv` and `line`"),
        (sound.repeat(2), "2:1", "the id `a` is used twice"),
        (sound.replace("[\"ls\"]", "\"ls\""), "1:1", "`argv` is not a list"),
        (sound.replace("auto", "allow"), "1:1", "not auto, ask or refuse"),
        (sound.replace("\"expect\": \"auto\"", "\"code\": null"), "1:1", "`expect` is missing"),
        // A byte order mark is no part of JSON, and whoever writes one is told where it stands.
        (format!("\u{feff}{sound}"), "1:1", "expected value"),
        (format!("{sound}{sound}").replacen("\n", " ", 1), "1:47", "trailing characters"),
    ] {
        let (name, code, shown, said) = tested(&env, rows.as_bytes());
        assert_eq!((code, shown.as_str()), (125, ""), "{rows:?}: {said}");
        assert!(said.starts_with(&format!("pinfold: {name}:{place}: ")), "{rows:?}: {said}");
        assert!(said.contains(fault) && said.contains("Nothing was compared. Next: "), "{said}");
    }
    let (name, code, _, said) =
        tested(&env, b"{\"argv\": [\"ls\", \"\xff\"], \"expect\": \"auto\"}\n");
    assert_eq!(code, 125, "{said}");
    assert!(said.contains(&name) && said.contains("UTF-8"), "{said}");
    for name in [env.path("no-rows.jsonl"), env.path("config")] {
        let (code, shown, said) = says(&env, &["policy", "test", name.to_str().expect("UTF-8")]);
        assert_eq!((code, shown.as_str()), (125, ""), "{said}");
        assert!(said.contains(&format!("{} cannot be read: ", name.display())), "{said}");
    }
}

/// Renders one form of the catalog as JSON.
fn rendered(env: &Env, what: &str) -> Value {
    let (code, shown, said) = says(env, &["policy", "render", what, "--json"]);
    assert_eq!((code, said.as_str()), (0, ""), "{what}");
    serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{what}: {error}: {shown}"))
}

#[test]
fn every_form_of_the_catalog_is_printed_for_people_and_as_json() {
    let Some(env) = host() else { return };
    for what in ["prompt", "docs", "tools", "conditions", "schema"] {
        let (code, shown, said) = says(&env, &["policy", "render", what]);
        assert_eq!((code, said.as_str()), (0, ""), "{what}");
        let value = rendered(&env, what);
        if ["prompt", "docs"].contains(&what) {
            let members = value.as_object().expect("an object");
            assert_eq!(members.keys().collect::<Vec<_>>(), [what]);
            assert_eq!(value[what].as_str().expect("a text").trim_end(), shown.trim_end());
        } else {
            assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), value, "{what}");
        }
    }
}

#[test]
fn the_tools_are_a_list_of_names_descriptions_and_schemas() {
    let Some(env) = host() else { return };
    let tools = rendered(&env, "tools");
    let tools = tools.as_array().expect("a list");
    assert!(!tools.is_empty());
    for tool in tools {
        let members: Vec<&String> = tool.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["name", "description", "inputSchema"]);
        let schema = &tool["inputSchema"];
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{schema}");
        assert_eq!(schema["type"], "object", "what a tool takes is an object");
        let description = tool["description"].as_str().expect("a text");
        for rule in ["After a person declines", "Do not call again", "`nobody-to-ask`"] {
            assert!(description.contains(rule), "{rule} is not in {description}");
        }
    }
    let run = tools.iter().find(|tool| tool["name"] == "run_command").expect("run_command");
    let schema = jsonschema::draft202012::new(&run["inputSchema"]).expect("a schema");
    for arguments in [
        json!({"argv": ["ls"]}),
        json!({"line": "ls"}),
        json!({"argv": ["ls"], "cwd": "src", "timeout_s": 5}),
    ] {
        assert!(schema.is_valid(&arguments), "{arguments}");
    }
    for arguments in [
        json!({}),
        json!({"argv": []}),
        json!({"argv": "ls"}),
        json!({"argv": ["ls"], "line": "ls"}),
        json!({"argv": ["ls"], "env": {}}),
        json!({"argv": ["ls"], "approve": true}),
        json!({"argv": ["ls"], "timeout_s": 0}),
        json!({"argv": vec!["a"; 65]}),
    ] {
        assert!(!schema.is_valid(&arguments), "{arguments}");
    }
}

#[test]
fn the_conditions_say_what_runs_without_a_person_and_the_switch_makes_all_ask() {
    let Some(env) = host() else { return };
    let conditions = |switch: Option<&str>| -> Value {
        let mut command = env.command(&["policy", "render", "conditions", "--json"]);
        if let Some(value) = switch {
            command.env("PINFOLD_AUTO_APPROVE", value);
        }
        let output = command.output().expect("pinfold starts");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let decisions = |view: &Value| -> Vec<String> {
        let members: Vec<&String> = view.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["enabled", "conditions", "rules"]);
        assert!(view["conditions"].as_array().is_some_and(|all| !all.is_empty()), "{view}");
        let rules = view["rules"].as_array().expect("a list");
        rules.iter().map(|rule| rule["decision"].as_str().expect("a word").to_owned()).collect()
    };
    let (on, off) = (conditions(None), conditions(Some("0")));
    assert_eq!((&on["enabled"], &off["enabled"]), (&json!(true), &json!(false)));
    let (on, off) = (decisions(&on), decisions(&off));
    assert!(on.iter().any(|word| word == "auto") && on.iter().any(|word| word == "ask"), "{on:?}");
    assert!(off.iter().all(|word| word == "ask") && off.len() == on.len(), "{off:?}");
}

#[test]
fn the_schema_of_commands_accepts_what_passes_and_refuses_most_of_the_rest() {
    let Some(env) = host() else { return };
    let schema = rendered(&env, "schema");
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    let schema = jsonschema::draft202012::new(&schema).expect("a schema");
    let (mut accepted, mut refused, mut wrong) = (0, 0, 0);
    for row in vectors().iter().filter(|row| row["argv"].is_array()) {
        let argv = &row["argv"];
        let fits = schema.is_valid(argv);
        if row["expect"] == "refuse" {
            wrong += usize::from(fits);
            refused += usize::from(!fits);
            continue;
        }
        // What an interpreter reaches is written as the interpreter's call.
        let through = argv[0].as_str().is_some_and(|program| program.starts_with("python"));
        if !through || row["template"] == "python" {
            assert!(fits, "{row}");
            accepted += 1;
        }
    }
    let all = refused + wrong;
    assert!(accepted >= 100 && refused * 100 >= all * 60, "{accepted}; {refused} of {all}");
}

#[test]
fn every_form_follows_the_operators_catalog() {
    let Some(env) = host() else { return };
    let own = "\n[[tool]]\nid = \"our-rain\"\nprogram = \"rain\"\nsub = [\"fall\"]\n\
        describe = \"Let it rain.\"\naccess = \"none\"\ndecision = \"auto\"\nprofile = \"look\"\n\
        budget = 7\nflags = [\"--hard\"]\noperands = { kind = \"name\", max = 1 }\n\
        match = [\"rain fall\"]\nno_match = [\"rain\"]\n\
        [[instead]]\nprograms = [\"snow\"]\nreason = \"too warm\"\nuse = \"rain fall\"\n";
    let forms = ["prompt", "docs", "tools", "conditions", "schema"];
    let before = forms.map(|what| rendered(&env, what).to_string());
    catalog(
        &env,
        &SHIPPED
            .replacen("name   = \"shipped\"", "name = \"ours\"", 1)
            .replace("id = \"pwd\"", "id = \"wd\""),
    );
    let renamed = rendered(&env, "schema");
    assert!(renamed["$defs"]["wd"].is_object() && renamed["$defs"]["pwd"].is_null());
    catalog(&env, &(SHIPPED.to_owned() + own));
    for (what, before) in forms.iter().zip(before) {
        let after = rendered(&env, what).to_string();
        assert!(after.contains("rain") && !before.contains("rain"), "{what}: {after}");
    }
    let prompt = rendered(&env, "prompt")["prompt"].as_str().expect("a text").to_owned();
    let entry = "rain fall [--hard] [NAME]\n    auto: Let it rain. (sees nothing of the workspace; \
        at most 7 calls a step)\n";
    assert!(prompt.contains(entry) && prompt.contains("snow: rain fall\n"), "{prompt}");
}
