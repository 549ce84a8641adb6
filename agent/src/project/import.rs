//! Imports in an instruction file: `@path` at the beginning of a word, outside of code.

/// Returns the paths imported by `text`, as written.
pub(super) fn imports(text: &str) -> impl Iterator<Item = &str> {
    let mut fence = None;
    let lines = text.lines().filter(move |line| {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return true,
            (Some(_), _) => {}
        }
        false
    });
    lines.flat_map(in_line)
}

fn in_line(line: &str) -> impl Iterator<Item = &str> {
    // Every second part is code, the last one only if it is closed.
    let parts = line.split('`').count();
    let is_words = move |at: usize| at.is_multiple_of(2) || at + 1 == parts;
    let words = line
        .split('`')
        .enumerate()
        .filter(move |(at, _)| is_words(*at))
        .flat_map(|(_, part)| part.split_whitespace());
    words.filter_map(|word| {
        let path = word
            .trim_start_matches('(')
            .strip_prefix('@')?
            .trim_end_matches(['.', ',', ':', ';', '!', '?', ')']);
        (!path.is_empty()).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_words_outside_of_code() {
        for (text, expected) in [
            ("@a.md", &["a.md"] as &[&str]),
            (
                "See @docs/a.md, (@b.md) and @~/c.md.",
                &["docs/a.md", "b.md", "~/c.md"],
            ),
            ("me@example.org @ @.", &[]),
            ("`@a.md` @b.md `@c.md @d.md`", &["b.md"]),
            ("an open ` @a.md", &["a.md"]),
            ("```\n@a.md\n~~~\n@b.md\n```\n@c.md", &["c.md"]),
            ("```rust\n@a.md", &[]),
        ] {
            assert_eq!(imports(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
