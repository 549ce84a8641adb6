//! Programs of others that start our binary in the place of the original, or read what it writes.
//!
//! The checks are in `interop/programs`, one test each. The table at the end of `docs/agent-sdk.md` has the outcome of each
//! with the original and with ours. `AGENT_CLI=/the/original AH_WRITE_DOCS=1 cargo xtask test programs` writes the
//! original's column, the same without the first variable writes ours. A check that passes with the original has to pass
//! with ours, and the table has to be that of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{cache, sdk};
use crate::workspace::{COMMAND_LINE, built, root};

const PINS: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];
const PAGE: &str = "docs/agent-sdk.md";
const FILES: [&str; 15] = [
    "adapter.mjs",
    "editor.mjs",
    "evaluation.mjs",
    "framework.mjs",
    "frontend.mjs",
    "gateway.mjs",
    "guard.mjs",
    "langchain.mjs",
    "loop.mjs",
    "provider.mjs",
    "proxy.mjs",
    "readers.mjs",
    "server.mjs",
    "skills.mjs",
    "tasks.mjs",
];
/// Where the largest programs are pinned, which have a folder of their own so that another version of a small one does not
/// fetch them again.
const LARGE: &str = "programs-large";
/// The original, in the older SDK that one of them brings.
const ORIGINAL: &str =
    "node_modules/ai-sdk-provider-claude-code/node_modules/@anthropic-ai/claude-agent-sdk/cli.js";
/// Beginning of the table's section, which is the last of the page.
const HEAD: &str = "\
| program | check | original | `ah` |
| --- | --- | --- | --- |
";

/// The installed programs.
pub struct Programs {
    folder: PathBuf,
    /// Where the largest are.
    large: PathBuf,
    /// A Node for those that need a newer one than that of the machine may be.
    newer_node: PathBuf,
}

/// Installs the programs if necessary.
pub fn install() -> Result<Programs> {
    let interop = folder();
    let python = cache::python_version()?;
    let mut pins = vec![python.into_bytes(), cache::node_version()?.into_bytes()];
    pins.extend(cache::read(&interop, &PINS)?);
    pins.extend(cache::read(&sdk::folder(), &[sdk::SOURCES_PIN])?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    let folder = cache::installed("programs", &pins, |folder| {
        cache::install_python(&folder.join("python"), &interop.join("requirements.txt"))?;
        sdk::install_sources(folder, &sdk::folder().join(sdk::SOURCES_PIN))?;
        // The originals are optional packages, one per platform.
        cache::install_node(folder, &interop, &["--omit=optional"])
    })?;
    Ok(Programs {
        folder,
        large: large()?,
        newer_node: cache::newer_node()?,
    })
}

/// Installs the largest programs if necessary; returns their folder.
fn large() -> Result<PathBuf> {
    let interop = root().join("interop").join(LARGE);
    let mut pins = vec![cache::node_version()?.into_bytes()];
    pins.extend(cache::read(&interop, &PINS[..2])?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed(LARGE, &pins, |folder| {
        cache::install_node(folder, &interop, &["--omit=optional"])?;
        let original = folder.join(ORIGINAL);
        std::fs::remove_file(&original).with_context(|| format!("removing {}", original.display()))
    })
}

/// Runs the checks, and holds their outcomes against the table.
pub fn test(programs: &Programs) -> Result<()> {
    let original = std::env::var_os(sdk::BINARY).map(PathBuf::from);
    let binary = match &original {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("{}={}", sdk::BINARY, path.display()))?,
        None => built(COMMAND_LINE, "ah", "dev")?,
    };
    let outcomes = programs.run(&binary)?;
    let page = root().join(PAGE);
    let text = std::fs::read_to_string(&page)?;
    let (before, table) = text
        .split_once(HEAD)
        .with_context(|| format!("{PAGE} has no table of programs"))?;
    let rows = Rows::read(table)?.with(&outcomes, original.is_some());
    let new = format!("{before}{HEAD}{rows}");
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        std::fs::write(&page, &new)?;
    }
    let broken = rows.broken();
    if !broken.is_empty() {
        bail!(
            "fails with `ah` but not with the original: {}",
            broken.join(", ")
        );
    }
    if new != text && original.is_none() {
        bail!(
            "{PAGE} has other outcomes than this run; set AH_WRITE_DOCS=1 to bring it up to date"
        );
    }
    Ok(())
}

