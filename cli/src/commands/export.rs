//! `ah export`: a session as a document, for people or programs: as HTML the whole tree, else the current branch. Secrets of
//! the environment are replaced by their names.

use ah_store::Tree;

use super::place::existing;
use crate::args::subcommands::ExportFormat;
use crate::commands::output::{print_exact, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_engine::sessions::plan::SessionPlan;
use ah_terminal::document;

/// Prints the session.
pub fn run(config: &Config, plan: &SessionPlan, format: ExportFormat) -> Result<u8, Error> {
    let paths = existing(plan, config)?;
    let tree = Tree::open(&paths)?;
    let environment = &config.environment;
    let redacted = || {
        Ok::<_, Error>(document::redacted(
            &document::current_branch(&tree)?,
            environment,
        ))
    };
    let uuid = || tree.uuid(paths.id().as_ref());
    match format {
        ExportFormat::Html => print_exact(&document::html(&tree, environment)?),
        ExportFormat::Md => {
            let id = paths.id().map_or_else(String::new, |id| id.to_string());
            print_exact(&document::markdown_of(&tree, &id, environment)?)
        }
        ExportFormat::Claude => {
            let cwd = environment.cwd();
            print_exact(&ah_porting::export::claude(&redacted()?, &uuid()?, cwd)?)
        }
        ExportFormat::Atif => print_json(&ah_porting::export::atif(&redacted()?, &uuid()?)),
        ExportFormat::Jsonl => print_exact(&document::jsonl(&tree, environment)?),
    }
}
