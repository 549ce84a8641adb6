//! Checks our requests to GitHub, and the responses of our fake GitHub, against its published API description. `cargo
//! xtask test` downloads that and passes its path; without it, these tests pass without testing anything.

use std::path::PathBuf;

use ah_testkit::github::Exchange;
use ah_testkit::script::says;
use ah_testkit::server::Server;
use serde_json::{Map, Value, json};

use super::site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans};

const DESCRIPTION: &str = "node_modules/@octokit/openapi/generated/api.github.com.json";

fn description() -> Option<Value> {
    let folder = std::env::var_os("AH_TEST_GITHUB").map(PathBuf::from)?;
    let text = std::fs::read_to_string(folder.join(DESCRIPTION)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn every_exchange_has_the_shape_that_github_publishes() {
    let Some(description) = description() else {
        return;
    };
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "Please.", &["todo", "p1"]);
    github.open(9, "Less urgent", "", &["todo"]);
    let close = PASS.replace(
        "\"actions\": [",
        "\"actions\": [{\"action\": \"close_issue\"}, {\"action\": \"label_issue\", \"labels\": [\"latin\"]},",
    );
    let turns = [
        plans(),
        does("salvo", "greet: speaks Latin"),
        checks(NEEDS_FIXES),
        fixes("salve"),
        checks(&close),
    ];
    let server = Server::new(turns.concat());
    site.on(&github, &server, []).run().expect(0);
    site.world.write(".ah/work/prompts/tidy.md", "Tidy up.");
    let server = Server::new([says("No."), says("No.")]);
    site.on(&github, &server, ["-p", "tidy"]).run().expect(1);
    let exchanges = github.exchanges();
    let mut kinds: Vec<_> = exchanges
        .iter()
        .map(|exchange| check(&description, exchange))
        .collect();
    kinds.sort();
    kinds.dedup();
    insta::assert_snapshot!(kinds.join("\n"), @r"
    DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name} 200
    GET /repos/{owner}/{repo} 200
    GET /repos/{owner}/{repo}/issues 200
    GET /repos/{owner}/{repo}/issues/{issue_number}/comments 200
    GET /repos/{owner}/{repo}/labels/{name} 200
    GET /repos/{owner}/{repo}/labels/{name} 404
    GET /repos/{owner}/{repo}/pulls 200
    PATCH /repos/{owner}/{repo}/issues/{issue_number} 200
    POST /repos/{owner}/{repo}/issues 201
    POST /repos/{owner}/{repo}/issues/{issue_number}/comments 201
    POST /repos/{owner}/{repo}/issues/{issue_number}/labels 200
    POST /repos/{owner}/{repo}/labels 201
    POST /repos/{owner}/{repo}/pulls 201
    ");
}

/// Fails if the exchange does not match the description; returns its kind.
fn check(description: &Value, exchange: &Exchange) -> String {
    let paths = description["paths"].as_object().unwrap();
    let method = exchange.method.to_lowercase();
    let template = paths
        .iter()
        .filter(|(template, operations)| {
            fits(template, &exchange.path) && operations[&method].is_object()
        })
        // Of two matching paths, the one with fewer parameters applies.
        .min_by_key(|(template, _)| template.matches('{').count());
    let (template, operations) = template.unwrap_or_else(|| panic!("no such place: {exchange:?}"));
    let operation = &operations[&method];
    let parameters: Vec<_> = [&operation["parameters"], &operations["parameters"]]
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .map(|parameter| resolve(description, parameter)["name"].as_str().unwrap())
        .collect();
    for (name, _) in exchange
        .query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
    {
        assert!(
            parameters.contains(&name),
            "{method} {template} knows no `{name}`"
        );
    }
    if !exchange.sent.is_null() {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        validate(
            description,
            schema,
            &exchange.sent,
            &format!("{method} {template} is sent"),
        );
    }
    let status = exchange.status.to_string();
    let answer = resolve(description, &operation["responses"][&status]);
    assert!(
        answer.is_object(),
        "{method} {template} never answers {status}"
    );
    let schema = &answer["content"]["application/json"]["schema"];
    if schema.is_object() {
        validate(
            description,
            schema,
            &exchange.answer,
            &format!("{method} {template} answers {status}"),
        );
    }
    format!("{} {template} {status}", exchange.method)
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template
            .iter()
            .zip(path)
            .all(|(part, given)| part.starts_with('{') || *part == given)
}

fn resolve<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"]
        .as_str()
        .and_then(|place| place.strip_prefix('#'))
    {
        Some(place) => description.pointer(place).unwrap(),
        None => value,
    }
}

#[track_caller]
fn validate(description: &Value, schema: &Value, value: &Value, what: &str) {
    let mut schemas = Map::new();
    let mut open = vec![schema];
    while let Some(next) = open.pop() {
        match next {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                open.extend(fields.values());
                let name = fields
                    .get("$ref")
                    .and_then(Value::as_str)
                    .and_then(|place| place.strip_prefix("#/components/schemas/"));
                if let Some(name) = name.filter(|name| !schemas.contains_key(*name)) {
                    let schema = &description["components"]["schemas"][name];
                    schemas.insert(name.to_owned(), as_json_schema(schema));
                    open.push(schema);
                }
            }
            _ => {}
        }
    }
    let whole = json!({ "allOf": [as_json_schema(schema)], "components": { "schemas": schemas } });
    let faults = ah_schema::Schema::new(&whole).unwrap().faults(value);
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| format!("{}: {fault}", fault.place()))
        .collect();
    assert!(faults.is_empty(), "{what} {value:#}\n{}", faults.join("\n"));
}

/// Converts OpenAPI 3.0's `nullable` to JSON Schema's `null` type.
fn as_json_schema(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(as_json_schema).collect(),
        Value::Object(fields) => {
            let mut fields: Map<_, _> = fields
                .iter()
                .map(|(name, value)| (name.clone(), as_json_schema(value)))
                .collect();
            match fields.remove("nullable") {
                Some(Value::Bool(true)) => json!({ "anyOf": [fields, { "type": "null" }] }),
                _ => fields.into(),
            }
        }
        other => other.clone(),
    }
}
