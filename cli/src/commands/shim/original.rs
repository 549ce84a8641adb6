//! Whether a program is the one that its package came with.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::found::{Kind, Place, WHEEL};

/// Checks that the file is the one that the package came with.
pub fn is_original(place: &Place) -> Result<(), String> {
    let metadata = fs::metadata(&place.program).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    match &place.kind {
        Kind::Python { records } => {
            let texts = records
                .iter()
                .filter_map(|record| fs::read_to_string(record).ok());
            let mut lines =
                texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
            let line = lines.find(|line| line.starts_with(&format!("{WHEEL},")));
            let line = line.ok_or("the package's list of files (RECORD) does not name it")?;
            let mut cells = line.split(',').skip(1);
            let hash = cells.next().and_then(|cell| cell.strip_prefix("sha256="));
            let size = cells.next().and_then(|cell| cell.parse::<u64>().ok());
            let is_listed =
                size == Some(metadata.len()) && hash == digest(&place.program).ok().as_deref();
            if is_listed {
                Ok(())
            } else {
                Err("it is not the file that the package came with".to_owned())
            }
        }
        Kind::Node { .. } => {
            let mut start = [0; 4];
            let read = File::open(&place.program).and_then(|mut file| file.read_exact(&mut start));
            // Programs for Linux, and for macOS for one processor or several.
            let known: [[u8; 4]; 3] = [
                *b"\x7fELF",
                [0xcf, 0xfa, 0xed, 0xfe],
                [0xca, 0xfe, 0xba, 0xbe],
            ];
            if read.is_ok() && known.contains(&start) {
                Ok(())
            } else {
                Err("it is not a program for this platform".to_owned())
            }
        }
    }
}

/// Returns the SHA-256 hash of a file as wheels list it.
fn digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => break,
            read => hash.update(&part[..read]),
        }
    }
    Ok(URL_SAFE_NO_PAD.encode(hash.finalize()))
}
