//! The list of plugins in a marketplace: `.claude-plugin/marketplace.json`, as Claude Code reads it. Unknown keys are
//! ignored, and an entry that cannot be used spoils no other.

use std::fs;
use std::path::Path;

use ah_config::found_file;
use ah_config::installed::{is_marketplace_name, is_plugin_name};
use ah_conversation::json;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The file, below the marketplace's folder.
const FILE: &str = ".claude-plugin/marketplace.json";
/// The manifest of a plugin, below its folder.
const MANIFEST: &str = ".claude-plugin/plugin.json";
/// Keys of an entry that a manifest may have too.
const SHARED: [&str; 8] = [
    "version",
    "description",
    "author",
    "commands",
    "skills",
    "agents",
    "hooks",
    "mcpServers",
];
/// Those of them that name parts.
const PARTS: [&str; 5] = ["commands", "skills", "agents", "hooks", "mcpServers"];

/// A marketplace's list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Catalogue {
    /// Its name.
    pub name: String,
    /// The plugins.
    #[serde(default)]
    pub plugins: Vec<Value>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    plugin_root: Option<String>,
}

impl Catalogue {
    /// Reads the list of the marketplace in a folder.
    ///
    /// # Errors
    ///
    /// If there is none, it leads out of the folder, or it is not such a list.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let failed = |why: &dyn std::fmt::Display| format!("`{FILE}`: {why}");
        let real = fs::canonicalize(&path).map_err(|error| failed(&error))?;
        let root = fs::canonicalize(folder).map_err(|error| failed(&error))?;
        if !real.starts_with(&root) {
            return Err(failed(&"it links to a file outside the marketplace"));
        }
        let text = found_file::text(&real).map_err(|error| failed(&error))?;
        let list: Self = json::from_str(&text).map_err(|error| failed(&error))?;
        if !is_marketplace_name(&list.name) {
            return Err(failed(&format!(
                "`{}` is not a valid name; use up to 64 letters, digits, `-`, `_` and `.`",
                list.name
            )));
        }
        Ok(list)
    }

    /// Returns the folder for sources without a path.
    pub fn base(&self) -> Option<&str> {
        self.metadata.plugin_root.as_deref()
    }

    /// Returns the entry of a plugin.
    pub fn entry(&self, name: &str) -> Option<&Value> {
        self.plugins.iter().find(|entry| entry["name"] == name)
    }

    /// Returns the plugins that can be installed, as name and description.
    pub fn offers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.plugins.iter().filter_map(|entry| {
            let name = entry["name"].as_str().filter(|name| is_plugin_name(name))?;
            Some((name, entry["description"].as_str().unwrap_or_default()))
        })
    }
}

/// Writes what the marketplace says about a plugin into the plugin's manifest; returns its version. What the manifest
/// says itself counts, unless the entry is `strict: false`: then the entry names all parts.
///
/// # Errors
///
/// If the manifest cannot be read or written.
pub fn complete(folder: &Path, name: &str, entry: &Value) -> Result<Option<String>, String> {
    let path = folder.join(MANIFEST);
    let failed = |why: &dyn std::fmt::Display| format!("`{MANIFEST}`: {why}");
    let mut manifest = match found_file::text(&path) {
        Ok(text) => json::from_str::<Map<String, Value>>(&text).map_err(|error| failed(&error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Map::new(),
        Err(error) => return Err(failed(&error)),
    };
    let names_all = entry["strict"] == false && PARTS.iter().any(|key| entry.get(key).is_some());
    if names_all {
        manifest.retain(|key, _| !PARTS.contains(&key.as_str()));
        manifest.insert("ahOnlyNamedParts".to_owned(), true.into());
    } else {
        manifest.remove("ahOnlyNamedParts");
    }
    manifest.insert("name".to_owned(), name.into());
    for key in SHARED {
        if let Some(value) = entry.get(key) {
            manifest.entry(key).or_insert_with(|| value.clone());
        }
    }
    let version = manifest
        .get("version")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let text = format!("{:#}\n", Value::Object(manifest));
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| failed(&error))?;
    Ok(version)
}
