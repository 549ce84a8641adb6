//! Checks our requests to GitHub and Forgejo, and the responses of our fake ones, against their published API
//! descriptions. `cargo xtask test` downloads those and passes their paths; without them, these tests pass without testing
//! anything. GitLab's description is in no package registry: `shape/gitlab.txt` lists the operations that are used, and
//! says what they were compared with.

use std::path::PathBuf;

use ah_testkit::github::{Dialect, Exchange};
use ah_testkit::script::says;
use ah_testkit::server::Server;
use serde_json::{Map, Value, json};

use super::site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans};

const DESCRIPTION: &str = "node_modules/@octokit/openapi/generated/api.github.com.json";

fn description(variable: &str, path: &str) -> Option<Value> {
    let folder = std::env::var_os(variable).map(PathBuf::from)?;
    let text = std::fs::read_to_string(folder.join(path)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// Has the work on a hub ask for all that it ever asks for; returns the exchanges.
fn exchanges(dialect: Dialect) -> Option<Vec<Exchange>> {
    let site = Site::new()?;
    let hub = site.speaking(dialect);
    hub.open(7, "Greet in Latin", "Please.", &["todo", "p1"]);
    hub.open(9, "Less urgent", "", &["todo"]);
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
    site.on(&hub, &server, []).run().expect(0);
    site.on(&hub, &server, ["-i", "7"]).run().expect(0);
    site.world.write(".ah/work/prompts/tidy.md", "Tidy up.");
    let server = Server::new([says("No."), says("No.")]);
    site.on(&hub, &server, ["-p", "tidy"]).run().expect(1);
    // Reviews, and rules that the owner of the token may bypass.
    hub.open(7, "Greet in Latin", "Please.", &["done"]);
    hub.review("octo", "Say it twice.");
    hub.rules(
        match dialect {
            Dialect::GitHub => json!({"type": "creation"}),
            Dialect::Forgejo => json!({"rule_name": "main", "enable_push": false}),
            Dialect::GitLab => json!({
                "id": 1, "name": "main", "push_access_levels": [{"access_level": 40}],
            }),
        },
        true,
    );
    let again = [plans(), does("ave", "greet: again"), checks(PASS)].concat();
    site.on(&hub, &Server::new(again), []).run().expect(0);
    Some(hub.exchanges())
}

#[test]
fn every_exchange_has_the_shape_that_github_publishes() {
    let Some(description) = description("AH_TEST_GITHUB", DESCRIPTION) else {
        return;
    };
    let Some(exchanges) = exchanges(Dialect::GitHub) else {
        return;
    };
    let mut kinds: Vec<_> = exchanges
        .iter()
        .map(|exchange| check(&description, exchange))
        .collect();
    kinds.sort();
    kinds.dedup();
    insta::assert_snapshot!(kinds.join("\n"), @r"
    DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name} 200
    GET /repos/{owner}/{repo} 200
    GET /repos/{owner}/{repo}/collaborators/{username}/permission 200
    GET /repos/{owner}/{repo}/issues 200
    GET /repos/{owner}/{repo}/issues/{issue_number} 200
    GET /repos/{owner}/{repo}/issues/{issue_number}/comments 200
    GET /repos/{owner}/{repo}/labels/{name} 200
    GET /repos/{owner}/{repo}/labels/{name} 404
    GET /repos/{owner}/{repo}/pulls 200
    GET /repos/{owner}/{repo}/pulls/{pull_number}/comments 200
    GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews 200
    GET /repos/{owner}/{repo}/rules/branches/{branch} 200
    GET /repos/{owner}/{repo}/rulesets/{ruleset_id} 200
    PATCH /repos/{owner}/{repo}/issues/{issue_number} 200
    POST /repos/{owner}/{repo}/issues 201
    POST /repos/{owner}/{repo}/issues/{issue_number}/comments 201
    POST /repos/{owner}/{repo}/issues/{issue_number}/labels 200
    POST /repos/{owner}/{repo}/labels 201
    POST /repos/{owner}/{repo}/pulls 201
    ");
}

#[test]
fn every_exchange_has_the_shape_that_forgejo_publishes() {
    let Some(description) = description("AH_TEST_FORGEJO", "swagger.v1.json") else {
        return;
    };
    let description = from_swagger(description);
    let Some(exchanges) = exchanges(Dialect::Forgejo) else {
        return;
    };
    let mut kinds: Vec<_> = exchanges
        .into_iter()
        .map(|mut exchange| {
            exchange.path = exchange.path.strip_prefix("/api/v1").unwrap().to_owned();
            check(&description, &exchange)
        })
        .collect();
    kinds.sort();
    kinds.dedup();
    insta::assert_snapshot!(kinds.join("\n"), @r"
    DELETE /repos/{owner}/{repo}/issues/{index}/labels/{identifier} 204
    GET /repos/{owner}/{repo} 200
    GET /repos/{owner}/{repo}/branch_protections 200
    GET /repos/{owner}/{repo}/collaborators/{collaborator}/permission 200
    GET /repos/{owner}/{repo}/issues 200
    GET /repos/{owner}/{repo}/issues/{index} 200
    GET /repos/{owner}/{repo}/issues/{index}/comments 200
    GET /repos/{owner}/{repo}/labels 200
    GET /repos/{owner}/{repo}/pulls 200
    GET /repos/{owner}/{repo}/pulls/{index}/reviews 200
    GET /repos/{owner}/{repo}/pulls/{index}/reviews/{id}/comments 200
    PATCH /repos/{owner}/{repo}/issues/{index} 201
    POST /repos/{owner}/{repo}/issues 201
    POST /repos/{owner}/{repo}/issues/{index}/comments 201
    POST /repos/{owner}/{repo}/issues/{index}/labels 200
    POST /repos/{owner}/{repo}/labels 201
    POST /repos/{owner}/{repo}/pulls 201
    ");
}

/// Brings a description of the older form (Swagger 2.0) into the newer one, as far as it is looked at here.
fn from_swagger(mut description: Value) -> Value {
    let responses = description["responses"].take();
    for operations in description["paths"].as_object_mut().unwrap().values_mut() {
        for operation in operations.as_object_mut().unwrap().values_mut() {
            let parameters = operation["parameters"].as_array().cloned();
            let mut parameters = parameters.into_iter().flatten();
            if let Some(body) = parameters.find(|one| one["in"] == "body") {
                operation["requestBody"] =
                    json!({"content": {"application/json": {"schema": body["schema"]}}});
            }
            let Some(answers) = operation["responses"].as_object_mut() else {
                continue;
            };
            for answer in answers.values_mut() {
                let name = answer["$ref"].as_str().unwrap_or_default();
                let name = name.trim_start_matches("#/responses/");
                let schema = responses[name]["schema"].clone();
                *answer = json!({"content": {"application/json": {"schema": schema}}});
            }
        }
    }
    let schemas = description["definitions"].take();
    let text = json!({"paths": description["paths"], "components": {"schemas": schemas}});
    let text = text
        .to_string()
        .replace("#/definitions/", "#/components/schemas/");
    let mut description: Value = serde_json::from_str(&text).unwrap();
    let schemas = description["components"]["schemas"]
        .as_object_mut()
        .unwrap();
    for schema in schemas.values_mut() {
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        let Some(fields) = fields else {
            continue;
        };
        // There, every field may be null, without a word about it.
        for field in fields.values_mut() {
            *field = json!({"anyOf": [field.take(), {"type": "null"}]});
        }
        schema["additionalProperties"] = false.into();
    }
    description
}

#[test]
fn every_request_is_one_that_gitlab_documents() {
    let known = include_str!("shape/gitlab.txt");
    let Some(exchanges) = exchanges(Dialect::GitLab) else {
        return;
    };
    let mut used = Vec::new();
    for exchange in exchanges {
        let fields = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let rows = known.lines().filter(|line| !line.starts_with('#'));
        let row = rows
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|row| row[0] == exchange.method && fits(row[1], &exchange.path))
            .unwrap_or_else(|| panic!("no such place: {exchange:?}"));
        let queries = exchange
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        for (name, _) in queries {
            assert!(fields(row[2]).contains(&name.to_owned()), "{row:?}: {name}");
        }
        for name in exchange.sent.as_object().into_iter().flat_map(Map::keys) {
            assert!(fields(row[3]).contains(name), "{row:?}: {name}");
        }
        assert!(
            fields(row[4]).contains(&exchange.status.to_string()),
            "{exchange:?}"
        );
        used.push(format!("{} {}", row[0], row[1]));
    }
    let unused = known.lines().filter(|line| !line.starts_with('#'));
    let unused: Vec<_> = unused
        .filter(|line| {
            !used
                .iter()
                .any(|used| line.starts_with(&format!("{used} ")))
        })
        .collect();
    assert_eq!(unused, Vec::<&str>::new());
}

/// Fails if the exchange does not match the description; returns its kind.
pub fn check(description: &Value, exchange: &Exchange) -> String {
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
