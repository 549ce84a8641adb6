//! The settings that a model may change, in the user's own file. Each is of no consequence for what is permitted, for keys,
//! and for what programs are run.

use std::path::PathBuf;

use ah_conversation::Effort;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::rulebook;

/// A setting that a model may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changeable {
    /// How much the model thinks.
    Effort,
    /// The model of later sessions.
    Model,
    /// How answers are written.
    OutputStyle,
}

impl Changeable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Effort, Self::Model, Self::OutputStyle];

    /// Returns its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Effort => "effort",
            Self::Model => "model",
            Self::OutputStyle => "outputStyle",
        }
    }

    /// Returns the one with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the value as it stands in the settings.
    fn checked(self, value: &Value) -> Result<&str, Error> {
        let text = value.as_str().map(str::trim).unwrap_or_default();
        let is_one_line = !text.is_empty() && !text.contains(char::is_control);
        let is_known = match self {
            Self::Effort => serde_json::from_value::<Effort>(json!(text)).is_ok(),
            Self::Model | Self::OutputStyle => true,
        };
        match is_one_line && is_known {
            true => Ok(text),
            false => Err(Error::failure(format!(
                "{value} is not a value of `{}`",
                self.name()
            ))),
        }
    }
}

impl Config {
    /// Returns the path of the user's settings; `None` if there is no folder of the user.
    pub fn user_settings(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join("settings.json"))
    }

    /// Sets a setting for later sessions, in the user's settings; returns their path.
    ///
    /// # Errors
    ///
    /// If it cannot have this value, there is no folder of the user, or the file cannot be written.
    pub fn keep_setting(&self, setting: Changeable, value: &Value) -> Result<PathBuf, Error> {
        let value = setting.checked(value)?;
        let path = self.user_settings().ok_or_else(|| {
            Error::failure("there is no folder for settings").hint("set AH_HOME or HOME")
        })?;
        let kept = rulebook::rewrite(&path, |settings| {
            settings.insert(setting.name().to_owned(), json!(value));
            Ok(())
        });
        kept.map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_the_setting_are_written() {
        for (setting, value, is_one) in [
            (Changeable::Effort, json!("high"), true),
            (Changeable::Effort, json!("endless"), false),
            (Changeable::Model, json!("opus"), true),
            (Changeable::Model, json!(7), false),
            (Changeable::Model, json!("a\nb"), false),
            (Changeable::OutputStyle, json!(" "), false),
        ] {
            assert_eq!(
                setting.checked(&value).is_ok(),
                is_one,
                "{setting:?} {value}"
            );
        }
        assert_eq!(Changeable::of("permissions"), None);
    }
}
