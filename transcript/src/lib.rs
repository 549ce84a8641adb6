//! Transcript file of a session for the Agent SDKs, which list and read it: a JSON object per line, in the folder of the
//! original program's transcripts.
//!
//! It is a copy: the session's database is authoritative, and where there is one, the file is only read to find out which
//! messages it has. So a truncated or missing file is completed when the session is opened. A session without a database
//! is restored from its transcript (`read`).

mod ids;
mod names;
pub mod parts;
mod read;
mod sidechain;
mod transcribed;
mod tree;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{ContentBlock, Message, MessageId, Origin, Response, Role, ToolUseId, json};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::parts::{content, details, head, timestamp};

pub use ids::Ids;
pub use names::{is_of, of_block, of_result};
pub use read::{ReadTranscript, read_transcript};
pub use sidechain::Sidechains;
pub use transcribed::Transcribed;

/// Field of a row with what the original program has no field for.
const OWN: &str = "ah";
/// The server of an answer whose row does not say it.
const USUAL_SERVER: &str = "anthropic";

/// Length above which a folder's name is cut and its hash appended.
const MOST_NAME: usize = 200;

/// Returns the path at which the SDKs look for the transcript of a session: `home` is the original program's folder in
/// the user's home, `cwd` the working directory without symbolic links.
pub fn transcript_path(home: &Path, cwd: &Path, session_id: &str) -> PathBuf {
    let folder = home
        .join("projects")
        .join(folder_name(&cwd.to_string_lossy()));
    folder.join(format!("{session_id}.jsonl"))
}

/// Replaces all but letters and digits by hyphens, one per UTF-16 unit as the SDKs do.
fn folder_name(path: &str) -> String {
    let units = path.encode_utf16();
    let characters = units.clone().map(|unit| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        Ok(_) | Err(_) => '-',
    });
    let name: String = characters.collect();
    if name.len() <= MOST_NAME {
        return name;
    }
    let hash = units.fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    format!("{}-{}", &name[..MOST_NAME], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Returns the warning for a transcript that cannot be written.
pub fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("cannot write the transcript `{}`: {error}", path.display())
}

/// What every row of a session's transcripts says.
#[derive(Debug, Clone)]
pub struct RowHead {
    /// UUID of the session.
    pub session_id: String,
    /// Working directory; the branch that is checked out there is told with each row.
    pub cwd: PathBuf,
    /// Version of this program, for the SDKs.
    pub version: String,
    /// What started the program: `cli`, `sdk-cli`, `sdk-py` …
    pub entrypoint: String,
    /// Id of the subagent whose conversation it is; `None` in the main conversation.
    pub agent_id: Option<String>,
}

/// Transcript of an open session.
pub struct TranscriptFile {
    path: PathBuf,
    head: RowHead,
    state: Mutex<WriteState>,
}

struct WriteState {
    file: RowFile,
    /// Text to write before the first row.
    before: String,
    /// UUID of the last row of each message, the parent of the next row.
    ends: HashMap<MessageId, String>,
    /// UUIDs for the rows of the last calls' results.
    results: HashMap<ToolUseId, String>,
}

/// The file, which is created with the first row, so that an empty session leaves no file.
enum RowFile {
    Closed,
    Open(File),
    /// Given up after a write error.
    Lost,
}

