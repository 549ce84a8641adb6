//! Error texts for paths without a usable file: similar names that exist, or the kind of entry at the path.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::Embedded;
use ah_ignored::{Ignored, Sources, Taken};

use crate::file::FileError;
use crate::workspace::Workspace;

/// Limit for the files that are compared, how alike names must be (0 to 1), and limit for the names in the text.
const LOOKED_AT: usize = 20_000;
const ALIKE: f32 = 0.7;
const NAMED: usize = 3;

impl FileError {
    /// Returns the text for the model; `typed` is the path as it was given, `path` the resolved one.
    pub(crate) fn explain(&self, workspace: &Workspace, typed: &str, path: &Path) -> String {
        match self {
            Self::Missing => not_found(workspace, typed, path),
            Self::Directory => format!("`{typed}` is a directory"),
            Self::Special(kind) => format!("`{typed}` is {kind}, not a regular file"),
            Self::Io(error) => format!("cannot open `{typed}`: {error}"),
        }
    }
}

/// Returns the error text for a path with nothing there, with similar paths that exist.
pub(crate) fn not_found(workspace: &Workspace, typed: &str, path: &Path) -> String {
    let near = near(workspace, path);
    if near.is_empty() {
        let cwd = workspace.cwd().display();
        return format!("no file `{typed}` (the working directory is `{cwd}`)");
    }
    let names: Vec<_> = near.iter().map(|name| format!("`{name}`")).collect();
    format!("no file `{typed}`; did you mean {}?", names.join(" or "))
}

/// Returns the paths of files with a name like that of `path`, the most similar first: from anywhere below the working
/// directory, or from the nearest existing folder for a path outside of it.
fn near(workspace: &Workspace, path: &Path) -> Vec<String> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else {
        return Vec::new();
    };
    if let Some(embedded) = workspace.embedded_at(path) {
        let found: Vec<_> = embedded
            .files(Path::new(Embedded::ROOT))
            .map(|(path, _)| path)
            .filter(|path| {
                path.file_name()
                    .is_some_and(|file| is_like(&name, &file.to_string_lossy()))
            })
            .map(|path| workspace.show(&path))
            .collect();
        return most_similar(&found, &workspace.show(path));
    }
    let Some(folder) = path.ancestors().skip(1).find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let (root, depth) = if path.starts_with(workspace.cwd()) {
        (workspace.cwd(), None)
    } else {
        (folder, Some(1))
    };
    let ignored = Arc::new(Ignored::new(Sources::default()));
    let mut walk = ignored.walk(root, Taken::default());
    let found: Vec<_> = { walk.max_depth(depth).build() }
        .flatten()
        .skip(1)
        .take(LOOKED_AT)
        .filter(|entry| is_like(&name, &entry.file_name().to_string_lossy()))
        .map(|entry| workspace.show(entry.path()))
        .collect();
    most_similar(&found, &workspace.show(path))
}

fn most_similar(found: &[String], wanted: &str) -> Vec<String> {
    let candidates: Vec<_> = found.iter().map(String::as_str).collect();
    // All candidates have similar names; the ones with the most similar paths come first, without a threshold.
    ah_diff::nearest(wanted, &candidates, NAMED, 0.0)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn is_like(wanted: &str, name: &str) -> bool {
    let (longer, shorter) = (wanted.len().max(name.len()), wanted.len().min(name.len()));
    if wanted.eq_ignore_ascii_case(name) || stem(wanted) == stem(name) {
        return true;
    }
    // The lengths alone give an upper bound, which is cheaper than a comparison.
    let at_most = 2.0 * shorter as f32 / (longer + shorter) as f32;
    at_most >= ALIKE && !ah_diff::nearest(wanted, &[name], 1, ALIKE).is_empty()
}

fn stem(name: &str) -> &str {
    match name.rfind('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}
