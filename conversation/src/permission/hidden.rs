//! Files that a call must not show although its access covers them: a search of a folder finds files in it for which
//! there are rules of their own.

use std::path::Path;

use super::pattern::{PatternRoots, names_path};

/// Files whose content a call must not show; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenFiles {
    patterns: Vec<String>,
    places: PatternRoots,
}

impl HiddenFiles {
    /// Returns the files that these patterns of rules match.
    pub(super) fn new(patterns: Vec<String>, places: PatternRoots) -> Self {
        Self { patterns, places }
    }

    /// Whether the file at this path, without symbolic links, is hidden.
    pub fn hides(&self, path: &Path) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| names_path(pattern, path, &self.places))
    }
}
