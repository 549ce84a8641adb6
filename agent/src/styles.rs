//! Output styles: texts in files that change how the model works and answers. One is chosen by the setting `outputStyle`.

use std::path::{Path, PathBuf};

use ah_conversation::front_matter::{self, FrontMatterError};
use serde::Deserialize;

/// Name of the style that changes nothing.
pub const DEFAULT: &str = "default";

/// An output style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputStyle {
    /// Name by which the setting chooses it.
    pub name: String,
    /// Description for lists.
    pub description: String,
    /// Whether the built-in instructions for working in a project stay.
    pub keeps_conduct: bool,
    /// Text for the system prompt.
    pub text: String,
    /// Its file.
    pub location: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct StyleFields {
    name: Option<String>,
    description: Option<String>,
    keep_coding_instructions: bool,
}

impl OutputStyle {
    /// Parses the style in the file `location`. Its name is that of the file unless the front matter has another.
    ///
    /// # Errors
    ///
    /// If the front matter is not valid.
    pub fn parse(text: &str, location: &Path) -> Result<Self, FrontMatterError> {
        let (front, body) = front_matter::read::<StyleFields>(text)?;
        let stem = location.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: front.name.unwrap_or_else(|| stem.into_owned()),
            description: front.description.unwrap_or_default(),
            keeps_conduct: front.keep_coding_instructions,
            text: body.trim().to_owned(),
            location: location.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_has_the_name_of_its_file_unless_it_says_another() {
        let parsed = |text: &str| OutputStyle::parse(text, Path::new("/s/terse.md")).unwrap();
        let plain = parsed("Be terse.\n");
        assert_eq!(
            (&*plain.name, &*plain.text, plain.keeps_conduct),
            ("terse", "Be terse.", false)
        );
        let named = parsed("---\nname: Brief\nkeep-coding-instructions: true\n---\nBe brief.");
        assert_eq!(
            (&*named.name, &*named.text, named.keeps_conduct),
            ("Brief", "Be brief.", true)
        );
    }
}
