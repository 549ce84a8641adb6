//! Files that a typed prompt names as `@PATH`, `@PATH#10-20` for some of its lines: the model gets their contents with
//! the prompt, and need not ask for them.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use ah_agent::skills::escaped;
use ah_config::{Config, Error};
use ah_conversation::{ContentBlock, Image, NOTE, called};

use crate::prompt::expand::{Expanded, Ruled, read};
use crate::prompt::pictures::{self, words};

/// Content of a prompt.
pub struct Said {
    /// Pictures, those also that it names, the files that it names, then its text.
    pub blocks: Vec<ContentBlock>,
    /// The files that went along, in words for whoever has named them: `Read src/greet.py (11 lines)`.
    pub read: Vec<String>,
}

/// Returns the content of a prompt, with `before` in front of its text.
///
/// # Errors
///
/// If a file is no picture that a model takes, or permission rules keep a picture from being read.
pub fn said(
    prompt: &Expanded,
    before: &str,
    images: Vec<Image>,
    config: &Config,
) -> Result<Said, Error> {
    let text = format!("{before}{}", prompt.text);
    let images = pictures::named(&text, images, config).map_err(Error::failure)?;
    // A command has named its files itself.
    let attached = match prompt.is_as_typed {
        true => attached(&prompt.text, config),
        false => Vec::new(),
    };
    let (texts, read): (Vec<_>, _) = attached.into_iter().unzip();
    let note = prompt.called.as_deref().map(called);
    let texts = texts.into_iter().chain(note).chain([text]);
    let texts = texts.map(|text| ContentBlock::Text { text });
    let images = images.into_iter().map(ContentBlock::Image);
    Ok(Said {
        blocks: images.chain(texts).collect(),
        read,
    })
}

/// Returns the contents of the files of the project that a prompt names, and the names in its folders, one text each, with
/// what was read in words.
/// Other words with an `@` stay words, as do files outside of the project, those that rules keep from being read, and
/// what is no text: the model has tools for them, which say why.
fn attached(prompt: &str, config: &Config) -> Vec<(String, String)> {
    let mut ruled = None;
    let mut texts = Vec::new();
    for Mention { path, lines } in words(prompt).filter_map(Mention::of) {
        let Some(real) = in_project(path, config.environment.cwd(), &config.project_root) else {
            continue;
        };
        let ruled = ruled.get_or_insert_with(|| Ruled::of(config));
        if ruled.refusal_of_file(path).is_some() {
            continue;
        }
        let Ok(content) = read(&real) else { continue };
        let (name, mut lines_of) = (escaped(path), String::new());
        let content = match lines {
            Some(lines) => {
                let (first, last) = (lines.start(), lines.end());
                lines_of = format!(" lines=\"{first}-{last}\"");
                // With their ends, which an edit has to meet.
                let lines = content.split_inclusive('\n');
                let lines = lines.skip(first - 1).take(last - first + 1);
                lines.collect::<String>()
            }
            None => content.trim_end().to_owned(),
        };
        let told = told(path, content.lines().count(), real.is_dir());
        let content = content.strip_suffix('\n').unwrap_or(&content);
        let text = format!(
            "{NOTE} Named in the prompt:\n<file path=\"{name}\"{lines_of}>\n{content}\n</file>"
        );
        texts.push((text, told));
    }
    texts
}

/// Returns what was read, in words.
fn told(path: &str, lines: usize, is_folder: bool) -> String {
    let (did, noun) = match (is_folder, lines) {
        (true, 1) => ("Listed", "entry"),
        (true, _) => ("Listed", "entries"),
        (false, 1) => ("Read", "line"),
        (false, _) => ("Read", "lines"),
    };
    format!("{did} {path} ({lines} {noun})")
}

/// Returns the path without symbolic links, if there is something in the project.
fn in_project(path: &str, cwd: &Path, project_root: &Path) -> Option<std::path::PathBuf> {
    let real = fs::canonicalize(cwd.join(path)).ok()?;
    let root = fs::canonicalize(project_root).ok()?;
    let is_here = real.starts_with(root) || real.starts_with(cwd);
    is_here.then_some(real)
}

/// A path with the lines that are meant, counted from 1.
#[derive(Debug, PartialEq, Eq)]
struct Mention<'a> {
    path: &'a str,
    lines: Option<RangeInclusive<usize>>,
}

impl<'a> Mention<'a> {
    /// Reads `PATH`, `PATH#5`, `PATH#5-10` or `PATH#L5-L10`; `None` without a path.
    fn of(word: &'a str) -> Option<Self> {
        let number = |text: &str| text.strip_prefix('L').unwrap_or(text).parse::<usize>().ok();
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (number(first)?, number(last)?);
            (1..=last).contains(&first).then_some(first..=last)
        };
        let with_lines = word
            .rsplit_once('#')
            .and_then(|(path, lines)| Some((path, Some(range(lines)?))));
        let (path, lines) = with_lines.unwrap_or((word, None));
        (!Path::new(path).as_os_str().is_empty()).then_some(Self { path, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named_behind_a_hash() {
        for (word, path, lines) in [
            ("a.rs", "a.rs", None),
            ("a.rs#5", "a.rs", Some(5..=5)),
            ("a.rs#5-10", "a.rs", Some(5..=10)),
            ("a.rs#L5-L10", "a.rs", Some(5..=10)),
            ("a.rs#L5", "a.rs", Some(5..=5)),
            ("a#b.rs", "a#b.rs", None),
            ("a.rs#10-5", "a.rs#10-5", None),
            ("a.rs#0-5", "a.rs#0-5", None),
            ("a.rs#-", "a.rs#-", None),
            ("c#/x#7", "c#/x", Some(7..=7)),
        ] {
            assert_eq!(Mention::of(word), Some(Mention { path, lines }), "{word}");
        }
        assert_eq!(Mention::of(""), None);
    }
}
