//! The connection to an editor, in the version of the protocol that it speaks. The rest of the crate speaks version 1;
//! what version 2 says in another form is put into that form where it leaves.

use std::sync::OnceLock;
use std::time::Duration;

use agent_client_protocol::v1::schema::{
    ClientCapabilities, CreateElicitationRequest, PermissionOption, ReadTextFileRequest,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, SessionNotification,
    SessionUpdate as Told, ToolCallUpdate, WriteTextFileRequest,
};
use agent_client_protocol::v2::schema as second;
use agent_client_protocol::{Client, Error, v1, v2};
use serde_json::{Value, json};

use crate::told::{self, parsed};

/// How long an editor may take to give or take a file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The editor at the other end, by the version that it speaks.
#[derive(Clone)]
pub(crate) enum Peer {
    /// Version 1.
    First(v1::ConnectionTo<Client>),
    /// Version 2.
    Second(v2::ConnectionTo<Client>),
}

impl Peer {
    /// Runs `work` beside the connection, which takes further requests meanwhile.
    pub(crate) fn beside(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let work = async {
            work.await;
            Ok(())
        };
        match self {
            Self::First(connection) => connection.spawn(work),
            Self::Second(connection) => connection.spawn(work),
        }
    }

    /// Waits until the editor has closed the connection.
    pub(crate) async fn gone(&self) {
        match self {
            Self::First(connection) => connection.incoming_closed().await,
            Self::Second(connection) => connection.incoming_closed().await,
        }
    }
}

/// What an editor can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an ability of its own"
)]
pub(crate) struct Abilities {
    /// Shows notices.
    pub(crate) notices: bool,
    /// Shows the output of commands in terminals of its own.
    pub(crate) terminals: bool,
    /// Shows forms.
    pub(crate) forms: bool,
    /// Opens pages.
    pub(crate) pages: bool,
    /// Gives the text of its open files.
    pub(crate) reads: bool,
    /// Takes the text of files.
    pub(crate) writes: bool,
}

impl Abilities {
    /// Returns those of an editor of version 1. Terminals that the program fills are a convention there.
    pub(crate) fn first(client: &ClientCapabilities) -> Self {
        let session = client.session.as_ref();
        let forms = client.elicitation.as_ref();
        let meta = client.meta.as_ref();
        Self {
            notices: session.is_some_and(|session| session.notices.is_some()),
            terminals: meta.and_then(|meta| meta.get("terminal_output")) == Some(&json!(true)),
            forms: forms.is_some_and(|forms| forms.form.is_some()),
            pages: forms.is_some_and(|forms| forms.url.is_some()),
            reads: client.fs.read_text_file,
            writes: client.fs.write_text_file,
        }
    }

    /// Returns those of an editor of version 2, in which notices and terminals are a part of the protocol, and files are
    /// not.
    pub(crate) fn second(client: &second::ClientCapabilities) -> Self {
        let forms = client.elicitation.as_ref();
        Self {
            notices: true,
            terminals: true,
            forms: forms.is_some_and(|forms| forms.form.is_some()),
            pages: forms.is_some_and(|forms| forms.url.is_some()),
            reads: false,
            writes: false,
        }
    }
}

/// What a session says to its editor.
pub(crate) struct Wire {
    /// The editor.
    pub(crate) peer: Peer,
    /// What it can do.
    pub(crate) abilities: Abilities,
    /// The session, once it is open.
    session: OnceLock<SessionId>,
}

impl Wire {
    pub(crate) fn new(peer: Peer, abilities: Abilities) -> Self {
        Self {
            peer,
            abilities,
            session: OnceLock::new(),
        }
    }

    /// Begins to speak for the session with this id. A session is opened once.
    pub(crate) fn open(&self, session: SessionId) {
        let _ = self.session.set(session);
    }

    /// Whether the editor speaks version 2.
    pub(crate) fn is_second(&self) -> bool {
        matches!(self.peer, Peer::Second(_))
    }

