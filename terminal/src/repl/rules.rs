//! Changes of permissions by the user: a rule in the settings, a working directory for the session; and the command of the
//! status line, which is kept beside them.

use std::path::PathBuf;

use ah_agent::{Controls, Session, SessionChange};
use ah_config::rulebook::SettingsFiles;
use ah_config::{Config, Error, Origin, Sourced};
use ah_conversation::{
    Behavior, Destination, Environment, PermissionUpdate, Permissions, Rule, RuleValue,
    Rulebook as _,
};

use super::own::shell_word;

/// How a rule is changed.
const HOW: &str = "/permissions allow RULE, ask RULE, deny RULE, or remove RULE; a rule is `Bash(git push:*)`, `Edit(/docs/**)` \
                   or the name of a tool";

/// Adds a rule to the list called so, in the user's own settings for the project, or removes it wherever it stands. It holds
/// from the next call on.
///
/// # Errors
///
/// If there is no such list or no such rule, it is not a rule, or it cannot be changed where it stands.
pub fn change(session: &Session, config: &Config, list: &str, rule: &str) -> Result<(), Error> {
    if rule.is_empty() {
        return Err(Error::failure(HOW));
    }
    let read = rule.parse::<Rule>();
    let rule = read.map_err(|error| Error::failure(format!("not a rule: {error}; {HOW}")))?;
    let behavior = match list {
        "allow" => Behavior::Allow,
        "ask" => Behavior::Ask,
        "deny" => Behavior::Deny,
        "remove" => return remove(session, config, &rule),
        _ => return Err(Error::failure(HOW)),
    };
    let files = SettingsFiles::of(config);
    let destination = Destination::LocalSettings;
    let update = PermissionUpdate::AddRules {
        rules: vec![RuleValue::from(&rule)],
        behavior,
        destination,
    };
    files.save(&update).map_err(Error::failure)?;
    let controls = session.controls();
    controls.request(SessionChange::Permissions(update));
    let path = path(&files, destination).unwrap_or_default();
    crate::note(&format!(
        "{list} {rule}: saved to {path}, from the next call on"
    ));
    Ok(())
}

/// Removes a rule from the session, and from the user's settings that have it.
fn remove(session: &Session, config: &Config, rule: &Rule) -> Result<(), Error> {
    let permissions = &session.settings().permissions;
    let found = places(permissions, rule);
    if found.is_empty() {
        let message = format!("there is no such rule: {rule}; /permissions shows all");
        return Err(Error::failure(message));
    }
    let files = SettingsFiles::of(config);
    // The session holds denying and asking rules for a file behind a link too.
    let twin = rule.behind_links(&permissions.places, |path| path.canonicalize().ok());
    let twin = twin.filter(|twin| {
        places(permissions, twin)
            .iter()
            .any(|it| found.contains(it))
    });
    let (mut changed, mut fixed) = (Vec::new(), Vec::new());
    for (behavior, kept) in found {
        let Some(update) = removal(rule, behavior, kept) else {
            fixed.extend(match kept {
                Some(destination) => path(&files, destination).into_iter().collect(),
                None => {
                    let configured = match behavior {
                        Behavior::Allow => &config.allow,
                        Behavior::Ask => &config.ask,
                        Behavior::Deny => &config.deny,
                    };
                    origins(configured, &files, rule)
                }
            });
            continue;
        };
        let destination = update.destination();
        if destination != Destination::Session {
            files.save(&update).map_err(Error::failure)?;
        }
        changed.push(match path(&files, destination) {
            Some(path) => format!("saved to {path}"),
            None => "in this session".to_owned(),
        });
        let controls = session.controls();
        controls.request(SessionChange::Permissions(update));
    }
    changed.dedup();
    fixed.dedup();
    if !changed.is_empty() {
        let changed = changed.join(", ");
        let twin = twin.map_or_else(String::new, |twin| {
            format!("; {twin}, behind the link, stays in force until it is removed too")
        });
        crate::note(&format!(
            "remove {rule}: {changed}, from the next call on{twin}"
        ));
    }
    if fixed.is_empty() {
        return Ok(());
    }
    Err(Error::failure(format!(
        "{rule} stays in force; it cannot be changed here: {}",
        fixed.join(", ")
    )))
}

