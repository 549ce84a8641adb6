//! Which tools a hook is about.

use regex::{Regex, RegexBuilder};

/// The tools, or the kinds of an event, that a hook is about.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Option<Regex>);

impl Matcher {
    /// Reads a matcher: nothing or `*` means all; else names and regular expressions with `|` between, in any case,
    /// each about the whole name. What is no regular expression is a name with stars.
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
        // `Notebook*` is a name with a star to people, and another thing to a regular expression.
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*' | ':');
        let pattern = match text.chars().all(is_name) {
            true => with_stars(),
            false => whole(text).or_else(|_| with_stars()),
        };
        // What is too big to be one matches nothing but itself.
        Self(Some(pattern.unwrap_or_else(|_| {
            Regex::new("^$").expect("an expression")
        })))
    }

    /// Whether a name is meant.
    pub fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| pattern.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Port 07 c.
    #[test]
    fn port_07_c_a_matcher_names_tools() {
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
