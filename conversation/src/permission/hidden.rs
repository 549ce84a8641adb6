//! Files that a call must not show although its access covers them: a search of a folder finds files in it for which
//! there are rules of their own.

use std::path::{Path, PathBuf};

use super::pattern::{PatternRoots, names_path, rooted};

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

    /// Returns the files and folders among them that patterns name by their whole path, whether they exist or not.
    pub fn paths(&self) -> Vec<PathBuf> {
        const WILD: [char; 4] = ['*', '?', '[', '\\'];
        let path = |pattern: &String| {
            let (root, below) = rooted(pattern, &self.places);
            let below = below.strip_suffix("/**").unwrap_or(below);
            let is_whole = !below.is_empty() && !below.contains(WILD);
            root.filter(|_| is_whole).map(|root| root.join(below))
        };
        self.patterns.iter().filter_map(path).collect()
    }

    /// Whether the file at this path, without symbolic links, is hidden.
    pub fn hides(&self, path: &Path) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| names_path(pattern, path, &self.places))
    }
}
