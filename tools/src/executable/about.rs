//! The description of a program: the files beside it, or its `--help`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use ah_conversation::{front_matter, json};
use serde::Deserialize;
use serde_json::Value;

use crate::bash::{DEFAULT_TIMEOUT, MAX_TIMEOUT};

/// Limit for guidance in bytes; it is sent with every request.
const MAX_GUIDANCE: usize = 10_000;
/// Limit for a description in bytes.
const MAX_DESCRIPTION: usize = 1_024;

/// Description of a program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct About {
    pub(crate) description: Option<String>,
    pub(crate) guidance: Option<String>,
    /// The schema of its input, if it reads JSON.
    pub(crate) schema: Option<Value>,
    pub(crate) timeout: Duration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FrontMatter {
    description: Option<String>,
    /// In seconds.
    timeout: Option<u64>,
}

impl About {
    /// Reads `NAME.md` and `NAME.json` beside the program. Returns `None` if the schema is invalid, since the program
    /// could not be called as it expects.
    pub(crate) fn beside(program: &Path, warnings: &mut Vec<String>) -> Option<Self> {
        let mut about = Self {
            description: None,
            guidance: None,
            schema: None,
            timeout: Duration::from_millis(DEFAULT_TIMEOUT),
        };
        let schema_file = program.with_extension("json");
        if let Some(text) = read(&schema_file, warnings) {
            let schema = match parse_schema(&text) {
                Ok(schema) => schema,
                Err(error) => {
                    warnings.push(format!("{}:{error}", schema_file.display()));
                    return None;
                }
            };
            let description = schema.get("description").and_then(Value::as_str);
            about.description = description.map(str::to_owned);
            about.schema = Some(schema);
        }
        let page = program.with_extension("md");
        if let Some(text) = read(&page, warnings) {
            match front_matter::read::<FrontMatter>(&text) {
                Ok((front, body)) => about.add(front, body),
                Err(error) => warnings.push(format!("{}:{error}", page.display())),
            }
        }
        Some(about)
    }

    /// Adds the content of `NAME.md`. Without a description in the front matter, it is the first line that is no heading.
    fn add(&mut self, front: FrontMatter, body: &str) {
        let mut lines = body.lines().map(str::trim);
        let is_words = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let description = front
            .description
            .or_else(|| lines.find(is_words).map(str::to_owned));
        if let Some(description) = description {
            self.description = Some(cut(&description, MAX_DESCRIPTION).to_owned());
        }
        let guidance = cut(body.trim(), MAX_GUIDANCE);
        self.guidance = Some(guidance.to_owned()).filter(|guidance| !guidance.is_empty());
        if let Some(seconds) = front.timeout {
            let longest = Duration::from_millis(MAX_TIMEOUT);
            self.timeout = Duration::from_secs(seconds.max(1)).min(longest);
        }
    }
}

/// Parses the schema of an input, which has to be that of an object; an error starts with its line.
fn parse_schema(text: &str) -> Result<Value, String> {
    let schema: Value = json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        format!("{}: {message}", error.line())
    })?;
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Ok(schema),
        _ => {
            Err("1: expected the JSON Schema of an object, with `\"type\": \"object\"`".to_owned())
        }
    }
}

fn read(path: &Path, warnings: &mut Vec<String>) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            warnings.push(format!("cannot read `{}`: {error}", path.display()));
            None
        }
    }
}

pub(super) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
