//! Pictures for the model: files named in a prompt, and files pasted or dropped into the conversation.

use std::iter;
use std::path::{Path, PathBuf};

use ah_conversation::{Environment, Image};

use ah_config::{Config, found_file};

use crate::prompt::expand::Ruled;

/// File extensions of pictures.
const ENDS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];
/// Maximum size of a picture file in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the path in a pasted or dropped text that consists of nothing but a picture's path, quoted as by a terminal
/// or escaped as by a file manager.
pub fn path_in(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    if text.contains('\n') {
        return None;
    }
    let is_quoted = |quote: char| {
        text.strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote))
    };
    let path = if let Some(address) = text.strip_prefix("file://") {
        unescaped(address, '%', |code| {
            let digits = code.get(..2)?;
            Some((u8::from_str_radix(digits, 16).ok()?, 2))
        })?
    } else if let Some(quoted) = is_quoted('\'').or_else(|| is_quoted('"')) {
        quoted.to_owned()
    } else if text.split(char::is_whitespace).count() == 1 || text.contains("\\ ") {
        unescaped(text, '\\', |code| Some((*code.as_bytes().first()?, 1)))?
    } else {
        return None;
    };
    let path = PathBuf::from(path);
    (path.components().count() > 1 && is_picture(&path)).then_some(path)
}

/// Returns the text with each escape sequence that begins with `sign` replaced by its byte.
fn unescaped(text: &str, sign: char, byte: impl Fn(&str) -> Option<(u8, usize)>) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once(sign) {
        bytes.extend_from_slice(before.as_bytes());
        let (value, length) = byte(code)?;
        bytes.push(value);
        rest = code.get(length..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

fn is_picture(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| ENDS.iter().any(|known| known.eq_ignore_ascii_case(end)))
}

/// Reads a picture file in a form that models accept.
///
/// # Errors
///
/// If it cannot be read, or models do not accept it; the text says what to do.
pub fn read(path: &Path, environment: &Environment) -> Result<Image, String> {
    let full = match (path.strip_prefix("~"), environment.home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => environment.cwd().join(path),
    };
    let shown = path.display();
    let content = found_file::bytes(&full, MAX_BYTES)
        .map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    ah_tools::picture(&content).map_err(|error| format!("`{shown}` {error}"))
}

/// Returns the given pictures, then those that a prompt names as `@PATH`. An `@` name without a file stays a word.
///
/// # Errors
///
/// If a file is no picture that a model takes, or permission rules keep it from being read.
pub(crate) fn named(
    prompt: &str,
    mut images: Vec<Image>,
    config: &Config,
) -> Result<Vec<Image>, String> {
    let environment = &config.environment;
    let mut ruled = None;
    for path in mentioned(prompt) {
        if environment.cwd().join(path).is_file() || path.starts_with("~") {
            let ruled = ruled.get_or_insert_with(|| Ruled::of(config));
            if let Some(why) = ruled.refusal_of_file(&path.to_string_lossy()) {
                return Err(format!("`{}` is not read: {why}", path.display()));
            }
            images.push(read(path, environment)?);
        }
    }
    Ok(images)
}

/// Returns the words behind an `@`, without the punctuation around them. With quotes, as in `@"a b.txt"`, a name may have
/// blanks.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let opens = ['(', '"', '\''];
    let mut rest = text.trim_start();
    let pieces = iter::from_fn(move || {
        let quoted = rest.trim_start_matches(opens).strip_prefix("@\"");
        let quoted = quoted.and_then(|quoted| quoted.split_once('"'));
        let (word, behind) = match quoted.filter(|(name, _)| !name.contains('\n')) {
            Some((name, behind)) => (Some(name), behind),
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                let word = word.trim_start_matches(opens).strip_prefix('@');
                let ends = ['.', ',', ';', ':', '!', '?', ')', '"', '\''];
                (word.map(|word| word.trim_end_matches(ends)), behind)
            }
        };
        let is_over = rest.is_empty();
        rest = behind.trim_start();
        (!is_over).then_some(word)
    });
    pieces.flatten()
}

/// Returns the paths of pictures named behind an `@`.
fn mentioned(text: &str) -> impl Iterator<Item = &Path> {
    words(text).map(Path::new).filter(|path| is_picture(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_file_is_known_by_its_path_alone() {
        for (text, expected) in [
            ("/tmp/a.png", "/tmp/a.png"),
            (" /tmp/My\\ shot\\ (1).PNG \n", "/tmp/My shot (1).PNG"),
            ("'/tmp/My shot.jpg'", "/tmp/My shot.jpg"),
            ("\"/tmp/a b.webp\"", "/tmp/a b.webp"),
            ("file:///tmp/My%20sh%C3%B6t.gif", "/tmp/My shöt.gif"),
            ("./a.jpeg", "./a.jpeg"),
            ("a.png", "-"),
            ("look at /tmp/a.png", "-"),
            ("/tmp/a.png\n/tmp/b.png", "-"),
            ("/tmp/a.txt", "-"),
            ("file:///tmp/%zz.png", "-"),
            ("/tmp/é\\é.png", "-"),
            ("file:///tmp/%é.png", "-"),
            ("\\", "-"),
            ("'", "-"),
            ("", "-"),
        ] {
            let path = path_in(text);
            let path = path.as_deref().map_or("-", |path| path.to_str().unwrap());
            assert_eq!(path, expected, "{text:?}");
        }
    }

    #[test]
    fn pictures_are_named_behind_an_at() {
        let text = "see @a.png, (@b/c.JPG) and @d.txt, mail@e.png, @~/f.gif.";
        let quoted = "a @\"b c.txt\", (@\"d e\") @\"f\ng\" @h \"@i\" @\"\" @";
        let names: Vec<_> = words(quoted).filter(|name| !name.is_empty()).collect();
        assert_eq!(names, ["b c.txt", "d e", "\"f", "h", "i"]);
        let found: Vec<_> = mentioned(text).map(|path| path.to_str().unwrap()).collect();
        assert_eq!(found, ["a.png", "b/c.JPG", "~/f.gif"]);
    }

    #[test]
    fn words_behind_an_at_are_found_in_a_sentence() {
        let text = "see @a.rs#3, (@b/c.JPG), mail@e.png and @~/f.";
        assert_eq!(
            words(text).collect::<Vec<_>>(),
            ["a.rs#3", "b/c.JPG", "~/f"]
        );
    }
}
