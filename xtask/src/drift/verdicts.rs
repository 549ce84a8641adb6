//! What was decided about each name in the packages of vendors, and whether it still holds. Pure: files of the repository
//! come from a function.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use regex::Regex;
use serde::Deserialize;

use super::extract::Take;
use crate::newest::is_like;

/// A package, and the parts of it that concern us. One file of `interop/drift` each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// `npm:NAME` or `pypi:NAME`.
    pub package: String,
    /// The release that was judged last.
    pub judged: String,
    /// The parts.
    pub surface: Vec<Surface>,
}

/// Names of one kind in a package, and their verdicts. A `*` in a name stands for any characters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surface {
    /// The kind.
    pub name: String,
    /// Path of the file in the package.
    pub file: String,
    /// A regular expression for the part of the file that is meant.
    within: Option<String>,
    /// How the names are found in it.
    take: Take,
    /// Pages of ours whose tables judge names: what a row says `not` of is refused, everything else is handled.
    #[serde(default)]
    pages: Vec<String>,
    /// Names by the file of ours that deals with them, `PATH`, `PATH::TEST` or `PATH#HEADING`. It has to mention them.
    #[serde(default)]
    handled: BTreeMap<String, Vec<String>>,
    /// Names by the file that says that they are refused.
    #[serde(default)]
    refused: BTreeMap<String, Vec<String>>,
    /// Names by the reason why they do not concern us.
    #[serde(default)]
    unwanted: BTreeMap<String, Vec<String>>,
}

/// What became of the names of a surface.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Number of names that are handled.
    pub handled: usize,
    /// Number of names that are refused.
    pub refused: usize,
    /// Number of names that do not concern us.
    pub unwanted: usize,
    /// Names without a verdict.
    pub new: Vec<String>,
    /// Verdicts about names that no longer exist.
    pub gone: Vec<String>,
    /// Verdicts whose proof does not exist.
    pub unproven: Vec<String>,
}

enum Verdict {
    Handled,
    Refused,
    Unwanted,
}

impl Surface {
    /// Returns the names that the file `text` of the package has.
    pub fn names(&self, text: &str) -> Result<BTreeSet<String>> {
        let Some(within) = &self.within else {
            return self.take.of(text);
        };
        let part = Regex::new(within)?.find(text);
        let part = part.with_context(|| format!("nothing is like {within}"))?;
        self.take.of(part.as_str())
    }

    /// Judges the `names` that the package has; `read` returns the text of a file of the repository.
    pub fn judge(
        &self,
        names: &BTreeSet<String>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Judgement {
        let mut judgement = Judgement {
            gone: self.gone(names),
            ..Judgement::default()
        };
        let places = self.handled.keys().chain(self.refused.keys());
        let mut texts = BTreeMap::new();
        for place in places.chain(&self.pages) {
            let text = text(place, read);
            if text.is_none() {
                judgement.unproven.push(format!("there is no {place}"));
            }
            texts.insert(place.as_str(), text.unwrap_or_default());
        }
        for name in names {
            match self.verdict(name, &texts) {
                Some(Verdict::Handled) => judgement.handled += 1,
                Some(Verdict::Refused) => judgement.refused += 1,
                Some(Verdict::Unwanted) => judgement.unwanted += 1,
                None => judgement.new.push(name.clone()),
            }
        }
        judgement
    }

    fn verdict(&self, name: &str, texts: &BTreeMap<&str, String>) -> Option<Verdict> {
        let lists = |verdicts: &BTreeMap<String, Vec<String>>, place: &dyn Fn(&str) -> bool| {
            let like = |patterns: &Vec<String>| patterns.iter().any(|it| is_like(name, it));
            let mut verdicts = verdicts.iter();
            verdicts.any(|(key, patterns)| like(patterns) && place(key))
        };
        let mentioned = |place: &str| texts.get(place).is_some_and(|text| mentions(text, name));
        if lists(&self.handled, &mentioned) {
            return Some(Verdict::Handled);
        }
        if lists(&self.refused, &mentioned) {
            return Some(Verdict::Refused);
        }
        let mut pages = self
            .pages
            .iter()
            .filter_map(|page| texts.get(page.as_str()));
        let row = pages.find_map(|page| row(page, name));
        let by_page = row.map(|row| match row.contains("| not |") {
            true => Verdict::Refused,
            false => Verdict::Handled,
        });
        by_page.or_else(|| lists(&self.unwanted, &|_| true).then_some(Verdict::Unwanted))
    }

    /// Returns the names in the list that the package does not have.
    fn gone(&self, names: &BTreeSet<String>) -> Vec<String> {
        let lists = [&self.handled, &self.refused, &self.unwanted];
        let listed = lists.into_iter().flat_map(BTreeMap::values).flatten();
        let gone = listed.filter(|it| !names.iter().any(|name| is_like(name, it)));
        gone.cloned().collect()
    }
}

/// Returns the text that `place` names. A test has to be in its file, and a heading on its page.
fn text(place: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    if let Some((path, test)) = place.split_once("::") {
        let text = read(path)?;
        return text.contains(&format!("fn {test}(")).then_some(text);
    }
    let Some((path, heading)) = place.split_once('#') else {
        return read(place);
    };
    let text = read(path)?;
    let title = |line: &str| line.trim_start_matches('#').trim() == heading;
    let is_heading = |line: &&str| line.starts_with('#');
    let lines = text
        .lines()
        .skip_while(|line| !(is_heading(line) && title(line)));
    let section: Vec<&str> = lines
        .enumerate()
        .take_while(|(at, line)| *at == 0 || !is_heading(line))
        .map(|(_, line)| line)
        .collect();
    (!section.is_empty()).then(|| section.join("\n"))
}

/// Returns the row of a table that is about `name`.
fn row<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let name = format!("`{name}`");
    let mut rows = page.lines().filter(|line| line.starts_with('|'));
    rows.find(|row| row.split('|').take(3).any(|cell| cell.contains(&name)))
}

