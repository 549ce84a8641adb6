//! Matching of hooks against tools, by the rules of the original program: names, or a regular expression of JavaScript.

use ah_conversation::{ToolName, is_same_tool};
use fancy_regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, de};

/// Tools that the original calls by another name than before; expressions match each.
const FORMER: [(&str, &str); 1] = [("Agent", "Task")];

/// Filter for the tools, or kinds of an event, that a hook is called for.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// The filter as written; empty for all.
    text: String,
    filter: Filter,
}

#[derive(Debug, Clone, Default)]
enum Filter {
    #[default]
    All,
    Names(Vec<String>),
    Pattern(Box<Pattern>),
}

#[derive(Debug, Clone)]
struct Pattern {
    exact: Regex,
    /// The same, in any case.
    loose: Regex,
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
    /// Parses a matcher: an empty text or `*` matches all; names are separated by `|` or `,`; anything else is a regular
    /// expression, which may match a part of the name.
    ///
    /// # Errors
    ///
    /// If the text is not a valid regular expression.
    pub fn new(text: Option<&str>) -> Result<Self, MatcherError> {
        let text = text.unwrap_or_default();
        let filter = match text.trim() {
            "" | "*" => Filter::All,
            names if names.chars().all(is_of_names) => {
                let names = names.split(['|', ',']).map(str::trim);
                Filter::Names(names.map(str::to_owned).collect())
            }
            _ => pattern(text).map_err(|reason| MatcherError {
                text: text.to_owned(),
                reason,
            })?,
        };
        Ok(Self {
            text: match filter {
                Filter::All => String::new(),
                _ => text.to_owned(),
            },
            filter,
        })
    }

    /// Whether the filter matches a name, or the one that the tool had before. Case counts in expressions, except for names
    /// without capital letters: tools of the own interface are called like those of the original but for that. If an
    /// expression takes too many steps it does match: a guard is called once too often rather than not at all.
    pub fn matches(&self, name: &str) -> bool {
        match &self.filter {
            Filter::All => true,
            Filter::Names(names) => names.iter().any(|known| is_same_tool(known, name)),
            Filter::Pattern(pattern) => {
                let is_own = !ToolName(name).is_of_server() && !name.contains(char::is_uppercase);
                let pattern = if is_own {
                    &pattern.loose
                } else {
                    &pattern.exact
                };
                let former = FORMER
                    .iter()
                    .filter(|(now, _)| now.eq_ignore_ascii_case(name));
                let mut names = former.map(|(_, former)| *former).chain([name]);
                names.any(|name| pattern.is_match(name).unwrap_or(true))
            }
        }
    }

    /// Returns the filter as written; empty for all.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Whether a character may be part of a list of names; any other makes the text an expression.
fn is_of_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|' | ',' | ' ')
}

fn pattern(text: &str) -> Result<Filter, String> {
    if let Some(foreign) = foreign(text) {
        return Err(format!("`{foreign}` is unknown in JavaScript"));
    }
    let compile = |ignores_case| {
        let mut builder = RegexBuilder::new(text);
        let pattern = builder.case_insensitive(ignores_case).build();
        pattern.map_err(|error| error.to_string())
    };
    Ok(Filter::Pattern(Box::new(Pattern {
        exact: compile(false)?,
        loose: compile(true)?,
    })))
}

/// Returns the first part that means something to our expressions, but nothing or something else to JavaScript's.
fn foreign(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '(']) {
        let part = &rest[at..];
        let length = part.chars().take(2).map(char::len_utf8).sum();
        let is_foreign = match &part[..length] {
            "\\A" | "\\z" | "\\Z" | "\\G" | "\\K" | "\\h" | "\\H" | "\\R" | "\\a" | "\\e" => true,
            "(?" => !is_group(&part[2..]),
            _ => false,
        };
        if is_foreign {
            return Some(part.get(..3).unwrap_or(part));
        }
        let skipped = if part.starts_with('(') { 1 } else { length };
        rest = &part[skipped..];
    }
    None
}

