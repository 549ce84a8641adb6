//! Signs for terminals whose locale has no Unicode.
//!
//! Rows are laid out with the signs of this crate and its callers, and are translated where they are written. So every
//! translation is as wide as its sign, and no layout depends on the locale.

use std::borrow::Cow;

/// Signs and what stands for them, one column each. Letters and punctuation of models and tools are not signs: they are
/// passed on, as other programs do.
const SIGNS: [(char, char); 32] = [
    // Pictures of work, in an order that looks like turning.
    ('⠋', '|'),
    ('⠙', '/'),
    ('⠹', '-'),
    ('⠸', '\\'),
    ('⠼', '|'),
    ('⠴', '/'),
    ('⠦', '-'),
    ('⠧', '\\'),
    ('⠇', '|'),
    ('⠏', '-'),
    // Results and tasks.
    ('✓', '+'),
    ('✔', '+'),
    ('☑', 'x'),
    ('✗', 'x'),
    ('✘', 'x'),
    ('☒', 'x'),
    ('☐', 'o'),
    ('◆', '*'),
    ('●', '*'),
    ('•', '*'),
    ('∴', '*'),
    // Directions.
    ('▶', '>'),
    ('❯', '>'),
    ('→', '>'),
    ('←', '<'),
    ('↑', '^'),
    ('↓', 'v'),
    // What is between things, and what was left out.
    ('·', '|'),
    ('…', '~'),
    ('⋮', ':'),
    ('²', '2'),
    ('³', '3'),
];

/// Returns `text` with signs that ASCII has: arrows, lines, check marks, bullets, ellipses, pictures of control characters.
/// Each is as wide as what it replaces. Other characters stay.
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(sign).collect())
}

fn sign(character: char) -> char {
    if character.is_ascii() {
        return character;
    }
    let listed = SIGNS.iter().find(|(sign, _)| *sign == character);
    match (listed, character) {
        (Some((_, ascii)), _) => *ascii,
        // Escape is `^[`, and what a terminal could have obeyed is seen not to be text.
        (None, '\u{2400}'..='\u{2426}') => '^',
        (None, '─' | '━' | '┄' | '┅' | '┈' | '┉' | '═' | '╌' | '╍') => '-',
        (None, '│' | '┃' | '┆' | '┇' | '┊' | '┋' | '║' | '╎' | '╏') => '|',
        (None, '\u{2500}'..='\u{257F}') => '+',
        (None, '\u{2580}'..='\u{259F}') => '#',
        (None, '\u{2800}'..='\u{28FF}') => '*',
        (None, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn signs_become_ascii_of_the_same_width_and_letters_stay() {
        for (text, expected) in [
            ("plain", "plain"),
            ("✓ bash $ make (0.1s)", "+ bash $ make (0.1s)"),
            ("❯ a · b → c…", "> a | b > c~"),
            ("├─ x │ ─┼─", "+- x | -+-"),
            ("␛[2J", "^[2J"),
            ("naïve 日本 “quoted” — 👍", "naïve 日本 “quoted” — 👍"),
        ] {
            assert_eq!(ascii(text), expected);
        }
        for (sign, ascii) in SIGNS {
            assert_eq!(sign.to_string().width(), 1, "{sign}");
            assert!(ascii.is_ascii(), "{ascii}");
        }
    }
}
