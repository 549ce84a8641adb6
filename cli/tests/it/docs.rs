//! The documents agree with the program. Options, subcommands and events are compared in the tests of their areas;
//! the rest is here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use ah_cli::args::{KnownNames, parse};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::binary::World;

const INTERFACES: &str = include_str!("../../../docs/interfaces.md");
const README: &str = include_str!("../../../README.md");

/// Returns the names of all tests of this program.
pub fn tests() -> Vec<String> {
    let listed = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    { listed.lines() }
        .filter_map(|line| Some(line.strip_suffix(": test")?.to_owned()))
        .collect()
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The paragraph that begins with `start`.
fn paragraph(start: &str) -> &'static str {
    let at = INTERFACES.find(start).unwrap();
    INTERFACES[at..].split("\n\n").next().unwrap()
}

#[test]
fn the_settings_of_the_page_are_those_of_the_schema() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../docs/settings.schema.json")).unwrap();
    let mut known = BTreeSet::new();
    for (key, value) in schema["properties"].as_object().unwrap() {
        match (
            value["properties"].as_object(),
            value["additionalProperties"]["properties"].is_object(),
        ) {
            (Some(parts), _) => known.extend(parts.keys().map(|part| format!("{key}.{part}"))),
            // The schema lists the fields of each entry.
            (None, true) => drop(known.insert(format!("{key}.NAME"))),
            (None, false) => drop(known.insert(key.clone())),
        }
    }
    known.remove("$schema");
    let sentence = paragraph("**Settings:**")
        .split(" An unknown key")
        .next()
        .unwrap();
    let documented: BTreeSet<_> = quoted(sentence).map(str::to_owned).collect();
    assert_eq!(documented, known);
}

#[test]
fn the_tables_of_the_page_are_those_of_a_session() {
    let world = World::new();
    world
        .ah(["-m", "script:demo", "-n", "--max-turns", "1", "go"])
        .run()
        .expect(3);
    let connection = Connection::open(world.database()).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut statement = connection.prepare(sql).unwrap();
    let tables = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    let tables: BTreeSet<_> = tables.map(Result::unwrap).collect();
    let sentence = paragraph("**Tables of a session:**")
        .split("`PRAGMA")
        .next()
        .unwrap();
    let documented: BTreeSet<_> = quoted(sentence).map(str::to_owned).collect();
    assert_eq!(documented, tables);
}

/// Every command line in the documents is accepted by the program.
#[test]
fn the_commands_of_the_documents_are_understood() {
    let names = KnownNames {
        is_tool: &|_| false,
        is_session: &|word| word == "ID",
    };
    let mut count = 0;
    for page in [
        README,
        INTERFACES,
        include_str!("../../../docs/extending.md"),
        include_str!("../../../docs/scripted-model.md"),
    ] {
        // Code blocks, and the texts between backticks.
        let lines = page.lines().chain(page.lines().flat_map(quoted));
        for line in lines.filter(|line| line.starts_with("ah ") && !line.contains('[')) {
            let line = line
                .replace("<id>", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
                .replace('…', "");
            let arguments = words(&line)
                .into_iter()
                .skip(1)
                .map(OsString::from)
                .collect();
            if let Err(error) = parse(arguments, &names) {
                panic!("{line}: {error}");
            }
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn the_readme_leads_to_every_page() {
    let pages = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).unwrap();
    let mut count = 0;
    for page in pages {
        let name = page.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            assert!(README.contains(&format!("(docs/{name})")), "{name}");
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

/// Splits a command line into words as a shell does; a comment ends it.
pub fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => break,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
