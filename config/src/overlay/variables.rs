//! Files of variables: lines of `NAME=value`, as in an `.env` file.

/// Returns the variables of the file at `path`.
///
/// # Errors
///
/// If a line sets no variable; the text names the line.
pub fn parse(path: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (number, line) in text.trim_start_matches('\u{FEFF}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let assignment = line.strip_prefix("export ").unwrap_or(line);
        let variable = assignment
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()));
        match variable {
            Some((name, value)) if is_name(name) && !value.contains('\0') => {
                variables.push((name.to_owned(), unquoted(value).to_owned()));
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

/// Returns the value without one layer of quotes.
pub fn unquoted(value: &str) -> &str {
    let in_quotes = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    in_quotes('"').or_else(|| in_quotes('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_variables_comments_or_errors() {
        for (text, expected) in [
            ("A=b", "A=b"),
            (
                "\u{FEFF}# note\n\n export A = \"b c\" \r\nB='x'=y",
                "A=b c B='x'=y",
            ),
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
