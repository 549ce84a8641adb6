//! Builtins that set variables, or evaluate what they are given once more: a list of the forms that are understood. Bash
//! evaluates the subscript of a name, and the value of a number, wherever it takes one: `read 'a[$(rm x)]'` runs `rm`. So what
//! is not listed may do anything.

use super::word::{Word, is_name};

/// Tests of two operands.
const BINARY: [&str; 15] = [
    "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "=~",
];

/// Variables that a command sets by its words.
#[derive(Default)]
pub(super) struct Sets {
    /// Names that get a value which is known only at run time.
    pub names: Vec<String>,
    /// Assignments, without the quotes around them.
    pub assignments: Vec<Word>,
}

/// Returns what the command sets, if it is one of these builtins; `None` if its form is not understood.
pub(super) fn sets(words: &[Word]) -> Option<Sets> {
    let (program, arguments) = words.split_first()?;
    let named = |names| Sets {
        names,
        ..Sets::default()
    };
    Some(match program.text.as_deref()? {
        "let" | "compgen" | "compopt" | "fc" => return None,
        "test" | "[" if evaluates_names(arguments) => return None,
        "printf" => named(printed(arguments)?),
        "read" => named(names_behind(arguments, "ers", "dinNptu", "a")?),
        "mapfile" | "readarray" => named(names_behind(arguments, "t", "dnOsu", "")?),
        "getopts" => {
            let name = arguments
                .get(1)?
                .text
                .clone()
                .filter(|name| is_name(name))?;
            // It sets `OPTIND` to a number.
            named(vec![name, "OPTARG".to_owned()])
        }
        "unset" => {
            let is_plain = |text: &str| is_name(text) || matches!(text, "-v" | "-f");
            let mut texts = arguments.iter().map(|word| word.text.as_deref());
            return texts
                .all(|text| text.is_some_and(is_plain))
                .then(Sets::default);
        }
        "export" | "readonly" => declared(arguments)?,
        "declare" | "typeset" | "local" => {
            let sets = declared(arguments)?;
            let has_list = sets.assignments.iter().any(Word::may_set_list);
            (!has_list).then_some(sets)?
        }
        "set" if has_keywords(arguments) => return None,
        "wait" if has_option(arguments, 'p') => return None,
        _ => Sets::default(),
    })
}

/// Whether a test looks at a variable whose name may have a subscript. A word of the line's own may become such a test.
fn evaluates_names(arguments: &[Word]) -> bool {
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        let is_test = match word.text.as_deref() {
            Some(text) => matches!(text, "-v" | "-R"),
            None => word.may_become_option(),
        };
        // With an operator behind it, the word is compared.
        let is_harmless = |next: &Word| {
            let is_plain = |text: &str| is_name(text) || text == "]";
            BINARY.contains(&next.raw.as_str()) || next.text.as_deref().is_some_and(is_plain)
        };
        if is_test && words.peek().is_some_and(|next| !is_harmless(next)) {
            return true;
        }
    }
    false
}

/// Returns the variables that `printf` prints to; the last one counts.
fn printed(arguments: &[Word]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        names.push(match word.text.as_deref() {
            None if word.may_become_option() => return None,
            Some("-v") => words.next()?.text.clone()?,
            Some(text) if text.starts_with("-v") => text["-v".len()..].to_owned(),
            Some(_) | None => break,
        });
    }
    names.iter().all(|name| is_name(name)).then_some(names)
}

/// Returns the names behind options: `flags` have no value, `values` have one, and `names` have the name of a variable.
fn names_behind(arguments: &[Word], flags: &str, values: &str, names: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_deref()?;
        let Some(letters) = text.strip_prefix('-').filter(|it| !it.is_empty()) else {
            found.push(text.to_owned());
            continue;
        };
        if letters == "-" {
            continue;
        }
        let at = letters.find(|letter| !flags.contains(letter));
        let Some((letter, value)) = at.map(|at| letters[at..].split_at(1)) else {
            continue;
        };
        let next = match value {
            "" => words.next()?,
            // It is in the same word.
            _ => word,
        };
        if names.contains(letter) {
            let name = if value.is_empty() {
                next.text.as_deref()?
            } else {
                value
            };
            found.push(name.to_owned());
        } else if !values.contains(letter) || next.may_be_several() || next.may_be_nothing() {
            return None;
        }
    }
    found.iter().all(|name| is_name(name)).then_some(found)
}

/// Returns the assignments among the words of a declaration. Attributes that have values evaluated are not understood: numbers,
/// references, and arrays with a value.
fn declared(arguments: &[Word]) -> Option<Sets> {
    let mut sets = Sets::default();
    let mut is_array = false;
    for word in arguments {
        if let Some(letters) =
            { word.text.as_deref() }.and_then(|text| text.strip_prefix(['-', '+']))
        {
            if !letters.chars().all(|letter| "aAfFgprx-".contains(letter)) {
                return None;
            }
            is_array |= letters.contains(['a', 'A']);
            continue;
        }
        match word.declared() {
            Some(assignment) => sets.assignments.push(assignment),
            None => is_name(word.text.as_deref()?).then_some(())?,
        }
    }
    (!is_array || sets.assignments.is_empty()).then_some(sets)
}

/// Whether `set` makes assignments of any words.
fn has_keywords(arguments: &[Word]) -> bool {
    let is_end = |word: &Word| matches!(word.text.as_deref(), Some("--" | "-"));
    let end = arguments.iter().position(is_end).unwrap_or(arguments.len());
    let mut options = arguments[..end].iter();
    has_option(&arguments[..end], 'k')
        || options.any(|word| word.text.as_deref() == Some("keyword"))
}

/// Whether there is a group of short options with this letter, or a word that may be one.
fn has_option(arguments: &[Word], letter: char) -> bool {
    let mut words = arguments.iter();
    words.any(|word| match word.text.as_deref() {
        Some(text) => text.starts_with(['-', '+']) && text.contains(letter),
        None => word.may_become_option(),
    })
}
