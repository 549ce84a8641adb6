//! Where settings come from, in the order in which they count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::found_file;
use crate::origin::Origin;
use crate::settings::{self, Settings};

/// The settings of one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Which place.
    pub origin: Origin,
    /// Whether it came with the project.
    pub is_of_project: bool,
    /// What it says.
    pub settings: Settings,
}

/// Settings that whoever starts the run gives.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsSource {
    /// A file.
    File(PathBuf),
    /// These settings, and warnings about keys without a meaning.
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

    /// Reads the settings in `value`, as a program gives them; `source` names it in errors.
    ///
    /// # Errors
    ///
    /// If it is not an object of settings.
    pub fn of_value(source: &str, value: &Value) -> Result<Self, Error> {
        // The reader of settings tells places in a text.
        Self::parse(source, &value.to_string())
    }
}

/// Which settings files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// Those of the user's folders.
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

    /// Reads the value of `--setting-sources`; without one, all count.
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
                    return Err(error.hint("known are user, project and local"));
                }
            }
        }
        Ok(sources)
    }
}

/// The folders that settings are sought in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// The working directory and those above it up to the top of the project, nearest first. The home directory is
    /// none of them: its settings are the user's.
    pub project: Vec<PathBuf>,
    /// The user's folder of ours.
    pub home: Option<PathBuf>,
    /// The user's folder of the other agent.
    pub foreign_home: Option<PathBuf>,
}

/// What all places together gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Those that could be read, the first one counting most.
    pub layers: Vec<Layer>,
    /// What means nothing.
    pub warnings: Vec<String>,
    /// Why others could not be read, and whether they came with the project.
    pub faults: Vec<(bool, Error)>,
}

impl Found {
    fn add(&mut self, origin: Origin, text: &str, whose: Whose) {
        match settings::read(&origin.to_string(), text, whose.is_foreign) {
            Ok((settings, unknown)) => {
                self.layers.push(Layer {
                    origin,
                    is_of_project: whose.is_project,
                    settings,
                });
                self.warnings.extend(unknown);
            }
            Err(fault) => self.faults.push((whose.is_project, fault)),
        }
    }
}

/// To whom a settings file belongs.
#[derive(Debug, Clone, Copy)]
struct Whose {
    is_project: bool,
    /// It may have keys for another agent alone.
    is_foreign: bool,
}

/// What the user has typed, or has put into the program.
const OWN: Whose = Whose {
    is_project: false,
    is_foreign: false,
};

/// Reads all places; `given` is the value of `--settings`, `embedded` what was put into the program.
pub fn read(
    folders: &Folders,
    sources: Sources,
    given: Option<&SettingsSource>,
    embedded: Option<&str>,
) -> Found {
    let mut found = Found::default();
    match given {
        Some(SettingsSource::Inline(settings, warnings)) => {
            found.layers.push(Layer {
                origin: Origin::Inline,
                is_of_project: false,
                settings: (**settings).clone(),
            });
            found.warnings.extend(warnings.iter().cloned());
        }
        Some(SettingsSource::File(path)) => match fs::read_to_string(path) {
            Ok(text) => found.add(Origin::File(path.clone()), &text, OWN),
            Err(error) => {
                let fault = unreadable(path, &error);
                let fault = fault.hint("`--settings` takes a file, or JSON that begins with `{`");
                found.faults.push((false, fault));
            }
        },
        None => {}
    }
    // What is wrong with the value of an option is a usage error.
    for (_, fault) in &mut found.faults {
        fault.kind = ErrorKind::Usage;
    }
    for (path, whose) in files(folders, sources) {
        match found_file::text(&path) {
            Ok(text) => found.add(Origin::File(path), &text, whose),
            Err(error) if is_absence(&error) => {}
            Err(error) => found
                .faults
                .push((whose.is_project, unreadable(&path, &error))),
        }
    }
    if let Some(text) = embedded {
        found.add(Origin::Embedded, text, OWN);
    }
    found
}

/// The files that may be there, the first one counting most.
fn files(folders: &Folders, sources: Sources) -> Vec<(PathBuf, Whose)> {
    let mut files = Vec::new();
    for (name, counts) in [
        ("settings.local.json", sources.local),
        ("settings.json", sources.project),
    ] {
        for (folder, is_foreign) in [(".ah", false), (".claude", true)] {
            let whose = Whose {
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
        let whose = |is_foreign| Whose {
            is_project: false,
            is_foreign,
        };
        let ours = folders.home.iter().map(|folder| (folder, whose(false)));
        let foreign = folders.foreign_home.iter();
        let foreign = foreign.map(|folder| (folder, whose(true)));
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

/// The files that the layers come from.
pub fn files_of(layers: &[Layer]) -> Vec<PathBuf> {
    let paths = layers.iter().filter_map(|layer| match &layer.origin {
        Origin::File(path) => Some(path.clone()),
        _ => None,
    });
    paths.collect()
}
