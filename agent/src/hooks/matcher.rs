//! Matching of hooks against tools.

use regex::{Regex, RegexBuilder};

/// Filter for the tools, or kinds of an event, that a hook is called for.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Option<Regex>);

impl Matcher {
    /// Parses a matcher: an empty text or `*` matches all; otherwise names and regular expressions separated by `|`,
    /// which ignore case and match whole names. Text that is not a valid regular expression is a name with `*`
    /// wildcards.
    pub fn new(text: Option<&str>) -> Self {
        let text = text.map(str::trim).unwrap_or_default();
        if matches!(text, "" | "*") {
            return Self(None);
        }
        let whole = |text: &str| {
            let mut builder = RegexBuilder::new(&format!("^(?:{text})$"));
            builder.case_insensitive(true).size_limit(1 << 20).build()
        };
        let with_stars = || whole(&regex::escape(text).replace(r"\*", ".*"));
        // People write `Notebook*` as a wildcard; it would be a different regular expression.
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*' | ':');
        let pattern = if text.chars().all(is_name) {
            with_stars()
        } else {
            whole(text).or_else(|_| with_stars())
        };
        // An oversized expression matches nothing.
        Self(Some(pattern.unwrap_or_else(|_| {
            Regex::new("^$").expect("an expression")
        })))
    }

    /// Whether the filter matches a name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| pattern.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_matches_tool_names() {
        for (text, name, matches) in [
            (None, "Bash", true),
            (Some(""), "Bash", true),
            (Some("*"), "Bash", true),
            (Some("Bash"), "Bash", true),
            (Some("Bash"), "bash", true),
            (Some("Bash"), "BashOutput", false),
            (Some("Read|Write"), "Write", true),
            (Some("Read|Write"), "Edit", false),
            (Some("mcp__.*"), "mcp__s__t", true),
            (Some("mcp__*"), "mcp__s__t", true),
            (Some("Notebook*"), "NotebookEdit", true),
            (Some("(Bash"), "Bash", false),
        ] {
            assert_eq!(Matcher::new(text).matches(name), matches, "{text:?} {name}");
        }
    }
}
