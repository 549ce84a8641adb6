//! Files that the editor has open. What it gives is the text of a file like any other: the permission rules have been
//! asked before, the tools check the path, and undo restores what was there. Files are written to the disk first, by the
//! tools; the editor is given what stands there then.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::wire::Wire;

/// Longest text that is asked for or given, in bytes.
const LIMIT: u64 = 2 << 20;
/// `O_NOFOLLOW` and `O_NONBLOCK`.
const FLAGS: i32 =
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()) as i32;

/// Returns the text of a file as its user has changed it without saving it.
pub(crate) async fn unsaved(wire: &Wire, path: &Path) -> Option<String> {
    if !wire.abilities.reads {
        return None;
    }
    let saved = text(path).await?;
    let open = wire.read(path).await?;
    (open != saved && open.len() as u64 <= LIMIT).then_some(open)
}

/// Gives the editor the new text of a file.
pub(crate) async fn wrote(wire: &Wire, path: &Path) {
    if wire.abilities.writes
        && let Some(text) = text(path).await
    {
        wire.write(path, text).await;
    }
}

/// Returns the text on the disk; `None` if it is none, or too long.
async fn text(path: &Path) -> Option<String> {
    let path: PathBuf = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(FLAGS)
            .open(path)
            .ok()?;
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let mut content = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut content).ok()?;
        let is_short = content.len() as u64 <= LIMIT;
        String::from_utf8(content).ok().filter(|_| is_short)
    });
    read.await.ok()?
}
