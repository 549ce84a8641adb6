//! Files of variables: lines of `NAME=value`, as in an `.env` file.

/// Returns the variables of the file at `path`.
///
/// # Errors
///
/// If a line sets no variable; the text names the line.
pub fn parse(path: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match assignment(line) {
            Some((name, value)) if is_name(name) && !value.contains('\0') => {
                variables.push((name.to_owned(), value));
            }
            // The line may hold a secret, so the message does not repeat it.
            _ => {
                return Err(format!(
                    "`{path}` line {}: expected `NAME=value`",
                    number + 1
                ));
            }
        }
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns name and value of a line `NAME=value`, with `export` before it or not.
pub fn assignment(line: &str) -> Option<(&str, String)> {
    let line = line.trim();
    let exported = line
        .strip_prefix("export")
        .filter(|rest| rest.starts_with([' ', '\t']));
    let (name, value) = exported.unwrap_or(line).split_once('=')?;
    Some((name.trim(), value_of(value.trim())))
}

/// Returns the value as other readers of such files understand it: what is between quotes, with escapes between double ones;
/// without quotes all up to a blank and `#`, which begin a comment.
fn value_of(text: &str) -> String {
    let quote = text
        .chars()
        .next()
        .filter(|sign| matches!(sign, '"' | '\'' | '`'));
    if let Some(quoted) = quote.and_then(|quote| quoted(text, quote)) {
        return quoted;
    }
    if text.starts_with('#') {
        return String::new();
    }
    let comment = text
        .match_indices('#')
        .find(|(at, _)| text[..*at].ends_with([' ', '\t']));
    let value = comment.map_or(text, |(at, _)| &text[..at]);
    value.trim_end().to_owned()
}

/// Returns what is between the quotes at the beginning, if only a comment is behind them.
fn quoted(text: &str, quote: char) -> Option<String> {
    let mut value = String::new();
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            sign if sign == quote => {
                let rest = text[at + 1..].trim_start();
                return (rest.is_empty() || rest.starts_with('#')).then_some(value);
            }
            '\\' if quote == '"' => match signs.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                sign @ ('"' | '\\' | '$' | '`') => value.push(sign),
                other => value.extend(['\\', other]),
            },
            sign => value.push(sign),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_variables_comments_or_errors() {
        for (text, expected) in [
            ("A=b", "A=b"),
            ("# note\n\n export A = \"b c\" \r\nB='x'=y", "A=b c B='x'=y"),
            ("A='b' # c", "A=b"),
            ("A=\"b # c\" #d", "A=b # c"),
            ("A=b#c # d", "A=b#c"),
            ("A=b\t#c", "A=b"),
            ("A= # c", "A="),
            ("A=`b`", "A=b"),
            ("A=\"b\\\"c\\$d\\w\"", "A=b\"c$d\\w"),
            ("A='b\\nc'", "A=b\\nc"),
            ("A='b'c", "A='b'c"),
            ("A=\"b", "A=\"b"),
            ("export\tA=b", "A=b"),
            ("exported=b", "exported=b"),
            ("A=", "A="),
            ("A=b=c\nA=d", "A=b=c A=d"),
            ("A=b\nsecret", "`env.d/x` line 2: expected `NAME=value`"),
            ("1A=b", "`env.d/x` line 1: expected `NAME=value`"),
            ("=b", "`env.d/x` line 1: expected `NAME=value`"),
        ] {
            let shown = match parse("env.d/x", text) {
                Ok(variables) => {
                    let lines = variables
                        .iter()
                        .map(|(name, value)| format!("{name}={value}"));
                    lines.collect::<Vec<_>>().join(" ")
                }
                Err(error) => error,
            };
            assert_eq!(shown, expected, "{text}");
        }
    }
}
