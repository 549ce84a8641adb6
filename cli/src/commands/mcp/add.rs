//! `ah mcp add`, `import` and `remove`: changes the files with servers, and tries what was added.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ah_config::rulebook::SettingsFiles;
use ah_config::server_answers::{OpenServer, ServerAnswers};
use ah_config::{Config, Error, Origin, server_files};
use ah_conversation::{ServerScope, ServerState, json, neutralise};
use ah_mcp::{ServerConfig, ServerEntry, imported};
use ah_terminal::exit::FAILURE;
use serde_json::{Map, Value, json};

use super::list::{Reach, find};
use super::seen::{describe, look};
use crate::args::subcommands::{AddedServer, Scope};
use crate::commands::output::print;

/// Adds a server by its URL or command line, and tries it.
pub fn add(
    config: &Config,
    name: &str,
    target: &[String],
    options: &AddedServer,
) -> Result<u8, Error> {
    let entry = entry(target, options)?;
    store(
        config,
        &BTreeMap::from([(name.to_owned(), entry)]),
        options.scope,
    )
}

/// Adds the servers of a file, and tries them. Those whose names are taken stay as they are.
pub fn import(config: &Config, file: &Path, scope: Scope) -> Result<u8, Error> {
    let shown = file.display();
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(config.environment.cwd().join(file))
    };
    let failed =
        |error: &dyn std::fmt::Display| Error::failure(format!("cannot import `{shown}`: {error}"));
    let text = text.map_err(|error| failed(&error))?;
    let value: Value = json::from_str(&text).map_err(|error| failed(&error))?;
    let servers = imported(&value).map_err(|error| failed(&error))?;
    if servers.is_empty() {
        return Err(failed(&"it has no servers"));
    }
    let kept = path(config, scope)?;
    let (taken, new): (BTreeMap<_, _>, _) = servers
        .into_iter()
        .partition(|(name, _)| server_files::has(&kept, name));
    for name in taken.keys() {
        ah_terminal::warn(&format!(
            "`{0}` is already in {1} and was not changed; `ah mcp remove {0}` removes it first",
            plain(name),
            kept.display()
        ));
    }
    store(config, &new, scope)
}

/// Removes a server from the file of `scope`, or from the one that counts.
pub fn remove(config: &Config, name: &str, scope: Option<Scope>) -> Result<u8, Error> {
    let file = match scope {
        Some(scope) => path(config, scope)?,
        None => match config.mcp_servers.get(name).map(|it| &it.origin) {
            Some(Origin::File(path)) => path.clone(),
            Some(origin) => {
                return Err(Error::failure(format!(
                    "the server `{name}` is set in {origin}, not in a file"
                )));
            }
            // A project's file does not count without trust, but may be changed.
            None => {
                let file = server_files::path(config, ServerScope::Project);
                match file.filter(|file| server_files::has(file, name)) {
                    Some(file) => file,
                    None => return find(&config.mcp_servers, name).map(|_| 0),
                }
            }
        },
    };
    server_files::remove(&SettingsFiles::of(config), &file, name).map_err(|error| {
        Error::failure(format!(
            "cannot remove `{name}` from `{}`: {error}",
            file.display()
        ))
    })?;
    print(&format!(
        "removed `{}` from {}\n",
        plain(name),
        file.display()
    ))
}

/// Returns the entry of a server.
fn entry(target: &[String], options: &AddedServer) -> Result<Value, Error> {
    let pairs = |list: &[String], sign: char, option: &str| {
        let pair = |text: &String| {
            let (name, value) = text.split_once(sign)?;
            Some((name.trim().to_owned(), json!(value.trim())))
        };
        let pairs = list.iter().map(|text| {
            pair(text).ok_or_else(|| Error::usage(format!("{option} `{text}` has no `{sign}`")))
        });
        pairs.collect::<Result<Map<_, _>, _>>()
    };
    let variables = pairs(&options.variables, '=', "--env")?;
    let headers = pairs(&options.headers, ':', "--header")?;
    let is_url = target.len() == 1
        && ["http://", "https://"]
            .iter()
            .any(|start| target[0].starts_with(start));
    let hosts =
        |list: &[ah_sandbox::Authority]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (allowed, plain) = (hosts(&options.hosts), hosts(&options.plain_hosts));
    let mut entry = if is_url {
        if !variables.is_empty() || !allowed.is_empty() || !plain.is_empty() {
            return Err(Error::usage(
                "--env, --allow-host and --allow-http are for programs, not for a URL",
            ));
        }
        json!({"type": options.kind.as_deref().unwrap_or("http"), "url": target[0]})
    } else {
        if !headers.is_empty() || options.kind.is_some() {
            return Err(Error::usage(
                "--header and --type are for URLs, not for a program",
            ));
        }
        json!({"command": target[0], "args": target[1..]})
    };
    for (key, map) in [("env", variables), ("headers", headers)] {
        if !map.is_empty() {
            entry[key] = map.into();
        }
    }
    for (key, list) in [("allowHosts", allowed), ("allowHttp", plain)] {
        if !list.is_empty() {
            entry[key] = json!(list);
        }
    }
    Ok(entry)
}