/// Whether `rest`, behind `(?`, begins a group of JavaScript: with a name, a look-around, or modifiers for the group alone.
fn is_group(rest: &str) -> bool {
    let modifiers = rest.trim_start_matches(['i', 'm', 's', '-']);
    rest.starts_with(['=', '!', '<']) || modifiers.starts_with(':')
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
        // Those of the original, 2.1.332, except for names in another case, line ends, and tools of the own interface.
        for (text, name, matches) in [
            (None, "Bash", true),
            (Some(""), "Bash", true),
            (Some("*"), "Bash", true),
            (Some("Bash"), "Bash", true),
            (Some(" Bash "), "Bash", true),
            (Some("Ba"), "Bash", false),
            (Some("Bash"), "BashOutput", false),
            (Some("Read|Write"), "Write", true),
            (Some("Read, Write"), "Write", true),
            (Some("Read|Write"), "Edit", false),
            (Some("Read , Write"), "Write", true),
            (Some("Edit|Write|"), "Write", true),
            (Some("Write,"), "Write", true),
            (Some("|"), "Write", false),
            (Some("Read Write"), "Write", false),
            (Some("Read/Write"), "Write", false),
            (Some("Bash\n"), "Bash", true),
            (Some("mcp__a-b__ech"), "mcp__a-b__echo", false),
            (Some("mcp__a-b__echo"), "mcp__a-b__echo", true),
            (Some("mcp__a-b"), "mcp__a-b__echo", false),
            (Some("^Ba"), "Bash", true),
            (Some("Ba.h"), "Bash", true),
            (Some("ash$"), "Bash", true),
            (Some("mcp__.*"), "mcp__s__t", true),
            (Some("mcp__*"), "mcp__s__t", true),
            (Some("MCP__.*"), "mcp__s__t", false),
            (Some("mcp__*|Bash"), "Bash", true),
            (Some("mcp__a-b__*|Read"), "mcp__a-b__echo", true),
            (Some("mcp__s__t|Read"), "mcp__s__t", true),
            (Some("mcp__s__*"), "mcp__a-b__echo", false),
            (Some("\\bBash\\b"), "Bash", true),
            (Some("Bash|Edit.*"), "NotebookEdit", true),
            (Some("Task"), "Agent", true),
            (Some("Agent"), "Agent", true),
            (Some("^Task$"), "Agent", true),
            (Some("^Agent$"), "Agent", true),
            (Some("^(?!Task$).*"), "Agent", true),
            (Some("^(?!Agent$).*"), "Agent", true),
            (Some("Notebook*"), "NotebookEdit", true),
            (Some("bas."), "Bash", false),
            (Some("(?i:bas.)"), "Bash", true),
            (Some("(?<name>Bash)"), "Bash", true),
            (Some("^(?!mcp__).*"), "Bash", true),
            (Some("^(?!mcp__).*"), "mcp__s__t", false),
            (Some("^(?!Read$).*"), "Read", false),
            (Some("(?=.*Edit).+"), "NotebookEdit", true),
            (Some("^.*(?<!Output)$"), "BashOutput", false),
            (Some("Bash(git *)"), "Bash", false),
            // The own interface.
            (Some("Bash"), "bash", true),
            (Some("bash"), "Bash", true),
            (Some("WebFetch"), "web_fetch", true),
            (Some("Ba.h"), "bash", true),
            (Some("^(?!Read$).*"), "read", false),
            (Some("^Task$"), "agent", true),
            // Too many steps.
            (Some("^(?=a)(a+)+\\1b$"), &"a".repeat(64), true),
        ] {
            let matcher = Matcher::new(text).expect("a matcher");
            assert_eq!(matcher.matches(name), matches, "{text:?} {name}");
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        for text in [
            "(Bash",
            "*.ts",
            "[",
            "(?P<",
            "(?i)bash",
            "(?x)Bash",
            "(?>Bash)",
            "\\ABash",
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
