//! Files embedded in this copy of the program: an archive at the end of the executable.
//!
//! The archive is an ordinary zip file whose comment holds its length, so the end of the executable shows whether there
//! is one, and other programs can list it. A copy without one is read no further.

#[cfg_attr(not(feature = "overlay"), path = "overlay/absent.rs")]
mod archive;
mod entry;
mod executable;
mod seal;
mod unpacked;
mod variables;

use ah_conversation::{Embedded, EmbeddedError, EmbeddedFile, encoding};

pub use archive::pack;
pub use entry::{ArchiveEntry, MAX_BYTES, MAX_FILES};
pub use executable::Executable;
pub use unpacked::Unpacked;
pub(crate) use variables::assignment;

/// The folder with variables for the environment.
const VARIABLES: &str = "env.d";
/// The settings.
const SETTINGS: &str = "settings.json";

/// The embedded files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overlay {
    /// The files without those of variables, which may be secrets that no model may read.
    pub files: Embedded,
    /// Default values of environment variables.
    pub variables: Vec<(String, String)>,
    /// The settings.
    pub settings: Option<String>,
}

impl Overlay {
    /// Returns the files embedded in the running program.
    ///
    /// # Errors
    ///
    /// If the archive is damaged; the text says how.
    pub fn of_process() -> Result<Self, String> {
        match Executable::running() {
            Ok(executable) => Self::of(executable.entries()?),
            // An executable that its user cannot read has nothing embedded.
            Err(_) => Ok(Self::default()),
        }
    }

    /// Interprets files with paths relative to the embedded folder.
    ///
    /// # Errors
    ///
    /// If a file cannot be embedded; the text names it.
    pub fn of(entries: Vec<ArchiveEntry>) -> Result<Self, String> {
        let mut files = Embedded::default();
        let mut variables = Vec::new();
        let mut settings = None;
        for ArchiveEntry {
            path,
            mode,
            content,
        } in entries
        {
            let is_executable = mode & 0o111 != 0;
            if below(&path, VARIABLES) {
                let text = encoding::text_of(&content);
                variables.extend(variables::parse(&path, &text)?);
            } else if path == SETTINGS {
                settings = Some(encoding::text_of(&content));
            } else if below(&path, Embedded::BUILT_IN) {
                return Err(format!(
                    "`{path}` is in the folder reserved for built-in files"
                ));
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
