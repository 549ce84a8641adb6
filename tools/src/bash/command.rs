//! Whether a command line can change anything.
//!
//! Read-only commands run side by side, unasked, and again after a crash, so a wrong yes is a fault and a wrong no
//! costs little. Therefore this knows no shell grammar but the plainest: simple commands of words, joined by `;`,
//! `&&`, `||`, `|` and line breaks. Whatever else stands there, be it a redirection, a substitution, an assignment, a
//! comment or an escape, is not understood, and what is not understood may change something.

/// A word after quotes are taken away.
struct Word {
    text: String,
    /// Whether the shell passes it on as it is, and not as the names of files that match it.
    is_literal: bool,
}

/// Whether every word of `line` was understood and none can change anything.
pub(super) fn is_harmless(line: &str) -> bool {
    commands(line).is_some_and(|commands| {
        !commands.is_empty() && commands.iter().all(|words| changes_nothing(words))
    })
}

/// The words of each simple command; `None` if there is anything that is not understood.
fn commands(line: &str) -> Option<Vec<Vec<Word>>> {
    let mut commands = Vec::new();
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            ' ' | '\t' => &rest[1..],
            ';' | '\n' | '|' | '&' => {
                commands.push(std::mem::take(&mut words));
                // A second bar changes nothing; an ampersand must have a second.
                match c {
                    '|' => rest[1..].strip_prefix('|').unwrap_or(&rest[1..]),
                    '&' => rest[1..].strip_prefix('&')?,
                    _ => &rest[1..],
                }
            }
            _ => {
                let (word, behind) = word(rest)?;
                words.push(word);
                behind
            }
        };
    }
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    Some(commands)
}

/// The word at the beginning of `text`, and what stands behind it.
fn word(text: &str) -> Option<(Word, &str)> {
    let mut word = Word {
        text: String::new(),
        is_literal: true,
    };
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            ' ' | '\t' | '\n' | ';' | '|' | '&' => break,
            '\'' | '"' => {
                let (quoted, behind) = behind.split_once(c)?;
                let is_plain = match c {
                    // Some shells know an escape here too, if only for the quote.
                    '\'' => !quoted.ends_with('\\'),
                    _ => is_plain_in_double_quotes(quoted),
                };
                if !is_plain {
                    return None;
                }
                word.text.push_str(quoted);
                behind
            }
            '*' | '?' | '[' | ']' | '~' => {
                word.is_literal = false;
                word.text.push(c);
                behind
            }
            _ if c.is_alphanumeric() || "_-./:,@%+=!".contains(c) => {
                word.text.push(c);
                behind
            }
            _ => return None,
        };
    }
    Some((word, rest))
}

/// Whether nothing is expanded, and each backslash stands for itself, which it does but before a few characters.
fn is_plain_in_double_quotes(quoted: &str) -> bool {
    !quoted.contains(['$', '`', '!'])
        && !quoted.ends_with('\\')
        && !quoted.contains("\\\\")
        && !quoted.contains("\\\n")
}

fn changes_nothing(words: &[Word]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let texts = || arguments.iter().map(|word| word.text.as_str());
    // A file may be named like an option, so a pattern may stand for one.
    let are_literal = arguments.iter().all(|word| word.is_literal);
    match program.text.as_str() {
        "true" | "false" | "echo" | "pwd" | "cd" | "sleep" | "ls" | "cat" | "head" | "tail"
        | "wc" | "nl" | "tac" | "grep" | "egrep" | "fgrep" | "cut" | "tr" | "seq" | "basename"
        | "dirname" | "realpath" | "readlink" | "stat" | "du" | "diff" | "cmp" | "comm"
        | "which" | "whoami" | "uname" | "cksum" | "md5sum" | "sha256sum" => true,
        // These two evaluate the subscript of a variable's name, also where it was quoted.
        "test" | "[" => !texts().any(|text| text.contains(['$', '`'])),
        "printf" => {
            !texts().any(|text| text.contains(['$', '`']))
                && !texts().next().is_some_and(|format| format.starts_with('-'))
        }
        "date" => are_literal && texts().all(is_harmless_for_date),
        "file" => are_literal && texts().all(is_harmless_for_file),
        "find" => are_literal && texts().all(is_harmless_for_find),
        "rg" => are_literal && texts().all(is_harmless_for_rg),
        "sort" => are_literal && texts().all(is_harmless_for_sort),
        "uniq" => {
            // A second operand is the file to write.
            let operands = texts().filter(|text| is_operand(text)).count();
            let options = texts().filter(|text| !is_operand(text));
            let are_flags = options
                .into_iter()
                .all(|text| is_flags(text, "cdDuifswz0123456789"));
            are_literal && operands <= 1 && are_flags
        }
        _ => false,
    }
}

