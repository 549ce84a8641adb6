//! The API key in the `.env` file of the working directory. The file is the project's: no other variable of it is used,
//! and the key's owner can see the requests, so it counts only in a trusted project.

use std::path::PathBuf;

use ah_conversation::Environment;

use crate::found_file;
use crate::overlay::unquoted;
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
    environment.set_default(KEY, value);
    true
}

/// Returns the path of the file.
pub fn path(environment: &Environment) -> PathBuf {
    environment.cwd().join(".env")
}

/// Returns the value of `name` in lines of `NAME=value`, with optional quotes around the value, `#` before a comment
/// and `export` before the name. The last assignment counts.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut values = text.lines().rev().filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| unquoted(value.trim()).trim())
    });
    values.next().filter(|value| !value.is_empty())
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
            ("KEY=\"'k'\"", Some("'k'")),
            ("KEY=a=b", Some("a=b")),
            ("KEY=first\nKEY=last", Some("last")),
            ("#KEY=k", None),
            ("MY_KEY=k", None),
            ("KEY=", None),
            ("KEY=\"", Some("\"")),
            ("KEY", None),
        ] {
            assert_eq!(value(text, "KEY"), expected, "{text}");
        }
    }
}
