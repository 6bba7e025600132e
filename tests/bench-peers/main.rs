//! Asks the policy engines `regorus` and `cedar-policy` what the catalog is asked, with the same
//! ten thousand tools and calls, in one process.
//!
//! Neither reads argument vectors: what the catalog finds out by walking one, which subcommand,
//! which options and how many operands, the peers are told, and the time for that is not counted.
//! They do not look at values and operands at all. Exits 1 where two of them disagree on a call.
#![allow(clippy::print_stdout, reason = "a bench says what it measured")]

#[path = "../bench/measure.rs"]
mod measure;
#[path = "../bench/synthetic.rs"]
mod synthetic;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request, RestrictedExpression,
};
use measure::{Spread, decisions, micros};
use pinfold::catalog::Catalog;
use pinfold::source::Source;
use regorus::{Engine, Value};
use serde_json::json;
use std::fmt::Write as _;
use synthetic::{Call, Fate, Template};

const TEMPLATES: usize = 10_000;
const CALLS: usize = 5_000;
/// One decision of the slowest peer takes tens of milliseconds.
const CEDAR_CALLS: usize = 30;

/// One rule over tools as data.
const REGO: &str = "package catalog
default allow := false
allow if {
    tool := data.tools[input.program]
    tool.subs[input.sub]
    input.operands >= tool.min
    input.operands <= tool.max
    every flag in input.flags { tool.flags[flag] }
}";

fn main() {
    let calls = synthetic::calls(TEMPLATES, CALLS);
    let tools: Vec<Template> = (0..TEMPLATES).map(synthetic::template).collect();
    let (mut rego, cedar) = (rego(&tools), Cedar::new(&tools));
    let source = Source::new("synthetic.toml", synthetic::catalog(TEMPLATES));
    let catalog = Catalog::parse(source).unwrap_or_else(|faults| panic!("{faults}"));
    for (index, call) in calls.iter().enumerate() {
        let fits = call.fate == Fate::Auto;
        assert_eq!(catalog.decide(&call.argv).is_ok(), fits, "pinfold: {call:?}");
        assert_eq!(asked(&mut rego, &rego_input(call)), fits, "regorus: {call:?}");
        if index < CEDAR_CALLS {
            assert_eq!(cedar.allows(&cedar_request(call)), fits, "cedar-policy: {call:?}");
        }
    }
    println!("{TEMPLATES} tools; {CALLS} calls, {CEDAR_CALLS} of cedar-policy");
    println!("| engine                            | med µs     | p99 µs     |");
    println!("|-----------------------------------|------------|------------|");
    let pinfold = decisions(&calls, |call| call.argv.clone(), |argv| catalog.decide(argv).is_ok());
    row("pinfold, from the argv", pinfold);
    row("regorus, tools as data", decisions(&calls, rego_input, |input| asked(&mut rego, input)));
    let few = &calls[..CEDAR_CALLS];
    let spread = decisions(few, cedar_request, |request| cedar.allows(request));
    row("cedar-policy, one policy a tool", spread);
}

fn row(name: &str, spread: Spread) {
    println!("| {name:33} | {:>10} | {:>10} |", micros(spread.median), micros(spread.p99));
}

fn rego(tools: &[Template]) -> Engine {
    let mut engine = Engine::new();
    engine.add_policy("catalog.rego".to_owned(), REGO.to_owned()).expect("sound");
    let set = |words: &[&str]| -> serde_json::Map<String, serde_json::Value> {
        words.iter().map(|word| ((*word).to_owned(), json!(true))).collect()
    };
    let tool = |tool: &Template| {
        let (min, max) = tool.counts;
        let value =
            json!({ "subs": set(tool.subs), "flags": set(tool.flags), "min": min, "max": max });
        (tool.program.clone(), value)
    };
    let tools: serde_json::Map<_, _> = tools.iter().map(tool).collect();
    let data = json!({ "tools": tools }).to_string();
    engine.add_data(Value::from_json_str(&data).expect("JSON")).expect("an object");
    engine
}

fn rego_input(call: &Call) -> Value {
    let Call { program, sub, flags, operands, .. } = call;
    let input = json!({ "program": program, "sub": sub, "flags": flags, "operands": operands });
    Value::from_json_str(&input.to_string()).expect("JSON")
}

fn asked(engine: &mut Engine, input: &Value) -> bool {
    engine.set_input(input.clone());
    let answer = engine.eval_rule("data.catalog.allow".to_owned());
    answer.expect("an answer") == Value::from(true)
}

struct Cedar {
    authorizer: Authorizer,
    policies: PolicySet,
    entities: Entities,
}

impl Cedar {
    fn new(tools: &[Template]) -> Self {
        let mut text = String::new();
        for Template { program, subs, flags, counts: (min, max), .. } in tools {
            let written = write!(
                text,
                "permit(principal, action == Action::\"run\", resource == Program::\"{program}\") \
                 when {{ {subs:?}.contains(context.sub) && {flags:?}.containsAll(context.flags) \
                 && context.operands >= {min} && context.operands <= {max} }};\n"
            );
            written.expect("a string takes every text");
        }
        let policies = text.parse().unwrap_or_else(|error| panic!("{error}"));
        Self { authorizer: Authorizer::new(), policies, entities: Entities::empty() }
    }

    fn allows(&self, request: &Request) -> bool {
        let answer = self.authorizer.is_authorized(request, &self.policies, &self.entities);
        answer.decision() == Decision::Allow
    }
}

fn cedar_request(call: &Call) -> Request {
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let pairs = [
        ("sub", text(call.sub)),
        ("flags", RestrictedExpression::new_set(call.flags.iter().map(|flag| text(flag)))),
        ("operands", RestrictedExpression::new_long(call.operands.into())),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
    let uid = |text: &str| -> EntityUid { text.parse().expect("a name") };
    Request::new(
        uid("Agent::\"agent\""),
        uid("Action::\"run\""),
        uid(&format!("Program::\"{}\"", call.program)),
        Context::from_pairs(pairs).expect("a context"),
        None,
    )
    .expect("a request")
}
