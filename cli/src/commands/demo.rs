//! `ah demo`: a real little repair with the scripted model, in a folder that stays behind to be looked at.

use std::fs;

use ah_provider::script::demo::{NAME, PROMPT, files};

use crate::args::options::{Options, OutputOptions};
use crate::args::{Manner, Prompt};
use crate::config::Config;
use crate::environment;
use crate::error::CliError;

/// Plays the demo; gives the exit code of its run.
pub fn run(output: &OutputOptions) -> Result<u8, CliError> {
    let made = tempfile::Builder::new().prefix("ah-demo-").tempdir();
    let folder = made
        .map_err(|error| CliError::failure(format!("cannot make a temporary folder: {error}")))?
        .keep();
    for (name, content) in files() {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| {
            CliError::failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
    }
    let shown = folder.display();
    crate::note(&format!(
        "A test fails in {shown}. The model is a script; all else is real.\n"
    ));
    let environment = environment::read(Some(&folder))?;
    let config = Config::resolve(&options(output), Manner::Own, environment)?;
    let prompt = Prompt {
        fork_at: None,
        text: Some(PROMPT.to_owned()),
    };
    let code = super::run::run(&prompt, &options(output), &config)?;
    crate::note(&format!(
        "\nThe session stays. Look at it:\n  cd {shown}\n  ah scan      its messages in a line each\n  ah show 1    one of them\n  ah tree      all branches\n  ah usage     the tokens it took"
    ));
    Ok(code)
}

/// The script is ours, so it may do all it asks for; settings of the user have no say in what it shows.
fn options(output: &OutputOptions) -> Options {
    let mut options = Options {
        output: output.clone(),
        ..Options::default()
    };
    options.model.model = Some(format!("script:{NAME}"));
    options.safety.dangerously_skip_permissions = true;
    options.settings.setting_sources = Some(String::new());
    options
}
