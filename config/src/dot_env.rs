//! The API key in the `.env` file of the working directory. The file is the project's: no other variable of it is used,
//! and the key's owner can see the requests, so it counts only in a trusted project.

use std::path::PathBuf;

use ah_conversation::Environment;

use crate::found_file;
use crate::overlay::assignment;
use crate::trust::Trust;

const KEY: &str = "ANTHROPIC_API_KEY";

/// Adds the key of `.env` if the environment has none; returns whether it did.
pub fn add_key(environment: &mut Environment, trust: &mut Trust) -> bool {
    if environment.get(KEY).is_some() {
        return false;
    }
    let path = path(environment);
    let text = found_file::text(&path).unwrap_or_default();
    let Some(value) = value(&text, KEY) else {
        return false;
    };
    if !trust.is_given() {
        trust.skip(path, Some(KEY));
        return false;
    }
    environment.set_default(KEY, &value);
    true
}

/// Returns the path of the file.
pub fn path(environment: &Environment) -> PathBuf {
    environment.cwd().join(".env")
}

/// Returns the value of `name` in lines of `NAME=value`. The last assignment counts.
fn value(text: &str, name: &str) -> Option<String> {
    let assignments = text.lines().rev().filter_map(assignment);
    let mut values = assignments.filter(|(key, _)| *key == name);
    let value = values.next()?.1.trim().to_owned();
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_file() {
        for (text, expected) in [
            ("KEY=k", Some("k")),
            ("# a comment\n\n KEY = \"k\" \r\nX=1", Some("k")),
            ("export KEY='k'", Some("k")),
            ("KEY='k' # mine\r\n", Some("k")),
            ("KEY=k # mine", Some("k")),
            ("KEY=\"'k'\"", Some("'k'")),
            ("KEY=a=b", Some("a=b")),
            ("KEY=first\nKEY=last", Some("last")),
            ("#KEY=k", None),
            ("MY_KEY=k", None),
            ("KEY=", None),
            ("KEY=\"", Some("\"")),
            ("KEY", None),
        ] {
            assert_eq!(value(text, "KEY").as_deref(), expected, "{text}");
        }
    }
}
