//! Files of the user's folder that keep answers: JSON, readable only by the user, replaced as a whole.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use ah_conversation::json;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads the answers in a file; there are none without it.
pub(crate) fn read<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(text) => json::from_slice(&text).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Replaces the file `name` in the folder, which is made if it is missing.
pub(crate) fn write(folder: &Path, name: &str, answers: &impl Serialize) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    serde_json::to_writer_pretty(&mut file, answers)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    Ok(())
}
