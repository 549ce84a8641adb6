//! `ah sandbox`: runs a command in the sandbox.

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;

use ah_sandbox::{SetupError, Terminal};

use crate::args::subcommands::{SandboxAction, SandboxExec};
use crate::config::Config;
use crate::confinement::{self, Granted};
use crate::error::{CliError, NO_SANDBOX};

/// The exit code of a shell for a program that is not there.
const NO_PROGRAM: u8 = 127;

/// Does what the subcommand says; gives the exit code.
///
/// # Errors
///
/// Where there is no sandbox, or no such program.
pub fn run(config: &Config, action: &SandboxAction) -> Result<u8, CliError> {
    match action {
        SandboxAction::Exec(exec) => execute(config, exec),
    }
}

fn execute(config: &Config, exec: &SandboxExec) -> Result<u8, CliError> {
    let granted = Granted {
        tier: exec.tier.into(),
        workspace: exec.workspace.clone(),
        paths: exec.unveil.clone(),
        variables: exec.env.clone(),
        hosts: exec.hosts.allowlist(),
    };
    let sandbox = confinement::sandbox(config, &granted)?;
    let workspace = &sandbox.confinement().workspace;
    let cwd = config.environment.cwd();
    let cwd = if cwd.starts_with(workspace) {
        cwd
    } else {
        workspace
    };
    let terminal = match std::io::stdin().is_terminal() {
        true => Terminal::Kept,
        false => Terminal::Left,
    };
    let (program, arguments) = exec.command.split_first().expect("the parser demands one");
    let spawned = sandbox
        .prepare(program, arguments, cwd, terminal)
        .and_then(|mut prepared| {
            let variables = confinement::variables(&config.environment, &granted, &sandbox);
            prepared.command.env_clear().envs(variables);
            prepared.spawn()
        });
    let mut child = spawned.map_err(|error| match error {
        SetupError::Sandbox(_) => CliError::failure(error.to_string()).code(NO_SANDBOX),
        SetupError::Program(reason) => {
            let program = program.display();
            CliError::failure(format!("cannot run `{program}`: {reason}")).code(NO_PROGRAM)
        }
    })?;
    let status = child.process.wait();
    for path in child.link.quarantine() {
        crate::warn(&format!(
            "moved aside what nothing inside may make: {}",
            path.display()
        ));
    }
    let status = status.map_err(|error| CliError::failure(format!("lost the command: {error}")))?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX))
}
