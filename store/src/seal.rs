//! Seals of what undo obeys: a message authentication code (HMAC with SHA-256, RFC 2104) of each state of a file, with a key in the
//! user's own folder.
//!
//! A database may come from somebody else, or be changed by a command where the sandbox cannot prevent it. What is in it without
//! a seal of this key was not recorded by this user's `ah` on this machine. What follows from that is decided above.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::paths::{Paths, new_file, with_ending};

/// Length of the key, in bytes.
const KEY: usize = 32;
/// Length of the blocks of SHA-256, in bytes.
const BLOCK: usize = 64;

/// A key for seals.
#[derive(Clone)]
pub struct Seal([u8; KEY]);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Paths {
    /// Returns the key by which this user's own messages are known. Where there is none and none can be made, nothing is sealed.
    pub(crate) fn seal(&self) -> Option<Seal> {
        Seal::at(self.key.as_ref()?).ok()
    }
}

impl Seal {
    /// Reads the key in the file `path`, or makes one there that only its owner can read.
    ///
    /// # Errors
    ///
    /// If the file can be neither read nor made, or is none of a key.
    pub fn at(path: &Path) -> io::Result<Self> {
        if let Err(error) = fs::symlink_metadata(path)
            && error.kind() == io::ErrorKind::NotFound
        {
            Self::make(path)?;
        }
        let key: Result<[u8; KEY], _> = fs::read(path)?.try_into();
        key.map(Self).map_err(|_| {
            let text = format!("`{}` is not a key; remove it", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    /// Makes a key that is nowhere else.
    ///
    /// # Errors
    ///
    /// If the system has no random bytes.
    pub(crate) fn random() -> io::Result<Self> {
        let mut key = [0; KEY];
        getrandom::fill(&mut key)
            .map_err(|_| io::Error::other("the system has no random bytes"))?;
        Ok(Self(key))
    }

    fn make(path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let draft = with_ending(path, &format!(".{}.new", ah_ids::fresh_session_id(None)));
        let mut file = new_file(&draft)?;
        file.write_all(&Self::random()?.0)?;
        file.sync_all()?;
        // Of several processes, one is first.
        let linked = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the seal of these values.
    pub(crate) fn of(&self, values: &[Option<&[u8]>]) -> [u8; 32] {
        let pad = |byte: u8| {
            let mut block = [byte; BLOCK];
            for (padded, key) in block.iter_mut().zip(self.0) {
                *padded ^= key;
            }
            block
        };
        let mut inner = Sha256::new().chain_update(pad(0x36));
        for value in values {
            // No two lists of values are the same bytes.
            let length = value.map_or(u64::MAX, |value| value.len() as u64);
            inner.update(length.to_le_bytes());
            inner.update(value.unwrap_or_default());
        }
        let outer = Sha256::new().chain_update(pad(0x5c));
        outer.chain_update(inner.finalize()).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::paths::hex;

    #[test]
    fn a_seal_is_the_code_of_the_standard() {
        // By Python: hmac.new(bytes(range(32)), data, 'sha256') of the lengths and values below.
        let seal = Seal(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        let code = seal.of(&[Some(b"path"), None, Some(b"")]);
        assert_eq!(
            hex(&code),
            "aead89f10da91486746847f8f68aa81be6a9d13b3758948248bc455d74225f36"
        );
    }

    #[test]
    fn values_that_differ_have_different_seals() {
        let seal = Seal::random().unwrap();
        let lists: [&[Option<&[u8]>]; 7] = [
            &[],
            &[None],
            &[Some(b"")],
            &[Some(b"ab"), Some(b"c")],
            &[Some(b"a"), Some(b"bc")],
            &[Some(b"abc")],
            &[Some(b"abc"), None],
        ];
        let codes: std::collections::HashSet<_> = lists.iter().map(|list| seal.of(list)).collect();
        assert_eq!(codes.len(), lists.len());
        assert_ne!(Seal::random().unwrap().of(&[]), seal.of(&[]));
    }

    #[test]
    fn the_key_is_made_once_and_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/seal");
        let code = || Seal::at(&path).unwrap().of(&[Some(b"x")]);
        assert_eq!(code(), code());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path().join("own")).unwrap().count(), 1);
        fs::write(&path, "short").unwrap();
        assert!(Seal::at(&path).is_err());
    }
}
