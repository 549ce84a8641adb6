//! The listing that a model gets where it asks to read a directory.

use std::path::Path;
use std::{fs, io};

use ah_conversation::{EmbeddedEntry, Output};
use serde_json::json;

use crate::file_tool::Target;
use crate::workspace::Workspace;

/// Limit for the number of names.
const LISTED: usize = 1000;

/// Lists the names in the directory, sorted, with a slash behind those of directories.
pub(super) fn list(target: &Target<'_>) -> Result<Output, String> {
    let typed = target.typed;
    let mut names = names(target.workspace, &target.path)
        .map_err(|error| format!("cannot list `{typed}`: {error}"))?;
    names.sort_unstable();
    let count = names.len();
    let mut text = format!("`{typed}` is a directory with {count} entries");
    for name in names.iter().take(LISTED) {
        text.push('\n');
        text.push_str(name);
    }
    if count > LISTED {
        text.push_str(&format!("\n[{} more]", count - LISTED));
    }
    Ok(Output::text(text).with_details(json!({
        "type": "directory",
        "file": { "filePath": target.name(), "count": count },
    })))
}

fn names(workspace: &Workspace, path: &Path) -> io::Result<Vec<String>> {
    let embedded = workspace
        .embedded_at(path)
        .and_then(|embedded| embedded.at(path));
    if let Some(EmbeddedEntry::Folder(names)) = embedded {
        return Ok(names);
    }
    let name = |entry: fs::DirEntry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        format!("{}{slash}", entry.file_name().to_string_lossy())
    };
    fs::read_dir(path)?.map(|entry| entry.map(name)).collect()
}
