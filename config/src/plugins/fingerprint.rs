//! What the files of an installed plugin are, as one hash: a yes to a plugin is a yes to these files and no others.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Deepest folder that is looked at; copies are not as deep.
const MAX_DEPTH: usize = 32;
/// Folder that Python leaves beside its sources, and the ending of what it puts there. Copies have none of it, so that what is not
/// in the hash is not from whoever made the plugin.
pub const MADE_BY_PYTHON: &str = "__pycache__";
const COMPILED: &str = "pyc";

/// Returns the hash of the names, contents and permissions to run of all files in a folder, in hexadecimal digits. A link
/// counts by its target.
///
/// # Errors
///
/// If the folder cannot be read, or is too deep.
pub fn fingerprint(folder: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    add(folder, Path::new(""), 0, &mut hash)?;
    let digits = hash.finalize();
    Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn add(folder: &Path, below: &Path, depth: usize, hash: &mut Sha256) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("the plugin's folders are too deep"));
    }
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = entries.collect::<Result<Vec<_>, _>>()?;
    names.sort();
    let is_of_python = below.ends_with(MADE_BY_PYTHON);
    for name in names {
        let (path, below) = (folder.join(&name), below.join(&name));
        let metadata = fs::symlink_metadata(&path)?;
        let is_compiled = path.extension().is_some_and(|ending| ending == COMPILED);
        if is_of_python && is_compiled && metadata.is_file() {
            continue;
        }
        if metadata.is_dir() {
            add(&path, &below, depth + 1, hash)?;
            continue;
        }
        let (kind, content) = if metadata.is_symlink() {
            (
                "link",
                fs::read_link(&path)?.into_os_string().into_encoded_bytes(),
            )
        } else if metadata.is_file() {
            let runs = metadata.permissions().mode() & 0o111 != 0;
            (if runs { "program" } else { "file" }, fs::read(&path)?)
        } else {
            ("other", Vec::new())
        };
        for part in [
            below.as_os_str().as_encoded_bytes(),
            kind.as_bytes(),
            &content,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What changes one property of the files in a folder.
    type Change = fn(&Path) -> io::Result<()>;

    #[test]
    fn whatever_differs_is_another_fingerprint_but_for_what_python_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::create_dir_all(at.join("bin")).unwrap();
        fs::write(at.join("bin/run"), "one").unwrap();
        symlink("bin/run", at.join("link")).unwrap();
        let mut seen = vec![fingerprint(at).unwrap()];
        let changes: [Change; 6] = [
            |at| fs::write(at.join("bin/run"), "two"),
            |at| fs::set_permissions(at.join("bin/run"), fs::Permissions::from_mode(0o755)),
            |at| fs::rename(at.join("bin/run"), at.join("bin/walk")),
            |at| fs::write(at.join("new"), ""),
            |at| fs::remove_file(at.join("link")),
            |at| symlink("new", at.join("link")),
        ];
        for change in changes {
            change(at).unwrap();
            let now = fingerprint(at).unwrap();
            assert!(!seen.contains(&now));
            seen.push(now);
        }
        fs::create_dir(at.join("bin/__pycache__")).unwrap();
        fs::write(at.join("bin/__pycache__/run.pyc"), "compiled").unwrap();
        assert_eq!(fingerprint(at).unwrap(), *seen.last().unwrap());
        assert!(fingerprint(&at.join("none")).is_err());
    }
}
