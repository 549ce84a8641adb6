//! `ah mcp`: lists, shows and tests MCP servers.

mod add;
mod ask;
mod list;
mod seen;
mod serve;
mod sign_in;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use ah_config::{Config, Error};
use ah_conversation::ServerState;
use ah_terminal::exit::FAILURE;
use ah_terminal::line::preview;
use ah_terminal::print::table::{Align, table};

use crate::args::json::Json;
use crate::args::options::Options;
use crate::args::subcommands::McpAction;
use crate::commands::output::{print, print_json};
use add::{add, import, remove};
pub use ask::ask_about_hosts;
use list::{Reach, find, list, place, to_json};
use seen::{describe, status_json};
pub use seen::{look, summary};

/// Runs a subcommand of `ah mcp`.
pub fn run(config: &Config, options: &Options, action: &McpAction) -> Result<u8, Error> {
    match action {
        McpAction::List(form) => list(config, *form),
        McpAction::Get { name, json } => get(config, name, *json),
        McpAction::Test { name, json } => test(config, name, *json),
        McpAction::Add {
            name,
            target,
            options,
        } => add(config, name, target, options),
        McpAction::Import { file, scope } => import(config, file, *scope),
        McpAction::Remove { name, scope } => remove(config, name, *scope),
        McpAction::Serve => serve::run(config, options),
        McpAction::Login {
            name,
            scopes,
            no_browser,
        } => sign_in::login(config, name, scopes, *no_browser),
        McpAction::Logout { name } => sign_in::logout(config, name),
        McpAction::Status { name, json } => sign_in::status(config, name, *json),
    }
}

fn get(config: &Config, name: &str, form: Json) -> Result<u8, Error> {
    let server = find(&config.mcp_servers, name)?;
    let reach = Reach::of(config, name);
    if form.json {
        return print_json(&to_json(name, server, &reach));
    }
    let entry = &server.value;
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut rows = vec![
        ["name".to_owned(), name.to_owned()],
        ["set in".to_owned(), server.origin.to_string()],
        ["type".to_owned(), entry.kind().to_owned()],
        ["reached by".to_owned(), place(entry)],
    ];
    for (what, map) in [("variables", &entry.env), ("headers", &entry.headers)] {
        if !map.is_empty() {
            rows.push([what.to_owned(), names(map)]);
        }
    }
    rows.extend(reach.rows().map(|(what, text)| [what.to_owned(), text]));
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| row.map(|cell| preview(&cell, usize::MAX)))
        .collect();
    print(&table([Align::Left; 2], &rows))
}

/// Starts the server as a run would, and no other. On a terminal the user is asked about its hosts as a run would ask.
fn test(config: &Config, name: &str, form: Json) -> Result<u8, Error> {
    let server = find(&config.mcp_servers, name)?;
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        ask_about_hosts(config, |asked| asked == name)?;
    }
    let (mut servers, errors) = config.mcp_servers();
    servers.retain(|known, _| known == name);
    if servers.is_empty() {
        let error = errors
            .into_iter()
            .find(|error| error.contains(&format!("`{name}`")));
        return Err(Error::failure(error.unwrap_or_default()));
    }
    // By then its own timeout has expired.
    let patience = config.server_patience() * 2;
    let status = look(config, servers, patience)?.status.remove(0);
    let is_there = status.state == ServerState::Connected;
    if form.json {
        let code = print_json(&status_json(&status))?;
        return Ok(if is_there { code } else { FAILURE });
    }
    if !is_there {
        let reason = status.error.unwrap_or_default();
        let message = format!("the MCP server `{name}` failed: {reason}");
        return Err(Error::failure(message).hint(format!("it is configured in {}", server.origin)));
    }
    print(&describe(&status))
}