/// Returns the lists that have a rule, and where each has it from.
fn places(permissions: &Permissions, rule: &Rule) -> Vec<(Behavior, Option<Destination>)> {
    let mut places = Vec::new();
    for (behavior, rules) in [
        (Behavior::Allow, &permissions.allow),
        (Behavior::Ask, &permissions.ask),
        (Behavior::Deny, &permissions.deny),
    ] {
        for held in rules.iter().filter(|held| held.says_the_same(rule)) {
            if !places.contains(&(behavior, held.kept)) {
                places.push((behavior, held.kept));
            }
        }
    }
    places
}

/// Returns what removes a rule from where it stands; `None` if that is not the user's own.
fn removal(rule: &Rule, behavior: Behavior, kept: Option<Destination>) -> Option<PermissionUpdate> {
    let destination = kept.filter(|kept| *kept != Destination::ProjectSettings)?;
    Some(PermissionUpdate::RemoveRules {
        rules: vec![RuleValue::from(rule)],
        behavior,
        destination,
    })
}

/// Returns the options and files that a rule comes from, other than the settings files for rules.
fn origins(configured: &[Sourced<Rule>], files: &SettingsFiles, rule: &Rule) -> Vec<String> {
    let same = configured
        .iter()
        .filter(|held| held.value.says_the_same(rule));
    let origins = same.filter_map(|held| match &held.origin {
        Origin::File(path) if files.destination(path).is_some() => None,
        origin => Some(origin.to_string()),
    });
    let origins: Vec<_> = origins.collect();
    match origins.is_empty() {
        true => vec!["what the session began with".to_owned()],
        false => origins,
    }
}

/// Returns the settings file for display.
fn path(files: &SettingsFiles, destination: Destination) -> Option<String> {
    let path = files.path(destination)?;
    Some(format!("`{}`", path.display()))
}

/// Makes a folder a working directory of the session: its files are read and edited as those of the project.
///
/// # Errors
///
/// If it is not a folder.
pub fn add_directory(
    controls: &Controls,
    environment: &Environment,
    path: &str,
) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::failure("/add-dir takes a folder"));
    }
    let folder = placed(environment, path);
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
         with `ah --add-dir {}`",
        shell_word(&shown)
    ));
    Ok(())
}

/// Returns the folder that a typed path means.
fn placed(environment: &Environment, path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), environment.home()) {
        (Some(below), Some(home)) => home.join(below),
        (None, Some(home)) if path == "~" => home,
        _ => environment.cwd().join(path),
    }
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
        "status line saved to `{}`; it applies from the next start",
        path.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_removed_from_where_it_stands() {
        let rule: Rule = "Bash(make:*)".parse().unwrap();
        let kept_in = |destination| rule.clone().kept_in(destination);
        let (own, shared) = (Destination::UserSettings, Destination::ProjectSettings);
        let mut permissions = Permissions {
            allow: vec![
                kept_in(Destination::Session),
                kept_in(own),
                kept_in(own),
                rule.clone(),
                "Bash(ls)".parse().unwrap(),
            ],
            deny: vec![kept_in(shared), kept_in(Destination::LocalSettings)],
            ..Permissions::default()
        };
        let found = places(&permissions, &rule);
        assert_eq!(
            found,
            [
                (Behavior::Allow, Some(Destination::Session)),
                (Behavior::Allow, Some(own)),
                (Behavior::Allow, None),
                (Behavior::Deny, Some(shared)),
                (Behavior::Deny, Some(Destination::LocalSettings)),
            ]
        );
        for (behavior, kept) in found {
            if let Some(update) = removal(&rule, behavior, kept) {
                permissions.apply(&update);
            }
        }
        let left = [(Behavior::Allow, None), (Behavior::Deny, Some(shared))];
        assert_eq!(places(&permissions, &rule), left);
        let other = "Bash(make)".parse().unwrap();
        assert_eq!(places(&permissions, &other), []);
    }

    #[test]
    fn a_tilde_is_the_home_folder() {
        let home = ("HOME".to_owned(), "/home/me".to_owned());
        let environment = Environment::new([home], "/work".into());
        for (path, expected) in [
            ("~", "/home/me"),
            ("~/a b", "/home/me/a b"),
            ("~other", "/work/~other"),
            ("docs", "/work/docs"),
            ("/docs", "/docs"),
        ] {
            assert_eq!(placed(&environment, path), PathBuf::from(expected));
        }
    }
}
