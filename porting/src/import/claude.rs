//! Sessions of Claude Code: transcripts, as those of SDKs are read.

use ah_engine::sessions::plan::is_uuid;
use ah_engine::sessions::transcript_reader::{Conversation, json_lines, take};

use super::session::{Imported, Program};

/// Reads a session; `stem` is the name of its file, which is the session's id.
pub fn read(content: &str, stem: &str) -> Imported {
    let mut conversation = Conversation::default();
    let lines = json_lines(content, &mut conversation);
    let last = |key: &str| {
        let mut values = lines
            .iter()
            .rev()
            .filter_map(|(_, line)| line[key].as_str());
        values.next().map(str::to_owned)
    };
    let id = if is_uuid(stem) {
        Some(stem.to_owned())
    } else {
        last("sessionId")
    };
    let (cwd, name) = (last("cwd"), last("customTitle"));
    take(content, &lines, &mut conversation);
    Imported::new(Program::Claude, id, cwd, name, conversation)
}
