//! The catalogue of models: built in, extended by the lists of servers, by the user's and the project's files, and by
//! variables.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ah_conversation::json;
use ah_provider::catalog::Catalog;
use ah_provider::fact::Fact;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::error::Error;
use crate::found_file;
use crate::places::{self, SESSIONS};

/// Folder with the lists of servers, in the user's folder.
const LISTS: &str = "models";

/// Variables that say which model an alias stands for; the other agent has the same.
const ALIASES: [(&str, &str); 4] = [
    ("fable", "ANTHROPIC_DEFAULT_FABLE_MODEL"),
    ("opus", "ANTHROPIC_DEFAULT_OPUS_MODEL"),
    ("sonnet", "ANTHROPIC_DEFAULT_SONNET_MODEL"),
    ("haiku", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
];

impl Config {
    /// Returns the catalogue: built in, then the lists of servers in `models/` of the user's folder, then `models.json`
    /// of that folder, then `.ah/models.json` of a trusted project (a price can lift a limit, an alias can redirect
    /// requests), nearest last, then the variables for aliases.
    ///
    /// # Errors
    ///
    /// If such a file cannot be read.
    pub fn catalog(&self) -> Result<Catalog, Error> {
        let mut catalog = Catalog::built_in();
        let mut folders = Vec::new();
        if self.trust.is_given() && self.sources.project {
            let project = places::of_project(&self.environment, &self.project_root);
            folders.extend(project.map(|folder| folder.join(SESSIONS)));
        }
        folders.extend(self.home.clone());
        let files = folders
            .iter()
            .rev()
            .map(|folder| folder.join("models.json"));
        for path in self.lists().into_iter().chain(files) {
            let Ok(text) = found_file::text(&path) else {
                continue;
            };
            let origin = path.display().to_string();
            catalog.extend(&text, &origin).map_err(|error| {
                let message = match std::error::Error::source(&error) {
                    Some(cause) => format!("{error}: {cause}"),
                    None => error.to_string(),
                };
                Error::failure(message).hint(
                    if path.parent().is_some_and(|it| it.ends_with(LISTS)) {
                        "`ah models --refresh` writes it again; or delete it"
                    } else {
                        "`ah models --json` shows what an entry holds"
                    },
                )
            })?;
        }
        for (alias, variable) in ALIASES {
            if let Some(name) = self.environment.get(variable) {
                catalog.set_alias(alias, name.trim());
            }
        }
        Ok(catalog)
    }

    /// Returns the variable that says which model `alias` stands for, if it is set.
    pub fn alias_variable(&self, alias: &str) -> Option<&'static str> {
        let (_, variable) = ALIASES.into_iter().find(|(known, _)| *known == alias)?;
        self.environment.get(variable).map(|_| variable)
    }

    /// Writes the list of models of `server`, in the form of a catalogue, into the user's folder; returns its path.
    ///
    /// # Errors
    ///
    /// If there is no such folder, or it cannot be written.
    pub fn keep_list(&self, server: &str, json: &str) -> Result<PathBuf, Error> {
        let folder = self.lists_folder().ok_or_else(|| {
            Error::failure("no folder for the list of models").hint("set AH_HOME or HOME")
        })?;
        let path = folder.join(format!("{}.json", file_name(server)));
        write(&folder, &path, json).map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(path)
    }

    /// Writes what a server has shown of a model into the list of the server.
    ///
    /// # Errors
    ///
    /// If there is no folder for it, or it cannot be written.
    pub fn keep_fact(&self, server: &str, model: &str, fact: Fact) -> Result<(), Error> {
        let known = { self.lists_folder() }
            .map(|folder| folder.join(format!("{}.json", file_name(server))))
            .and_then(|path| found_file::text(&path).ok());
        let list = known.and_then(|text| json::from_str::<Map<String, Value>>(&text).ok());
        let mut list = list.unwrap_or_default();
        let models = object_in(&mut list, "models");
        let entry = object_in(models, &format!("{server}/{model}"));
        let (field, value) = fact.field();
        entry.insert(field.to_owned(), value);
        self.keep_list(server, &format!("{:#}\n", Value::Object(list)))?;
        Ok(())
    }

    fn lists_folder(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(LISTS))
    }

    /// Returns the files with the lists of servers, by name.
    fn lists(&self) -> Vec<PathBuf> {
        let entries = self
            .lists_folder()
            .and_then(|folder| fs::read_dir(folder).ok());
        let files = entries.into_iter().flatten().flatten();
        let mut lists: Vec<_> = files
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .collect();
        lists.sort();
        lists
    }
}

/// Returns the object that is the field `name`, which is none unless it is one.
fn object_in<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let field = object.entry(name).or_insert(Value::Null);
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("it was made one")
}

/// Returns `server` as the name of a file: settings may name a server anything.
fn file_name(server: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain = |c| if is_plain(c) { c } else { '_' };
    server.chars().map(plain).collect()
}

/// Writes a file whole or not at all.
fn write(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
