//! Port: a stored session, as it is now.

use std::io::Write;

use ah_conversation::{Head, Message, MessageId, StoreError, ToolUseId};

/// Reads the tree of a session, also while another process has it open.
pub trait Transcript: Send {
    /// Returns the session's name, if it has one.
    ///
    /// # Errors
    ///
    /// If the store cannot be read, as for all of these.
    fn name(&self) -> Result<Option<String>, StoreError>;

    /// Returns the id of the current message; `None` if there is none.
    ///
    /// # Errors
    fn current(&self) -> Result<Option<MessageId>, StoreError>;

    /// Returns a message; `None` if there is none with this id.
    ///
    /// # Errors
    fn message(&self, id: &MessageId) -> Result<Option<Message>, StoreError>;

    /// Returns what lists have of all messages, in the order of storing.
    ///
    /// # Errors
    fn heads(&self) -> Result<Vec<Head>, StoreError>;

    /// Writes the whole output of a call to `to`; returns whether there is such a call.
    ///
    /// # Errors
    fn copy_output(&self, call: &ToolUseId, to: &mut dyn Write) -> Result<bool, StoreError>;
}

impl dyn Transcript {
    /// Returns the messages of the current branch, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn branch(&self) -> Result<Vec<Message>, StoreError> {
        let (mut next, mut branch) = (self.current()?, Vec::new());
        while let Some(id) = next {
            let Some(message) = self.message(&id)? else {
                break;
            };
            next = message.parent.clone();
            branch.push(message);
        }
        branch.reverse();
        Ok(branch)
    }
}
