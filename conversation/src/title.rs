//! The title of a conversation that nobody has named: what its first words ask for, short enough for a list or a tab.

/// Beginnings that say nothing of what is wanted.
const COURTESIES: [&str; 12] = [
    "please ",
    "hi ",
    "hi, ",
    "hello ",
    "hello, ",
    "hey, ",
    "can you ",
    "could you ",
    "would you ",
    "i want you to ",
    "i would like you to ",
    "i'd like you to ",
];
/// Words at which a title does not end.
const LINKS: [&str; 16] = [
    "a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "of", "on", "or", "the", "to",
    "with",
];

/// Returns a title for a conversation that begins with this text, of at most `most` characters: the first sentence that says
/// something, cut between words.
pub fn title_of(text: &str, most: usize) -> String {
    let marks = |c: char| c.is_whitespace() || "#>*-`".contains(c);
    let mut lines = text.lines().map(|line| line.trim_start_matches(marks));
    let line = lines.find(|line| line.contains(char::is_alphanumeric));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    let sentence = without_courtesies(&first_sentence(&words).join(" "));
    cut(&sentence, most)
}

/// Returns the words of the first sentence that has more than one, or all if there is none.
fn first_sentence<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    let ends = |word: &str| word.len() > 2 && word.ends_with(['.', '?', '!']);
    let mut rest = words;
    while let Some(end) = rest.iter().position(|word| ends(word)) {
        let (sentence, behind) = rest.split_at(end + 1);
        if sentence.len() > 1 || behind.is_empty() {
            return sentence;
        }
        rest = behind;
    }
    rest
}

/// Removes what says nothing of what is wanted, and writes the rest as a beginning.
fn without_courtesies(sentence: &str) -> String {
    let mut rest = sentence.strip_suffix('.').unwrap_or(sentence);
    let begins = |rest: &str, courtesy: &str| {
        let start = rest.get(..courtesy.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(courtesy))
    };
    while let Some(courtesy) = COURTESIES.iter().find(|it| begins(rest, it)) {
        rest = &rest[courtesy.len()..];
    }
    let mut letters = rest.chars();
    match letters.next() {
        Some(first) if rest.len() < sentence.trim_end_matches('.').len() => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => rest.to_owned(),
    }
}

/// Cuts a line between words.
fn cut(line: &str, most: usize) -> String {
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let room: String = line.chars().take(most.saturating_sub(1)).collect();
    let is_between = line[room.len()..].starts_with(' ');
    let mut words: Vec<_> = room.split(' ').collect();
    // A long word is better cut than left out.
    let last = words.last().map_or(0, |last| last.chars().count());
    if !is_between && last * 2 < most {
        words.pop();
    }
    while words.len() > 1 && words.last().is_some_and(|last| LINKS.contains(last)) {
        words.pop();
    }
    let whole = words.join(" ");
    format!("{}…", whole.trim_end_matches([',', ';', ':', '-', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_sentence_that_says_something() {
        for (text, title) in [
            ("Fix the login.", "Fix the login"),
            ("why does the build fail?", "why does the build fail?"),
            (
                "Hi! Please fix the login. It fails on Windows.",
                "Fix the login",
            ),
            ("could you please rename foo to bar", "Rename foo to bar"),
            ("\n# Task\nmore", "Task"),
            ("  - first point\n - second", "first point"),
            ("Thanks.", "Thanks"),
            (
                "use v1.2 of the parser, not v1.1",
                "use v1.2 of the parser, not v1.1",
            ),
            (
                "make the parser of the configuration files faster and add a test for it",
                "make the parser of the configuration…",
            ),
            (
                "look at https://example.com/a/very/long/address/of/a/page",
                "look at https://example.com/a/very/lo…",
            ),
            ("\u{1f469}\u{1f469} ok", "\u{1f469}\u{1f469} ok"),
            ("...", ""),
            ("", ""),
        ] {
            assert_eq!(title_of(text, 38), title, "{text:?}");
        }
    }
}
