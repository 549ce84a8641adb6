//! Calls that a hook, or the end of a process, has left to a later run.
//!
//! Those of a hook have no result in the transcript, and a note of the session names them, which is stored at once. So whoever
//! continues the session asks the hooks again for the same calls: this process, another one, or one after a crash. A worker that
//! takes over a run decides about all calls that have not begun, or that change nothing: one that asked when its worker ended, or had
//! its answer and nothing to show for it, asks again.

use ah_conversation::{
    CallState, Clock, ContentBlock, Message, Origin, Record, Role, Store, StoreError, ToolResult,
    ToolUse, ToolUseId, close_open_calls, json,
};

use crate::{Session, Stop};

/// Key of the note.
const NOTE: &str = "deferred_calls";
const STILL_DEFERRED: &str =
    "A hook has deferred this call again, and the conversation continued: it did not run.";

/// Answers the open calls of a session that somebody else has left, so that they are not run for the user, whoever goes on with it:
/// one who [takes over](Session::take_over) a run does not ask for the note.
///
/// # Errors
///
/// If the store cannot be read or written.
pub async fn answer_open_calls(store: &dyn Store, clock: &dyn Clock) -> Result<(), StoreError> {
    let transcript = store.load().await?;
    let results = close_open_calls(&transcript).into_iter();
    let results: Vec<_> = results.map(ContentBlock::ToolResult).collect();
    let mut records = vec![Record::Note(NOTE.to_owned(), String::new())];
    if !results.is_empty() {
        let last = transcript.last().map(|last| &**last);
        let stamp = (clock.message_id(), clock.now());
        let message = Message::behind(last, stamp, Role::User, Origin::Results, results);
        records.push(Record::Message(message.into()));
    }
    store.append(records).await
}

impl Session {
    /// Returns whether calls of the last answer wait for the hook that has deferred them.
    pub fn has_deferred(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Finds the calls that an earlier process has left; the others of the last answer stay open with them.
    pub(crate) async fn find_deferred(&mut self) -> Result<(), StoreError> {
        self.waiting.clear();
        let open = self.transcript.open_calls();
        if open.is_empty() {
            return Ok(());
        }
        let note = self.ports.store.note(NOTE).await?.unwrap_or_default();
        let named: Vec<ToolUseId> = json::from_str(&note).unwrap_or_default();
        // One that has begun since may have run.
        let waits = |id: &ToolUseId| named.contains(id) && self.transcript.call(id).is_none();
        let ids = open.into_iter().map(|call| call.id.clone());
        self.waiting = ids.filter(waits).collect();
        Ok(())
    }

    /// Has the open calls that have not begun, or change nothing, decided about when the run is resumed.
    pub(crate) fn wait_for_calls(&mut self) {
        let open = self.transcript.open_calls().into_iter();
        let may_begin = |call: &&ToolUse| match self.transcript.call(&call.id) {
            None => true,
            Some(CallState::Started { mutating, agent_id }) => !mutating && agent_id.is_none(),
            Some(CallState::Finished(_)) => false,
        };
        self.waiting = open.filter(may_begin).map(|call| call.id.clone()).collect();
    }

    /// Leaves a call to a later run.
    pub(crate) async fn defer(&mut self, call: &ToolUse) -> Result<(), StoreError> {
        if !self.waiting.contains(&call.id) {
            self.waiting.push(call.id.clone());
        }
        self.deferred.get_or_insert_with(|| call.clone());
        self.store(vec![self.deferred_note()]).await
    }

    /// Returns the calls of `calls` that are to be decided about: of an answer that is taken up again, only those that
    /// wait. The others have run, or may have.
    pub(crate) fn take_waiting(&mut self, calls: Vec<ToolUse>) -> Vec<ToolUse> {
        if self.waiting.is_empty() {
            return calls;
        }
        let waiting = std::mem::take(&mut self.waiting);
        calls
            .into_iter()
            .filter(|call| waiting.contains(&call.id))
            .collect()
    }

    /// Returns the note with the calls that wait now.
    pub(crate) fn deferred_note(&self) -> Record {
        Record::Note(NOTE.to_owned(), serde_json::json!(self.waiting).to_string())
    }

    /// Answers the calls that wait, before a prompt follows them: the hooks are asked again.
    pub(crate) async fn settle_deferred(&mut self, stop: &Stop) -> Result<(), StoreError> {
        if !self.has_deferred() {
            return Ok(());
        }
        let open = self.transcript.open_calls().into_iter().cloned().collect();
        self.run_tools(open, stop).await?;
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        self.deferred = None;
        let calls = self.transcript.open_calls().into_iter();
        let results = calls.zip(close_open_calls(&self.transcript));
        let results = results.map(|(call, result)| match waiting.contains(&call.id) {
            true => ToolResult::error(call, STILL_DEFERRED),
            false => result,
        });
        let results = results.map(ContentBlock::ToolResult).collect();
        self.append(Origin::Results, results).await
    }
}
