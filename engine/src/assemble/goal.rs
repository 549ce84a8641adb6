//! `/goal` where no terminal asks about it: in an editor, of a host, in a browser, in a prompt of the command line.

use std::path::Path;
use std::sync::Arc;

use ah_config::settings::check::CheckConfig;
use ah_config::{Config, Error, Sourced, extensions};
use ah_conversation::{Check, Goal, PermissionMode, TellSealed};
use ah_store::SessionStore;

use super::check;
use super::recorded_check::RecordedTo;
use crate::conditions;
use crate::confinement::SandboxStatus;
use crate::prompt::expand::Ruled;

/// Returns the words for the model of a prompt that is `/goal WORDS`, and the configuration with its check; any other prompt as it
/// is.
///
/// # Errors
///
/// If no command is given, and the settings have none.
pub fn in_prompt(prompt: String, config: Config) -> Result<(String, Config), Error> {
    // A command of the user with this name is theirs.
    let is_taken = || {
        let (commands, _) = extensions::commands(&config);
        let mut names = commands.iter().map(|command| &command.name);
        names.any(|name| name == Goal::NAME)
    };
    let goal = Goal::in_prompt(&prompt).filter(|_| !is_taken());
    let Some(Goal::Is(words, command)) = goal else {
        return Ok((prompt, config));
    };
    let config = aimed(config, command)?;
    Ok((words.into_owned(), config))
}

/// Seals the files of a check; `tell` is told which. Without a command, it is that of the settings. `mode` and `recorded_to` are
/// those of the session.
///
/// # Errors
///
/// If there is none, the settings have another one, the rules do not let it run, its files cannot be sealed, or it cannot be
/// confined here.
pub(crate) async fn check_of(
    (command, mode): (Option<&str>, PermissionMode),
    mut config: Config,
    sandbox: &SandboxStatus,
    recorded_to: &RecordedTo,
    store: &SessionStore,
    tell: TellSealed<'_>,
) -> Result<Arc<dyn Check>, Error> {
    if let Some(command) = command.filter(|command| config.check.command() != Some(command)) {
        may_change(&config.check)?;
        config.permission_mode.value = mode;
        let ruled = Ruled::of(&config).for_lines(&config, std::iter::empty(), sandbox);
        may_run(command, &ruled)?;
    }
    let config = aimed(config, command)?;
    let mut told = None;
    let sealed = check::of(&config, sandbox, recorded_to, store, &mut told).await?;
    told.iter().for_each(|text| tell(text));
    sealed.ok_or_else(|| none(&config.project_root))
}

/// Refuses to replace or end the check of whoever has started the program: a prompt can be of a program, or of a model.
///
/// # Errors
///
/// If there is such a check.
pub(crate) fn may_change(check: &CheckConfig) -> Result<(), Error> {
    let Some((command, until)) = check.command().zip(check.until.as_ref()) else {
        return Ok(());
    };
    let text = format!(
        "the check `{command}` is set ({}): no prompt can replace or end it",
        until.origin
    );
    Err(Error::usage(text).hint("change it where it was set"))
}

/// Applies the rules for commands of lines to a check that was typed.
fn may_run(command: &str, ruled: &Ruled) -> Result<(), Error> {
    let (call, accesses) = ruled.line(command);
    let refusal = ruled.refusal_of_line(&call, &accesses);
    refusal.map_or(Ok(()), |why| {
        let text = format!("the check `{command}` may not run: {why}");
        Err(Error::usage(text).hint("allow it with a rule, or set it with --until"))
    })
}

fn aimed(mut config: Config, command: Option<&str>) -> Result<Config, Error> {
    let command = command.filter(|command| !command.is_empty());
    let command = command.or_else(|| config.check.command());
    let command = command.ok_or_else(|| none(&config.project_root))?;
    config.check.until = Some(Sourced::typed(command.to_owned()));
    Ok(config)
}

/// Returns the error for a goal without a check. What the project has is named, and run only once the user has typed it.
fn none(project: &Path) -> Error {
    let known = conditions::hint(&conditions::of(project));
    let known = known.map_or_else(String::new, |known| format!("; {known}"));
    Error::usage("a goal needs a check").hint(format!("`/goal WORDS --until COMMAND`{known}"))
}
