//! YAML front matter between two `---` lines at the beginning of a Markdown file. Skills, commands, tools and agents
//! describe themselves there.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny};

use crate::encoding;

/// Error in front matter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct FrontMatterError {
    /// 1-based line number in the file.
    pub line: u64,
    /// Description of the error.
    pub message: String,
}

/// Splits `text` into its parsed front matter (the default if there is none) and the text below it.
///
/// # Errors
///
/// If the front matter is not valid YAML, is not closed, or has a value of the wrong type.
pub fn read<T: DeserializeOwned + Default>(text: &str) -> Result<(T, &str), FrontMatterError> {
    let text = encoding::without_mark(text);
    let Some((yaml, body)) = split(text)? else {
        return Ok((T::default(), text));
    };
    if yaml.trim().is_empty() {
        return Ok((T::default(), body));
    }
    let read = |yaml: &str| serde_saphyr::from_str::<T>(yaml);
    // Many such files were written for readers that do not parse YAML, with a `: ` in a description.
    let front = read(yaml).or_else(|error| {
        let quoted = read(&with_quotes(yaml, is_plain));
        // What cannot be read alone is no YAML, but a text such as `[n]`, a list of the value `false`.
        let alone = |key: &str, value: &str| {
            is_key(key) && !value.is_empty() && read(&format!("{key}: {value}")).is_err()
        };
        let quoted = quoted.or_else(|_| read(&with_quotes(yaml, alone)));
        let quoted = quoted.or_else(|_| read(&in_pieces(yaml, |piece| read(piece).is_ok())));
        quoted.map_err(|_| error)
    });
    match front {
        Ok(front) => Ok((front, body)),
        Err(error) => Err(FrontMatterError {
            line: 1 + error.location().map_or(1, |place| place.line()),
            message: message(&error),
        }),
    }
}

/// List of words, written as a YAML list or as one text with commas or spaces between them; a word may have either
/// within parentheses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordList(pub Vec<String>);

impl<'de> Deserialize<'de> for WordList {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Form {
            One(String),
            Many(Vec<String>),
        }
        Ok(Self(match Form::deserialize(source)? {
            Form::One(text) => words(&text),
            Form::Many(words) => words,
        }))
    }
}

