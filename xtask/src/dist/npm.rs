//! Packages for npm: one for each platform with the program, and one that starts the program of its platform.
//!
//! npm installs of the optional dependencies only the one for its own platform, and runs no script for it.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::archive::{Entry, tar_gz};
use super::release::{PLATFORMS, Platform, Release};

/// The package that people name.
const LAUNCHER: &str = "@ah-agent/ah";
/// Oldest version of Node that starts the program.
const OLDEST_NODE: &str = ">=18";
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Returns the package that starts the program, and its file name.
pub fn launcher(release: &Release) -> Result<(String, Vec<u8>)> {
    let programs: Map<String, Value> = PLATFORMS
        .iter()
        .map(|platform| (name(*platform), json!(release.version)))
        .collect();
    let mut manifest = manifest(LAUNCHER, release);
    manifest["bin"] = json!({"ah": "bin/ah.js"});
    manifest["engines"] = json!({"node": OLDEST_NODE});
    manifest["optionalDependencies"] = Value::Object(programs);
    let script = Entry::of_repository("contrib/packages/launcher.js")?;
    let more = vec![
        Entry::of_repository("README.md")?,
        Entry::program("bin/ah.js", script.bytes),
    ];
    packed(LAUNCHER, &manifest, more, release)
}

/// Returns the package with the program for a platform, and its file name.
///
/// `notices` are the licences of what is in it.
pub fn program(
    release: &Release,
    platform: Platform,
    binary: &[u8],
    notices: Entry,
) -> Result<(String, Vec<u8>)> {
    let name = name(platform);
    let mut manifest = manifest(&name, release);
    manifest["cpu"] = json!([platform.node]);
    let readme = format!(
        "# {name}\n\nThe program of `{LAUNCHER}` for {}. Install that one.\n",
        platform.target()
    );
    let more = vec![
        notices,
        Entry::file("README.md", readme),
        Entry::program("bin/ah", binary),
    ];
    packed(&name, &manifest, more, release)
}

/// Returns the name of a platform's package.
fn name(platform: Platform) -> String {
    format!("{LAUNCHER}-linux-{}", platform.node)
}

fn manifest(name: &str, release: &Release) -> Value {
    json!({
        "name": name,
        "version": release.version,
        "description": release.description,
        "license": release.license,
        "homepage": release.repository,
        "repository": {"type": "git", "url": format!("git+{}.git", release.repository)},
        "os": ["linux"],
        // A package with a scope is private otherwise.
        "publishConfig": {"access": "public"},
    })
}

/// Packs a package as npm does; its file name is npm's as well.
fn packed(
    name: &str,
    manifest: &Value,
    more: Vec<Entry>,
    release: &Release,
) -> Result<(String, Vec<u8>)> {
    let manifest = serde_json::to_string_pretty(manifest)? + "\n";
    let mut entries = vec![Entry::file("package.json", manifest)];
    for license in LICENSES {
        entries.push(Entry::of_repository(license)?);
    }
    entries.extend(more);
    let entries: Vec<Entry> = entries
        .into_iter()
        .map(|entry| entry.within("package"))
        .collect();
    let file = name.trim_start_matches('@').replace('/', "-");
    Ok((
        format!("{file}-{}.tgz", release.version),
        tar_gz(&entries, release.time)?,
    ))
}
