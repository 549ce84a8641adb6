//! Parser of a settings file that reports the position of each error.

use std::collections::BTreeSet;
use std::fmt;

use ah_conversation::json;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::Error;

/// A settings file being parsed.
pub struct File<'a> {
    pub source: &'a str,
    /// Text without halves of characters.
    pub text: &'a str,
    pub warnings: Vec<String>,
}

impl<'a> File<'a> {
    /// Returns the entries of an object, in order, and warns of keys that stand there twice.
    pub fn object(&mut self, value: &'a RawValue) -> Result<Vec<(String, &'a RawValue)>, Error> {
        let Entries(entries) = self.value_of(value)?;
        let mut keys = BTreeSet::new();
        for (key, value) in &entries {
            if !keys.insert(key) {
                let (line, _) = self.place(self.offset(value));
                self.warnings.push(format!(
                    "{}:{line}: `{key}` appears twice: rules and hooks of both apply, otherwise the last value",
                    self.source
                ));
            }
        }
        Ok(entries)
    }

    pub fn value<T: DeserializeOwned>(&self, value: &RawValue) -> Result<T, Error> {
        self.value_of(value)
    }

    pub fn value_of<'v, T: Deserialize<'v>>(&self, value: &'v RawValue) -> Result<T, Error> {
        json::part(value).map_err(|error| self.error(&error, self.offset(value)))
    }

    /// Returns a list of names, or one text in which they are separated by commas.
    pub fn names(&self, value: &RawValue) -> Result<Vec<String>, Error> {
        match self.value::<Value>(value)? {
            Value::String(names) => {
                let names = names.split(',').map(str::trim);
                Ok(names.map(str::to_owned).collect())
            }
            _ => self.value(value),
        }
    }

    /// Returns the byte offset of a value in the text that it borrows from.
    pub fn offset(&self, value: &RawValue) -> usize {
        let start = value.get().as_ptr() as usize;
        start.saturating_sub(self.text.as_ptr() as usize)
    }

    /// Returns line and column of a byte, both 1-based.
    pub fn place(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        (line, column)
    }

    pub fn warn_unknown(&mut self, key: &str, value: &RawValue) {
        let (line, _) = self.place(self.offset(value));
        let warning = format!("{}:{line}: unknown setting `{key}`", self.source);
        self.warnings.push(warning);
    }

    /// Returns the error for JSON at `start` that cannot be parsed. The parser reports the end of an unusable value;
    /// users look for its beginning, which for a plain value is `start`.
    pub fn error(&self, error: &serde_json::Error, start: usize) -> Error {
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or_default();
        let (line, column) = self.place(start);
        let is_plain = error.is_data() && !self.text[start..].trim_start().starts_with(['{', '[']);
        if is_plain || error.line() == 0 {
            return self.error_in(message, line, column);
        }
        match error.line() {
            1 => self.error_in(message, line, column + error.column().saturating_sub(1)),
            further => self.error_in(message, line + further - 1, error.column()),
        }
    }

    pub fn error_at(&self, message: &str, value: &RawValue) -> Error {
        let (line, column) = self.place(self.offset(value));
        self.error_in(message, line, column)
    }

    pub fn error_in(&self, message: &str, line: usize, column: usize) -> Error {
        Error::failure(format!("{}:{line}:{column}: {message}", self.source))
            .hint("correct the file, or choose the settings files to read with `--setting-sources`")
    }
}

/// The entries of an object, in order; a key may be there twice.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Found;

        impl<'de> Visitor<'de> for Found {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Found)
    }
}
