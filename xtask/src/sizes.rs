//! Upper bounds of whole crates and of the files of subcommands. Single files and functions are in [`tidy`].

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tidy;

/// The largest part of all lines that one crate may have, in percent.
const CRATE_PERCENT: usize = 14;
/// The folder with a file for each subcommand, and the lines that each may have.
const COMMANDS: &str = "cli/src/commands/";
const COMMAND_LINES: usize = 250;

/// Lines of Rust in one file below a crate's `src`.
struct Size {
    folder: String,
    path: String,
    /// All lines.
    lines: usize,
    /// Lines before the tests; 0 in a file of tests.
    code: usize,
}

/// Returns crates and files that are too long, one line each.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut sizes = Vec::new();
    for folder in folders {
        for path in tidy::files(root, &Path::new(folder).join("src"))? {
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(root.join(&path))
                .with_context(|| format!("reading {}", path.display()))?;
            let is_test = path.ends_with("tests.rs");
            sizes.push(Size {
                folder: folder.clone(),
                path: path.to_string_lossy().into_owned(),
                lines: text.lines().count(),
                code: if is_test {
                    0
                } else {
                    tidy::without_tests(&text).lines().count()
                },
            });
        }
    }
    Ok(faults_of(&sizes))
}

fn faults_of(sizes: &[Size]) -> Vec<String> {
    let total: usize = sizes.iter().map(|size| size.lines).sum();
    let mut faults = Vec::new();
    for crate_sizes in sizes.chunk_by(|size, next| size.folder == next.folder) {
        let lines: usize = crate_sizes.iter().map(|size| size.lines).sum();
        if lines * 100 > total * CRATE_PERCENT {
            let folder = &crate_sizes[0].folder;
            faults.push(format!(
                "{folder}/src: {lines} of {total} lines, more than {CRATE_PERCENT} % in one crate; split it, or move a \
                 part to the crate below that it belongs to"
            ));
        }
    }
    for size in sizes {
        if size.path.starts_with(COMMANDS) && size.code > COMMAND_LINES {
            faults.push(format!(
                "{}: {} lines, more than {COMMAND_LINES} for a subcommand; move what it computes to a file of its own",
                size.path, size.code
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(folder: &str, path: &str, lines: usize, code: usize) -> Size {
        Size {
            folder: folder.to_owned(),
            path: format!("{folder}/src/{path}"),
            lines,
            code,
        }
    }

    #[test]
    fn a_crate_with_too_many_of_all_lines_is_refused() {
        let even: Vec<_> = "abcdefgh"
            .chars()
            .map(|name| size(&name.to_string(), "lib.rs", 500, 500))
            .collect();
        assert!(faults_of(&even).is_empty());
        let mut uneven = even;
        uneven.push(size("z", "lib.rs", 400, 400));
        uneven.push(size("z", "x.rs", 400, 400));
        assert_eq!(
            faults_of(&uneven),
            [
                "z/src: 800 of 4800 lines, more than 14 % in one crate; split it, or move a part to the crate below that \
                 it belongs to"
            ]
        );
    }

    #[test]
    fn a_long_file_of_a_subcommand_is_refused() {
        let others = "abcdefghijkl".chars();
        let mut sizes: Vec<_> = others
            .map(|name| size(&name.to_string(), "lib.rs", 500, 500))
            .collect();
        sizes.push(size("cli", "commands/run.rs", 400, 250));
        sizes.push(size("cli", "args.rs", 251, 251));
        assert!(faults_of(&sizes).is_empty());
        sizes.push(size("cli", "commands/undo/way.rs", 251, 251));
        assert_eq!(
            faults_of(&sizes),
            [
                "cli/src/commands/undo/way.rs: 251 lines, more than 250 for a subcommand; move what it computes to a \
                 file of its own"
            ]
        );
    }
}
