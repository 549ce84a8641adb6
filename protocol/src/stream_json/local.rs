//! Prompts that the protocol answers itself, without the model.

use ah_conversation::ContentBlock;

/// Prompt that is a command of the protocol.
pub(super) enum Local<'a> {
    /// Compact the conversation, with instructions for the summary.
    Compact(Option<&'a str>),
}

/// Returns the command that a prompt is.
pub(super) fn local(content: &[ContentBlock]) -> Option<Local<'_>> {
    let [ContentBlock::Text { text }] = content else {
        return None;
    };
    let rest = text.trim().strip_prefix("/compact")?;
    let wanted = Some(rest.trim()).filter(|wanted| !wanted.is_empty());
    let is_whole = rest.is_empty() || rest.starts_with(char::is_whitespace);
    is_whole.then_some(Local::Compact(wanted))
}
