//! A piece of text that a model writes again and again within one answer, as small models do until the output limit.

/// How often the piece is there, one behind the other.
pub(super) const TIMES: usize = 10;
/// Longest piece, in bytes.
const LONGEST: usize = 500;
/// Shortest text of pieces with letters, and of others, such as numbers and lines, which people ask for.
const WITH_LETTERS: usize = 500;
const WITHOUT: usize = 4_000;

/// Returns the piece that the end of `text` consists of, ten times or more.
///
/// Read backwards, the text begins with that piece. What a text begins and ends with gives its period, and the prefix function
/// has that for all lengths in one pass.
pub fn chant(text: &str) -> Option<&str> {
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(LONGEST * TIMES))..];
    let backwards: Vec<u8> = text.bytes().rev().collect();
    let mut border = vec![0; backwards.len()];
    for end in 1..backwards.len() {
        let mut length: usize = border[end - 1];
        while length > 0 && backwards[end] != backwards[length] {
            length = border[length - 1];
        }
        border[end] = length + usize::from(backwards[end] == backwards[length]);
        let (whole, period) = (end + 1, end + 1 - border[end]);
        if whole < WITH_LETTERS || whole < period * TIMES {
            continue;
        }
        let from = text.len() - period;
        let Some(piece) = text.get(from..) else {
            continue;
        };
        let least = match piece.chars().any(char::is_alphabetic) {
            true => WITH_LETTERS,
            false => WITHOUT,
        };
        if whole >= least {
            return Some(piece);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_piece_is_found_once_it_is_there_ten_times() {
        for (piece, times, is_found) in [
            (
                "I'm a function that can help you with your tasks. ",
                10,
                true,
            ),
            (
                "I'm a function that can help you with your tasks. ",
                9,
                false,
            ),
            (
                "Ich bin ein Bär, äh, ein Helfer für deine Aufgaben. ",
                12,
                true,
            ),
            ("no ", 10, false),
            ("no ", 170, true),
            ("0, ", 200, false),
            ("0, ", 1_400, true),
            ("| --- ", 40, false),
            (&"A paragraph of many words. ".repeat(18), 2, true),
        ] {
            let text = format!("Well, let me see. {}", piece.repeat(times));
            assert_eq!(chant(&text).is_some(), is_found, "{times} times {piece:?}");
            assert_eq!(chant(&format!("{text} And now?")), None, "{piece:?}");
        }
        let lines: String = (0..60).map(|n| format!("line {n} of a file\n")).collect();
        assert_eq!(chant(&lines), None);
        assert_eq!(chant(""), None);
    }

    proptest! {
        #[test]
        fn the_piece_is_what_the_text_ends_with(text in "[ab ]{0,40}", piece in "[a-zé]{1,60}") {
            let whole = text + &piece.repeat(TIMES.max(WITH_LETTERS.div_ceil(piece.len())));
            let found = chant(&whole);
            prop_assert!(found.is_some_and(|found| whole.ends_with(&found.repeat(TIMES))));
        }
    }
}