/// Whether `text` has `name` as a word, or as the name of a variant in Rust.
fn mentions(text: &str, name: &str) -> bool {
    let has = |word: &str| {
        // A hyphen or a dot belongs to a word that has one itself: `gpt-5` is not in `gpt-5-mini`.
        let is_joined = |c: char| word.contains(['-', '.']) && (c == '-' || c == '.');
        let is_inner = |c: char| c.is_alphanumeric() || c == '_' || is_joined(c);
        text.match_indices(word).any(|(at, _)| {
            let after = text[at + word.len()..].chars().next();
            let before = text[..at].chars().next_back();
            !before.is_some_and(is_inner) && !after.is_some_and(is_inner)
        })
    };
    has(name) || has(&variant(name))
}

/// Returns `tool_use` as `ToolUse`.
fn variant(name: &str) -> String {
    let words = name.split(['_', '-']).filter(|word| !word.is_empty());
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(list: &str, names: &str) -> Judgement {
        let head = "name = 'block'\nfile = 'x.d.ts'\ntake.union = 'Block'\n";
        let surface: Surface = toml::from_str(&format!("{head}{list}")).unwrap();
        let names = names.split(' ').map(str::to_owned).collect();
        surface.judge(&names, &|path| {
            let text = match path {
                "wire.rs" => "enum Block { ToolUse, Text }\nfn keeps_order() {}",
                "models.json" => r#"{"gpt-5-mini": 1, "o1": 2}"#,
                "page.md" => {
                    "# Page\n## A\n| `text` | – | works |\n| – | `gone` | not |\n## B\n| `late` |"
                }
                _ => return None,
            };
            Some(text.to_owned())
        })
    }

    #[test]
    fn each_name_has_one_verdict_or_is_new() {
        for (list, names, expected) in [
            (
                "handled.'wire.rs' = ['tool_use', 'text']",
                "tool_use text audio",
                (2, 0, 0, "audio"),
            ),
            (
                "handled.'wire.rs::keeps_order' = ['text']",
                "text",
                (1, 0, 0, ""),
            ),
            // What the file does not mention is not handled by it.
            (
                "handled.'wire.rs' = ['*']",
                "text audio",
                (1, 0, 0, "audio"),
            ),
            (
                "handled.'models.json' = ['*']",
                "gpt-5 gpt-5-mini o1",
                (2, 0, 0, "gpt-5"),
            ),
            ("refused.'page.md' = ['late']", "late", (0, 1, 0, "")),
            (
                "unwanted.'of old' = ['gpt-4*']",
                "gpt-4 gpt-4o gpt-5",
                (0, 0, 2, "gpt-5"),
            ),
            ("pages = ['page.md#A']", "text gone late", (1, 1, 0, "late")),
        ] {
            let judged = judge(list, names);
            let found = (
                judged.handled,
                judged.refused,
                judged.unwanted,
                &*judged.new.join(" "),
            );
            assert_eq!(found, expected, "{list}");
            assert!(
                judged.gone.is_empty() && judged.unproven.is_empty(),
                "{list}"
            );
        }
    }

    #[test]
    fn a_verdict_ends_with_its_name_or_its_proof() {
        let judged = judge("unwanted.'of old' = ['gpt-4*', 'o1']", "o1");
        assert_eq!(judged.gone, ["gpt-4*"]);
        for place in ["none.rs", "wire.rs::no_test", "page.md#C"] {
            let judged = judge(&format!("handled.'{place}' = ['text']"), "text");
            assert_eq!(judged.unproven, [format!("there is no {place}")]);
            assert_eq!(judged.new, ["text"]);
        }
    }
}
