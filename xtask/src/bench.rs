//! Measures the binary against the budget and prints the comparison as a Markdown table; fails if a row is over it.
//!
//! Times depend on the machine, so most budgets are multiples of what a bare loop takes (`bin/floor.rs`) in the same run.
//! Every run has a folder, a home and an environment of its own, talks to a server in this process, and must succeed to be
//! counted. The rows are in `rows.rs`; runs and their measurement in `process.rs` and `server.rs`.

mod answer;
mod cost;
mod fleet;
mod held;
mod lean;
mod machine;
mod openai;
mod process;
mod rows;
mod server;
mod soak;
mod statistics;
mod table;
mod tools;
mod typing;
mod watchers;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{COMMAND_LINE, built};
use process::{Agent, Pair};
use rows::GROUPS;
use server::Server;
use table::Group;

/// Parsed arguments.
struct Plan<'a> {
    /// Cargo's profile.
    build: &'a str,
    /// Whether to write where the bytes go, in the place of measuring rows.
    profiles: bool,
    /// Existing binary to measure, in the place of building one.
    binary: Option<&'a str>,
    /// Names of groups of rows; all groups if empty.
    groups: Vec<&'a str>,
}

/// Builds the binary, measures it and prints the table.
pub fn bench(arguments: &[&str]) -> Result<()> {
    let plan = parse(arguments)?;
    let binary = match plan.binary {
        Some(path) => std::path::absolute(path)?,
        None => built(COMMAND_LINE, "ah", plan.build)?,
    };
    if plan.profiles {
        return lean::profile(&binary);
    }
    let floor = built("xtask", "floor", plan.build)?;
    let pair = Pair {
        agent: Agent::new(&binary, Server::start()?)?,
        floor: Agent::new(&floor, Server::start()?)?,
    };
    print!("{}", machine::describe(&binary)?);

    let mut groups: Vec<Group> = Vec::new();
    for (name, measure) in GROUPS {
        if plan.groups.is_empty() || plan.groups.contains(&name) {
            eprintln!("==> {name}");
            let measured = machine::watched(|| measure(&pair));
            let (rows, load) = measured.with_context(|| format!("measuring {name}"))?;
            groups.push(Group { rows, load });
        }
    }
    print!("\n{}", table::render(&groups));
    let rows = groups.iter().flat_map(|group| &group.rows);
    let over = rows.filter(|row| !row.is_within()).count();
    ensure!(over == 0, "{over} rows are over their budget");
    Ok(())
}

fn parse<'a>(arguments: &[&'a str]) -> Result<Plan<'a>> {
    let mut plan = Plan {
        build: "dist",
        profiles: false,
        binary: None,
        groups: Vec::new(),
    };
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        let mut value = || {
            words
                .next()
                .copied()
                .with_context(|| format!("{word} needs a value"))
        };
        match word {
            "--build" => plan.build = value()?,
            "--profile" => plan.profiles = true,
            "--binary" => plan.binary = Some(value()?),
            name if GROUPS.iter().any(|(group, _)| *group == name) => plan.groups.push(name),
            _ => {
                let groups = GROUPS.map(|(name, _)| name).join(", ");
                bail!("unknown argument `{word}` of bench; the groups are {groups}");
            }
        }
    }
    Ok(plan)
}
