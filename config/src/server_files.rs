//! The files that MCP servers are added to by a command, and removed from.

use std::io;
use std::path::{Path, PathBuf};

use ah_conversation::{Destination, ServerScope, json};
use serde_json::Value;

use crate::config::Config;
use crate::mcp::FILE;
use crate::rulebook::{SettingsFiles, object};

/// Key of the servers.
const KEY: &str = "mcpServers";

/// Returns the file of a scope; `None` without a home directory, and for servers that no file has.
pub fn path(config: &Config, scope: ServerScope) -> Option<PathBuf> {
    let files = SettingsFiles::of(config);
    match scope {
        ServerScope::User => files.path(Destination::UserSettings).map(Path::to_owned),
        ServerScope::Local => files.path(Destination::LocalSettings).map(Path::to_owned),
        ServerScope::Project => Some(config.project_root.join(FILE)),
        ServerScope::Dynamic => None,
    }
}

/// Stores a server in a file; all else in it stays. Returns whether it replaces one.
///
/// # Errors
///
/// If the file cannot be read as JSON, or not be written.
pub fn add(files: &SettingsFiles, file: &Path, name: &str, entry: &Value) -> io::Result<bool> {
    let mut is_new = true;
    files.rewrite(file, |settings| {
        let servers = object(settings, KEY)?;
        is_new = servers.insert(name.to_owned(), entry.clone()).is_none();
        Ok(())
    })?;
    Ok(!is_new)
}

/// Returns whether a file has a server of this name.
pub fn has(file: &Path, name: &str) -> bool {
    let text = crate::found_file::named(file).unwrap_or_default();
    let value: Value = json::from_str(&text).unwrap_or_default();
    value[KEY].get(name).is_some()
}

/// Removes a server from a file.
///
/// # Errors
///
/// If it is not there, or the file cannot be read as JSON, or not be written.
pub fn remove(files: &SettingsFiles, file: &Path, name: &str) -> io::Result<()> {
    files.rewrite(file, |settings| {
        let removed = object(settings, KEY)?.shift_remove(name);
        let missing = || io::Error::other(format!("it has no server `{name}`"));
        removed.map(drop).ok_or_else(missing)
    })
}
