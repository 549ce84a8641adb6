//! Changes of permissions by the user: a rule in the settings, a working directory for the session; and the command of the
//! status line, which is kept beside them.

use ah_agent::{Controls, SessionChange};
use ah_config::rulebook::SettingsFiles;
use ah_config::{Config, Error};
use ah_conversation::{Behavior, Destination, PermissionUpdate, Rule, RuleValue, Rulebook as _};

/// How a rule is changed.
const HOW: &str = "/permissions allow RULE, ask RULE, deny RULE, or remove RULE; a rule is `Bash(git push:*)`, `Edit(/docs/**)` \
                   or the name of a tool";

/// Adds a rule to the list called so, in the user's own settings for the project, or removes it from all lists there. It holds
/// from the next call on.
///
/// # Errors
///
/// If there is no such list, it is not a rule, or the file cannot be written.
pub fn change(controls: &Controls, config: &Config, list: &str, rule: &str) -> Result<(), Error> {
    let read = rule.parse::<Rule>();
    let rule = read.map_err(|error| Error::failure(format!("not a rule: {error}; {HOW}")))?;
    let rules = vec![RuleValue::from(&rule)];
    let destination = Destination::LocalSettings;
    let updates = match list {
        "allow" | "ask" | "deny" => vec![PermissionUpdate::AddRules {
            rules,
            behavior: behavior(list),
            destination,
        }],
        "remove" => ["allow", "ask", "deny"]
            .map(|list| PermissionUpdate::RemoveRules {
                rules: rules.clone(),
                behavior: behavior(list),
                destination,
            })
            .into(),
        _ => return Err(Error::failure(HOW)),
    };
    let files = SettingsFiles::of(config);
    for update in updates {
        files.save(&update).map_err(Error::failure)?;
        controls.request(SessionChange::Permissions(update));
    }
    let path = files
        .path(destination)
        .map_or_else(String::new, |path| path.display().to_string());
    crate::note(&format!(
        "{list} {rule}: saved to `{path}`, from the next call on"
    ));
    Ok(())
}

fn behavior(list: &str) -> Behavior {
    match list {
        "allow" => Behavior::Allow,
        "ask" => Behavior::Ask,
        _ => Behavior::Deny,
    }
}

/// Makes a folder a working directory of the session: its files are read and edited as those of the project.
///
/// # Errors
///
/// If it is not a folder.
pub fn add_directory(controls: &Controls, config: &Config, path: &str) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::failure("/add-dir takes a folder"));
    }
    let environment = &config.environment;
    let folder = match (path.strip_prefix("~/"), environment.home()) {
        (Some(below), Some(home)) => home.join(below),
        _ => environment.cwd().join(path),
    };
    let shown = folder.display().to_string();
    let Ok(folder) = folder.canonicalize() else {
        return Err(Error::failure(format!("there is no folder `{shown}`")));
    };
    if !folder.is_dir() {
        return Err(Error::failure(format!("`{shown}` is not a folder")));
    }
    controls.request(SessionChange::Permissions(
        PermissionUpdate::AddDirectories {
            directories: vec![folder],
            destination: Destination::Session,
        },
    ));
    crate::note(&format!(
        "`{shown}` is a working directory of the file tools until the session is closed; commands in the sandbox reach it \
         with `ah --add-dir {shown}`"
    ));
    Ok(())
}

/// Keeps the command of the user's status line, or says what it is.
///
/// # Errors
///
/// If the settings cannot be written.
pub fn keep_status_line(config: &Config, command: &str) -> Result<(), Error> {
    if command.is_empty() {
        let now = config.conversation.status_line.as_ref();
        let now = now.map_or("the built-in one", |line| line.value.command.as_str());
        crate::note(&format!(
            "status line: {now}; /statusline COMMAND sets a command that reads JSON and prints up to three lines"
        ));
        return Ok(());
    }
    let path = config.keep_status_line(command)?;
    crate::note(&format!(
        "status line saved to `{}`, from the next start on",
        path.display()
    ));
    Ok(())
}