fn is_operand(argument: &str) -> bool {
    argument == "-" || !argument.starts_with('-')
}

/// Whether the argument is a group of short options, each one of `letters`.
fn is_flags(argument: &str, letters: &str) -> bool {
    argument
        .strip_prefix('-')
        .is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| letters.contains(flag)))
}

/// An operand that is no format sets the clock.
fn is_harmless_for_date(argument: &str) -> bool {
    let long = [
        "--date=",
        "--iso-8601",
        "--rfc-3339=",
        "--utc",
        "--universal",
    ];
    argument.starts_with('+')
        || argument.starts_with("-I")
        || is_flags(argument, "uR")
        || long.iter().any(|option| argument.starts_with(option))
}

/// Other options compile a table of kinds, or run programs that unpack.
fn is_harmless_for_file(argument: &str) -> bool {
    let long = [
        "--brief",
        "--mime",
        "--mime-type",
        "--mime-encoding",
        "--dereference",
    ];
    is_operand(argument) || is_flags(argument, "bihLk") || long.contains(&argument)
}

/// Other tests and actions run programs, and remove or write files.
fn is_harmless_for_find(argument: &str) -> bool {
    const KNOWN: [&str; 57] = [
        "-H",
        "-L",
        "-P",
        "-a",
        "-amin",
        "-and",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-ctime",
        "-daystart",
        "-depth",
        "-empty",
        "-executable",
        "-false",
        "-follow",
        "-gid",
        "-group",
        "-ilname",
        "-iname",
        "-inum",
        "-ipath",
        "-iregex",
        "-links",
        "-lname",
        "-ls",
        "-maxdepth",
        "-mindepth",
        "-mmin",
        "-mount",
        "-mtime",
        "-name",
        "-newer",
        "-newermt",
        "-nogroup",
        "-not",
        "-nouser",
        "-o",
        "-or",
        "-path",
        "-perm",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-quit",
        "-readable",
        "-regex",
        "-regextype",
        "-samefile",
        "-size",
        "-true",
        "-type",
        "-user",
        "-writable",
        "-xdev",
    ];
    // `-mtime -7`, `-size -10k`
    let is_number = argument
        .strip_prefix('-')
        .is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    is_operand(argument) || is_number || KNOWN.contains(&argument)
}

/// Some options run a program for each file, or to unpack it.
fn is_harmless_for_rg(argument: &str) -> bool {
    let runs_programs = ["--pre", "--hostname-bin", "--search-zip"]
        .iter()
        .any(|option| argument.starts_with(option));
    let has_short_zip =
        !argument.starts_with("--") && argument.starts_with('-') && argument.contains('z');
    !runs_programs && !has_short_zip
}

/// Other options write a file, or run a program that packs.
fn is_harmless_for_sort(argument: &str) -> bool {
    let long = [
        "--reverse",
        "--unique",
        "--numeric-sort",
        "--human-numeric-sort",
        "--version-sort",
    ];
    let is_key = argument.strip_prefix("-k").is_some_and(|key| {
        key.chars()
            .all(|c| c.is_ascii_digit() || ".,bdfgiMhnRrV".contains(c))
    });
    let is_separator = argument
        .strip_prefix("-t")
        .is_some_and(|separator| separator.chars().count() <= 1);
    is_operand(argument)
        || is_key
        || is_separator
        || is_flags(argument, "bdfghiMnRrVcCmsuz")
        || long.contains(&argument)
}

#[cfg(test)]
mod tests;
