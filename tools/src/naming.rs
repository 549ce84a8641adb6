//! Under which names the tools stand before the model: ours, or those that the official Agent SDKs' hosts know.

use std::path::Path;

use crate::workspace::Workspace;

/// Which names tools and their arguments have. Both forms of a path argument are understood under either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Naming {
    /// `read`, `edit`, …, with the argument `path`.
    #[default]
    Own,
    /// `Read`, `Edit`, …, with the argument `file_path`, which has to be absolute.
    Sdk,
}

impl Naming {
    /// The one of two words that belongs to this naming.
    pub(crate) fn pick<'a>(self, own: &'a str, sdk: &'a str) -> &'a str {
        match self {
            Self::Own => own,
            Self::Sdk => sdk,
        }
    }

    /// The argument that names a file.
    pub(crate) fn path_argument(self) -> &'static str {
        self.pick("path", "file_path")
    }

    /// A description whose `{{one|other}}` are resolved: the first stands in our naming, the second in that of the SDKs.
    pub(crate) fn describe(self, text: &str) -> String {
        let mut described = String::new();
        let mut rest = text.trim_end();
        while let Some((before, choice, behind)) = choice(rest) {
            described.push_str(before);
            described.push_str(self.pick(choice.0, choice.1));
            rest = behind;
        }
        described + rest
    }

    /// Whether a path may be given so: in the naming of the SDKs it begins at the root, or at the home directory.
    pub(crate) fn takes(self, path: &str) -> bool {
        self == Self::Own || Path::new(path).is_absolute() || path.starts_with('~')
    }

    /// Refuses a path that may not be given so, and says which one was most likely meant.
    pub(crate) fn check(self, path: &str, workspace: &Workspace) -> Result<(), String> {
        match self.takes(path) {
            true => Ok(()),
            false => Err(format!(
                "`{path}` is a relative path, and it has to be absolute: `{}`?",
                workspace.resolve(path).display()
            )),
        }
    }
}

/// The text before a choice, its two sides, and the text behind it.
fn choice(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (choice, behind) = rest.split_once("}}")?;
    Some((before, choice.split_once('|')?, behind))
}