fn path(config: &Config, scope: Scope) -> Result<PathBuf, Error> {
    server_files::path(config, scope.into())
        .ok_or_else(|| Error::failure("there is no home directory for the settings"))
}

/// Stores servers in the file of a scope, and tries each. The exit code tells whether all work.
fn store(config: &Config, servers: &BTreeMap<String, Value>, scope: Scope) -> Result<u8, Error> {
    let file = path(config, scope)?;
    let files = SettingsFiles::of(config);
    let mut read = Vec::new();
    for (name, entry) in servers {
        let parsed: ServerEntry = serde_json::from_value(entry.clone()).map_err(|error| {
            Error::failure(format!("the server `{name}` cannot be used: {error}"))
        })?;
        read.push((name, parsed));
    }
    let mut code = 0;
    for (name, parsed) in read {
        let replaced = server_files::add(&files, &file, name, &servers[name]).map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", file.display()))
        })?;
        let word = if replaced { "replaced" } else { "added" };
        print(&format!("{word} `{}` in {}\n", plain(name), file.display()))?;
        code = code.max(try_out(config, name, &parsed, scope)?);
    }
    // What is the user's own for a folder counts without trust.
    if scope == Scope::Project && !config.trust.is_given() {
        ah_terminal::note("it is used once the folder is trusted");
    }
    Ok(code)
}

/// Starts a server that was added, and prints what it offers, and what it has of the sandbox.
fn try_out(config: &Config, name: &str, entry: &ServerEntry, scope: Scope) -> Result<u8, Error> {
    let variable = |name: &str| config.environment.get(name).map(str::to_owned);
    let server = match entry.resolve(&variable) {
        Ok(server) => server,
        Err(reason) => {
            ah_terminal::warn(&format!("`{}` is left out of runs: {reason}", plain(name)));
            return Ok(FAILURE);
        }
    };
    let project = (scope != Scope::User).then(|| config.trust.folder().to_owned());
    let server = ServerConfig {
        is_granted: true,
        project: project.clone(),
        ..server
    };
    if let Some(project) = project.filter(|_| !server.needs.is_empty()) {
        remember(config.home.as_deref(), name, project, &server);
    }
    let reach = Reach::of_server(config, name, &server);
    let patience = config.server_patience() * 2;
    let alone = BTreeMap::from([(name.to_owned(), server)]);
    let status = look(config, alone, patience)?.status.remove(0);
    let rows: String = reach
        .rows()
        .map(|(what, text)| format!("  {what}: {text}\n"))
        .collect();
    print(&format!("{}{}", describe(&status), plain(&rows)))?;
    if status.state == ServerState::Connected {
        return Ok(0);
    }
    let reason = status.error.unwrap_or_default();
    ah_terminal::warn(&format!(
        "`{}` does not work yet: {}",
        plain(name),
        plain(&reason)
    ));
    Ok(FAILURE)
}

/// Remembers that the user has added the server with its hosts, so that runs need not ask.
fn remember(home: Option<&Path>, name: &str, project: PathBuf, server: &ServerConfig) {
    let (mut answers, _) = ServerAnswers::read(home);
    let added = OpenServer {
        name: name.to_owned(),
        project,
        server: server.clone(),
    };
    if let Err(error) = answers.keep(&added, true) {
        ah_terminal::warn(&format!(
            "cannot save that it may connect to its hosts: {error}"
        ));
    }
}

fn plain(text: &str) -> String {
    neutralise(text).into_owned()
}

impl From<Scope> for ServerScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User,
            Scope::Project => Self::Project,
            Scope::Local => Self::Local,
        }
    }
}
