//! A session in the formats of other programs: a transcript as Claude Code writes it, and a trajectory.

mod atif;

use std::path::Path;
use std::sync::Arc;

use ah_config::Error;
use ah_conversation::{Message, json};
use ah_transcript::{RowHead, TranscriptFile};

use ah_engine::identity::{STANDS_IN_FOR, SystemIds};

pub use atif::atif;

/// Returns the messages as a transcript, a row in each line. `cwd` is the folder that the rows name.
///
/// # Errors
///
/// If the temporary file that it is written to cannot be written.
pub fn claude(messages: &[Message], session: &str, cwd: &Path) -> Result<String, Error> {
    let failed =
        |error: std::io::Error| Error::failure(format!("cannot write the transcript: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let messages: Vec<_> = messages.iter().cloned().map(Arc::new).collect();
    let head = RowHead {
        session_id: session.to_owned(),
        cwd: cwd.to_owned(),
        version: STANDS_IN_FOR.to_owned(),
        entrypoint: "cli".to_owned(),
        agent_id: None,
    };
    let path = folder.path().join("transcript.jsonl");
    let ids = SystemIds::default();
    let (_, rows) = TranscriptFile::open(path, head, None, &messages, &ids).map_err(failed)?;
    Ok(rows.iter().map(|row| json::line(row) + "\n").collect())
}
