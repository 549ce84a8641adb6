//! `ah export`: the current branch as a document, for people or programs. Secrets of the environment are replaced by
//! their names.

use ah_store::Tree;

use super::place::existing;
use crate::args::subcommands::ExportFormat;
use crate::commands::output::{print_exact, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_engine::plan::SessionPlan;
use ah_terminal::document;

/// Prints the current branch.
pub fn run(config: &Config, plan: &SessionPlan, format: ExportFormat) -> Result<u8, Error> {
    let paths = existing(plan, config)?;
    let tree = Tree::open(&paths)?;
    let messages = match tree.current()? {
        Some(current) => tree.branch(&current)?,
        None => Vec::new(),
    };
    let uuid = tree.uuid(paths.id().as_ref())?;
    let id = paths.id().map_or_else(String::new, |id| format!(" {id}"));
    let name = tree.name()?.unwrap_or_else(|| format!("Session{id}"));
    match format {
        ExportFormat::Md => print_exact(
            &config
                .environment
                .redact(&document::markdown(&name, &messages)),
        ),
        ExportFormat::Html => print_exact(&document::html(&name, &messages, &config.environment)),
        ExportFormat::Claude => {
            let messages = document::redacted(&messages, &config.environment);
            let cwd = config.environment.cwd();
            print_exact(&ah_porting::export::claude(&messages, &uuid, cwd)?)
        }
        ExportFormat::Atif => {
            let messages = document::redacted(&messages, &config.environment);
            print_json(&ah_porting::export::atif(&messages, &uuid))
        }
        ExportFormat::Jsonl => print_exact(&document::jsonl(&messages, &config.environment)),
    }
}
