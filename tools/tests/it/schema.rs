//! The schemas of the built-in tools, as they are sent with every request.

use std::sync::Arc;

use ah_conversation::{Environment, Interface};
use ah_testkit::world::SessionStore;
use ah_tools::{Profile, Search, Shell, ToolDeps, Web, builtin};
use serde_json::Value;

use crate::folder::Folder;

/// A tool's name and its schema per line.
const SCHEMAS: &str = include_str!("schemas.txt");

#[tokio::test]
async fn every_tool_has_exactly_its_schema() {
    let folder = Folder::new();
    let mut actual = Vec::new();
    for (profile, interface) in [
        (Profile::Default, Interface::Native),
        (Profile::Sdk, Interface::AgentSdk),
    ] {
        let deps = ToolDeps {
            workspace: folder.workspace(),
            shell: Shell::new(&Environment::default()),
            store: Arc::new(SessionStore::in_memory(&folder.path("")).unwrap()),
            has_person: true,
            web: Web {
                search: Some(Search::Searxng(String::new())),
                ..Web::default()
            },
            tasks: Vec::new(),
        };
        for tool in builtin(profile, interface, deps) {
            let spec = tool.spec();
            actual.push((spec.name.clone(), spec.input_schema.as_ref().clone()));
        }
    }
    let expected: Vec<_> = SCHEMAS
        .lines()
        .map(|line| {
            let (name, schema) = line.split_once(' ').unwrap();
            let schema: Value = serde_json::from_str(schema).unwrap();
            (name.to_owned(), schema)
        })
        .collect();
    // The order of keys does not matter.
    for (actual, expected) in actual.iter().zip(&expected) {
        assert_eq!(actual, expected);
    }
    assert_eq!(actual.len(), expected.len());
}