fn words(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let pieces = text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    pieces
        .filter(|piece| !piece.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the YAML and the text after it, if the text begins with front matter.
fn split(text: &str) -> Result<Option<(&str, &str)>, FrontMatterError> {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
        return Ok(None);
    };
    let start = first.len();
    let mut end = start;
    for line in lines {
        if line.trim_end() == "---" {
            let body = &text[end + line.len()..];
            return Ok(Some((&text[start..end], body)));
        }
        end += line.len();
    }
    Err(FrontMatterError {
        line: 1,
        message: "the front matter is not closed: missing second `---`".to_owned(),
    })
}

/// Returns the same lines with quotes around the values that are meant as plain text.
fn with_quotes(yaml: &str, is_text: impl Fn(&str, &str) -> bool) -> String {
    let mut quoted = String::new();
    for line in yaml.lines() {
        match line.split_once(": ") {
            Some((key, value)) if is_text(key, value.trim()) => {
                let value = value.trim().replace('\'', "''");
                quoted.push_str(&format!("{key}: '{value}'\n"));
            }
            _ => {
                quoted.push_str(line);
                quoted.push('\n');
            }
        }
    }
    quoted
}

/// Returns the same keys, of which each that cannot be read alone is a list of texts, or one text. So a key that nobody
/// needs takes no other with it.
fn in_pieces(yaml: &str, is_read: impl Fn(&str) -> bool) -> String {
    let mut pieces: Vec<String> = Vec::new();
    for line in yaml.lines() {
        let key = line.split_once(':').map_or("", |(key, _)| key);
        match pieces.last_mut() {
            Some(piece) if !is_key(key) => {
                piece.push('\n');
                piece.push_str(line);
            }
            _ => pieces.push(line.to_owned()),
        }
    }
    let mut whole = String::new();
    for piece in pieces {
        let is_yaml = serde_saphyr::from_str::<IgnoredAny>(&piece).is_ok();
        let is_list = || {
            piece
                .lines()
                .skip(1)
                .all(|line| line.trim_start().starts_with('-'))
        };
        let is_kept = is_read(&piece) || (is_yaml && is_list());
        whole.push_str(&if is_kept { piece } else { as_text(&piece) });
        whole.push('\n');
    }
    whole
}

/// Returns a key with the words behind it as text.
fn as_text(piece: &str) -> String {
    let quote = |text: &str| format!("'{}'", text.trim().replace('\'', "''"));
    let Some((key, value)) = piece.split_once(':') else {
        return piece.to_owned();
    };
    let mut lines = value.lines();
    let first = lines.next().unwrap_or_default().trim();
    let first = if matches!(first, "|" | ">" | "|-" | ">-") {
        ""
    } else {
        first
    };
    let rest: Vec<_> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let items: Option<Vec<_>> = rest.iter().map(|line| line.strip_prefix("- ")).collect();
    match items {
        Some(items) if first.is_empty() && !items.is_empty() => {
            let items: String = items
                .iter()
                .map(|item| format!("\n- {}", quote(item)))
                .collect();
            format!("{key}:{items}")
        }
        _ => {
            let words: Vec<_> = std::iter::once(first).chain(rest).collect();
            format!("{key}: {}", quote(&words.join(" ")))
        }
    }
}

fn is_key(key: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !key.is_empty() && key.chars().all(is_known)
}

fn is_plain(key: &str, value: &str) -> bool {
    let is_list =
        value.starts_with('[') && value.find(']').is_none_or(|end| end + 1 == value.len());
    let has_form = value.is_empty() || is_list || value.starts_with(['"', '\'', '|', '>', '{']);
    is_key(key) && !has_form
}

/// Returns the first line of the parser's message; the line number is reported separately.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "kebab-case", default)]
    struct Front {
        name: Option<String>,
        description: Option<String>,
        argument_hint: Option<String>,
        allowed_tools: WordList,
    }

    fn show(text: &str) -> String {
        match read::<Front>(text) {
            Ok((front, body)) => {
                let tools = front.allowed_tools.0.join("|");
                let parts = [front.name, front.description, front.argument_hint]
                    .map(|part| part.unwrap_or("-".to_owned()));
                format!("{} [{tools}] {body:?}", parts.join(", "))
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn front_matter_is_parsed_as_people_write_it() {
        for (text, expected) in [
            ("plain\n---\n", "-, -, - [] \"plain\\n---\\n\""),
            ("", "-, -, - [] \"\""),
            ("---\n---\nbody", "-, -, - [] \"body\""),
            ("---\n# nothing\n---\n", "-, -, - [] \"\""),
            (
                "\u{FEFF}---\r\nname: a\r\n---\r\nbody\r\n",
                "a, -, - [] \"body\\r\\n\"",
            ),
            ("---\nname: 7\ndescription: yes\n---", "7, yes, - [] \"\""),
            (
                "---\nname: \"a: b\"\ndescription: >\n  two\n  lines\n---\n",
                "a: b, two lines\n, - [] \"\"",
            ),
            (
                "---\ndescription: Use when: asked\n---\n",
                "-, Use when: asked, - [] \"\"",
            ),
            (
                "---\nargument-hint: [issue] [priority]\nallowed-tools: [Read, Bash]\n---\n",
                "-, -, [issue] [priority] [Read|Bash] \"\"",
            ),
            (
                "---\ndescription: it's: so\n---\n",
                "-, it's: so, - [] \"\"",
            ),
            (
                "---\nallowed-tools: Bash(git add:*), Bash(git log:*) Read\n---\n",
                "-, -, - [Bash(git add:*)|Bash(git log:*)|Read] \"\"",
            ),
            (
                "---\nallowed-tools:\n  - Bash(a, b)\n  - Read\n---\n",
                "-, -, - [Bash(a, b)|Read] \"\"",
            ),
            ("---\nunknown: {a: 1}\nname: x\n---\n", "x, -, - [] \"\""),
            (
                "---\nargument-hint: [n]\nallowed-tools: [Read, Bash]\n---\n",
                "-, -, [n] [Read|Bash] \"\"",
            ),
            ("---\nargument-hint: [1]\n---\n", "-, -, [1] [] \"\""),
            (
                "---\ndescription: \"x\" y\nargument-hint: > x\n---\n",
                "-, \"x\" y, > x [] \"\"",
            ),
            (
                "---\nname: a\ndescription: {x} y\nmore: [\n---\n",
                "a, {x} y, - [] \"\"",
            ),
            (
                "---\nname: a\ndescription: Drivers,\n  CLI: queries, and (a/b): more.\nlicense: MIT\n---\n",
                "a, Drivers, CLI: queries, and (a/b): more., - [] \"\"",
            ),
            (
                "---\ndescription:\n  Long text: with colon\n  and more\nname: a\n---\n",
                "a, Long text: with colon and more, - [] \"\"",
            ),
            (
                "---\ndescription:\n  Use: when asked\nname: a\n---\n",
                "a, Use: when asked, - [] \"\"",
            ),
            (
                "---\nname: a\nmetadata:\n\tauthor: x\ndescription: d\n---\n",
                "a, d, - [] \"\"",
            ),
            (
                "---\nname: a\nkeywords:\n- a: b: c\n- d\n---\n",
                "a, -, - [] \"\"",
            ),
            (
                "---\nmore: \"x\nname: a\nallowed-tools:\n  - Bash(git: x: *)\n  - 'Read'\n---\n",
                "a, -, - [Bash(git: x: *)|'Read'] \"\"",
            ),
            (
                "---\nname: a\ndescription: |\n  kept\n    as: it is\nmore: [\n---\n",
                "a, kept\n  as: it is\n, - [] \"\"",
            ),
            (
                "---\nname: it's\ndescription: 'a' b: c\n  d\n---\n",
                "it's, 'a' b: c d, - [] \"\"",
            ),
            (
                "---\nname: a\n@odd\n%bad: [\n---\n",
                "a @odd %bad: [, -, - [] \"\"",
            ),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    proptest! {
        /// A key that cannot be read takes no other with it.
        #[test]
        fn a_broken_key_is_alone(broken in "[a-z:@%&*!|>'\"{}\\[\\]#, \t-]{0,20}", more in "[a-z:\t -]{0,12}") {
            let text = format!("---\nname: a\nother: {broken}\n  {more}\ndescription: d\n---\nbody");
            let shown = show(&text);
            prop_assert!(shown.starts_with("a, d, -"), "{text}: {shown}");
        }
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        for (text, line) in [
            ("---\nname: a\n", "error: 1: "),
            ("---\nname:\n  - list\n---\n", "error: 3: "),
            ("---\njust words\n---\n", "error: 2: "),
        ] {
            let shown = show(text);
            assert!(shown.starts_with(line), "{text}: {shown}");
            assert!(!shown.contains('\n'), "{shown}");
        }
    }
}
