//! Sessions and messages for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    CallFinish, CallStart, Clock, Content, ContentBlock, Cost, Input, Message, MessageId, Origin,
    Record, Response, ResultBlock, Role, StopReason, Store, Time, ToolResult, ToolUse, ToolUseId,
    Usage,
};
use ah_ids::SystemClock;
use ah_store::{Notice, Paths, SessionStore, Sessions};
use serde_json::json;
use tempfile::TempDir;

/// Bytes of a page of a conversation.
pub const PAGE: usize = 512;

/// A temporary folder with sessions.
pub struct World {
    folder: TempDir,
}

impl World {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn folder(&self) -> PathBuf {
        self.root().join(".ah")
    }

    pub fn sessions(&self) -> Sessions {
        Sessions::in_folder(self.folder())
    }

    pub fn fresh(&self) -> Paths {
        self.sessions().fresh().unwrap()
    }
}

/// Opens a session; fails the test if there are notices.
pub async fn open_quietly(paths: &Paths) -> SessionStore {
    let session = SessionStore::open(paths).unwrap();
    assert_eq!(session.take_notices().await, []);
    session
}

/// Opens and loads a session; returns its messages and notices.
pub async fn open_and_load(paths: &Paths) -> (Vec<Arc<Message>>, Vec<Notice>) {
    let session = SessionStore::open(paths).unwrap();
    let transcript = session.load().await.unwrap();
    let notices = session.take_notices().await;
    (transcript.messages().to_vec(), notices)
}

/// Creates the messages of a conversation, each a child of the last.
#[derive(Default)]
pub struct Speaker {
    clock: SystemClock,
    pub last: Option<Arc<Message>>,
}

impl Speaker {
    pub fn after(message: &Arc<Message>) -> Self {
        Self {
            clock: SystemClock::default(),
            last: Some(message.clone()),
        }
    }

    pub fn prompt(&mut self, text: &str) -> Arc<Message> {
        self.says(Role::User, Origin::Prompt, vec![ContentBlock::text(text)])
    }

    pub fn answer(&mut self, text: &str) -> Arc<Message> {
        self.says(
            Role::Assistant,
            Origin::Model,
            vec![ContentBlock::text(text)],
        )
    }

    /// Creates a response with a `bash` call for each of the ids.
    pub fn calls(&mut self, ids: &[&str]) -> Arc<Message> {
        let call = |id: &&str| ContentBlock::ToolUse(tool_use(id));
        self.says(
            Role::Assistant,
            Origin::Model,
            ids.iter().map(call).collect(),
        )
    }

    pub fn results(&mut self, results: Vec<ToolResult>) -> Arc<Message> {
        let content = results.into_iter().map(ContentBlock::ToolResult).collect();
        self.says(Role::User, Origin::Results, content)
    }

    pub fn says(&mut self, role: Role, origin: Origin, content: Vec<ContentBlock>) -> Arc<Message> {
        self.says_as(self.clock.message_id(), role, origin, content)
    }

    pub fn says_as(
        &mut self,
        id: MessageId,
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Arc<Message> {
        let message = Arc::new(Message {
            id,
            parent: self.last.as_ref().map(|last| last.id.clone()),
            seq: self.last.as_ref().map_or(0, |last| last.seq + 1),
            role,
            origin,
            created_at: Time(1_700_000_000_123),
            response: (role == Role::Assistant).then(response),
            content,
        });
        self.last = Some(message.clone());
        message
    }
}

pub fn response() -> Response {
    Response {
        stop_reason: StopReason::EndTurn,
        usage: Usage {
            input_tokens: 10,
            output_tokens: 20,
            cache_creation_input_tokens: 30,
            cache_read_input_tokens: 40,
            cache_creation_1h_input_tokens: 5,
            web_search_requests: 0,
        },
        cost: Some(Cost(123_456_789_012)),
        model: "model-1".to_owned(),
        provider: "anthropic".to_owned(),
        latency_ms: 1234,
        request_id: Some("req_1".to_owned()),
        opaque: None,
    }
}

pub fn tool_use(id: &str) -> ToolUse {
    ToolUse {
        id: ToolUseId::from(id),
        name: "bash".to_owned(),
        input: Input::from(json!({ "command": "ls" })),
    }
}

pub fn result(id: &str, text: &str) -> ToolResult {
    ToolResult {
        tool_use_id: ToolUseId::from(id),
        tool_name: "bash".to_owned(),
        content: vec![ResultBlock::Text {
            text: text.to_owned(),
        }],
        is_error: false,
        duration_ms: 7,
        details: Some(json!({ "exit_code": 0 }).into()),
        lines: None,
    }
}

pub fn started(message: &Message, id: &str, access: &str) -> Record {
    Record::CallStarted(CallStart {
        tool_use_id: ToolUseId::from(id),
        message_id: message.id.clone(),
        access: access.to_owned(),
        at: Time(1_700_000_000_000),
    })
}

pub fn finished(message: &Message, result: ToolResult, output: Content) -> Record {
    Record::CallFinished(CallFinish {
        message_id: message.id.clone(),
        result,
        output,
        at: Time(1_700_000_001_000),
    })
}

pub fn bytes(bytes: impl Into<Vec<u8>>) -> Content {
    Content::Bytes(bytes.into())
}

pub async fn append(store: &dyn Store, message: &Arc<Message>) {
    store
        .append(vec![Record::Message(message.clone())])
        .await
        .unwrap();
}
