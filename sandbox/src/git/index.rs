//! Finds the submodules in a git index: its entries with the mode of a commit. Nothing else of it is kept, so an index
//! of a million files is read in passing.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Mode of an entry that is a commit of another repository.
const GITLINK: u32 = 0o160_000;
/// Length of an entry's times, numbers, owner and size.
const STAT: usize = 40;

/// Returns the paths of the submodules in the index at `path`, relative to the work tree. `id_length` is the length of
/// an object id in bytes.
///
/// # Errors
///
/// If it is no index that git would read.
pub(super) fn gitlinks(path: &Path, id_length: usize) -> io::Result<Vec<PathBuf>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Err(malformed());
    }
    let own = Index::read(path, id_length, |mode, _| mode == GITLINK)?;
    let Some(base) = own.base else {
        return Ok(own.paths);
    };
    // A split index: the entries that changed, and a shared index with the others.
    let folder = path.parent().unwrap_or(Path::new("."));
    let shared = folder.join(format!("sharedindex.{base}"));
    // An entry that replaces another has no name of its own; so each folder is taken for what it may be.
    let tree = folder.parent().unwrap_or(folder);
    let has_unnamed = own.paths.iter().any(|path| path.as_os_str().is_empty());
    let base = Index::read(&shared, id_length, |mode, path| {
        mode == GITLINK || (has_unnamed && tree.join(path).is_dir())
    })?;
    let named = own.paths.into_iter();
    Ok(named
        .filter(|path| !path.as_os_str().is_empty())
        .chain(base.paths)
        .collect())
}

/// What is kept of an index.
struct Index {
    paths: Vec<PathBuf>,
    /// Id of the shared index, in hexadecimal digits.
    base: Option<String>,
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an index of git")
}

impl Index {
    /// Reads the index at `path`, and keeps the paths of the entries that `is_kept` names by mode and path.
    fn read(
        path: &Path,
        id_length: usize,
        is_kept: impl Fn(u32, &Path) -> bool,
    ) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut header = [0; 12];
        reader.read_exact(&mut header)?;
        let version = number(&header[4..8]);
        if &header[..4] != b"DIRC" || !(2..=4).contains(&version) {
            return Err(malformed());
        }
        let mut paths = Vec::new();
        let mut name = Vec::new();
        for _ in 0..number(&header[8..12]) {
            let mode = entry(&mut reader, version, id_length, &mut name)?;
            let path = Path::new(OsStr::from_bytes(&name));
            paths.extend(is_kept(mode, path).then(|| path.to_owned()));
        }
        let base = base(&mut reader, length, id_length)?;
        Ok(Self { paths, base })
    }
}

/// Reads one entry: returns its mode, and leaves its path in `name`, which holds the path of the entry before.
fn entry(
    reader: &mut BufReader<File>,
    version: u32,
    id_length: usize,
    name: &mut Vec<u8>,
) -> io::Result<u32> {
    // Times, numbers and sizes; the id; the flags.
    let mut fixed = [0; STAT + 32 + 2];
    let fixed = &mut fixed[..STAT + id_length + 2];
    reader.read_exact(fixed)?;
    let mode = number(&fixed[24..28]);
    let flags = &fixed[STAT + id_length..];
    let is_extended = version > 2 && flags[0] & 0x40 != 0;
    if is_extended {
        reader.read_exact(&mut [0; 2])?;
    }
    if version == 4 {
        // The path is what it shares with the one before, and the rest.
        let dropped = varint(reader)?;
        let kept = name.len().checked_sub(dropped).ok_or_else(malformed)?;
        name.truncate(kept);
        until_nul(reader, name)?;
    } else {
        name.clear();
        until_nul(reader, name)?;
        // At least one NUL, and as many as make the length a multiple of eight.
        let length = fixed.len() + usize::from(is_extended) * 2 + name.len();
        reader.read_exact(&mut [0; 8][..7 - length % 8])?;
    }
    Ok(mode)
}

/// Appends the bytes up to the next NUL, which is skipped.
fn until_nul(reader: &mut BufReader<File>, name: &mut Vec<u8>) -> io::Result<()> {
    reader.read_until(0, name)?;
    (name.pop() == Some(0)).then_some(()).ok_or_else(malformed)
}

