//! Matching of hooks against tools.

use fancy_regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, de};

/// Filter for the tools, or kinds of an event, that a hook is called for.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// The filter as written; empty for all.
    text: String,
    pattern: Option<Regex>,
}

/// Error of a text that is neither names nor a regular expression: a hook with it would never be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the hook matcher `{text}` is not a regular expression: {reason}; write names separated by `|`"
)]
pub struct MatcherError {
    text: String,
    reason: String,
}

impl Matcher {
    /// Parses a matcher: an empty text or `*` matches all; otherwise names, with `*` for anything, or regular expressions
    /// separated by `|`, which ignore case and match whole names.
    ///
    /// # Errors
    ///
    /// If the text is not a valid regular expression.
    pub fn new(text: Option<&str>) -> Result<Self, MatcherError> {
        let text = text.map(str::trim).unwrap_or_default();
        if matches!(text, "" | "*") {
            return Ok(Self::default());
        }
        // People write `Notebook*` as a wildcard; it would be a different regular expression.
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*' | ':' | '|');
        let pattern = if text.chars().all(is_name) {
            text.replace('*', ".*")
        } else {
            text.to_owned()
        };
        let mut builder = RegexBuilder::new(&format!("^(?:{pattern})$"));
        let pattern = builder.case_insensitive(true).build();
        let pattern = pattern.map_err(|error| MatcherError {
            text: text.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            text: text.to_owned(),
            pattern: Some(pattern),
        })
    }

    /// Whether the filter matches a name. If an expression takes too many steps it does: a guard is called once too often
    /// rather than not at all.
    pub fn matches(&self, name: &str) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.is_match(name).unwrap_or(true))
    }

    /// Returns the filter as written; empty for all.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Self::new(text.as_deref()).map_err(de::Error::custom)
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
            (Some("mcp__*|Bash"), "Bash", true),
            (Some("Notebook*"), "NotebookEdit", true),
            (Some("^(?!mcp__).*"), "Bash", true),
            (Some("^(?!mcp__).*"), "mcp__s__t", false),
            (Some("(?=.*Edit).+"), "NotebookEdit", true),
            (Some(".*(?<!Output)"), "BashOutput", false),
            // Too many steps.
            (Some("(?=a)(a+)+\\1b"), &"a".repeat(64), true),
        ] {
            let matcher = Matcher::new(text).expect("a matcher");
            assert_eq!(matcher.matches(name), matches, "{text:?} {name}");
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        for text in [
            "(Bash",
            "Bash(git *",
            "*.ts",
            "[",
            "(?P<",
            "a{1000000}{1000000}",
        ] {
            let error = Matcher::new(Some(text)).expect_err("an error").to_string();
            assert!(
                error.contains(&format!("`{text}` is not a regular expression")),
                "{error}"
            );
        }
    }
}
