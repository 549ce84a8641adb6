//! `ah doctor`: whether all that a run needs is there, and where it comes from. No value of a secret is printed.

use std::path::{Path, PathBuf};

use ah_conversation::{Environment, ServerState};
use ah_store::{SessionHead, Tree};
use ah_tools::Shell;
use serde_json::json;

use super::{mcp, print, print_json};
use crate::args::subcommands::Json;
use ah::assemble;
use ah_config::Config;
use ah_config::Error;
use ah_config::trust::{HINT as TRUST_HINT, Reason};
use ah_terminal::exit::FAILURE;
use ah_terminal::print::Look;

/// Looks at everything; the exit code says whether something is wrong.
pub fn run(config: &Config, form: Json) -> Result<u8, Error> {
    let checks = checks(config);
    let problems = checks
        .iter()
        .filter(|check| check.state == State::Problem)
        .count();
    if form.json {
        let check = |check: &Check| json!({"name": check.name, "state": check.state.word(), "text": check.text, "hint": check.hint});
        print_json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "ok": problems == 0,
            "checks": checks.iter().map(check).collect::<Vec<_>>(),
        }))?;
    } else {
        print(&checks.iter().map(Check::lines).collect::<String>())?;
    }
    Ok(if problems == 0 { 0 } else { FAILURE })
}

/// Something that was looked at.
#[derive(Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    state: State,
    text: String,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    /// Nothing is wrong, but something could be better.
    Note,
    Problem,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

impl Check {
    fn fine(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Fine,
            text: text.into(),
            hint: None,
        }
    }

    fn note(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            state: State::Note,
            ..Self::fine(name, text)
        }
    }

    fn problem(name: &'static str, text: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            state: State::Problem,
            hint,
            ..Self::fine(name, text)
        }
    }

    fn lines(&self) -> String {
        let mut lines = format!("{:<8} {:<12} {}\n", self.state.word(), self.name, self.text);
        if let Some(hint) = &self.hint {
            lines.push_str(&format!("{:21} hint: {hint}\n", ""));
        }
        lines
    }
}

fn checks(config: &Config) -> Vec<Check> {
    let environment = &config.environment;
    let mut checks = vec![
        Check::fine(
            "version",
            format!(
                "{} ({}, {})",
                env!("CARGO_PKG_VERSION"),
                std::env::consts::OS,
                std::env::consts::ARCH
            ),
        ),
        Check::fine(
            "model",
            format!("{} ({})", config.model.value, config.model.origin),
        ),
    ];
    let catalogue = catalogue(config);
    // Which key is wanted cannot be said of a model that cannot be looked up.
    if catalogue.state != State::Problem {
        checks.push(key(config));
    }
    checks.extend(server(environment));
    checks.extend(settings(config));
    checks.extend(trust(config));
    checks.push(catalogue);
    checks.extend(servers(config));
    checks.extend(sessions(config));
    checks.push(terminal(environment));
    checks.push(shell(environment));
    checks.push(sandbox());
    checks.push(git(environment));
    checks
}

/// Whether the MCP servers can be asked. A run goes on without one that cannot.
fn servers(config: &Config) -> Vec<Check> {
    let (servers, faults) = config.mcp_servers();
    let mut checks: Vec<_> = faults
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
                    hint: Some("`ah mcp get NAME` says how it is reached".to_owned()),
                    ..Check::note("mcp", text)
                },
            }
        })),
    }
    checks
}

/// Whether the project's code counts; nothing, where there is neither code nor a word on it.
fn trust(config: &Config) -> Option<Check> {
    let trust = &config.trust;
    let folder = trust.folder().display();
    match (trust.reason(), trust.skipped()) {
        (Some(Reason::NoProject), _) => None,
        (Some(reason), _) => Some(Check::fine(
            "trust",
            format!("{folder} is trusted ({reason})"),
        )),
        (None, skipped) if skipped.is_empty() => None,
        (None, skipped) => {
            let text = format!(
                "{folder} is not trusted; does not count: {}",
                skipped.join(", ")
            );
            Some(Check {
                hint: Some(TRUST_HINT.to_owned()),
                ..Check::note("trust", text)
            })
        }
    }
}