impl TranscriptFile {
    /// Opens the transcript and writes the `messages` that it lacks; returns their rows. An empty session gets `title`.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(
        path: PathBuf,
        head: RowHead,
        title: Option<&str>,
        messages: &[Arc<Message>],
        ids: &dyn Ids,
    ) -> io::Result<(Self, Vec<Value>)> {
        let there = match fs::read(&path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // A truncated line stays; readers skip it.
        let is_cut = there.last().is_some_and(|last| *last != b'\n');
        let mut before = if is_cut { "\n" } else { "" }.to_owned();
        if let Some(title) = title.filter(|_| there.is_empty() && messages.is_empty()) {
            let row =
                json!({"type": "custom-title", "customTitle": title, "sessionId": head.session_id});
            before.push_str(&format!("{row}\n"));
        }
        let transcript = Self {
            path,
            head,
            state: Mutex::new(WriteState {
                file: RowFile::Closed,
                before,
                ends: HashMap::new(),
                results: HashMap::new(),
            }),
        };
        let rows = there.split(|byte| *byte == b'\n');
        let known: HashSet<String> = rows
            .filter_map(|row| json::from_slice::<Value>(row).ok())
            .filter_map(|row| Some(row["uuid"].as_str()?.to_owned()))
            .collect();
        let mut state = transcript.state.lock();
        let mut rows = Vec::new();
        let branch = transcript.head.branch();
        for message in messages {
            rows.extend(transcript.rows(message, &branch, &mut state, ids));
        }
        rows.retain(|row| !row["uuid"].as_str().is_some_and(|it| known.contains(it)));
        state.write(&transcript.path, &rows)?;
        drop(state);
        Ok((transcript, rows))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a message and returns its rows. After the first error nothing more is written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, message: &Message, ids: &dyn Ids) -> io::Result<Vec<Value>> {
        let state = &mut *self.state.lock();
        let rows = self.rows(message, &self.head.branch(), state, ids);
        state.write(&self.path, &rows)?;
        Ok(rows)
    }

    /// Appends a name of the session, which the SDKs' lists show.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_title(&self, title: &str) -> io::Result<()> {
        let session_id = &self.head.session_id;
        let row = json!({"type": "custom-title", "customTitle": title, "sessionId": session_id});
        self.state.lock().write(&self.path, &[row])
    }

    /// Returns the rows of a message: one for each block of an answer and each tool result, like the lines that hosts see,
    /// and one for any other message.
    fn rows(
        &self,
        message: &Message,
        branch: &str,
        state: &mut WriteState,
        ids: &dyn Ids,
    ) -> Vec<Value> {
        let uuid = ids.of(&message.id);
        let mut parent = message.parent.as_ref().map(|parent| {
            let end = state.ends.get(parent).cloned();
            end.unwrap_or_else(|| ids.of(parent))
        });
        let mut rows = Vec::new();
        for (name, blocks) in named(message, &uuid, state) {
            let mut row = self.row(message, &uuid, blocks);
            row["parentUuid"] = json!(parent);
            row["uuid"] = json!(name);
            row["gitBranch"] = json!(branch);
            rows.push(row);
            parent = Some(name);
        }
        // The last row of an answer has what is known of it as a whole.
        if let (Some(row), Some(own)) = (rows.last_mut(), own(message)) {
            row[OWN] = own;
        }
        state
            .ends
            .extend(parent.map(|end| (message.id.clone(), end)));
        rows
    }

    /// Returns a row of a message, without its UUID and parent.
    fn row(&self, message: &Message, uuid: &str, blocks: &[ContentBlock]) -> Value {
        let kind = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let mut row = json!({
            "parentUuid": null,
            "isSidechain": self.head.agent_id.is_some(),
            "userType": "external",
            "entrypoint": self.head.entrypoint,
            "cwd": self.head.cwd.to_string_lossy(),
            "sessionId": self.head.session_id,
            "version": self.head.version,
            "gitBranch": null,
            "type": kind,
            "message": said(message, blocks, uuid),
            "uuid": null,
            "timestamp": timestamp(message.created_at),
        });
        if let Some(agent) = &self.head.agent_id {
            row["agentId"] = json!(agent);
        }
        if let Some(response) = &message.response {
            row["requestId"] = json!(request_id(response, uuid));
        }
        match message.origin {
            Origin::Summary { .. } => row["isCompactSummary"] = json!(true),
            Origin::Nudge
            | Origin::Continuation
            | Origin::Reminder
            | Origin::Task
            | Origin::Update(_) => {
                row["isMeta"] = json!(true);
            }
            Origin::Prompt
            | Origin::Model
            | Origin::Results
            | Origin::Steering
            | Origin::FollowUp => {}
        }
        if let [ContentBlock::ToolResult(result)] = blocks {
            row["toolUseResult"] = details(result);
        }
        row
    }
}

