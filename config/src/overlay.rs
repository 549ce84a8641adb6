//! What the owner of this copy of the program has put into it: an archive behind the end of the executable.
//!
//! The archive is an ordinary zip file whose comment says how long it is, so that the end of the executable tells at
//! once whether there is one, and other programs can list it too. A copy without one is read no further than that.

#[cfg_attr(not(feature = "overlay"), path = "overlay/absent.rs")]
mod archive;
mod entry;
mod executable;
mod seal;
mod unpacked;
mod variables;

use ah_conversation::{Embedded, EmbeddedError, EmbeddedFile};

pub use archive::pack;
pub use entry::{Entry, MAX_BYTES, MAX_FILES};
pub use executable::Executable;
pub use unpacked::Unpacked;
pub use variables::unquoted;

/// The folder with variables for the environment.
const VARIABLES: &str = "env.d";
/// The settings.
const SETTINGS: &str = "settings.json";

/// What was embedded, as the program uses it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overlay {
    /// The files, less those with variables: these may be secrets, and what a model reads must not be.
    pub files: Embedded,
    /// Variables for the environment, where it has none of the name.
    pub variables: Vec<(String, String)>,
    /// The settings.
    pub settings: Option<String>,
}

impl Overlay {
    /// What is embedded in the running program.
    ///
    /// # Errors
    ///
    /// Says what is wrong where the archive is damaged.
    pub fn of_process() -> Result<Self, String> {
        match Executable::running() {
            Ok(executable) => Self::of(executable.entries()?),
            // Who cannot read the executable has embedded nothing in it.
            Err(_) => Ok(Self::default()),
        }
    }

    /// What these files mean, their paths beginning at the embedded folder.
    ///
    /// # Errors
    ///
    /// Says which file cannot be embedded.
    pub fn of(entries: Vec<Entry>) -> Result<Self, String> {
        let mut files = Embedded::default();
        let mut variables = Vec::new();
        let mut settings = None;
        for Entry {
            path,
            mode,
            content,
        } in entries
        {
            let is_executable = mode & 0o111 != 0;
            if below(&path, VARIABLES) {
                let text = String::from_utf8_lossy(&content);
                variables.extend(variables::parse(&path, &text)?);
            } else if path == SETTINGS {
                settings = Some(String::from_utf8_lossy(&content).into_owned());
            } else if below(&path, Embedded::BUILT_IN) {
                return Err(format!("`{path}` is in the folder of built-in files"));
            }
            let file = EmbeddedFile {
                content: content.into(),
                is_executable,
            };
            files
                .insert(&path, file)
                .map_err(|error: EmbeddedError| error.to_string())?;
        }
        files.remove(VARIABLES);
        Ok(Self {
            files,
            variables,
            settings,
        })
    }
}

fn below(path: &str, folder: &str) -> bool {
    path.split('/').next() == Some(folder)
}
