//! House rules for single files that neither rustc nor clippy checks.
//!
//! They work on text, not syntax: rustfmt formats every source, so a function ends at the closing brace with the same
//! indentation as its first line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 80;
/// Words in file names that say nothing about the content.
const EMPTY_NAMES: [&str; 9] = [
    "util", "utils", "common", "helper", "helpers", "manager", "core", "misc", "v2",
];
/// Folders that are not checked: build output, files left by runs, and the corpus of arbitrary inputs.
const SKIPPED_FOLDERS: [&str; 6] = ["target", ".git", ".ah", ".venv", "node_modules", "corpus"];
/// Crate that confines processes, which needs `unsafe`.
const UNSAFE_CRATE: &str = "sandbox";
/// Crates that know tools only through their port, and names of tools that have no other meaning there.
const TOOLLESS_CRATES: [&str; 4] = ["conversation", "provider", "store", "agent"];
const TOOL_NAMES: [&str; 4] = ["bash", "edit", "glob", "grep"];

/// Returns all violations in the tree, one line each.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in files(root, Path::new(""))? {
        let bytes =
            fs::read(root.join(&path)).with_context(|| format!("reading {}", path.display()))?;
        if let Ok(text) = String::from_utf8(bytes) {
            faults.extend(
                faults_of(&path, &text)
                    .into_iter()
                    .map(|fault| format!("{}: {fault}", path.display())),
            );
        }
    }
    Ok(faults)
}

/// Returns all files below `folder` of the root, as paths below the root, sorted. Links are not followed.
pub fn files(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?
        {
            let entry = entry?;
            let kind = entry.file_type()?;
            let is_skipped = SKIPPED_FOLDERS
                .iter()
                .any(|skipped| entry.file_name() == *skipped);
            if kind.is_dir() && !is_skipped {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(root)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn faults_of(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push("the last line has no newline; add one".to_owned());
    }
    let is_test = path
        .components()
        .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
    if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
        faults.extend(faults_of_source(path, without_tests(text)));
    }
    faults
}

fn faults_of_source(path: &Path, source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut faults = Vec::new();

    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if stem.split('_').any(|word| EMPTY_NAMES.contains(&word)) {
        faults.push(
            "the file name does not say what the file is about; name it after its concept"
                .to_owned(),
        );
    }
    if lines.len() > FILE_LINES {
        faults.push(format!(
            "{} lines, more than {FILE_LINES}; split the file",
            lines.len()
        ));
    }
    for function in functions(&lines) {
        if function.length > FUNCTION_LINES {
            let Function { name, line, length } = function;
            faults.push(format!(
                "line {line}: `{name}` has {length} lines, more than {FUNCTION_LINES}; split the function"
            ));
        }
    }

    let is_in = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    for (number, line) in (1..).zip(&lines) {
        let code = line.split("//").next().unwrap_or(line);
        if code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == "unsafe")
            && !is_in(&[UNSAFE_CRATE, "xtask"])
        {
            faults.push(format!(
                "line {number}: `unsafe` outside `{UNSAFE_CRATE}`; move it there"
            ));
        }
        for name in TOOL_NAMES {
            if is_in(&TOOLLESS_CRATES) && code.contains(&format!("\"{name}\"")) {
                faults.push(format!(
                    "line {number}: names the tool `{name}`; use the port instead"
                ));
            }
        }
    }
    faults
}

/// Returns the source up to its test module, which is last.
pub fn without_tests(text: &str) -> &str {
    let is_module = |(start, attribute): &(usize, &str)| {
        let mut item = text[start + attribute.len()..].lines();
        // Indented lines and lines that begin like this belong to attributes.
        item.find(|line| !line.starts_with([' ', '#', ')']))
            .is_some_and(|line| line.starts_with("mod tests"))
    };
    match text.match_indices("#[cfg(test)]\n").find(is_module) {
        Some((start, _)) => &text[..start],
        None => text,
    }
}

struct Function<'a> {
    name: &'a str,
    /// 1-based line of its start.
    line: usize,
    length: usize,
}

fn functions<'a>(lines: &[&'a str]) -> Vec<Function<'a>> {
    lines
        .iter()
        .enumerate()
        .filter_map(|(start, line)| {
            let (indent, name) = function_name(line)?;
            let closes = |line: &str| {
                line.strip_prefix(indent).is_some_and(|rest| {
                    rest == "}" || (rest.starts_with(')') && rest.ends_with(';'))
                })
            };
            let ends_at_once = line.ends_with(';') || line.ends_with('}');
            let rest = if ends_at_once {
                0
            } else {
                lines[start + 1..].iter().position(|line| closes(line))? + 1
            };
            Some(Function {
                name,
                line: start + 1,
                length: rest + 1,
            })
        })
        .collect()
}

/// Returns the indentation and the name if a function starts on this line.
fn function_name(line: &str) -> Option<(&str, &str)> {
    let declaration = line.trim_start();
    let indent = &line[..line.len() - declaration.len()];
    let (before, after) = match declaration.strip_prefix("fn ") {
        Some(after) => ("", after),
        None => declaration.split_once(" fn ")?,
    };
    let is_modifier = |word: &str| {
        matches!(
            word,
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\""
        ) || word.starts_with("pub(")
    };
    let name = after
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    before
        .split_whitespace()
        .all(is_modifier)
        .then_some((indent, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_end_where_their_indentation_does() {
        let text = "\
fn one() {}
pub(crate) async fn two() {
    if true {
    }
}
impl X {
    fn three(
        a: u8,
    ) -> u8 {
        a
    }
    fn four(
        &self,
    ) -> u8;
    // fn five() {
}
";
        let lines: Vec<&str> = text.lines().collect();
        let found: Vec<_> = functions(&lines)
            .iter()
            .map(|f| format!("{} {} {}", f.name, f.line, f.length))
            .collect();
        assert_eq!(found, ["one 1 1", "two 2 4", "three 7 5", "four 12 3"]);
    }

    #[test]
    fn each_rule_is_broken_by_one_text() {
        let long_file = "// x\n".repeat(601);
        let long_function = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(79));
        let tests_do_not_count = format!(
            "fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            "    // x\n".repeat(601)
        );
        let below = "fn f() {\n    g();\n}\n";
        for (path, text, expected) in [
            ("agent/src/session.rs", below, 0),
            ("agent/src/session.rs", "fn f() {}", 1),
            ("agent/src/session.rs", &long_file, 1),
            ("agent/src/session.rs", &long_function, 1),
            ("agent/src/session.rs", &tests_do_not_count, 0),
            ("agent/tests/it/session.rs", &long_file, 0),
            ("agent/src/http_utils.rs", below, 1),
            ("agent/src/session.rs", "unsafe { f() }\n", 1),
            ("agent/src/session.rs", "// Nothing unsafe.\n", 0),
            ("sandbox/src/lib.rs", "unsafe { f() }\n", 0),
            ("agent/src/session.rs", "name == \"bash\"\n", 1),
            ("tools/src/bash.rs", "name == \"bash\"\n", 0),
        ] {
            assert_eq!(
                faults_of(Path::new(path), text).len(),
                expected,
                "{path}\n{text}"
            );
        }
    }
}
