//! A program outside the workspace that depends on `ah` alone, and on none of its features but sessions: builds it, and
//! runs the tests that start it.
//!
//! The tests are in `ah/tests/it/outside.rs`; a variable names the program, and without it they do nothing. What it
//! depends on is compiled once where the workspace has it with the same features.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::cache;
use crate::workspace::{cargo, root, run};

/// Variable that names the program to the tests.
const VARIABLE: &str = "AH_TEST_LIBRARY";

const PROGRAM: &str = r#"//! Asks the configured model and prints its answer.

fn main() {
    ah::enter();
    let prompt = std::env::args().nth(1).unwrap_or_default();
    let options = ah::Options::new().model("sonnet").ephemeral(true).setting_sources([""; 0]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut query = ah::query(prompt, options);
        while let Some(message) = query.next().await {
            if let ah::Message::Assistant(answer) = message.expect("a message") {
                println!("{}", answer.text());
            }
        }
    });
}
"#;

/// Builds the program; returns its path.
pub fn build() -> Result<PathBuf> {
    let folder = root().join("target/library");
    fs::create_dir_all(folder.join("src"))?;
    let library = root().join("ah");
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         ah = {{ path = {library:?}, default-features = false, features = [\"engine\"] }}\ntokio = {{ version = \"1\", features = [\"rt\"] }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), PROGRAM)?;
    // With the same versions nothing has to be fetched.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).context("copying Cargo.lock")?;
    let mut build = cache::offline(&cargo());
    build
        .args(["build", "--offline", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(root().join("target"))
        // As the workspace compiles what is not its own.
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    run(&mut build)?;
    Ok(root().join("target/debug/outside"))
}

/// Runs the tests with `program`.
pub fn test(program: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace", "--test", "it"])
        .args(["--", "outside::"])
        .env(VARIABLE, program);
    run(&mut tests)
}
