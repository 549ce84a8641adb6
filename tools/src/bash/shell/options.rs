//! Options that name a file to write: a rule for the program does not cover the file.

use super::tar;
use super::word::Word;

/// Options of one program, or of one of its subcommands.
struct Options {
    program: &'static str,
    /// The first word after the program's own options; empty for all.
    subcommand: &'static str,
    /// Long options, without the hyphens. Any unambiguous beginning counts, so every beginning does.
    long: &'static [&'static str],
    /// Short options.
    short: &'static str,
    /// Short options without a value, which may precede those in one word.
    flags: &'static str,
    /// Whether the long options begin with one hyphen.
    has_words: bool,
}

const KNOWN: [Options; 9] = [
    Options {
        program: "git",
        subcommand: "",
        long: &["output"],
        short: "",
        flags: "",
        has_words: false,
    },
    Options {
        program: "git",
        subcommand: "archive",
        long: &["output"],
        short: "o",
        flags: "",
        has_words: false,
    },
    Options {
        program: "git",
        subcommand: "format-patch",
        long: &["output-directory"],
        short: "o",
        flags: "",
        has_words: false,
    },
    Options {
        program: "sort",
        subcommand: "",
        long: &["output"],
        short: "o",
        flags: "bdfghiMnRrVcCmsuz",
        has_words: false,
    },
    Options {
        program: "find",
        subcommand: "",
        long: &["fprint", "fprint0", "fprintf", "fls"],
        short: "",
        flags: "",
        has_words: true,
    },
    Options {
        program: "tree",
        subcommand: "",
        long: &[],
        short: "o",
        flags: "adfLpsugDinrtxNQCF",
        has_words: false,
    },
    Options {
        program: "less",
        subcommand: "",
        long: &["log-file", "LOG-FILE"],
        short: "oO",
        flags: "aABcCdeEfFgGiIJKLmMnNqQrRsSuUwWX",
        has_words: false,
    },
    Options {
        program: "curl",
        subcommand: "",
        long: &[
            "output",
            "dump-header",
            "cookie-jar",
            "trace",
            "trace-ascii",
            "stderr",
            "etag-save",
            "hsts",
            "alt-svc",
        ],
        short: "oDc",
        flags: "sSfLkvIiGgNnaqJORpjlBZ#012346",
        has_words: false,
    },
    Options {
        program: "wget",
        subcommand: "",
        long: &["output-document", "output-file"],
        short: "Oo",
        flags: "qncvbdSxprkKmHLE",
        has_words: false,
    },
];

/// Returns the names of the files that options and operands of the command write; `None` if one is known only at run
/// time.
pub(super) fn written(words: &[Word]) -> Option<Vec<String>> {
    let Some((program, arguments)) = words.split_first() else {
        return Some(Vec::new());
    };
    let name = program.text.as_deref().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let mut files = Vec::new();
    for options in KNOWN
        .iter()
        .filter(|options| options.is_of(name, arguments))
    {
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let Some(text) = word.text.as_deref() else {
                // It may be an option only if it begins like one, and such an option only by its name.
                let raw = word.raw.trim_start_matches(['"', '\'']);
                let is_known = raw.split_once('=').is_some_and(|(name, _)| {
                    let is_name = name.chars().all(|c| c == '-' || c.is_ascii_alphanumeric());
                    is_name && matches!(options.value(&format!("{name}=")), Value::None)
                });
                if raw.starts_with('-') && !is_known {
                    return None;
                }
                continue;
            };
            match options.value(text) {
                Value::None => {}
                Value::Here(file) => files.push(file.to_owned()),
                Value::Next => files.push(rest.next()?.text.clone()?),
            }
        }
    }
    if name == "uniq" {
        let operands = arguments.iter().filter(|word| !word.raw.starts_with('-'));
        for word in operands.skip(1) {
            files.push(word.text.clone()?);
        }
    }
    if matches!(name, "tar" | "bsdtar" | "gtar") {
        files.extend(tar::read(arguments)?.written);
    }
    Some(files)
}

/// Where an option's value is.
enum Value<'a> {
    /// It is no such option.
    None,
    /// In the same word.
    Here(&'a str),
    /// In the next word.
    Next,
}

impl Options {
    fn is_of(&self, program: &str, arguments: &[Word]) -> bool {
        let has_subcommand = || {
            let mut texts = arguments.iter().filter_map(|word| word.text.as_deref());
            self.subcommand.is_empty() || texts.any(|text| text == self.subcommand)
        };
        self.program == program && has_subcommand()
    }

    fn value<'a>(&self, argument: &'a str) -> Value<'a> {
        let is_long =
            |name: &str| !name.is_empty() && self.long.iter().any(|long| long.starts_with(name));
        if let Some(long) = argument.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, value)) if is_long(name) => Value::Here(value),
                None if is_long(long) => Value::Next,
                Some(_) | None => Value::None,
            };
        }
        let Some(short) = argument.strip_prefix('-') else {
            return Value::None;
        };
        if self.has_words {
            return if self.long.contains(&short) {
                Value::Next
            } else {
                Value::None
            };
        }
        // In a group, what follows the option's letter is its value.
        let group = short.trim_start_matches(|c| self.flags.contains(c) && !self.short.contains(c));
        match group.strip_prefix(|c| self.short.contains(c)) {
            Some("") => Value::Next,
            Some(value) => Value::Here(value),
            None => Value::None,
        }
    }
}
