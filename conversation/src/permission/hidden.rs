//! Files that a call must not show although its access covers them: a search of a folder finds files in it for which
//! there are rules of their own.

use std::path::{Path, PathBuf};

use super::pattern::{PatternRoots, names_path, rooted};

/// Characters of a pattern that stand for others.
const WILD: [char; 4] = ['*', '?', '[', '\\'];

/// What deny rules keep from every command, whatever program asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    /// Files that may not be read.
    pub reading: HiddenFiles,
    /// Files that may not be changed.
    pub editing: HiddenFiles,
    /// Programs that may not run whatever their arguments, by their names or paths.
    pub programs: Vec<String>,
}

impl Denied {
    /// Whether nothing is denied.
    pub fn is_empty(&self) -> bool {
        let files = [&self.reading, &self.editing].into_iter();
        self.programs.is_empty() && files.flat_map(|files| &files.patterns).next().is_none()
    }
}

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
        let path = |pattern: &String| {
            let (root, below) = rooted(pattern, &self.places);
            let below = below.strip_suffix("/**").unwrap_or(below);
            let is_whole = !below.is_empty() && !below.contains(WILD);
            root.filter(|_| is_whole).map(|root| root.join(below))
        };
        self.patterns.iter().filter_map(path).collect()
    }

    /// Returns the folders in which files have to be looked for, since patterns name them by a part of their path.
    pub fn searched(&self) -> Vec<PathBuf> {
        let folder = |pattern: &String| {
            let (root, below) = rooted(pattern, &self.places);
            let literal = below.strip_suffix("/**").unwrap_or(below);
            // In the working directory, a name alone stands for the files below as well.
            let is_name = root == Some(&*self.places.cwd) && !literal.contains('/');
            let parts = literal.split('/').take_while(|part| !part.contains(WILD));
            let is_whole = !literal.is_empty() && !literal.contains(WILD);
            let parts = parts.filter(|_| !is_name);
            root.filter(|_| is_name || !is_whole)
                .map(|root| parts.fold(root.to_owned(), |path, part| path.join(part)))
        };
        self.patterns.iter().filter_map(folder).collect()
    }

    /// Whether the file at this path, without symbolic links, is hidden.
    pub fn hides(&self, path: &Path) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| names_path(pattern, path, &self.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_where_a_pattern_leaves_their_place_open() {
        let places = PatternRoots {
            cwd: "/p/sub".into(),
            project: "/p".into(),
            home: Some("/home".into()),
        };
        for (pattern, paths, searched) in [
            (".env", &["/p/sub/.env"][..], &["/p/sub"][..]),
            ("*.pem", &[], &["/p/sub"]),
            ("./a/b.txt", &["/p/sub/./a/b.txt"], &[]),
            ("a/**/key", &[], &["/p/sub/a"]),
            ("secret/**", &["/p/sub/secret"], &["/p/sub"]),
            ("/docs/*.md", &[], &["/p/docs"]),
            ("~/.ssh/**", &["/home/.ssh"], &[]),
            ("~/.ssh", &["/home/.ssh"], &[]),
            ("//etc/shadow", &["/etc/shadow"], &[]),
            ("//**/.env", &[], &["/"]),
        ] {
            let hidden = HiddenFiles::new(vec![pattern.to_owned()], places.clone());
            let as_paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
            assert_eq!(hidden.paths(), as_paths(paths), "{pattern}");
            assert_eq!(hidden.searched(), as_paths(searched), "{pattern}");
        }
    }
}
