//! What `ah` says to a host, held against what the original says in the same cases.
//!
//! A case is a file of `interop/differential/cases`, which `host.mjs` plays. Of each line only the shape counts
//! (`shape.rs`). The shapes of the original are recorded in `interop/differential/original`, since it is not fetched:
//! `AGENT_CLI=/the/original AH_WRITE_DOCS=1 cargo xtask test differential` writes them. Differences that stay are in
//! `allowed.toml`, each with its reason, and in a table of `docs/agent-sdk.md`.

mod compare;
mod recorded;
mod shape;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use self::compare::{Allowed, differences};
use self::recorded::Cases;
use self::shape::{Reader, Shape};
use super::{cache, sdk};
use crate::workspace::{COMMAND_LINE, built, output, root};

const PAGE: &str = "docs/agent-sdk.md";
/// Beginning of the table of differences.
const HEAD: &str = "\
| difference | reason |
| --- | --- |
";

/// Kinds of lines while servers start, which is beside everything else.
const START: [&str; 3] = [
    "control_request/mcp_message/initialize",
    "control_request/mcp_message/tools/list",
    "control_response/success/initialize",
];

/// Runs all cases and compares, or records, if another program than ours is named.
pub fn test() -> Result<()> {
    let is_written = std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1");
    if let Some(original) = std::env::var_os(sdk::BINARY).map(PathBuf::from) {
        let original = original
            .canonicalize()
            .with_context(|| format!("{}={}", sdk::BINARY, original.display()))?;
        let cases = played(&original)?;
        if is_written {
            return record(&cases);
        }
        print(&cases);
        return Ok(());
    }
    let ours = played(&built(COMMAND_LINE, "ah", "dev")?)?;
    let kinds = recorded::read_kinds(&read(&folder().join("original/kinds.txt"))?)?;
    let mut found = Vec::new();
    for (name, shapes) in &ours {
        let original = read(&folder().join(format!("original/cases/{name}.txt")))?;
        found.extend(differences(
            name,
            &recorded::read(&original, &kinds)?,
            shapes,
        ));
    }
    let allowed = Allowed::read(&read(&folder().join("allowed.toml"))?)?;
    allowed.judge(&found)?;
    tabulate(&allowed.table(), is_written)
}

/// Plays all cases with `binary`.
fn played(binary: &Path) -> Result<Cases> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder().join("cases"))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut host = cache::offline(&Command::new("node"));
    host.arg(folder().join("host.mjs"))
        .args(&files)
        .env(sdk::BINARY, binary)
        .env("AH_TEST_LOOPBACK", built("ah-testkit", "loopback", "dev")?);
    let lines = output(&mut host)?;
    let mut cases = Cases::new();
    for file in &files {
        let name = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .context("a case has no name")?;
        let case =
            serde_json::from_str(&read(file)?).with_context(|| file.display().to_string())?;
        let shapes = shapes(name, &case, &lines)?;
        ensure!(
            !shapes.is_empty(),
            "the program said nothing in the case `{name}`"
        );
        cases.insert(name.to_owned(), shapes);
    }
    Ok(cases)
}

/// Returns the shapes of the lines of one case among those of all.
fn shapes(name: &str, case: &Value, lines: &str) -> Result<Vec<Shape>> {
    let mut reader = Reader::new(case);
    let mut shapes = Vec::new();
    for line in lines.lines() {
        let told: Value = serde_json::from_str(line)?;
        if told["case"] != name {
            continue;
        }
        // It needs no answer, and comes at any time.
        if told["line"]["request"]["message"]["method"] == "notifications/initialized" {
            continue;
        }
        if let Some(fault) = told["fault"].as_str() {
            bail!("the case `{name}` cannot be played: {fault}");
        }
        shapes.push(match told.get("line") {
            Some(line) => reader.read(line),
            None => Shape {
                kind: format!("exit/{}", told["exit"]),
                ..Shape::default()
            },
        });
    }
    for run in shapes.split_inclusive_mut(|shape| shape.kind.starts_with("exit/")) {
        // The sort is stable: all other lines keep their order.
        run.sort_by_key(|shape| {
            START
                .iter()
                .position(|kind| shape.kind == *kind)
                .unwrap_or(START.len())
        });
        run.chunk_by_mut(|one, other| is_of_call(one) && is_of_call(other))
            .for_each(|at_once| {
                at_once.sort_by(|one, other| {
                    (&one.kind, &one.facts).cmp(&(&other.kind, &other.facts))
                });
            });
    }
    Ok(shapes)
}

/// Whether a line is about the progress or the result of a call; those of calls that run at once come in any order.
fn is_of_call(shape: &Shape) -> bool {
    let kinds = ["user/tool_result/", "tool_progress"];
    kinds.iter().any(|kind| shape.kind.starts_with(kind))
}

/// Writes the shapes of the original.
fn record(cases: &Cases) -> Result<()> {
    let original = folder().join("original");
    if original.is_dir() {
        fs::remove_dir_all(&original)?;
    }
    fs::create_dir_all(original.join("cases"))?;
    let kinds = recorded::kinds(cases);
    fs::write(original.join("kinds.txt"), recorded::write_kinds(&kinds))?;
    for (name, shapes) in cases {
        let path = original.join(format!("cases/{name}.txt"));
        fs::write(path, recorded::write(shapes, &kinds))?;
    }
    Ok(())
}

/// Prints the shapes, to be read.
fn print(cases: &Cases) {
    for (name, shapes) in cases {
        println!(
            "## {name}\n{}",
            recorded::write(shapes, &recorded::Kinds::new())
        );
    }
}

/// Holds the table of differences against the documentation, or writes it.
fn tabulate(table: &str, is_written: bool) -> Result<()> {
    let page = root().join(PAGE);
    let text = read(&page)?;
    let (before, rest) = text
        .split_once(HEAD)
        .with_context(|| format!("{PAGE} has no table of differences"))?;
    let rows = rest
        .split_inclusive('\n')
        .take_while(|line| line.starts_with('|'));
    let after = &rest[rows.map(str::len).sum::<usize>()..];
    let new = format!("{before}{HEAD}{table}{after}");
    if is_written {
        fs::write(&page, &new)?;
    } else {
        ensure!(
            new == text,
            "{PAGE} has another table of differences; set AH_WRITE_DOCS=1 to bring it up to date"
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn folder() -> PathBuf {
    root().join("interop/differential")
}
