//! The targets of `fuzz`, under libFuzzer: `cargo xtask fuzz [--seconds N] [TARGET…]`.
//!
//! What the compiler has to put into the program for that, only a nightly toolchain can. `cargo test` runs the same
//! targets without.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{output, root, run};

/// How long each target runs where nothing is said.
const SECONDS: u64 = 60;
/// Counts which edges are taken and what is compared, for libFuzzer to look at.
const COVERAGE: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Zsanitizer=address",
];

/// Builds the targets and runs those that are named, or all.
pub fn fuzz(arguments: &[&str]) -> Result<()> {
    let (seconds, wanted) = parse(arguments)?;
    let corpora = root().join("fuzz/corpus");
    let targets = targets(&wanted)?;
    let host = host()?;
    let folder = root().join("target/fuzz");
    run(Command::new("cargo")
        .current_dir(root())
        .args(["+nightly", "build", "--release", "--package", "ah-fuzz"])
        .args(["--features", "libfuzzer", "--bin", "fuzz"])
        // A target of its own, so that build scripts are left as they are.
        .args(["--target", &host, "--target-dir"])
        .arg(folder.join("build"))
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("RUSTFLAGS", COVERAGE.join(" ")))?;
    let program = folder.join("build").join(host).join("release/fuzz");
    for target in targets {
        // What is found on the way stays here. What breaks is for `fuzz/corpus`, once it is mended.
        let found = folder.join(&target);
        fs::create_dir_all(&found)?;
        run(Command::new(&program)
            .current_dir(&found)
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=10", "-max_len=8192", "-print_final_stats=1"])
            .args([&found, &corpora.join(&target)])
            .env("AH_FUZZ_TARGET", &target))
        .with_context(|| format!("what broke it lies in {}", found.display()))?;
    }
    Ok(())
}

fn parse<'a>(arguments: &[&'a str]) -> Result<(u64, Vec<&'a str>)> {
    let (mut seconds, mut wanted) = (SECONDS, Vec::new());
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        match word {
            "--seconds" => {
                let value = words.next().and_then(|value| value.parse().ok());
                seconds = value.context("--seconds needs a number")?;
            }
            name => wanted.push(name),
        }
    }
    Ok((seconds, wanted))
}

/// The targets that are wanted. Each has a folder of the corpus, which the tests see to.
fn targets(wanted: &[&str]) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/corpus"))? {
        targets.push(entry?.file_name().to_string_lossy().into_owned());
    }
    targets.sort();
    if let Some(name) = wanted
        .iter()
        .find(|name| !targets.iter().any(|it| it == *name))
    {
        bail!("no target `{name}`; there are {}", targets.join(", "));
    }
    targets.retain(|target| wanted.is_empty() || wanted.contains(&target.as_str()));
    Ok(targets)
}

/// The platform that the nightly compiler is for.
fn host() -> Result<String> {
    let version = output(
        Command::new("rustc")
            .args(["+nightly", "--version", "--verbose"])
            .env_remove("RUSTUP_TOOLCHAIN"),
    )
    .context("fuzzing needs a nightly compiler: `rustup toolchain install nightly`")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not say what it is for")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_corpus() {
        let all = targets(&[]).unwrap();
        assert!(all.len() > 4, "{all:?}");
        assert_eq!(targets(&["sse"]).unwrap(), ["sse"]);
        assert!(targets(&["see"]).unwrap_err().to_string().contains("sse"));
        assert_eq!(parse(&["sse", "--seconds", "5"]).unwrap(), (5, vec!["sse"]));
        assert!(parse(&["--seconds", "x"]).is_err());
    }
}
