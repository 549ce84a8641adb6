//! Projects of others with tests of their own, from the registries of npm, Python and Rust: `ah work` sets each up, has a
//! scripted agent change it and its tests run, and opens a pull request.
//!
//! The test is `cli/tests/it/work/projects.rs`; a variable names the folder of the projects, and without it the test does
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{cache, registry};
use crate::workspace::{cargo, root, run};

/// Variable that names the folder of the projects to the test.
const VARIABLE: &str = "AH_TEST_PROJECTS";
const PINS: [&str; 5] = [
    "package.json",
    "package-lock.json",
    "requirements.txt",
    "Cargo.toml",
    "Cargo.lock",
];

/// Downloads the projects and what they depend on, if necessary; returns their folder.
pub fn install() -> Result<PathBuf> {
    let interop = root().join("interop/projects");
    let mut pins = vec![
        cache::python_version()?.into_bytes(),
        cache::node_version()?.into_bytes(),
    ];
    pins.extend(cache::read(&interop, &PINS)?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("projects", &pins, |folder| {
        cache::install_node(folder, &interop, &[])?;
        cache::install_python(&folder.join("python"), &interop.join("requirements.txt"))?;
        let source = registry::source(folder, &interop, "fnv")?;
        copy(&source, &folder.join("fnv"))
    })
}

/// Copies the files of a folder without folders in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Runs the test with the projects in `folder`.
pub fn test(folder: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace"])
        .args(["--test", "it"])
        .args(["--", "work::projects::"])
        .env(VARIABLE, folder);
    run(&mut tests)
}
