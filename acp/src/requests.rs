//! What an editor can ask for, in whatever version it asks. The connection hands requests over one after the other, so
//! whatever takes time runs beside it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use agent_client_protocol::v1::schema::SessionId;
use agent_client_protocol::{Error, JsonRpcResponse, Protocol, Responder};
use ah_agent::Audience;
use ah_desk::{Scope, SessionSummary, Sessions, Start, Which};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::editor::{Editor, Warn};
use crate::fault::{invalid, not_open, refused};
use crate::held::Held;
use crate::wire::{Abilities, Peer, Wire};

/// Most sessions in one answer to a list request.
const PAGE: usize = 100;
/// Id of the way to log in.
pub(crate) const LOGIN: &str = "login";
/// Its name, what it does, and the arguments of the program for it.
pub(crate) const LOGIN_NAME: &str = "ah login";
pub(crate) const LOGIN_WORDS: &str = "Save an API key, or choose a model server";
pub(crate) const LOGIN_ARGUMENT: &str = "--login";

/// What requests work on.
pub(crate) struct Requests {
    sessions: Arc<dyn Sessions>,
    warn: Warn,
    /// What the editor can do.
    abilities: OnceLock<Abilities>,
    /// The open sessions.
    held: Mutex<HashMap<SessionId, Arc<Held>>>,
}

impl Requests {
    pub(crate) fn new(sessions: Arc<dyn Sessions>, warn: Warn) -> Self {
        Self {
            sessions,
            warn,
            abilities: OnceLock::new(),
            held: Mutex::default(),
        }
    }

    /// Records what the editor can do. The first request counts.
    pub(crate) fn meet(&self, abilities: Abilities) {
        let _ = self.abilities.set(abilities);
    }

    /// Whether an editor has said what it can do.
    pub(crate) fn has_met(&self) -> bool {
        self.abilities.get().is_some()
    }

    /// Checks that a login was successful.
    pub(crate) fn check_key(&self) -> Result<(), Error> {
        match self.sessions.has_key() {
            true => Ok(()),
            false => Err(Error::new(
                Error::auth_required().code,
                "there is no key for the model; run `ah login` in a terminal",
            )),
        }
    }

    /// Opens a session.
    pub(crate) async fn open(&self, start: Start, peer: Peer) -> Result<Arc<Held>, Error> {
        let abilities = self.abilities.get().copied().unwrap_or_default();
        let wire = Wire::new(peer, abilities);
        let editor = Arc::new(Editor::new(wire, self.warn.clone()));
        let audience = Audience::of(editor.clone()).with_editor(Some(editor.clone()));
        let opened = self.sessions.open(&start, audience).await;
        let opened = opened.map_err(refused)?;
        let held = Arc::new(Held::new(opened, start, editor));
        self.held.lock().insert(held.id().clone(), held.clone());
        Ok(held)
    }

    /// Opens a stored session. The editor may have it open already; then it is opened anew.
    pub(crate) async fn reopen(
        &self,
        id: &str,
        start: Start,
        peer: Peer,
    ) -> Result<Arc<Held>, Error> {
        let start = Start {
            which: Which::Resume(id.to_owned(), None),
            ..start
        };
        let Some(former) = self.remove(id) else {
            return self.open(start, peer).await;
        };
        // One process can have it open once.
        former.close().await;
        match self.open(start, peer.clone()).await {
            Ok(held) => Ok(held),
            Err(error) => {
                // It stays open as it was.
                self.open(former.resumption(), peer).await?;
                Err(error)
            }
        }
    }

    /// Opens a copy of a stored session, which may be open itself.
    pub(crate) async fn fork(
        &self,
        id: &str,
        start: Start,
        peer: Peer,
    ) -> Result<Arc<Held>, Error> {
        let start = Start {
            which: Which::Fork(id.to_owned(), None),
            ..start
        };
        self.open(start, peer).await
    }

