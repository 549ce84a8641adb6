//! `ah doctor`: checks everything that a run needs, and its source. No secret is printed.

mod check;
mod machine;
pub mod release;
mod server;
mod stores;

use ah_conversation::ServerState;
use ah_store::{SessionHead, Tree};
use serde_json::json;

use super::mcp;
use crate::args::VERSION;
use crate::args::subcommands::DoctorOptions;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_config::trust::{HINT as TRUST_HINT, Reason, Trust};
use ah_engine::assemble;
use ah_terminal::exit::FAILURE;
use check::{Check, CheckState};
pub(super) use machine::find;
use machine::{git, sandbox, shell, terminal};

/// Runs all checks; the exit code shows whether there is a problem.
pub fn run(config: &Config, options: DoctorOptions) -> Result<u8, Error> {
    let checks = checks(config, options);
    let problems = checks
        .iter()
        .filter(|check| check.state == CheckState::Problem)
        .count();
    if options.form.json {
        let check = |check: &Check| json!({"name": check.name, "state": check.state.word(), "text": check.text, "hint": check.hint});
        print_json(&json!({
            "version": VERSION,
            "ok": problems == 0,
            "checks": checks.iter().map(check).collect::<Vec<_>>(),
        }))?;
    } else {
        print(&checks.iter().map(Check::lines).collect::<String>())?;
    }
    Ok(if problems == 0 { 0 } else { FAILURE })
}

fn checks(config: &Config, options: DoctorOptions) -> Vec<Check> {
    let environment = &config.environment;
    let mut checks = vec![
        Check::fine(
            "version",
            format!(
                "{VERSION} ({}, {})",
                std::env::consts::OS,
                std::env::consts::ARCH
            ),
        ),
        model(config),
    ];
    if options.updates {
        checks.insert(1, release::check(environment));
    }
    let catalogue = catalogue(config);
    // Without a valid catalogue, the required key is unknown.
    if catalogue.state != CheckState::Problem {
        let key = key(config);
        let has_key = { key.as_ref() }.is_none_or(|key| key.state != CheckState::Problem);
        checks.extend(key);
        checks.extend(
            (has_key && !options.offline)
                .then(|| server::check(config))
                .flatten(),
        );
        let told = ah_engine::model::small::without_tools(config);
        checks.extend(told.map(|told| Check::note("tools", told)));
    }
    checks.extend(server::network(environment));
    checks.extend(settings(config));
    checks.extend(trust(&config.trust));
    checks.push(catalogue);
    checks.extend(servers(config));
    checks.extend(sessions(config));
    checks.extend((!options.inside).then(|| terminal(environment)));
    checks.push(shell(environment));
    checks.push(sandbox());
    checks.extend(machine::verdicts());
    checks.extend(machine::denials());
    checks.extend(machine::command_changes(config));
    checks.extend(stores::linked(environment.cwd()));
    checks.push(git(environment));
    checks
}

/// Reports the model, with what its name stands for, and who said so.
fn model(config: &Config) -> Check {
    let (name, origin) = (&config.model.value, &config.model.origin);
    let catalog = config.catalog().unwrap_or_default();
    let text = match (catalog.resolve(name), config.alias_variable(name)) {
        (resolved, _) if resolved == name => format!("{name} ({origin})"),
        (resolved, None) => format!("{name} ({origin}), which is {resolved}"),
        (resolved, Some(variable)) => {
            format!("{name} ({origin}), which is {resolved} ({variable})")
        }
    };
    Check::fine("model", text)
}