    /// Sends an update. One that cannot be sent is lost with the connection.
    pub(crate) fn tell(&self, update: Told) {
        match &self.peer {
            Peer::First(connection) => {
                if let Some(session) = self.session.get() {
                    let told = SessionNotification::new(session.clone(), update);
                    lost(connection.send_notification(told));
                }
            }
            Peer::Second(_) => {
                if let Some(update) = told::update(&update) {
                    self.tell_second(update);
                }
            }
        }
    }

    /// Sends an update that only version 2 knows.
    pub(crate) fn tell_second(&self, update: second::SessionUpdate) {
        if let (Peer::Second(connection), Some(session)) = (&self.peer, self.session.get()) {
            let told = second::UpdateSessionNotification::new(session.0.clone(), update);
            lost(connection.send_notification(told));
        }
    }

    /// Asks for a decision; returns the id of the chosen option, `None` if there is none.
    pub(crate) async fn choose(
        &self,
        about: ToolCallUpdate,
        options: Vec<PermissionOption>,
    ) -> Option<String> {
        let session = self.session.get()?.clone();
        let offered: Vec<_> = options.iter().map(|it| it.option_id.clone()).collect();
        let request = RequestPermissionRequest::new(session, about, options);
        let chosen = match &self.peer {
            Peer::First(connection) => {
                match answered(connection.send_request(request).block_task().await)?.outcome {
                    RequestPermissionOutcome::Selected(chosen) => chosen.option_id.to_string(),
                    _ => return None,
                }
            }
            Peer::Second(connection) => {
                let request = told::permission(&request)?;
                self.tell_second(told::waiting());
                let answer = connection.send_request(request).block_task().await;
                self.tell_second(told::running());
                match answered(answer)?.outcome {
                    second::RequestPermissionOutcome::Selected(chosen) => {
                        chosen.option_id.to_string()
                    }
                    _ => return None,
                }
            }
        };
        { offered.iter() }
            .any(|id| *id.0 == *chosen)
            .then_some(chosen)
    }

    /// Asks with a form, or to open a page: `question` has the fields of the protocol but for the session. Returns the
    /// answer, an object with `action` and `content`.
    pub(crate) async fn elicit(&self, mut question: Value) -> Option<Value> {
        question["sessionId"] = json!(self.session.get()?);
        let answer = match &self.peer {
            Peer::First(connection) => {
                let request: CreateElicitationRequest = parsed(question)?;
                let answer = answered(connection.send_request(request).block_task().await)?;
                serde_json::to_value(answer)
            }
            Peer::Second(connection) => {
                let request: second::CreateElicitationRequest = parsed(question)?;
                self.tell_second(told::waiting());
                let answer = connection.send_request(request).block_task().await;
                self.tell_second(told::running());
                serde_json::to_value(answered(answer)?)
            }
        };
        answer.ok()
    }

    /// Returns the text of a file as the editor has it; `None` if it gives none, or not in time.
    pub(crate) async fn read(&self, path: &std::path::Path) -> Option<String> {
        let (Peer::First(connection), true) = (&self.peer, self.abilities.reads) else {
            return None;
        };
        let request = ReadTextFileRequest::new(self.session.get()?.clone(), path);
        let answer = connection.send_request(request).block_task();
        let answer = tokio::time::timeout(PATIENCE, answer).await.ok()?;
        Some(answered(answer)?.content)
    }

    /// Gives the editor the text of a file.
    pub(crate) async fn write(&self, path: &std::path::Path, text: String) {
        let (Peer::First(connection), Some(session)) = (&self.peer, self.session.get()) else {
            return;
        };
        let request = WriteTextFileRequest::new(session.clone(), path, text);
        let answer = connection.send_request(request).block_task();
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => _ = answered(answer),
            Err(_) => tracing::debug!("the editor did not take a file in time"),
        }
    }
}

/// Returns the answer of the editor, if it is one.
fn answered<T>(answer: Result<T, Error>) -> Option<T> {
    answer
        .inspect_err(|error| tracing::debug!(%error, "a question has no answer"))
        .ok()
}

fn lost(sent: Result<(), Error>) {
    if let Err(error) = sent {
        tracing::debug!(%error, "a notification is lost");
    }
}
