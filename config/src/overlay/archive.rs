//! The archive: packs files, and unpacks untrusted bytes.

use std::io::{Cursor, Read as _, Write as _};

use ah_conversation::Embedded;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::entry::{ArchiveEntry, MAX_BYTES, MAX_FILES};
use super::seal::{FOOTER, MAGIC};

/// Returns the archive of these files, as appended to an executable. The same files give the same bytes.
///
/// # Errors
///
/// If a file cannot be packed; the text names it.
pub fn pack(entries: &[ArchiveEntry]) -> Result<Vec<u8>, String> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(entry.mode & 0o777);
        archive
            .start_file(&entry.path, options)
            .and_then(|()| Ok(archive.write_all(&entry.content)?))
            .map_err(|error| format!("cannot pack `{}`: {error}", entry.path))?;
    }
    let failed = |error: zip::result::ZipError| format!("cannot pack the files: {error}");
    archive.set_raw_comment(Box::new(seal(0))).map_err(failed)?;
    let mut bytes = archive.finish().map_err(failed)?.into_inner();
    // The comment is the last part, and its length is known only now.
    let seal = seal(bytes.len() as u64);
    let start = bytes.len() - seal.len();
    bytes[start..].copy_from_slice(&seal);
    Ok(bytes)
}

/// Returns the comment that identifies an archive; `length` is that of the whole archive.
fn seal(length: u64) -> [u8; FOOTER as usize] {
    let mut footer = [0; FOOTER as usize];
    footer[..8].copy_from_slice(&length.to_le_bytes());
    footer[8..].copy_from_slice(&MAGIC);
    footer
}

/// The files of an archive.
///
/// # Errors
///
/// If it is damaged, too large, or holds anything but plain files in its folder; the text says what.
pub fn unpack(archive: &[u8]) -> Result<Vec<ArchiveEntry>, String> {
    unpack_within(archive, MAX_FILES, MAX_BYTES)
}

fn unpack_within(
    archive: &[u8],
    max_files: usize,
    max_bytes: u64,
) -> Result<Vec<ArchiveEntry>, String> {
    let mut archive = ZipArchive::new(Cursor::new(archive)).map_err(|error| error.to_string())?;
    if archive.len() > max_files {
        return Err(format!("it has more than {max_files} files"));
    }
    let mut entries = Vec::new();
    let mut left = max_bytes;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|error| error.to_string())?;
        let path = file.name().map_err(|error| error.to_string())?.into_owned();
        if file.is_dir() {
            continue;
        }
        if file.is_symlink() {
            return Err(format!("`{path}` is a symbolic link"));
        }
        check(&path)?;
        let mode = file.unix_mode().unwrap_or(0o644) & 0o777;
        let mut content = Vec::new();
        // The size in a header is not trustworthy.
        file.take(left + 1)
            .read_to_end(&mut content)
            .map_err(|error| format!("`{path}`: {error}"))?;
        left = left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| format!("its files have more than {max_bytes} bytes"))?;
        entries.push(ArchiveEntry {
            path,
            mode,
            content,
        });
    }
    Ok(entries)
}

/// Rejects a path that leads out of the folder.
fn check(path: &str) -> Result<(), String> {
    let file = ah_conversation::EmbeddedFile {
        content: Vec::new().into(),
        is_executable: false,
    };
    let mut alone = Embedded::default();
    alone.insert(path, file).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, content: &str) -> ArchiveEntry {
        ArchiveEntry {
            path: path.to_owned(),
            mode: 0o644,
            content: content.into(),
        }
    }

    /// Returns an archive as another program may create it.
    fn foreign(fill: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        fill(&mut archive);
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn what_is_packed_is_unpacked_and_the_same_files_give_the_same_bytes() {
        let program = ArchiveEntry {
            mode: 0o755,
            ..entry("bin/run", "#!/bin/sh\n")
        };
        let entries = [program, entry("empty", ""), entry("sök/x", "y")];
        let packed = pack(&entries).unwrap();
        assert_eq!(packed, pack(&entries).unwrap());
        assert_eq!(packed[packed.len() - 16..], seal(packed.len() as u64));
        assert_eq!(unpack(&packed).unwrap(), entries);
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["../x", "a/../../x", "/etc/x", "a\\..\\x", "./x", "a//x"] {
            let archive = foreign(|archive| {
                archive
                    .start_file(path, SimpleFileOptions::default())
                    .unwrap();
            });
            // The library makes some of these paths harmless by itself.
            let Ok(entries) = unpack(&archive) else {
                continue;
            };
            let kept: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
            assert!(check(kept[0]).is_ok(), "{path} is {kept:?}");
            assert_ne!(kept[0], path);
        }
        let link = foreign(|archive| {
            let options = SimpleFileOptions::default();
            archive.add_symlink("link", "/etc/passwd", options).unwrap();
        });
        assert_eq!(unpack(&link), Err("`link` is a symbolic link".to_owned()));
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = foreign(|archive| {
            for name in ["a", "b"] {
                let options = SimpleFileOptions::default();
                archive.start_file(name, options).unwrap();
                archive.write_all(&vec![0; 600_000]).unwrap();
            }
        });
        assert!(bomb.len() < 10_000, "{}", bomb.len());
        for (files, bytes, expected) in [
            (2, 1_200_000, None),
            (2, 1_199_999, Some("its files have more than 1199999 bytes")),
            (1, 1_200_000, Some("it has more than 1 files")),
        ] {
            let unpacked = unpack_within(&bomb, files, bytes);
            assert_eq!(unpacked.err().as_deref(), expected);
        }
    }

    #[test]
    fn damage_anywhere_is_an_error_or_harmless() {
        let entries = [
            entry("settings.json", "{\"model\": \"haiku\"}"),
            entry("a/b", "c"),
        ];
        let packed = pack(&entries).unwrap();
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x55;
            // Names and times have no checksum; the contents have.
            if let Ok(found) = unpack(&damaged) {
                for found in found {
                    assert!(entries.iter().any(|entry| entry.content == found.content));
                    assert!(check(&found.path).is_ok());
                }
            }
            let _ = unpack(&packed[..at]);
        }
    }
}
