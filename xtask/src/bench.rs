//! Measures the binary against the budget and prints the comparison as a Markdown table.
//!
//! Not a test: figures belong to a machine, so nothing fails here. Every run has a folder, a home and an
//! environment of its own, talks to a server in this process, and must end well to be counted. What is measured
//! stands in `rows.rs`, how in `process.rs` and `server.rs`.

mod answer;
mod machine;
mod openai;
mod process;
mod rows;
mod server;
mod table;
mod typing;

use anyhow::{Context, Result, bail};

use crate::workspace::built;
use process::Agent;
use rows::GROUPS;
use server::Server;
use table::Group;

/// What is to be measured.
struct Plan<'a> {
    profile: &'a str,
    /// A binary that is there already.
    binary: Option<&'a str>,
    /// Names of groups of rows; all of them when empty.
    groups: Vec<&'a str>,
}

/// Builds the binary, measures, prints.
pub fn bench(arguments: &[&str]) -> Result<()> {
    let plan = parse(arguments)?;
    let binary = match plan.binary {
        Some(path) => std::path::absolute(path)?,
        None => built("ah-cli", "ah", plan.profile)?,
    };
    let agent = Agent::new(&binary, Server::start()?)?;
    print!("{}", machine::describe(&binary)?);

    let mut groups: Vec<Group> = Vec::new();
    for (name, measure) in GROUPS {
        if plan.groups.is_empty() || plan.groups.contains(&name) {
            eprintln!("==> {name}");
            let measured = machine::watched(|| measure(&agent));
            let (rows, load) = measured.with_context(|| format!("measuring {name}"))?;
            groups.push(Group { rows, load });
        }
    }
    print!("\n{}", table::render(&groups));
    Ok(())
}

fn parse<'a>(arguments: &[&'a str]) -> Result<Plan<'a>> {
    let mut plan = Plan {
        profile: "dist",
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
            "--profile" => plan.profile = value()?,
            "--binary" => plan.binary = Some(value()?),
            name if GROUPS.iter().any(|(group, _)| *group == name) => plan.groups.push(name),
            _ => {
                let groups = GROUPS.map(|(name, _)| name).join(", ");
                bail!("bench does not know `{word}`; it measures {groups}");
            }
        }
    }
    Ok(plan)
}