/// Reads a number in git's encoding of offsets.
fn varint(reader: &mut BufReader<File>) -> io::Result<usize> {
    let mut byte = [0];
    let mut value = 0usize;
    for more in [false, true, true, true] {
        reader.read_exact(&mut byte)?;
        value = (value + usize::from(more)) << (7 * u32::from(more)) | usize::from(byte[0] & 0x7f);
        if byte[0] & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(malformed())
}

/// Reads the extensions, and returns the id of the shared index if there is one.
fn base(reader: &mut BufReader<File>, length: u64, id_length: usize) -> io::Result<Option<String>> {
    // The index ends with its checksum.
    let end = length.checked_sub(id_length as u64).ok_or_else(malformed)?;
    let mut position = reader.stream_position()?;
    while position < end {
        let mut header = [0; 8];
        reader.read_exact(&mut header)?;
        let size = i64::from(number(&header[4..]));
        match &header[..4] {
            b"link" => {
                let mut id = vec![0; id_length];
                reader.read_exact(&mut id)?;
                let is_set = id.iter().any(|byte| *byte != 0);
                let digits = id.iter().map(|byte| format!("{byte:02x}"));
                return Ok(is_set.then(|| digits.collect()));
            }
            // A sparse index: folders that are not checked out.
            b"sdir" => reader.seek_relative(size)?,
            name if name[0].is_ascii_uppercase() => reader.seek_relative(size)?,
            // Git refuses what it does not know and must.
            _ => return Err(malformed()),
        }
        position += 8 + size.unsigned_abs();
    }
    Ok(None)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, words: &str) -> String {
        let script = format!("git -c user.name=a -c user.email=a@b {words}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Lays a repository with three submodules among files.
    fn laid(format: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        git(root, &format!("init -q --object-format={format} ."));
        for name in ["a/a", "a/b", "lib/x/y", "z"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        git(
            root,
            "add . && git -c user.name=a -c user.email=a@b commit -q -m a",
        );
        let head = git(root, "rev-parse HEAD");
        for name in ["a/module", "lib/x/m-with-a-long-name-of-many-letters", "zz"] {
            let entry = format!(
                "update-index --add --cacheinfo 160000,{},{name}",
                head.trim()
            );
            git(root, &entry);
        }
        folder
    }

    fn seen(root: &Path, id_length: usize) -> Vec<String> {
        let found = gitlinks(&root.join(".git/index"), id_length).unwrap();
        let mut found: Vec<_> = found
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn submodules_are_found_in_every_kind_of_index() {
        let expected = ["a/module", "lib/x/m-with-a-long-name-of-many-letters", "zz"];
        for (format, id_length) in [("sha1", 20), ("sha256", 32)] {
            for kind in [
                "status",
                "update-index --index-version 4",
                "update-index --index-version 2",
                "add -N z && touch n && git add -N n",
                "update-index --split-index",
                "update-index --split-index && git rm -q --cached z",
            ] {
                let folder = laid(format);
                git(folder.path(), kind);
                assert_eq!(seen(folder.path(), id_length), expected, "{format} {kind}");
            }
        }
    }

    #[test]
    fn a_file_that_became_a_submodule_in_a_split_index_is_found() {
        let folder = laid("sha1");
        let root = folder.path();
        let head = git(root, "rev-parse HEAD");
        git(root, "update-index --split-index");
        git(root, "-c splitIndex.maxPercentChange=100 rm -q --cached z");
        fs::remove_file(root.join("z")).unwrap();
        fs::create_dir(root.join("z")).unwrap();
        let entry = format!(
            "-c splitIndex.maxPercentChange=100 update-index --add --cacheinfo 160000,{},z",
            head.trim()
        );
        git(root, &entry);
        assert!(
            seen(root, 20).contains(&"z".to_owned()),
            "{:?}",
            seen(root, 20)
        );
    }

    #[test]
    fn what_is_no_index_is_an_error() {
        let folder = laid("sha1");
        let path = folder.path().join(".git/index");
        let whole = fs::read(&path).unwrap();
        assert!(
            gitlinks(&folder.path().join("none"), 20)
                .unwrap()
                .is_empty()
        );
        for text in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x09\0\0\0\0",
            &whole[..100],
            &whole[4..],
        ] {
            fs::write(&path, text).unwrap();
            assert!(gitlinks(&path, 20).is_err());
        }
    }
}