fn key(config: &Config) -> Check {
    if config.model.value.starts_with("script:") {
        return Check::fine("key", "none needed for a scripted model");
    }
    match assemble::model::credentials(config) {
        Ok(Some(name)) if name == "ANTHROPIC_API_KEY" && config.key_from_dot_env => {
            Check::fine("key", format!("{name} (in .env)"))
        }
        Ok(Some(name)) => Check::fine("key", name),
        Ok(None) => Check::note("key", "none is set; the server may want none"),
        Err(error) => Check::problem("key", error.message, error.hint),
    }
}

fn server(environment: &Environment) -> Vec<Check> {
    let variables = [
        "ANTHROPIC_BASE_URL",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "SSL_CERT_FILE",
    ];
    let set = variables.iter().filter_map(|name| {
        let value = environment.get(name)?;
        Some(Check::fine(
            "network",
            format!(
                "{name}={}",
                environment.redact(without_user(value).as_str())
            ),
        ))
    });
    set.collect()
}

/// An address without the name and password that it may hold.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://…@{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

fn settings(config: &Config) -> Vec<Check> {
    let files = config
        .files
        .iter()
        .map(|path| Check::fine("settings", path.display().to_string()));
    let mut checks: Vec<_> = files.collect();
    checks.extend(
        config
            .faults
            .iter()
            .map(|fault| Check::problem("settings", fault.message.clone(), fault.hint.clone())),
    );
    if checks.is_empty() {
        checks.push(Check::fine("settings", "no files, the defaults hold"));
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
    let heads = match ah::place::sessions(config).list() {
        Ok(heads) => heads,
        Err(error) => return vec![Check::problem("sessions", error.to_string(), error.hint)],
    };
    let mut checks: Vec<_> = heads.iter().filter_map(session).collect();
    if checks.is_empty() {
        checks.push(Check::fine(
            "sessions",
            format!("{} in this folder, all sound", heads.len()),
        ));
    }
    checks
}

/// What is wrong with a session, if anything is.
fn session(head: &SessionHead) -> Option<Check> {
    let faults = || Tree::open(&head.paths)?.integrity_errors();
    let (fault, hint) = match head.problem.clone().map_or_else(faults, Err) {
        Ok(faults) => {
            let hint = "start a run on this session: it recovers what can be read and keeps the damaged file";
            (faults.into_iter().next()?, Some(hint.to_owned()))
        }
        Err(error) => (error.reason, error.hint),
    };
    let path = head.paths.database().display();
    Some(Check::problem("sessions", format!("{path}: {fault}"), hint))
}

fn terminal(environment: &Environment) -> Check {
    let look = Look::of_process(false, environment);
    let is = |is_terminal| {
        if is_terminal {
            "a terminal"
        } else {
            "no terminal"
        }
    };
    let colours = if look.colours {
        "colours"
    } else {
        "no colours"
    };
    let (out, err) = (is(look.out_is_terminal), is(look.err_is_terminal));
    Check::fine(
        "terminal",
        format!(
            "stdout is {out}, stderr is {err}, {} columns, {colours}",
            look.size.width
        ),
    )
}

fn shell(environment: &Environment) -> Check {
    let program = Shell::new(environment).program;
    match is_program(&program) {
        true => Check::fine("shell", program.display().to_string()),
        false => {
            let hint = "install bash, or set AH_SHELL to a shell";
            Check::problem(
                "shell",
                format!("`{}` is no program", program.display()),
                Some(hint.to_owned()),
            )
        }
    }
}

fn sandbox() -> Check {
    let tried = super::sandbox::tried(ah_sandbox::Tier::Full);
    match tried.is_held() {
        true => Check::fine("sandbox", tried.summary()),
        false => Check {
            hint: Some(ah_sandbox::remedy()),
            ..Check::note("sandbox", tried.summary())
        },
    }
}

fn git(environment: &Environment) -> Check {
    match find(environment, "git") {
        Some(path) => Check::fine("git", path.display().to_string()),
        None => Check::note("git", "not found; the model may miss it"),
    }
}

/// The program that a shell would find by this name.
pub(super) fn find(environment: &Environment, name: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(environment.get("PATH")?);
    folders
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (url, expected) in [
            ("http://proxy:3128", "http://proxy:3128"),
            ("http://me:secret@proxy:3128/x", "http://…@proxy:3128/x"),
            ("http://host/path@2", "http://host/path@2"),
            ("proxy:3128", "proxy:3128"),
        ] {
            assert_eq!(without_user(url), expected);
        }
    }
}
