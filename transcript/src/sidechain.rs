//! Transcripts of subagents, beside that of their session: `SESSION/subagents/agent-ID.jsonl`, each with a file that says
//! what the subagent is (`agent-ID.meta.json`).

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ah_conversation::{Message, Task, TaskKind, json};
use serde_json::{Value, json};

use super::{RowHead, TranscriptFile};
use crate::Ids;

/// Transcripts of a session's subagents.
pub struct Sidechains {
    folder: PathBuf,
    head: RowHead,
    files: HashMap<String, TranscriptFile>,
}

impl Sidechains {
    /// Returns those of the session whose transcript is at `path`.
    pub fn of(path: &Path, head: RowHead) -> Self {
        Self {
            folder: path.with_extension("").join("subagents"),
            head,
            files: HashMap::new(),
        }
    }

    /// Appends a message of a subagent; returns the file and its rows. The first message creates the file.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(
        &mut self,
        task: &Task,
        message: &Message,
        ids: &dyn Ids,
    ) -> io::Result<(PathBuf, Vec<Value>)> {
        let path = self.folder.join(format!("agent-{}.jsonl", task.id));
        if let Some(file) = self.files.get(&task.id) {
            return Ok((path, file.write(message, ids)?));
        }
        let head = RowHead {
            agent_id: Some(task.id.clone()),
            ..self.head.clone()
        };
        let (file, _) = TranscriptFile::open(path.clone(), head, None, &[], ids)?;
        let mut rows = file.write(message, ids)?;
        self.files.insert(task.id.clone(), file);
        let meta = meta(task);
        write(&path.with_extension("meta.json"), &meta)?;
        let mut first = json!({"type": "agent_metadata"});
        for (name, value) in meta.as_object().into_iter().flatten() {
            first[name] = value.clone();
        }
        rows.insert(0, first);
        Ok((path, rows))
    }
}

/// Returns what a subagent is.
fn meta(task: &Task) -> Value {
    let mut meta = json!({"description": task.description, "toolUseId": task.call});
    if let TaskKind::Agent { name, depth, .. } = &task.kind {
        meta["agentType"] = json!(name);
        meta["spawnDepth"] = json!(depth);
    }
    meta
}

fn write(path: &Path, value: &Value) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file: fs::File = options.open(path)?;
    file.write_all(json::line(value).as_bytes())
}
