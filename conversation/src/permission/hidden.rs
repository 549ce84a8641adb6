//! Files that a call must not show although its access covers them: a search of a folder finds files in it for which
//! there are rules of their own.

use std::path::Path;

use super::pattern::names_path;
use super::rule::Match;
use super::{PatternRoots, Permissions};
use crate::{Access, ToolUse};

/// Files whose content a call must not show; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenFiles {
    patterns: Vec<String>,
    places: PatternRoots,
}

impl HiddenFiles {
    /// Whether the file at this path, without symbolic links, is hidden.
    pub fn hides(&self, path: &Path) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| names_path(pattern, path, &self.places))
    }
}

impl Permissions {
    /// Returns the files that deny rules hide from the call, and those for which an ask rule wants a question of its
    /// own: one that `accesses`, which were permitted, do not name.
    pub fn hidden_from(&self, call: &ToolUse, accesses: &[Access]) -> HiddenFiles {
        let unasked = self
            .ask
            .iter()
            .filter(|rule| rule.concerns(call, accesses, &self.places) == Match::No);
        let rules = self.deny.iter().chain(unasked);
        HiddenFiles {
            patterns: rules
                .filter(|rule| rule.is_about_reading(&call.name))
                .filter_map(|rule| rule.content.clone())
                .collect(),
            places: self.places.clone(),
        }
    }
}
