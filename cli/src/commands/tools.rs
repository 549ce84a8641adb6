//! `ah tools`: what the model may do.

use std::sync::Arc;

use ah_conversation::{Environment, ToolSpec};
use ah_store::Session;
use ah_tools::{Naming, Profile, Shell, Surroundings, Workspace};
use serde_json::{Value, json};

use super::{print, print_json};
use crate::args::Manner;
use crate::args::options::{self, Options};
use crate::args::subcommands::Json;
use crate::config::Config;
use crate::error::CliError;
use crate::print::table::{Align, table};

/// Lists the tools.
pub fn run(config: &Config, options: &Options, form: Json) -> Result<u8, CliError> {
    let profile = options.tools.profile.unwrap_or_default().into();
    let specs = specs(&config.environment, profile, config.manner.into())?;
    if form.json {
        return print_json(&specs.iter().map(to_json).collect());
    }
    let rows: Vec<_> = specs
        .iter()
        .map(|spec| [spec.name.clone(), summary(spec).to_owned()])
        .collect();
    print(&table([Align::Left, Align::Left], &rows))
}

/// What the built-in tools say of themselves.
pub fn specs(
    environment: &Environment,
    profile: Profile,
    naming: Naming,
) -> Result<Vec<ToolSpec>, CliError> {
    let around = Surroundings {
        workspace: Arc::new(Workspace::new(environment.cwd(), environment.home(), &[])),
        shell: Shell::new(environment),
        store: Arc::new(Session::in_memory(&std::env::temp_dir())?),
    };
    let tools = ah_tools::builtin(profile, naming, around);
    Ok(tools.iter().map(|tool| tool.spec().clone()).collect())
}

/// The first sentence of the description.
fn summary(spec: &ToolSpec) -> &str {
    let line = spec.description.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first)
}

fn to_json(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": *spec.input_schema,
    })
}

impl From<options::Profile> for Profile {
    fn from(profile: options::Profile) -> Self {
        match profile {
            options::Profile::Default => Self::Default,
            options::Profile::Minimal => Self::Minimal,
        }
    }
}

impl From<Manner> for Naming {
    fn from(manner: Manner) -> Self {
        match manner {
            Manner::Own => Self::Own,
            Manner::DropIn => Self::Sdk,
        }
    }
}