impl Programs {
    /// Runs all checks with `binary`; returns by name whether each passed.
    fn run(&self, binary: &Path) -> Result<BTreeMap<String, bool>> {
        let mut node = cache::offline(&Command::new("node"));
        node.current_dir(folder())
            .args(["--test", "--test-concurrency=2", "--test-reporter=tap"])
            .args(FILES)
            .env(sdk::BINARY, binary)
            .env("AH_TEST_LOOPBACK", built("ah-testkit", "loopback", "dev")?)
            .env("SDK_TS_DIR", &self.folder)
            .env("PROGRAMS_LARGE", &self.large)
            .env("PROGRAMS_NODE", &self.newer_node)
            .env("PROGRAMS_PYTHON", self.folder.join("python"));
        let mut outcomes = BTreeMap::new();
        sdk::each_line(&mut node, |line| outcomes.extend(outcome(line)))?;
        if outcomes.is_empty() {
            bail!("no check of the programs ran");
        }
        Ok(outcomes)
    }
}

/// Reads a line of the Test Anything Protocol: the name of a check, and whether it passed.
fn outcome(line: &str) -> Option<(String, bool)> {
    let (passed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (_, name) = rest.split_once(" - ")?;
    Some((name.to_owned(), passed))
}

/// Outcomes of a check, as the table's cells: `pass`, `fail`, or empty where it did not run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    original: String,
    ours: String,
}

/// Rows of the table by the name of the check.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rows(BTreeMap<String, Row>);

impl Rows {
    fn read(table: &str) -> Result<Self> {
        let mut rows = BTreeMap::new();
        for line in table.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [program, check, original, ours] = cells.as_slice() else {
                bail!("`{line}` is no row of the table of programs");
            };
            let row = Row {
                original: (*original).to_owned(),
                ours: (*ours).to_owned(),
            };
            rows.insert(format!("{program}: {check}"), row);
        }
        Ok(Self(rows))
    }

    /// Returns the rows of the checks that ran, with their `outcomes` in the column of the original or in ours.
    fn with(mut self, outcomes: &BTreeMap<String, bool>, is_original: bool) -> Self {
        let row = |(name, passed): (&String, &bool)| {
            let mut row = self.0.remove(name).unwrap_or_default();
            let cell = if *passed { "pass" } else { "fail" };
            *(if is_original {
                &mut row.original
            } else {
                &mut row.ours
            }) = cell.to_owned();
            (name.clone(), row)
        };
        Self(outcomes.iter().map(row).collect())
    }

    /// Returns the names of the checks that only fail with ours.
    fn broken(&self) -> Vec<&str> {
        let broken = self
            .0
            .iter()
            .filter(|(_, row)| row.ours == "fail" && row.original != "fail");
        broken.map(|(name, _)| name.as_str()).collect()
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, row) in &self.0 {
            let (program, check) = name.split_once(": ").unwrap_or((name, ""));
            writeln!(
                f,
                "| {program} | {check} | {} | {} |",
                row.original, row.ours
            )?;
        }
        Ok(())
    }
}

fn folder() -> PathBuf {
    root().join("interop/programs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| adapter | a cancel | pass | fail |
| adapter | gone | pass | pass |
| readers | a list | fail | fail |
";

    #[test]
    fn a_row_has_the_outcomes_of_both() {
        let lines = "TAP version 13\n# Subtest: adapter: a cancel\nok 1 - adapter: a cancel\n  ---\nnot ok 2 - readers: a list\nnot ok 3 - readers: new\n";
        let outcomes: BTreeMap<_, _> = lines.lines().filter_map(outcome).collect();
        let rows = Rows::read(TABLE).unwrap().with(&outcomes, false);
        insta::assert_snapshot!(rows.to_string(), @r"
        | adapter | a cancel | pass | pass |
        | readers | a list | fail | fail |
        | readers | new |  | fail |
        ");
        assert_eq!(rows.broken(), ["readers: new"]);
        let rows = rows.with(&BTreeMap::from([("readers: new".to_owned(), false)]), true);
        assert_eq!(rows.to_string(), "| readers | new | fail | fail |\n");
        assert!(rows.broken().is_empty());
    }

    #[test]
    fn what_is_no_row_is_a_fault() {
        assert!(Rows::read("| adapter | a cancel |").is_err());
    }
}