impl RowHead {
    /// Returns the branch that is checked out; `HEAD` if none is.
    fn branch(&self) -> String {
        let repository = ah_git::repository(&self.cwd);
        let branch = repository.and_then(|repository| repository.branch);
        branch.unwrap_or_else(|| "HEAD".to_owned())
    }
}

/// Returns what only its server can use of an answer, with the name of that server; `None` if there is nothing.
fn own(message: &Message) -> Option<Value> {
    let response = message.response.as_ref()?;
    let is_sealed = |block: &ContentBlock| {
        matches!(
            block,
            ContentBlock::Thinking {
                signature: Some(_),
                ..
            } | ContentBlock::RedactedThinking { .. }
        )
    };
    let is_of_other = response.provider != USUAL_SERVER;
    let is_needed =
        response.opaque.is_some() || (is_of_other && message.content.iter().any(is_sealed));
    is_needed.then(|| {
        let mut own = json!({"provider": response.provider});
        if let Some(opaque) = &response.opaque {
            own["opaque"] = json!(opaque);
        }
        own
    })
}

/// Returns the id of the request of an answer. Usage readers count the rows of one request once, so there always is one.
fn request_id(response: &Response, uuid: &str) -> String {
    let known = response.request_id.clone();
    known.unwrap_or_else(|| format!("req_{}", uuid.replace('-', "")))
}

impl WriteState {
    fn write(&mut self, path: &Path, rows: &[Value]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.append(path, rows);
        if written.is_err() {
            self.file = RowFile::Lost;
        }
        written
    }

    fn append(&mut self, path: &Path, rows: &[Value]) -> io::Result<()> {
        if matches!(self.file, RowFile::Closed) {
            self.file = RowFile::Open(open(path)?);
        }
        let RowFile::Open(file) = &mut self.file else {
            return Ok(());
        };
        let mut lines = std::mem::take(&mut self.before);
        lines.extend(rows.iter().map(|row| json::line(row) + "\n"));
        file.write_all(lines.as_bytes())
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

/// Returns UUID and blocks of each row of a message.
fn named<'a>(
    message: &'a Message,
    uuid: &str,
    state: &mut WriteState,
) -> Vec<(String, &'a [ContentBlock])> {
    let blocks = &message.content;
    match message.role {
        Role::Assistant if !blocks.is_empty() => {
            state.results.clear();
            let rows = blocks.chunks(1).enumerate().map(|(index, block)| {
                if let [ContentBlock::ToolUse(call)] = block {
                    let result = names::of_result(uuid, index);
                    state.results.insert(call.id.clone(), result);
                }
                (names::of_block(uuid, index), block)
            });
            rows.collect()
        }
        Role::User if message.origin == Origin::Results => {
            let is_result = |block: &ContentBlock| matches!(block, ContentBlock::ToolResult(_));
            // Texts of hooks follow the results.
            let count = blocks.iter().take_while(|block| is_result(block)).count();
            let (results, rest) = blocks.split_at(count);
            let rows = results.chunks(1).enumerate().map(|(index, block)| {
                let known = match block {
                    [ContentBlock::ToolResult(result)] => state.results.get(&result.tool_use_id),
                    _ => None,
                };
                let name = known.cloned();
                (name.unwrap_or_else(|| names::of_result(uuid, index)), block)
            });
            let rest = (!rest.is_empty()).then(|| (uuid.to_owned(), rest));
            rows.chain(rest).collect()
        }
        // Behind its text stands the block in which a server wrote it.
        Role::User if message.is_summary() => {
            vec![(uuid.to_owned(), &blocks[..blocks.len().min(1)])]
        }
        Role::Assistant | Role::User => vec![(uuid.to_owned(), blocks)],
    }
}

/// Returns the message in the form of the Messages API.
fn said(message: &Message, blocks: &[ContentBlock], uuid: &str) -> Value {
    let blocks = match blocks {
        [ContentBlock::Text { text }] if message.role == Role::User => json!(text),
        blocks => blocks.iter().map(content).collect(),
    };
    let Some(response) = &message.response else {
        return json!({"role": "user", "content": blocks});
    };
    let id = format!("msg_{}", uuid.replace('-', ""));
    let mut said = head(&id, &response.model, &response.usage);
    said["content"] = blocks;
    said["stop_reason"] = json!(response.stop_reason);
    said
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Fields, Opaque, StopReason, Time, ToolUse, Usage};

