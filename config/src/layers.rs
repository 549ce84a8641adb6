//! Layers of settings, by precedence.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::found_file;
use crate::origin::Origin;
use crate::settings::{self, Settings};

/// The settings of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The source.
    pub origin: Origin,
    /// Whether it is part of the project.
    pub is_of_project: bool,
    /// The settings.
    pub settings: Settings,
}

impl Layer {
    /// Whether an administrator has set it: nothing overrides it.
    pub fn is_managed(&self) -> bool {
        matches!(self.origin, Origin::Managed(_))
    }
}

/// Settings given by the caller of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsSource {
    /// A file.
    File(PathBuf),
    /// Parsed settings, with warnings about unknown keys.
    Inline(Box<Settings>, Vec<String>),
}

impl SettingsSource {
    /// Reads the settings in `text`, the JSON of an option.
    ///
    /// # Errors
    ///
    /// If it is not an object of settings.
    pub fn parse(source: &str, text: &str) -> Result<Self, Error> {
        let (settings, warnings) = settings::read(source, text, false)?;
        Ok(Self::Inline(Box::new(settings), warnings))
    }

    /// Reads the settings in `value`; `source` names it in errors.
    ///
    /// # Errors
    ///
    /// If it is not an object of settings.
    pub fn of_value(source: &str, value: &Value) -> Result<Self, Error> {
        // The parser reports positions in a text.
        Self::parse(source, &value.to_string())
    }
}

/// The settings files that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// Settings of the user's folders.
    pub user: bool,
    /// `settings.json` of the project.
    pub project: bool,
    /// `settings.local.json` of the project.
    pub local: bool,
}

impl Sources {
    /// None of them.
    pub const NONE: Self = Self {
        user: false,
        project: false,
        local: false,
    };

    /// All of them.
    pub const ALL: Self = Self {
        user: true,
        project: true,
        local: true,
    };

    /// Parses the value of `--setting-sources`; without one, all count.
    pub fn parse(list: Option<&str>) -> Result<Self, Error> {
        let all = list.is_none();
        let mut sources = Self {
            user: all,
            project: all,
            local: all,
        };
        for word in list.unwrap_or_default().split(',').map(str::trim) {
            match word {
                "" => {}
                "user" => sources.user = true,
                "project" => sources.project = true,
                "local" => sources.local = true,
                _ => {
                    let error = Error::usage(format!("unknown setting source `{word}`"));
                    return Err(error.hint("use user, project or local"));
                }
            }
        }
        Ok(sources)
    }
}

/// The folders that settings files are searched in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// The working directory and its parents up to the project's root, nearest first. Without the home directory: its
    /// settings are the user's.
    pub project: Vec<PathBuf>,
    /// The user's own settings for this project, which count whether it is trusted or not.
    pub own: Option<PathBuf>,
    /// The user's folder of this program.
    pub home: Option<PathBuf>,
    /// The user's folder of the other agent.
    pub foreign_home: Option<PathBuf>,
    /// Files of an administrator, of which the first that exists counts.
    pub managed: Vec<PathBuf>,
}

/// Result of reading all sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadedLayers {
    /// The layers, highest precedence first.
    pub layers: Vec<Layer>,
    /// Warnings about unknown keys.
    pub warnings: Vec<String>,
    /// Errors of unreadable files, each with whether the file is part of the project.
    pub errors: Vec<(bool, Error)>,
}

impl LoadedLayers {
    /// Adds the first file that exists; returns whether there is one. One that cannot be read stops every run.
    fn add_managed(&mut self, files: &[PathBuf]) -> bool {
        for path in files {
            match found_file::named(path) {
                Err(error) if is_absence(&error) => continue,
                Ok(text) => self.add(Origin::Managed(Some(path.clone())), &text, MANAGED),
                Err(error) => self.errors.push((false, unreadable(path, &error))),
            }
            return true;
        }
        false
    }

    /// Adds the value of `option`.
    fn add_given(
        &mut self,
        given: Option<&SettingsSource>,
        origin: &dyn Fn(Option<PathBuf>) -> Origin,
        option: &str,
    ) {
        match given {
            Some(SettingsSource::Inline(settings, warnings)) => {
                self.layers.push(Layer {
                    origin: origin(None),
                    is_of_project: false,
                    settings: (**settings).clone(),
                });
                self.warnings.extend(warnings.iter().cloned());
            }
            Some(SettingsSource::File(path)) => match found_file::named(path) {
                Ok(text) => self.add(origin(Some(path.clone())), &text, OWN),
                Err(error) => {
                    let hint = format!("`{option}` takes a file, or JSON that begins with `{{`");
                    let error = unreadable(path, &error).hint(hint);
                    self.errors.push((false, error));
                }
            },
            None => {}
        }
    }

