//! What a login has kept: keys and addresses of servers, in a file of the user's folder that only the user can read.
//! Variables of the environment, and the key in the `.env` file of a trusted project, go before it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ah_conversation::Environment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::server_file::FOLDER;
use crate::{answers_file, rulebook};

/// The file, below the user's folder.
const FILE: &str = "credentials.json";
/// File with what sign-ins to servers have kept, beside it.
pub(crate) const SERVER_CREDENTIALS: &str = "server-credentials.json";
/// Variables of which one is enough for the Messages API: if one is set, none is added.
const MESSAGES: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

#[derive(Debug, Default, Deserialize, Serialize)]
struct Login {
    /// By the name of the variable that stands for each.
    variables: BTreeMap<String, String>,
}

/// What logins have kept at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    variables: BTreeMap<String, String>,
    /// The model of later runs, if one is set.
    model: Option<String>,
}

/// Adds what a login has kept to variables that are not set. Returns a warning if the file cannot be read.
pub(crate) fn apply(home: Option<&Path>, environment: &mut Environment) -> Option<String> {
    let path = home?.join(FILE);
    let login: Login = match answers_file::read(&path) {
        Ok(login) => login,
        Err(error) => {
            let path = path.display();
            return Some(format!(
                "`{path}` cannot be read, so its keys are not used: {error}"
            ));
        }
    };
    let has_key = MESSAGES.iter().any(|name| environment.get(name).is_some());
    for (name, value) in &login.variables {
        if !(has_key && MESSAGES.contains(&name.as_str())) {
            environment.set_default(name, value);
        }
    }
    None
}

impl Config {
    /// Returns the file of the user's login, if there is one.
    fn login_file(&self) -> Option<PathBuf> {
        let path = self.home.as_ref()?.join(FILE);
        path.exists().then_some(path)
    }

    /// Returns the files of the user's folder that have secrets, as far as they exist, and the pattern of those that may come;
    /// tools must not read them.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let names = [FILE, SERVER_CREDENTIALS];
        let home = self.home.iter();
        let files = home.flat_map(|home| names.map(|name| home.join(name)));
        let servers = self.home.iter().map(|home| home.join(FOLDER));
        let tokens = servers.filter(|folder| folder.exists());
        files
            .filter(|path| path.exists())
            .chain(tokens.map(|folder| folder.join("**")))
            .collect()
    }

    /// Keeps variables for later runs, in a file that only the user can read; returns its path. A key for the Messages
    /// API replaces the one before.
    ///
    /// # Errors
    ///
    /// If there is no folder of the user, or the file cannot be written.
    pub fn log_in(&self, variables: &[(&str, &str)]) -> Result<PathBuf, Error> {
        let home = self.user_folder()?;
        let path = home.join(FILE);
        let failed = |error: io::Error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        };
        let mut login: Login = answers_file::read(&path).map_err(failed)?;
        for (name, value) in variables {
            if MESSAGES.contains(name) {
                MESSAGES
                    .iter()
                    .for_each(|other| drop(login.variables.remove(*other)));
            }
            login
                .variables
                .insert((*name).to_owned(), (*value).to_owned());
        }
        answers_file::write(home, FILE, &login).map_err(failed)?;
        Ok(path)
    }

    /// Forgets all that a login has kept; returns the file's path if there was one.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed.
    pub fn log_out(&self) -> Result<Option<PathBuf>, Error> {
        let Some(path) = self.login_file() else {
            return Ok(None);
        };
        fs::remove_file(&path).map_err(|error| {
            Error::failure(format!("cannot remove `{}`: {error}", path.display()))
        })?;
        Ok(Some(path))
    }

    /// Returns what logins have kept so far. What cannot be read counts as nothing: the login has said so.
    pub fn kept(&self) -> Kept {
        let Some(home) = &self.home else {
            return Kept::default();
        };
        let login: Login = answers_file::read(&home.join(FILE)).unwrap_or_default();
        let settings: Value = answers_file::read(&home.join("settings.json")).unwrap_or_default();
        Kept {
            variables: login.variables,
            model: settings["model"].as_str().map(str::to_owned),
        }
    }

    /// Takes over what has been kept since `before`, and forgets what has been removed; returns the model if another one was
    /// chosen. Unlike at the start, it goes before variables of the environment: the user has just said it.
    pub fn take_login(&mut self, before: &Kept) -> Option<String> {
        let now = self.kept();
        for (name, value) in &before.variables {
            // Another value came from the environment, not from the login.
            let is_its = self.environment.get(name) == Some(value);
            if is_its && !now.variables.contains_key(name) {
                self.environment.unset(name);
            }
        }
        for (name, value) in &now.variables {
            if before.variables.get(name) == Some(value) {
                continue;
            }
            if MESSAGES.contains(&name.as_str()) {
                MESSAGES
                    .iter()
                    .for_each(|other| self.environment.unset(other));
            }
            self.environment.set(name, value);
        }
        now.model
            .filter(|model| before.model.as_ref() != Some(model))
    }

    /// Makes `model` the model of later runs, in the user's settings; returns their path.
    ///
    /// # Errors
    ///
    /// If there is no folder of the user, or the file cannot be written.
    pub fn keep_model(&self, model: &str) -> Result<PathBuf, Error> {
        self.keep_entry("model", json!(model))
    }

    /// Makes `command` print the status line of later conversations, likewise.
    ///
    /// # Errors
    ///
    /// If there is no folder of the user, or the file cannot be written.
    pub fn keep_status_line(&self, command: &str) -> Result<PathBuf, Error> {
        let line = json!({"type": "command", "command": command});
        self.keep_entry("statusLine", line)
    }

    fn keep_entry(&self, name: &str, value: Value) -> Result<PathBuf, Error> {
        let path = self.user_folder()?.join("settings.json");
        let kept = rulebook::rewrite(&path, |settings| {
            settings.insert(name.to_owned(), value);
            Ok(())
        });
        kept.map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(path)
    }

    fn user_folder(&self) -> Result<&PathBuf, Error> {
        let missing = || Error::failure("no folder for keys").hint("set AH_HOME or HOME");
        self.home.as_ref().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_goes_before_what_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let kept =
            r#"{"variables": {"ANTHROPIC_API_KEY": "kept", "LITELLM_BASE_URL": "http://x"}}"#;
        fs::write(home.path().join(FILE), kept).unwrap();
        for (set, expected) in [
            (None, Some("kept")),
            (Some(("ANTHROPIC_API_KEY", "own")), Some("own")),
            (Some(("CLAUDE_CODE_OAUTH_TOKEN", "own")), None),
        ] {
            let variables = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut environment = Environment::new(variables, PathBuf::from("/"));
            assert_eq!(apply(Some(home.path()), &mut environment), None);
            assert_eq!(environment.get("ANTHROPIC_API_KEY"), expected, "{set:?}");
            assert_eq!(environment.get("LITELLM_BASE_URL"), Some("http://x"));
        }
        fs::write(home.path().join(FILE), "{").unwrap();
        let mut environment = Environment::new(None, PathBuf::from("/"));
        assert!(apply(Some(home.path()), &mut environment).is_some());
    }
}
