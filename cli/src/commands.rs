//! The subcommands, one file each.

#[cfg_attr(not(feature = "acp"), path = "commands/no_acp.rs")]
pub mod acp;
mod agents;
pub mod attach;
pub mod auth;
pub mod bench;
pub mod completions;
pub mod config;
pub mod demo;
pub mod detach;
pub mod doctor;
pub mod embed;
pub mod export;
pub mod fleet;
pub mod import;
pub mod login;
pub mod logs;
pub mod mail;
pub mod man;
pub mod mcp;
pub mod models;
mod output;
mod place;
pub mod plugin;
pub mod prompt;
pub mod proxy;
pub mod run;
mod runtime;
pub mod sandbox;
pub mod serve;
pub mod sessions;
pub mod shim;
pub mod tools;
pub mod tree;
pub mod undo;
pub mod usage;
pub mod work;
pub mod worktree;

use std::sync::OnceLock;

use ah_conversation::{Interface, is_same_tool};
use ah_store::Sessions;
use ah_tools::Profile;

use crate::args::TypedPrompt;
use crate::args::options::{Options, OutputFormat};
use crate::args::subcommands::{BranchAction, DemoAction, ExportFormat, Subcommands};
use crate::input;
use ah_config::Config;
use ah_config::places::{project_root, session_folders};
use ah_config::{Error, environment};
use ah_engine::assemble::specs::specs;
use ah_engine::sessions::plan::SessionPlan;
use ah_protocol::stream_json::Source;
use ah_terminal::print::asks;
use ah_terminal::undo::Direction;

/// Runs a prompt, here or in the background; returns the exit code.
///
/// # Errors
///
/// If the run cannot start or continue.
pub fn begin(prompt: &TypedPrompt, options: &Options, config: &Config) -> Result<u8, Error> {
    if options.output.detached_process {
        return detach::run(prompt, options, config);
    }
    if !options.output.detach {
        return run::run(prompt, options, config);
    }
    match input::source(prompt, options, config.interface)? {
        Source::Prompt(text) => detach::start(&text, config),
        Source::Lines(_) => Err(Error::usage("a host cannot drive a run in the background")),
    }
}

/// Runs a subcommand; returns the exit code.
pub fn perform(
    command: Subcommands,
    config: &Config,
    plan: &SessionPlan,
    options: &Options,
) -> Result<u8, Error> {
    match command {
        Subcommands::Sessions {
            action: None,
            all: true,
            json,
        } => sessions::list_all(config, json),
        Subcommands::Sessions { action, json, .. } => sessions::run(config, action.as_ref(), json),
        Subcommands::Show {
            message,
            output: true,
            ..
        } => tree::output(config, plan, message),
        Subcommands::Show { message, json, .. } => tree::show(config, plan, message, json),
        Subcommands::Scan(form) => tree::scan(config, plan, form),
        Subcommands::Tree(form) => tree::draw(config, plan, form),
        Subcommands::Branches(form) => tree::branches(config, plan, form),
        Subcommands::Checkout { message } => tree::checkout(config, plan, message),
        Subcommands::Branch {
            action: BranchAction::Rm { message },
        } => tree::remove_branch(config, plan, message),
        Subcommands::Diff { left, right, json } => match (left, right) {
            (Some(left), Some(right)) => tree::diff(config, plan, left, right, json),
            _ => undo::diff(config, plan, json),
        },
        Subcommands::Undo(wanted) => undo::run(config, plan, Direction::Undo, wanted),
        Subcommands::Redo(wanted) => undo::run(config, plan, Direction::Redo, wanted),
        Subcommands::Restore { message, wanted } => undo::restore(config, plan, message, wanted),
        Subcommands::Rmm { messages } => tree::remove(config, plan, &messages),
        Subcommands::Worktree { action, json, .. } => worktree::run(config, action.as_ref(), json),
        Subcommands::Usage(form) => usage::run(config, plan, form),
        Subcommands::Export { html: true, .. } => export::run(config, plan, ExportFormat::Html),
        Subcommands::Export { format, .. } => export::run(config, plan, format),
        Subcommands::Import(options) => import::run(config, &options),
        Subcommands::Logs { follow, lines } => {
            let named = options.settings.debug_file.as_deref();
            logs::run(&config.environment, named, lines, follow)
        }
        Subcommands::Man { folder } => man::run(folder.as_deref()),
        Subcommands::Gc { older_than, json } => sessions::collect(config, older_than, json),
        Subcommands::Acp { login } => acp::run(config, options, login),
        Subcommands::Serve(place) => serve::run(config, options, &place),
        Subcommands::Attach { session, .. } => attach::run(session.as_deref(), options, config),
        Subcommands::Fleet(command) => fleet::run(config, options, command),
        Subcommands::Login { server } => login::run(config, server.as_deref(), &options.output),
        Subcommands::Logout => login::forget(config),
        Subcommands::Doctor(options) => doctor::run(config, options),
        Subcommands::Models(form) => models::run(config, form),
        Subcommands::Tools(form) => tools::run(config, has_person(config, options), form),
        Subcommands::Agents(form) => agents::run(config, form),
        Subcommands::Prompt { bytes, form } => match bytes {
            true => prompt::bytes(config, has_person(config, options), form),
            false => prompt::run(config, has_person(config, options), form),
        },
        Subcommands::Mcp { action } => mcp::run(config, options, &action),
        Subcommands::Auth { action } => auth::run(config, &action),
        Subcommands::Plugin { action } => plugin::run(config, &action),
        Subcommands::Shim(options) => shim::run(&config.environment, &options),
        Subcommands::Config { action } => config::run(config, &action),
        Subcommands::Bench(wanted) => bench::run(config, &wanted),
        Subcommands::Embed { folder, output } => embed::embed(&folder, output.as_deref()),
        Subcommands::Extract { folder, builtin } => embed::extract(&folder, builtin),
        Subcommands::Sandbox { action } => sandbox::run(config, &action),
        Subcommands::Proxy { socket, hosts } => proxy::run(&socket, &hosts),
        Subcommands::Work {
            action,
            options: wanted,
        } => work::run(config, options, &wanted, action.as_ref()),
        Subcommands::Demo { action: None } => demo::run(&options.output),
        Subcommands::Demo {
            action: Some(DemoAction::Work),
        } => work::demo::run(&config.environment),
        Subcommands::Completions { shell } => completions::run(shell),
    }
}

/// Returns whether a run with these options could ask a person.
fn has_person(config: &Config, options: &Options) -> bool {
    let is_text = options.output.output_format.unwrap_or_default() == OutputFormat::Text;
    config.run.host.answers_questions || (is_text && asks(config, false).is_some())
}

/// Returns whether a word is the name of a built-in tool, in any case. The tools are made once: their descriptions need
/// a store, and a command line may have many words.
pub fn is_tool(word: &str) -> bool {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let specs = environment::read(None)
            .and_then(|environment| specs(&environment, Profile::Sdk, Interface::AgentSdk));
        specs.map_or_else(
            |_| Vec::new(),
            |specs| specs.into_iter().map(|spec| spec.name).collect(),
        )
    });
    names.iter().any(|name| is_same_tool(name, word))
}

/// Returns whether a word is the name of a session that is found from the working directory.
pub fn is_session(word: &str) -> bool {
    let environment = environment::read(None);
    environment.is_ok_and(|environment| {
        let folders = session_folders(&environment, &project_root(&environment));
        // An ambiguous name is a session's name too.
        let is_named = |folder| !matches!(Sessions::in_folder(folder).named(word), Ok(None));
        folders.into_iter().any(is_named)
    })
}
