//! `ah demo`: a real small repair with the scripted model, in a temporary folder that is kept for inspection.

use std::path::Path;
use std::{env, fs};

use ah_conversation::{Environment, Interface};
use ah_provider::script::demo::{NAME, PROMPT, files};
use ah_tools::Shell;

use crate::args::TypedPrompt;
use crate::args::options::{Options, OutputOptions};
use ah_config::Error;
use ah_config::overlay::Overlay;
use ah_config::{Config, environment};

/// Runs the demo; returns the exit code of its run.
pub fn run(output: &OutputOptions) -> Result<u8, Error> {
    let shell = Shell::new(&environment::read(None)?).program;
    if !shell.exists() {
        let message = format!(
            "the demo needs a shell, but `{}` was not found",
            shell.display()
        );
        return Err(Error::failure(message).hint("install one, or set AH_SHELL to it"));
    }
    let made = tempfile::Builder::new().prefix("ah-demo-").tempdir();
    let folder = made
        .map_err(|error| {
            Error::failure(format!("cannot make a temporary folder: {error}"))
                .hint("set TMPDIR to a folder that can be written")
        })?
        .keep();
    for (name, content) in files() {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
    }
    let shown = folder.display();
    ah_terminal::note(&format!(
        "A test fails in {shown}. The model is scripted; everything else is real.\n"
    ));
    let environment = environment::read(Some(&folder))?;
    let ah = invocation(&environment);
    let config = Config::resolve(
        options(output).overrides()?,
        Interface::Native,
        environment,
        &Overlay::default(),
    )?;
    let prompt = TypedPrompt {
        fork_at: None,
        text: Some(PROMPT.to_owned()),
    };
    let code = super::run::run(&prompt, &options(output), &config)?;
    let folder = shell_word(&folder);
    ah_terminal::note(&format!(
        "\nThe session is kept. To explore it:\n  cd {folder}\n  {ah} scan      its messages, one per line\n  {ah} show 1    one of them\n  {ah} tree      all branches\n  {ah} usage     the tokens it took"
    ));
    Ok(code)
}

/// Returns the shell word that runs this program: its name if `PATH` finds it, else its path.
pub(super) fn invocation(environment: &Environment) -> String {
    let name = "ah";
    let Ok(program) = env::current_exe().and_then(fs::canonicalize) else {
        return name.to_owned();
    };
    let path = environment.get("PATH").unwrap_or_default();
    let found = env::split_paths(path).find_map(|folder| fs::canonicalize(folder.join(name)).ok());
    match found {
        Some(found) if found == program => name.to_owned(),
        _ => shell_word(&program),
    }
}

/// Quotes a path as one word of a shell.
pub(super) fn shell_word(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(is_plain) {
        path.into_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The script is ours, so all its calls are allowed; the user's settings do not affect the demo.
fn options(output: &OutputOptions) -> Options {
    let mut options = Options {
        output: output.clone(),
        ..Options::default()
    };
    options.model.model = Some(format!("script:{NAME}"));
    options.safety.dangerously_skip_permissions = true;
    // So that it looks the same on every machine.
    options.sandbox.no_sandbox = true;
    options.settings.setting_sources = Some(String::new());
    options
}
