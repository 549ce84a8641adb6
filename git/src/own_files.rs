//! Files that `ah` keeps in a project. The project can be anybody's: a link in it must not lead what is written to another
//! file of the user's, nor another file to the model.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Creates a folder below `top`, and those on the way, and has git ignore what is in it.
///
/// # Errors
///
/// If it cannot be created, or something on the way is a link or a file.
pub fn create_ignored_folder(top: &Path, folder: &Path) -> io::Result<()> {
    create_folder(top, folder)?;
    match File::create_new(folder.join(".gitignore")) {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a folder below `top`, and those on the way.
///
/// # Errors
///
/// If it cannot be created, or something on the way is a link or a file.
pub fn create_folder(top: &Path, folder: &Path) -> io::Result<()> {
    let mut part = top.to_owned();
    for component in folder.strip_prefix(top).unwrap_or(folder) {
        part.push(component);
        match DirBuilder::new().create(&part) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if is_real_folder(&part) => {}
            _ => {
                let reason = format!("`{}` is a link or a file", part.display());
                return Err(io::Error::other(reason));
            }
        }
    }
    Ok(())
}

/// Opens a file to lock it, and creates it if it is missing.
///
/// # Errors
///
/// If it cannot be opened, or is a link.
pub fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Returns whether a file below `top` and the folders on the way are what they seem, and not links.
pub fn is_real_file(top: &Path, path: &Path) -> bool {
    let mut way = path.ancestors().skip(1).take_while(|folder| *folder != top);
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && path.starts_with(top)
        && way.all(is_real_folder)
}

/// Returns whether there is a folder at this path, and not a link to one.
pub fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (top, elsewhere) = (folder.path().join("top"), folder.path().join("elsewhere"));
        for path in [&top, &elsewhere] {
            fs::create_dir(path).unwrap();
        }
        let precious = elsewhere.join("precious");
        fs::write(&precious, "x").unwrap();
        symlink(&elsewhere, top.join("link")).unwrap();
        for below in ["link", "link/more"] {
            let refused = create_ignored_folder(&top, &top.join(below)).unwrap_err();
            assert!(refused.to_string().ends_with("link` is a link or a file"));
        }
        let own = top.join("a/b");
        create_ignored_folder(&top, &own).unwrap();
        fs::remove_file(own.join(".gitignore")).unwrap();
        for name in [".gitignore", "lock"] {
            symlink(&precious, own.join(name)).unwrap();
        }
        create_ignored_folder(&top, &own).unwrap();
        open_lock(&own.join("lock")).unwrap_err();
        open_lock(&own.join("new")).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"x");
        assert!(!elsewhere.join(".gitignore").exists() && !elsewhere.join("more").exists());
        for (name, expected) in [("a/b/new", true), ("a/b/lock", false), ("a/b", false)] {
            assert_eq!(is_real_file(&top, &top.join(name)), expected, "{name}");
        }
        assert!(!is_real_file(&top, &top.join("link/precious")));
        assert!(!is_real_file(&top, &precious));
    }
}
