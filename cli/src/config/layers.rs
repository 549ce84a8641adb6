//! Where settings come from, in the order in which they count.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::settings::{self, Settings};
use crate::error::{CliError, USAGE};
use crate::found_file;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An option.
    CommandLine,
    /// A variable.
    Environment(&'static str),
    /// `--settings` with JSON in place of a file.
    Inline,
    /// A settings file.
    File(PathBuf),
    /// Settings that were put into this copy of the program.
    Embedded,
    /// The program itself.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(variable) => f.write_str(variable),
            Self::Inline => f.write_str("--settings"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Embedded => f.write_str("embedded"),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}

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
    /// All of them.
    pub const ALL: Self = Self {
        user: true,
        project: true,
        local: true,
    };

    /// Reads the value of `--setting-sources`; without one, all count.
    pub fn parse(list: Option<&str>) -> Result<Self, CliError> {
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
                    let error = CliError::usage(format!("unknown setting source `{word}`"));
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
    pub faults: Vec<(bool, CliError)>,
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
    given: Option<&str>,
    embedded: Option<&str>,
) -> Found {
    let mut found = Found::default();
    match given {
        Some(json) if json.trim_start().starts_with('{') => found.add(Origin::Inline, json, OWN),
        Some(path) => match fs::read_to_string(path) {
            Ok(text) => found.add(Origin::File(path.into()), &text, OWN),
            Err(error) => {
                let fault = unreadable(Path::new(path), &error);
                let fault = fault.hint("`--settings` takes a file, or JSON that begins with `{`");
                found.faults.push((false, fault));
            }
        },
        None => {}
    }
    // What is wrong with the value of an option is a usage error.
    for (_, fault) in &mut found.faults {
        fault.code = USAGE;
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

pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::failure(format!(
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
