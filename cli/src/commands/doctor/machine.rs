//! Checks of the machine: terminal, shell, sandbox, git.

use std::path::{Path, PathBuf};

use ah_config::Config;
use ah_conversation::Environment;
use ah_engine::confinement::{self, SandboxGrants};
use ah_engine::sessions::place::sessions;
use ah_terminal::print::{Look, count};
use ah_tools::Shell;

use super::check::Check;

pub fn terminal(environment: &Environment) -> Check {
    let look = Look::of_process(false, environment);
    let is = |is_terminal| {
        if is_terminal {
            "a terminal"
        } else {
            "not a terminal"
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

pub fn shell(environment: &Environment) -> Check {
    let program = Shell::new(environment).program;
    if is_program(&program) {
        Check::fine("shell", program.display().to_string())
    } else {
        let hint = "install bash, or set AH_SHELL to a shell";
        Check::problem(
            "shell",
            format!("`{}` is not an executable file", program.display()),
            Some(hint.to_owned()),
        )
    }
}

pub fn sandbox() -> Check {
    let tried = crate::commands::sandbox::strongest();
    if tried.is_held() && tried.is_full() {
        Check::fine("sandbox", tried.summary())
    } else {
        let open = tried.open().join("; ");
        let text = match open.is_empty() {
            true => tried.summary(),
            false => format!("{}; a command can: {open}", tried.summary()),
        };
        Check {
            hint: Some(ah_sandbox::remedy()),
            ..Check::note("sandbox", text)
        }
    }
}

/// Reports that nothing keeps commands to what they were judged to do; nothing where the kernel does.
pub fn verdicts() -> Option<Check> {
    let text = "this kernel cannot keep a command to what was approved, so all but simple commands need approval";
    (!ah_sandbox::Bounds::can_be_kept()).then(|| Check::note("verdicts", text))
}

/// Reports that deny rules are matched with lines alone outside of the sandbox; nothing where the kernel holds them.
pub fn denials() -> Option<Check> {
    let text = "without the sandbox, files cannot be hidden from commands here: deny rules match only what a command line names";
    (!ah_sandbox::Withheld::can_be_kept()).then(|| Check::note("deny rules", text))
}

/// Reports whether `ah undo` gives back what commands change; nothing without a sandbox.
pub fn command_changes(config: &Config) -> Option<Check> {
    let sandbox = confinement::sandbox(config, &SandboxGrants::default()).ok()?;
    sandbox.probe().ok()?;
    Some(match sandbox.can_record_changes() {
        true => Check::fine(
            "undo",
            format!(
                "sandboxed commands' file changes are recorded ({} bytes stored)",
                count(sessions(config).kept_for_undo().unwrap_or(0))
            ),
        ),
        false => Check::note(
            "undo",
            "file changes by commands are not recorded here; `ah undo` lists the commands",
        ),
    })
}

pub fn git(environment: &Environment) -> Check {
    match find(environment, "git") {
        Some(path) => Check::fine("git", path.display().to_string()),
        None => Check::note("git", "not found; the model often needs it"),
    }
}

/// Returns the program that a shell would find by this name.
pub fn find(environment: &Environment, name: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(environment.get("PATH")?);
    folders
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
