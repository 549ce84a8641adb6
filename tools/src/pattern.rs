//! Patterns of file names as models mean them: brackets may be a part of a name, and a folder that is named is meant, though it
//! is hidden or ignored.

/// Returns the pattern with brackets that mean themselves, as in the names of folders like `[id]`; `None` if it has none.
pub(crate) fn with_literal_brackets(pattern: &str) -> Option<String> {
    if !pattern.contains('[') {
        return None;
    }
    let mut literal = String::with_capacity(pattern.len() + 8);
    let mut is_escaped = false;
    for c in pattern.chars() {
        if !is_escaped && matches!(c, '[' | ']') {
            literal.push('\\');
        }
        is_escaped = !is_escaped && c == '\\';
        literal.push(c);
    }
    Some(literal)
}

/// Returns the patterns of the folders that a pattern names: what is in front of each of its slashes, if it does not end
/// with a wildcard, but for one of hidden names.
pub(crate) fn named_folders(pattern: &str) -> Vec<&str> {
    let mut named = Vec::new();
    let mut start = 0;
    for (at, _) in pattern.match_indices('/') {
        let (front, name) = (&pattern[..at], &pattern[start..at]);
        let is_balanced = |open, close| front.matches(open).count() == front.matches(close).count();
        // A slash between brackets is no end of a name.
        if !is_balanced('{', '}') || !is_balanced('[', ']') {
            continue;
        }
        let is_wild = name.contains(['*', '?']) && !name.starts_with('.');
        if !is_wild && !name.is_empty() {
            named.push(front);
        }
        start = at + 1;
    }
    named
}

/// Returns the text as a pattern that matches nothing else.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '[' | ']' | '{' | '}' | '*' | '?' | '\\' | '!') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_escaped_once() {
        for (pattern, expected) in [
            ("app/[id]/*.tsx", Some(r"app/\[id\]/*.tsx")),
            ("[...slug]/**", Some(r"\[...slug\]/**")),
            ("[[...slug]].ts", Some(r"\[\[...slug\]\].ts")),
            (r"\[id\]", Some(r"\[id\]")),
            ("*.rs", None),
        ] {
            assert_eq!(with_literal_brackets(pattern).as_deref(), expected);
        }
    }

    #[test]
    fn folders_that_a_pattern_names_are_found() {
        for (pattern, expected) in [
            ("*.rs", ""),
            ("**/*.rs", ""),
            (".github/**", ".github"),
            ("**/.github/w/*.yml", "**/.github **/.github/w"),
            ("packages/*/dist/**/*.js", "packages packages/*/dist"),
            ("{.github,.circleci}/*.yml", "{.github,.circleci}"),
            ("{a/b,c}/d/e", "{a/b,c} {a/b,c}/d"),
            (".*/x", ".*"),
            ("*/x/", "*/x"),
            ("/a/b", "/a"),
        ] {
            assert_eq!(named_folders(pattern).join(" "), expected, "{pattern}");
        }
    }
}
