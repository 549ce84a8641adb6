//! A session in the store, for reading.

use std::io::Write;

use ah_conversation::{Cost, Head, Message, MessageId, StoreError, ToolUseId, Verdicts};
use ah_desk::Transcript;
use ah_store::Tree;

/// A session in the store.
pub(super) struct Stored(pub Tree);

impl Transcript for Stored {
    fn name(&self) -> Result<Option<String>, StoreError> {
        self.0.name()
    }

    fn current(&self) -> Result<Option<MessageId>, StoreError> {
        self.0.current()
    }

    fn message(&self, id: &MessageId) -> Result<Option<Message>, StoreError> {
        self.0.message(id)
    }

    fn verdicts(&self) -> Result<Verdicts, StoreError> {
        self.0.verdicts()
    }

    fn heads(&self) -> Result<Vec<Head>, StoreError> {
        self.0.heads()
    }

    fn spent(&self) -> Result<Cost, StoreError> {
        self.0.spent()
    }

    fn copy_output(&self, call: &ToolUseId, to: &mut dyn Write) -> Result<bool, StoreError> {
        Ok(self.0.copy_output(call, to)?.is_some())
    }
}