/// Checks the MCP servers. A run continues without a server that fails.
fn servers(config: &Config) -> Vec<Check> {
    let (servers, errors) = config.mcp_servers();
    let mut checks: Vec<_> = errors
        .into_iter()
        .map(|it| Check::note("mcp", it))
        .collect();
    if servers.is_empty() {
        return checks;
    }
    match mcp::look(config, servers, assemble::PATIENCE) {
        Err(error) => checks.push(Check::note("mcp", error.message)),
        Ok(seen) => checks.extend(seen.status.iter().map(|status| {
            let text = mcp::summary(status);
            match status.state {
                ServerState::Connected => Check::fine("mcp", text),
                _ => Check {
                    hint: Some("`ah mcp get NAME` prints its configuration".to_owned()),
                    ..Check::note("mcp", text)
                },
            }
        })),
    }
    checks
}

/// Reports the trust in the project; `None` if it has no code and there is no decision.
fn trust(trust: &Trust) -> Option<Check> {
    let folder = trust.folder().display();
    match (trust.reason(), trust.skipped()) {
        (Some(Reason::NoProject), _) => None,
        (Some(reason), _) => Some(Check::fine(
            "trust",
            format!("{folder} is trusted ({reason})"),
        )),
        (None, skipped) if skipped.is_empty() => None,
        (None, skipped) => {
            let text = format!("{folder} is not trusted; ignored: {}", skipped.join(", "));
            Some(Check {
                hint: Some(TRUST_HINT.to_owned()),
                ..Check::note("trust", text)
            })
        }
    }
}

/// Reports the key; `None` if a server on this machine is asked without one.
fn key(config: &Config) -> Option<Check> {
    if config.model.value.starts_with("script:") {
        return Some(Check::fine("key", "none needed for a scripted model"));
    }
    Some(match ah_engine::model::credentials(config) {
        Ok(Some(name)) if name == "ANTHROPIC_API_KEY" && config.key_from_dot_env => {
            Check::fine("key", format!("{name} (in .env)"))
        }
        Ok(Some(name)) => Check::fine("key", name),
        Ok(None) if ah_engine::model::small::runs_here(config) => return None,
        Ok(None) => Check::note("key", "not set; the server may not need one"),
        Err(error) => Check::problem("key", error.message, error.hint),
    })
}

fn settings(config: &Config) -> Vec<Check> {
    let files = config
        .files
        .iter()
        .map(|path| Check::fine("settings", path.display().to_string()));
    let mut checks: Vec<_> = files.collect();
    checks.extend(
        config
            .errors
            .iter()
            .map(|error| Check::problem("settings", error.message.clone(), error.hint.clone())),
    );
    if checks.is_empty() {
        checks.push(Check::fine("settings", "no files; defaults are used"));
    }
    checks.extend(
        config
            .warnings
            .iter()
            .map(|warning| Check::note("settings", warning.clone())),
    );
    checks
}

fn catalogue(config: &Config) -> Check {
    match config.catalog() {
        Ok(catalog) => Check::fine("models", format!("{} known", catalog.models().count())),
        Err(error) => Check::problem("models", error.message, error.hint),
    }
}

fn sessions(config: &Config) -> Vec<Check> {
    let heads = match ah_engine::sessions::place::sessions(config).list() {
        Ok(heads) => heads,
        Err(error) => return vec![Check::problem("sessions", error.to_string(), error.hint)],
    };
    let mut checks: Vec<_> = heads.iter().filter_map(session).collect();
    if checks.is_empty() {
        checks.push(Check::fine(
            "sessions",
            format!("{} in this folder, all intact", heads.len()),
        ));
    }
    checks
}

/// Returns the first problem of a session, if it has one.
fn session(head: &SessionHead) -> Option<Check> {
    let check = || Tree::open(&head.paths)?.integrity_errors();
    let (error, hint) = match head.problem.clone().map_or_else(check, Err) {
        Ok(errors) => {
            let hint = "start a run on this session: it recovers all readable data and keeps the damaged file";
            (errors.into_iter().next()?, Some(hint.to_owned()))
        }
        Err(error) => (error.reason, error.hint),
    };
    let path = head.paths.database().display();
    Some(Check::problem("sessions", format!("{path}: {error}"), hint))
}
