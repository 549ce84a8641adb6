//! What a project tells agents: `CLAUDE.md` and `AGENTS.md`, from the user's own down to the working directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::prompt::ProjectFile;

/// The names, in the order in which one directory's files are read.
const NAMES: [&str; 2] = ["CLAUDE.md", "AGENTS.md"];
/// A file is cut here: instructions for agents are read in every session.
const MAX_BYTES: usize = 100_000;

/// The instruction files that hold in `cwd`: those of `user_folders`, then of every directory from `root` down to
/// `cwd`. Of two files with the same text, or that are the same file, the first counts. The second value names what
/// could not be read, or was cut.
pub fn instructions(
    user_folders: &[PathBuf],
    root: &Path,
    cwd: &Path,
) -> (Vec<ProjectFile>, Vec<String>) {
    let mut folders: Vec<&Path> = cwd
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .collect();
    folders.reverse();
    let folders = user_folders.iter().map(PathBuf::as_path).chain(folders);
    let mut files: Vec<ProjectFile> = Vec::new();
    let mut warnings = Vec::new();
    for path in folders.flat_map(|folder| NAMES.map(|name| folder.join(name))) {
        match read(&path, &mut warnings) {
            Some(text)
                if !text.trim().is_empty() && !files.iter().any(|file| file.text == text) =>
            {
                files.push(ProjectFile {
                    label: path.display().to_string(),
                    text,
                });
            }
            _ => {}
        }
    }
    (files, warnings)
}

fn read(path: &Path, warnings: &mut Vec<String>) -> Option<String> {
    // A name may stand for a pipe or a device as well: only files are read.
    if !path.is_file() {
        return None;
    }
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            warnings.push(format!("cannot read `{}`: {error}", path.display()));
            return None;
        }
    };
    let mut text = String::from_utf8_lossy(&bytes)
        .trim_start_matches('\u{FEFF}')
        .to_owned();
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        warnings.push(format!(
            "`{}` is cut after {MAX_BYTES} bytes",
            path.display()
        ));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_from_the_general_to_the_special_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("home/CLAUDE.md", "user"),
            ("above/AGENTS.md", "not of this project"),
            ("above/root/CLAUDE.md", "\u{FEFF}project"),
            ("above/root/sub/AGENTS.md", "part"),
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        }
        std::os::unix::fs::symlink("CLAUDE.md", path("above/root/AGENTS.md")).unwrap();
        fs::create_dir_all(path("above/root/sub/CLAUDE.md")).unwrap();
        let (files, warnings) = instructions(
            &[path("home")],
            &path("above/root"),
            &path("above/root/sub"),
        );
        let texts: Vec<_> = files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, ["user", "project", "part"]);
        assert_eq!(warnings, Vec::<String>::new());
    }
}
