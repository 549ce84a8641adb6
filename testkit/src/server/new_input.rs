//! Input that a request adds to the conversation.

/// Input since the last answer.
#[derive(Debug, Default)]
pub struct NewInput {
    /// Texts of the user.
    pub user_texts: Vec<String>,
    /// Text of the last tool result.
    pub tool_result: String,
}
