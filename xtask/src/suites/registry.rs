//! Files of packages from the crates registry, for suites that look at what is in them. Nothing of them is built.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{cargo, output};

/// Files that pin the packages.
pub const PINS: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

/// Downloads the packages that `pins` names, if necessary; returns the folder with the source of the one called `name`.
/// The pins are copied into `folder` before.
pub fn source(folder: &Path, pins: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for pin in PINS {
        fs::copy(pins.join(pin), folder.join(pin))?;
    }
    let mut metadata = cargo();
    metadata
        .args(["metadata", "--locked", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"));
    let known: Value = serde_json::from_str(&output(&mut metadata)?)?;
    let mut packages = known["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("cargo knows no package {name}"))?;
    let folder = Path::new(manifest).parent();
    Ok(folder.unwrap_or(Path::new("/")).to_owned())
}
