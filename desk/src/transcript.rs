//! Port: a stored session, as it is now.

use std::io::Write;

use ah_conversation::{Cost, Head, Message, MessageId, StoreError, ToolUseId, Verdicts};

/// Reads the tree of a session, also while another process has it open.
pub trait Transcript: Send {
    /// Returns the session's name, if it has one.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn name(&self) -> Result<Option<String>, StoreError>;

    /// Returns the id of the current message; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn current(&self) -> Result<Option<MessageId>, StoreError>;

    /// Returns a message; `None` if there is none with this id.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn message(&self, id: &MessageId) -> Result<Option<Message>, StoreError>;

    /// Returns what the checks of runs have shown at their ends.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn verdicts(&self) -> Result<Verdicts, StoreError>;

    /// Returns what lists have of all messages, in the order of storing.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn heads(&self) -> Result<Vec<Head>, StoreError>;

    /// Returns what all requests of the session have cost, as far as prices are known.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn spent(&self) -> Result<Cost, StoreError>;

    /// Writes the whole output of a call to `to`; returns whether there is such a call.
    ///
    /// # Errors
    ///
    /// If the store cannot be read, or `to` cannot be written.
    fn copy_output(&self, call: &ToolUseId, to: &mut dyn Write) -> Result<bool, StoreError>;
}

impl dyn Transcript {
    /// Returns the messages of the current branch, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn branch(&self) -> Result<Vec<Message>, StoreError> {
        let (mut next, mut branch) = (self.current()?, Vec::<Message>::new());
        while let Some(id) = next {
            // A damaged tree may lead back to where it came from.
            let comes_before =
                |message: &Message| branch.last().is_none_or(|last| message.seq < last.seq);
            let Some(message) = self.message(&id)?.filter(comes_before) else {
                break;
            };
            next = message.parent.clone();
            branch.push(message);
        }
        branch.reverse();
        Ok(branch)
    }
}