    /// Returns a page of the stored sessions of a folder, or of all, and the name of the next page.
    pub(crate) fn list(
        &self,
        folder: Option<&Path>,
        page: Option<&str>,
    ) -> Result<(Vec<SessionSummary>, Option<String>), Error> {
        let scope = folder.map_or(Scope::Everywhere, Scope::Folder);
        let mut all = self.sessions.list(scope).map_err(refused)?;
        // A session is opened by its folder.
        all.retain(|listed| listed.messages > 0 && listed.folder.is_some());
        // A page is named by the id of the last session of the page before.
        let begin = match page {
            None => 0,
            Some(last) => match all.iter().position(|listed| listed.id.as_str() == last) {
                Some(at) => at + 1,
                None => return Err(invalid("there is no such page of sessions")),
            },
        };
        let mut page = all.split_off(begin);
        let next = (page.len() > PAGE).then(|| page[PAGE - 1].id.to_string());
        page.truncate(PAGE);
        Ok((page, next))
    }

    /// Closes a session; returns whether it was open.
    pub(crate) async fn close(&self, id: &str) -> bool {
        let held = self.remove(id);
        if let Some(held) = &held {
            held.close().await;
        }
        held.is_some()
    }

    /// Removes a session, which may be open.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), Error> {
        self.close(id).await;
        self.sessions.remove(id).map_err(refused)
    }

    /// Ends the prompts of a session that run or wait.
    pub(crate) fn cancel(&self, id: &str) {
        if let Ok(held) = self.held(id) {
            held.cancel();
        }
    }

    /// Returns the open session with this id.
    pub(crate) fn held(&self, id: &str) -> Result<Arc<Held>, Error> {
        let held = self.held.lock().get(&SessionId::new(id)).cloned();
        held.ok_or_else(|| not_open(id))
    }

    /// Waits until the editor has ended, or `stop`. Runs end in order while the connection still stands.
    pub(crate) async fn until_end(&self, peer: &Peer, stop: &CancellationToken) {
        tokio::select! {
            () = peer.gone() => {}
            () = stop.cancelled() => {}
        }
        self.close_all().await;
    }

    /// Closes all sessions. It may be dropped with the connection and called again.
    pub(crate) async fn close_all(&self) {
        let all: Vec<_> = self.held.lock().values().cloned().collect();
        for held in &all {
            held.cancel();
        }
        for held in all {
            held.close().await;
            self.held.lock().remove(held.id());
        }
    }

    fn remove(&self, id: &str) -> Option<Arc<Held>> {
        self.held.lock().remove(&SessionId::new(id))
    }
}

/// Answers a request with the outcome of `work`, which runs beside the connection.
pub(crate) fn answer<T: JsonRpcResponse + Send + 'static, P: Protocol>(
    to: Responder<T, P>,
    peer: &Peer,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<(), Error> {
    peer.beside(async move { reply(to, work.await) })
}

/// Opens a session beside the connection, and answers with what `respond` makes of it. The commands are told behind the
/// answer: the editor knows a new session only then.
pub(crate) fn answer_opened<T: JsonRpcResponse + Send + 'static, P: Protocol>(
    to: Responder<T, P>,
    peer: &Peer,
    respond: impl FnOnce(&Held) -> T + Send + 'static,
    opening: impl Future<Output = Result<Arc<Held>, Error>> + Send + 'static,
) -> Result<(), Error> {
    peer.beside(async move {
        let held = opening.await;
        let response = held.as_ref().map(|held| respond(held));
        reply(to, response.map_err(Clone::clone));
        if let Ok(held) = held {
            held.editor.tell_early();
            held.tell_commands().await;
        }
    })
}

/// Answers a request. An answer that cannot be sent is lost with the connection.
pub(crate) fn reply<T: JsonRpcResponse, P: Protocol>(
    to: Responder<T, P>,
    result: Result<T, Error>,
) {
    if let Err(error) = to.respond_with_result(result) {
        tracing::debug!(%error, "an answer is lost");
    }
}
