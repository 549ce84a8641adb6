//! `ah sandbox`: runs a command in the sandbox, and checks the sandbox.

mod preview;

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;

use ah_sandbox::{Guarantee, Invocation, SetupError, Streams, Terminal, Tier};
use serde_json::{Value, json};

use self::preview::Preview;
use super::place::block_on;
use crate::args::json::Json;
use crate::args::subcommands::{SandboxAction, SandboxExec};
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::{Error, ErrorKind, SandboxTier};
use ah_engine::confinement::{self, LAUNCHER, SandboxGrants};
use ah_terminal::exit::NO_SANDBOX;
use ah_terminal::report;

/// Exit code of a shell for a missing program.
const NO_PROGRAM: u8 = 127;

/// Runs a subcommand of `ah sandbox`; returns the exit code.
///
/// # Errors
///
/// If there is no sandbox, or no such program.
pub fn run(config: &Config, action: &SandboxAction) -> Result<u8, Error> {
    match action {
        SandboxAction::Exec(exec) => execute(config, exec),
        SandboxAction::Check(form) => check(*form),
    }
}

fn execute(config: &Config, exec: &SandboxExec) -> Result<u8, Error> {
    let grants = SandboxGrants {
        tier: SandboxTier::from(exec.tier).into(),
        workspace: exec.workspace.clone(),
        paths: exec.unveil.clone(),
        programs: Vec::new(),
        variables: exec.env.clone(),
        hosts: exec.hosts.allowlist(),
    };
    let sandbox = confinement::sandbox(config, &grants)?;
    for remark in &sandbox.confinement().remarks {
        ah_terminal::warn(remark);
    }
    let workspace = &sandbox.confinement().workspace;
    let cwd = config.environment.cwd();
    let cwd = if cwd.starts_with(workspace) {
        cwd
    } else {
        workspace
    };
    let terminal = if std::io::stdin().is_terminal() {
        Terminal::Inherited
    } else {
        Terminal::Detached
    };
    let preview = { exec.preview }
        .then(|| Preview::begin(&sandbox, config))
        .transpose()?;
    let (program, arguments) = exec.command.split_first().expect("the parser demands one");
    let streams = Streams::inherited()
        .map_err(|error| Error::failure(format!("cannot pass on the standard streams: {error}")))?;
    let spawned = sandbox.spawn(Invocation {
        program,
        arguments,
        cwd,
        environment: confinement::variables(&config.environment, &grants, &sandbox),
        streams,
        terminal,
        bounds: None,
    });
    let mut child = match spawned {
        Ok(child) => child,
        Err(SetupError::Program(reason)) => {
            let program = program.display();
            report(&Error::failure(format!("cannot run `{program}`: {reason}")));
            return Ok(NO_PROGRAM);
        }
        Err(error @ SetupError::Sandbox(_)) => {
            let kind = ErrorKind::SandboxUnavailable;
            return Err(Error::new(kind, error.to_string()).hint(ah_sandbox::remedy()));
        }
    };
    let told = child.guard.status();
    let status = told.map_or_else(|| child.process.wait(), Ok);
    for path in child.guard.quarantine() {
        ah_terminal::warn(&format!("moved aside forbidden files: {}", path.display()));
    }
    let status = status.map_err(|error| Error::failure(format!("lost the command: {error}")))?;
    if let Some(preview) = preview {
        block_on(preview.end(config))?;
    }
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX))
}

/// Checks all guarantees; fails if one is not met.
fn check(form: Json) -> Result<u8, Error> {
    let all = Tier::ALL.map(tried);
    let is_sound = all[0].is_held();
    let chosen = all.iter().find(|tried| tried.outcome.is_ok());
    if form.json {
        let mut told: serde_json::Map<_, _> = { all.iter() }
            .map(|tried| (tried.tier.as_str().to_owned(), tried.to_json()))
            .collect();
        told.insert(
            "chosen".to_owned(),
            chosen.map(|tried| tried.tier.as_str()).into(),
        );
        told.insert(
            "remedy".to_owned(),
            (!is_sound).then(ah_sandbox::remedy).into(),
        );
        print_json(&Value::Object(told))?;
    } else {
        let all: String = all.iter().map(ToString::to_string).collect();
        print(&format!("{all}{}\n{}", choice(chosen), advice(is_sound)))?;
    }
    Ok(if is_sound { 0 } else { NO_SANDBOX })
}

/// Returns the tier of a run on this machine in one line.
fn choice(chosen: Option<&Tried>) -> String {
    match chosen {
        Some(tried) => format!("a run without --sandbox uses: {}", tried.tier.as_str()),
        None => "a run without --sandbox is not sandboxed".to_owned(),
    }
}

fn advice(is_sound: bool) -> String {
    if is_sound {
        String::new()
    } else {
        format!("hint: {}\n", ah_sandbox::remedy())
    }
}

/// Tries the tiers in order; returns the first that can be built, or else the first.
pub fn strongest() -> Tried {
    let full = tried(Tier::Full);
    if full.outcome.is_ok() {
        return full;
    }
    let mut weaker = Tier::ALL.into_iter().skip(1).map(tried);
    weaker.find(|tried| tried.outcome.is_ok()).unwrap_or(full)
}

/// Result of checking a tier.
pub struct Tried {
    tier: Tier,
    outcome: Result<Vec<Guarantee>, SetupError>,
}

/// Creates a sandbox of this tier and checks its guarantees.
pub fn tried(tier: Tier) -> Tried {
    Tried {
        tier,
        outcome: ah_sandbox::check(tier, LAUNCHER.as_ref()),
    }
}

impl Tried {
    /// Returns whether it is about the full sandbox.
    pub fn is_full(&self) -> bool {
        self.tier == Tier::Full
    }

    /// Returns whether all guarantees are met.
    pub fn is_held(&self) -> bool {
        let guarantees = self.outcome.as_ref();
        guarantees.is_ok_and(|all| all.iter().all(|guarantee| guarantee.held))
    }

    /// Returns what a command can do all the same.
    pub fn open(&self) -> Vec<&str> {
        let all = self.outcome.iter().flatten();
        let open = all.filter(|guarantee| !guarantee.held);
        open.map(|guarantee| guarantee.name.as_str()).collect()
    }

    /// Describes the result in one sentence.
    pub fn summary(&self) -> String {
        match &self.outcome {
            Err(error) => format!("{}: {error}", self.tier.as_str()),
            Ok(all) => {
                let held = all.iter().filter(|guarantee| guarantee.held).count();
                format!(
                    "{}: {held} of {} checks pass",
                    self.tier.as_str(),
                    all.len()
                )
            }
        }
    }

    fn to_json(&self) -> Value {
        match &self.outcome {
            Err(error) => json!({ "held": false, "error": error.to_string() }),
            Ok(all) => json!({ "held": self.is_held(), "guarantees": all }),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        for guarantee in self.outcome.iter().flatten() {
            let (held, errno) = match guarantee.errno {
                _ if !guarantee.held => ("NOT HELD", String::new()),
                Some(errno) => ("held", io::Error::from_raw_os_error(errno).to_string()),
                None => ("held", String::new()),
            };
            let (name, mechanism) = (&guarantee.name, &guarantee.mechanism);
            writeln!(f, "  {held:<8}  {name:<46}  {mechanism:<27}  {errno}")?;
        }
        Ok(())
    }
}
