//! Splits an argument line into words, for text that a person or a model writes after a name.

/// Splits arguments like a shell, without expansions: quotes keep spaces, `\` keeps the next character except in
/// single quotes.
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => word
                .get_or_insert_default()
                .extend(characters.next().or(Some('\\'))),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_like_a_shell() {
        for (text, expected) in [
            ("", &[] as &[&str]),
            ("  a  b ", &["a", "b"]),
            (r#"'a b' "c \" d" e\ f"#, &["a b", "c \" d", "e f"]),
            (r#"a'b'"c""#, &["abc"]),
            (r"'a\' b", &[r"a\", "b"]),
            ("''", &[""]),
            ("\"open end", &["open end"]),
            ("it's all one", &["its all one"]),
            (r"a\", &[r"a\"]),
        ] {
            assert_eq!(split_words(text), expected, "{text}");
        }
    }
}
