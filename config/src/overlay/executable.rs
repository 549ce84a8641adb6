//! The program's own file: the plain program, and the archive behind it if there is one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::archive;
use super::entry::{Entry, MAX_BYTES};
use super::seal::{FOOTER, MAGIC};

/// An executable of this program.
pub struct Executable {
    file: File,
    len: u64,
    /// How long the archive at its end is.
    archive: u64,
}

impl Executable {
    /// The file of the running program, even where another one has taken its place meanwhile.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
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

    /// The files that are embedded; none where there is no archive.
    ///
    /// # Errors
    ///
    /// Says what is wrong where the archive is damaged.
    pub fn entries(&self) -> Result<Vec<Entry>, String> {
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

    /// Writes the plain program, without what is embedded.
    ///
    /// # Errors
    ///
    /// Says what went wrong.
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

    /// The permissions of the file.
    ///
    /// # Errors
    ///
    /// Where they cannot be read.
    pub fn permissions(&self) -> io::Result<std::fs::Permissions> {
        Ok(self.file.metadata()?.permissions())
    }

    /// How long the plain program is.
    fn plain(&self) -> Result<u64, String> {
        let plain = self.len.checked_sub(self.archive);
        plain
            .filter(|_| self.archive <= MAX_BYTES)
            .filter(|plain| *plain > 0)
            .ok_or_else(|| "its length is wrong".to_owned())
    }
}
