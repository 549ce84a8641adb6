//! What the model is told where no usable file is: which names near it exist, and what stands in its place.

use std::path::Path;

use ah_conversation::Embedded;
use ignore::WalkBuilder;

use crate::file::Fault;
use crate::workspace::Workspace;

/// How many files are looked at for a near name, how alike names must be, and how many are named.
const LOOKED_AT: usize = 20_000;
const ALIKE: f32 = 0.7;
const NAMED: usize = 3;

impl Fault {
    /// The fault as the model is told of it; `typed` is the path as it was given, `path` what it means.
    pub(crate) fn tell(&self, workspace: &Workspace, typed: &str, path: &Path) -> String {
        match self {
            Self::Missing => no_file(workspace, typed, path),
            Self::Directory => format!("`{typed}` is a directory"),
            Self::Special(what) => format!("`{typed}` is {what}, not a regular file"),
            Self::Io(error) => format!("cannot open `{typed}`: {error}"),
        }
    }
}

/// Says that nothing is at `path`, and what may have been meant.
pub(crate) fn no_file(workspace: &Workspace, typed: &str, path: &Path) -> String {
    let near = near(workspace, path);
    if near.is_empty() {
        let cwd = workspace.cwd().display();
        return format!("no file `{typed}` (the working directory is `{cwd}`)");
    }
    let names: Vec<_> = near.iter().map(|name| format!("`{name}`")).collect();
    format!("no file `{typed}`; did you mean {}?", names.join(" or "))
}

/// Paths with a name like that of `path`, the likest first: from anywhere below the working directory, or from the
/// nearest existing folder for a path outside of it.
fn near(workspace: &Workspace, path: &Path) -> Vec<String> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else {
        return Vec::new();
    };
    if let Some(embedded) = workspace.embedded_at(path) {
        let files = embedded.files(Path::new(Embedded::ROOT));
        let paths = files.map(|(path, _)| path);
        let alike = paths.filter(|path| {
            let file = path.file_name();
            file.is_some_and(|file| is_like(&name, &file.to_string_lossy()))
        });
        let found = alike.map(|path| workspace.show(&path)).collect::<Vec<_>>();
        return likest(&found, &workspace.show(path));
    }
    let inside = path.starts_with(workspace.cwd());
    let Some(root) = path.ancestors().skip(1).find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let (root, depth) = match inside {
        true => (workspace.cwd(), None),
        false => (root, Some(1)),
    };
    let entries = WalkBuilder::new(root).max_depth(depth).build();
    let found: Vec<_> = entries
        .flatten()
        .skip(1)
        .take(LOOKED_AT)
        .filter(|entry| is_like(&name, &entry.file_name().to_string_lossy()))
        .map(|entry| workspace.show(entry.path()))
        .collect();
    likest(&found, &workspace.show(path))
}

fn likest(found: &[String], wanted: &str) -> Vec<String> {
    let candidates: Vec<_> = found.iter().map(String::as_str).collect();
    // Among files of a like name the one in the likest place comes first; how unlike the others are is no matter.
    similar::get_close_matches(wanted, &candidates, NAMED, 0.0)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn is_like(wanted: &str, name: &str) -> bool {
    let (longer, shorter) = (wanted.len().max(name.len()), wanted.len().min(name.len()));
    if wanted.eq_ignore_ascii_case(name) || stem(wanted) == stem(name) {
        return true;
    }
    // No pair of so unlike lengths can be alike enough, and comparing costs.
    let at_most = 2.0 * shorter as f32 / (longer + shorter) as f32;
    at_most >= ALIKE && !similar::get_close_matches(wanted, &[name], 1, ALIKE).is_empty()
}

fn stem(name: &str) -> &str {
    match name.rfind('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}
