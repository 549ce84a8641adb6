//! Archives that are the same whenever and by whomever they are packed: the files in the order given, owned by root, all
//! of one time.

use std::io::{Cursor, Write as _};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::workspace::root;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative, with slashes.
    pub path: String,
    /// The contents.
    pub bytes: Vec<u8>,
    is_program: bool,
}

impl Entry {
    /// A file to read.
    pub fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
            is_program: false,
        }
    }

    /// A file to run.
    pub fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            is_program: true,
            ..Self::file(path, bytes)
        }
    }

    /// A file of the repository, by its path there, which it keeps.
    pub fn of_repository(path: &str) -> Result<Self> {
        Ok(Self::file(path, read(&root().join(path))?))
    }

    /// The same file in a folder.
    pub fn within(self, folder: &str) -> Self {
        Self {
            path: format!("{folder}/{}", self.path),
            ..self
        }
    }

    fn mode(&self) -> u32 {
        if self.is_program { 0o755 } else { 0o644 }
    }
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Returns a compressed tar archive; `time` is in seconds since 1970.
pub fn tar_gz(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    // Without a name and a time of its own.
    let compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(compressed);
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.bytes.len().try_into()?);
        header.set_mode(entry.mode());
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
    }
    Ok(archive.into_inner()?.finish()?)
}

/// Returns a zip archive. Its times are the first that the format can express: it has no time zones.
pub fn zip(entries: &[Entry]) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    for entry in entries {
        archive.start_file(&entry.path, options.unix_permissions(entry.mode()))?;
        archive.write_all(&entry.bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_give_equal_archives() {
        let entries = [
            Entry::program("bin/ah", "program"),
            Entry::file("README.md", "text"),
        ];
        assert_eq!(
            tar_gz(&entries, 1_700_000_000).unwrap(),
            tar_gz(&entries, 1_700_000_000).unwrap()
        );
        assert_eq!(zip(&entries).unwrap(), zip(&entries).unwrap());
    }

    #[test]
    fn a_tar_archive_has_modes_times_and_no_owner() {
        let entries = [Entry::program("ah", "program"), Entry::file("README", "")];
        let bytes = tar_gz(&entries, 1_700_000_000).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let listed: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let owner = (header.uid().unwrap(), header.gid().unwrap());
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.mtime().unwrap(), owner)
            })
            .collect();
        assert_eq!(
            listed,
            [
                ("ah".to_owned(), 0o755, 1_700_000_000, (0, 0)),
                ("README".to_owned(), 0o644, 1_700_000_000, (0, 0)),
            ]
        );
    }
}
