//! The executable: the plain program and the archive at its end, if there is one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::archive;
use super::entry::{ArchiveEntry, MAX_BYTES};
use super::seal::{FOOTER, MAGIC};

/// An executable of this program.
pub struct Executable {
    file: File,
    len: u64,
    /// Length of the archive in bytes; 0 without one.
    archive: u64,
}

impl Executable {
    /// Opens the file of the running program, even if it has been replaced since.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn running() -> io::Result<Self> {
        let file = File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?));
        Self::of(file?)
    }

    fn of(mut file: File) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        let mut archive = 0;
        if let Some(start) = len.checked_sub(FOOTER) {
            let mut footer = [0; FOOTER as usize];
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(&mut footer)?;
            let (length, magic) = footer.split_at(8);
            if magic == MAGIC {
                archive = u64::from_le_bytes(length.try_into().unwrap_or_default());
            }
        }
        Ok(Self { file, len, archive })
    }

    /// Returns the embedded files; none without an archive.
    ///
    /// # Errors
    ///
    /// If the archive is damaged; the text says how.
    pub fn entries(&self) -> Result<Vec<ArchiveEntry>, String> {
        if self.archive == 0 {
            return Ok(Vec::new());
        }
        let mut archive = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.plain()?))
            .and_then(|_| file.take(self.archive).read_to_end(&mut archive))
            .map_err(|error| error.to_string())?;
        archive::unpack(&archive)
    }

    /// Writes the plain program, without the archive.
    ///
    /// # Errors
    ///
    /// If reading or writing fails; the text says why.
    pub fn copy_plain(&self, to: &mut impl Write) -> Result<(), String> {
        let plain = self.plain()?;
        let mut file = &self.file;
        let copied = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| io::copy(&mut file.take(plain), to));
        match copied {
            Ok(copied) if copied == plain => Ok(()),
            Ok(_) => Err("the program changed while it was read".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the permissions of the file.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn permissions(&self) -> io::Result<std::fs::Permissions> {
        Ok(self.file.metadata()?.permissions())
    }

    /// Returns the length of the plain program in bytes.
    fn plain(&self) -> Result<u64, String> {
        let plain = self.len.checked_sub(self.archive);
        plain
            .filter(|_| self.archive <= MAX_BYTES)
            .filter(|plain| *plain > 0)
            .ok_or_else(|| "its length is wrong".to_owned())
    }
}
