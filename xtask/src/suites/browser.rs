//! The page of `ah serve` in a real browser: the system's Chromium, driven from Node, with a checker of accessibility.
//!
//! The tests are in `interop/browser`; those of its modules need no browser. `AH_WRITE_DOCS=1 cargo xtask test browser` also takes the pictures in `docs`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::cache;
use crate::workspace::{COMMAND_LINE, built, root, run};

/// Names of the browser, as distributions have it.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// A browser, and the folder with what drives it.
pub struct Browser {
    program: PathBuf,
    folder: PathBuf,
}

/// Returns the system's browser. No registry of packages has one, so a machine may be without.
pub fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// Installs what drives this browser if necessary.
pub fn install(program: PathBuf) -> Result<Browser> {
    let folder = cache::node("browser")?;
    Ok(Browser { program, folder })
}

/// Runs the tests; a machine without a browser is an error.
pub fn test_alone() -> Result<()> {
    let program = chromium().context("no Chromium in PATH, and no CHROMIUM")?;
    test(&install(program)?)
}

/// Runs the tests.
pub fn test(browser: &Browser) -> Result<()> {
    let binary = built(COMMAND_LINE, "ah", "dev")?;
    let loopback = built("ah-testkit", "loopback", "dev")?;
    let mut files = vec!["page.mjs", "sessions.mjs"];
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        files.push("pictures.mjs");
    }
    let mut node = cache::offline(&Command::new("node"));
    node.current_dir(pinned())
        .args(["--test", "--test-reporter=spec"])
        .args(files)
        .env("AH_BINARY", binary)
        .env("AH_TEST_LOOPBACK", loopback)
        .env("BROWSER_DIR", &browser.folder)
        .env("CHROMIUM", &browser.program)
        .env("DOCS", root().join("docs"));
    run(&mut node)
}

/// Runs the tests of the page's modules that need no browser.
pub fn modules() -> Result<()> {
    let mut node = cache::offline(&Command::new("node"));
    node.current_dir(pinned())
        .args(["--test", "--test-reporter=spec"])
        .args(["modules.mjs", "markdown.mjs"]);
    run(&mut node)
}

fn pinned() -> PathBuf {
    root().join("interop/browser")
}