    fn add(&mut self, origin: Origin, text: &str, whose: FileOwner) {
        match settings::read(&origin.to_string(), text, whose.is_foreign) {
            Ok((settings, unknown)) => {
                self.layers.push(Layer {
                    origin,
                    is_of_project: whose.is_project,
                    settings,
                });
                self.warnings.extend(unknown);
            }
            Err(error) => self.errors.push((whose.is_project, error)),
        }
    }
}

/// The owner of a settings file.
#[derive(Debug, Clone, Copy)]
struct FileOwner {
    is_project: bool,
    /// Whether it may have keys for another agent only.
    is_foreign: bool,
}

/// Settings typed by the user, or embedded in the executable.
const OWN: FileOwner = FileOwner {
    is_project: false,
    is_foreign: false,
};

/// Settings of an administrator, who may have other agents in mind as well.
const MANAGED: FileOwner = FileOwner {
    is_project: false,
    is_foreign: true,
};

/// Settings that are part of the executable or of the command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    /// Value of `--managed-settings`, which counts if there is no file of an administrator.
    pub managed: Option<&'a SettingsSource>,
    /// Value of `--settings`.
    pub typed: Option<&'a SettingsSource>,
    /// The settings in the executable.
    pub embedded: Option<&'a str>,
}

/// Reads all sources.
pub fn read(folders: &Folders, sources: Sources, given: Given<'_>) -> LoadedLayers {
    let mut found = LoadedLayers::default();
    let is_managed = found.add_managed(&folders.managed);
    let managed = given.managed.filter(|_| !is_managed);
    found.add_given(managed, &|path| Origin::Managed(path), "--managed-settings");
    let origin = |path: Option<PathBuf>| path.map_or(Origin::Inline, Origin::File);
    found.add_given(given.typed, &origin, "--settings");
    // An invalid value of an option is a usage error.
    for (_, error) in &mut found.errors {
        error.kind = ErrorKind::Usage;
    }
    for (path, whose) in files(folders, sources) {
        match found_file::text(&path) {
            Ok(text) => found.add(Origin::File(path), &text, whose),
            Err(error) if is_absence(&error) => {}
            Err(error) => found
                .errors
                .push((whose.is_project, unreadable(&path, &error))),
        }
    }
    if let Some(text) = given.embedded {
        found.add(Origin::Embedded, text, OWN);
    }
    found
}

/// Returns the paths of possible files, highest precedence first.
fn files(folders: &Folders, sources: Sources) -> Vec<(PathBuf, FileOwner)> {
    let mut files = Vec::new();
    if sources.local {
        files.extend(folders.own.clone().map(|path| (path, OWN)));
    }
    for (name, counts) in [
        ("settings.local.json", sources.local),
        ("settings.json", sources.project),
    ] {
        for (folder, is_foreign) in [(".ah", false), (".claude", true)] {
            let whose = FileOwner {
                is_project: true,
                is_foreign,
            };
            if counts {
                let paths = folders.project.iter();
                files.extend(paths.map(|project| (project.join(folder).join(name), whose)));
            }
        }
    }
    if sources.user {
        let whose = |is_foreign| FileOwner {
            is_project: false,
            is_foreign,
        };
        let ours = folders.home.iter().map(|folder| (folder, whose(false)));
        let foreign = folders
            .foreign_home
            .iter()
            .map(|folder| (folder, whose(true)));
        files.extend(
            ours.chain(foreign)
                .map(|(folder, whose)| (folder.join("settings.json"), whose)),
        );
    }
    files
}

pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!(
        "cannot read the settings in `{}`: {error}",
        path.display()
    ))
}

/// Returns the files of the layers.
pub fn files_of(layers: &[Layer]) -> Vec<PathBuf> {
    let paths = layers.iter().filter_map(|layer| match &layer.origin {
        Origin::File(path) | Origin::Managed(Some(path)) => Some(path.clone()),
        _ => None,
    });
    paths.collect()
}
