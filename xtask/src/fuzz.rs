//! Runs the targets of `fuzz` under libFuzzer: `cargo xtask fuzz [--seconds N] [TARGET…]`.
//!
//! The instrumentation needs a nightly toolchain. `cargo test` runs the same targets without it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{output, root, run};

/// Default time of each target.
const SECONDS: u64 = 60;
/// Instrumentation for libFuzzer: coverage of edges, operands of comparisons, and the address sanitizer.
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

/// Builds the targets and runs the named ones, or all.
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
        // With an explicit target, build scripts are not instrumented.
        .args(["--target", &host, "--target-dir"])
        .arg(folder.join("build"))
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("RUSTFLAGS", COVERAGE.join(" ")))?;
    let program = folder.join("build").join(host).join("release/fuzz");
    for target in targets {
        // New inputs stay in this folder; those of fixed failures belong into `fuzz/corpus`.
        let found = folder.join(&target);
        fs::create_dir_all(&found)?;
        run(Command::new(&program)
            .current_dir(&found)
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=10", "-max_len=8192", "-print_final_stats=1"])
            .args([&found, &corpora.join(&target)])
            .env("AH_FUZZ_TARGET", &target))
        .with_context(|| format!("the failing input is in {}", found.display()))?;
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

/// Returns the requested targets, or all. Each target has a folder in the corpus, which a test ensures.
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
        bail!(
            "unknown target `{name}`; the targets are {}",
            targets.join(", ")
        );
    }
    targets.retain(|target| wanted.is_empty() || wanted.contains(&target.as_str()));
    Ok(targets)
}

/// Returns the host platform of the nightly compiler.
fn host() -> Result<String> {
    let version = output(
        Command::new("rustc")
            .args(["+nightly", "--version", "--verbose"])
            .env_remove("RUSTUP_TOOLCHAIN"),
    )
    .context("fuzzing needs a nightly compiler: `rustup toolchain install nightly`")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("`rustc --version --verbose` names no host")?
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