    use super::*;

    fn answer(provider: &str, opaque: Option<Opaque>) -> Message {
        let call = ToolUse {
            id: "t".into(),
            name: "Bash".to_owned(),
            input: json!({}).into(),
        };
        Message {
            id: MessageId::from("m"),
            parent: None,
            seq: 0,
            role: Role::Assistant,
            origin: Origin::Model,
            created_at: Time(0),
            content: vec![ContentBlock::text("So."), ContentBlock::ToolUse(call)],
            response: Some(Response {
                stop_reason: StopReason::ToolUse,
                usage: Usage::default(),
                cost: None,
                model: "m".to_owned(),
                provider: provider.to_owned(),
                latency_ms: 0,
                request_id: None,
                opaque: opaque.map(Box::new),
            }),
        }
    }

    /// Reads the rows of an answer.
    fn read(rows: &[Value]) -> Message {
        let rows: Vec<_> = rows.iter().map(Value::to_string).collect();
        let messages = read_transcript(&rows.join("\n"), |_| None, || MessageId::from("m"));
        messages.messages.into_iter().next().expect("an answer")
    }

    /// Rows have no field for it in the original, which hosts and SDKs do not see either.
    #[test]
    fn what_only_its_server_can_use_survives_a_transcript() {
        let fields = |name: &str| Fields::from_iter([(name.to_owned(), json!({"seal": [1]}))]);
        let opaque = Opaque {
            message: Fields::from_iter([("reasoning".to_owned(), Value::Null)]),
            blocks: vec![(1, fields("extra_content"))],
        };
        for (provider, opaque) in [
            ("gemini", Some(opaque.clone())),
            ("anthropic", Some(opaque)),
            ("anthropic", None),
        ] {
            let answer = answer(provider, opaque);
            let mut rows: Vec<_> = answer
                .content
                .chunks(1)
                .enumerate()
                .map(|(at, blocks)| {
                    let message = said(&answer, blocks, "u");
                    assert!(!message.to_string().contains("seal"), "{message}");
                    json!({"type": "assistant", "uuid": at.to_string(), "message": message})
                })
                .collect();
            rows[1]["parentUuid"] = json!("0");
            if let Some(own) = own(&answer) {
                rows[1][OWN] = own;
            }
            assert_eq!(read(&rows), answer);
        }
    }

    #[test]
    fn fields_of_blocks_in_transcripts_of_the_original_are_kept() {
        let call = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}, "caller": {"type": "direct"}});
        let row = |uuid: &str, block: Value| {
            json!({
                "type": "assistant",
                "uuid": uuid,
                "parentUuid": "0",
                "message": {"id": "msg", "model": "m", "content": [block]},
            })
        };
        let text = json!({"type": "text", "text": "So.", "citations": null});
        let answer = read(&[row("0", text), row("1", call)]);
        let response = answer.response.expect("an answer");
        let caller = Fields::from_iter([("caller".to_owned(), json!({"type": "direct"}))]);
        let expected = Opaque {
            message: Fields::new(),
            blocks: vec![(1, caller)],
        };
        assert_eq!(response.opaque.as_deref(), Some(&expected));
    }

    #[test]
    fn the_folder_has_the_name_that_the_sdks_look_for() {
        let long = format!("/home/u/{}", "a b".repeat(90));
        for (cwd, expected) in [
            ("/home/u/my project", "-home-u-my-project".to_owned()),
            ("/w/é_1.2", "-w---1-2".to_owned()),
            (&*long, format!("-home-u-{}-1oa5ej", "a-b".repeat(64))),
        ] {
            assert_eq!(folder_name(cwd), expected);
        }
    }
}
