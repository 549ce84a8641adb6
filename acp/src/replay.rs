//! A stored conversation, told again to an editor that loads it.

use agent_client_protocol::v1::schema::SessionUpdate as Told;
use ah_conversation::{ContentBlock, Message, Origin, Role, Verdicts, command_in, is_note};

use crate::editor::{Editor, chunk, thought};

/// Tells the messages, oldest first, each with what the check has shown of the run that it ended.
pub(crate) fn replay<'a>(
    messages: impl Iterator<Item = &'a Message>,
    verdicts: &Verdicts,
    editor: &Editor,
) {
    for message in messages {
        match (&message.origin, message.role) {
            (Origin::Prompt | Origin::FollowUp, _) => prompt(message, editor),
            (Origin::Steering, _) => {
                let text = message.text();
                let said = text.strip_prefix("[STEERING]").unwrap_or(&text).trim();
                let chunk = chunk(said, message.id.as_str());
                editor.wire.tell(Told::UserMessageChunk(chunk));
            }
            (_, Role::Assistant) => answer(message, editor),
            (Origin::Results, _) => {
                let results = message.tool_results();
                results.for_each(|result| editor.ended(result));
            }
            // What the program told the model was not shown then either.
            _ => {}
        }
        if let Some(known) = verdicts.get(&message.id) {
            editor.say(&known.replayed_line());
        }
    }
}

fn prompt(message: &Message, editor: &Editor) {
    if message
        .content
        .iter()
        .filter_map(ContentBlock::as_text)
        .any(|text| command_in(text).is_some())
    {
        let chunk = chunk(&message.said(), message.id.as_str());
        return editor.wire.tell(Told::UserMessageChunk(chunk));
    }
    let texts = message.content.iter().filter_map(ContentBlock::as_text);
    for text in texts.filter(|text| !is_note(text)) {
        let chunk = chunk(text, message.id.as_str());
        editor.wire.tell(Told::UserMessageChunk(chunk));
    }
}

fn answer(message: &Message, editor: &Editor) {
    let id = message.id.as_str();
    for block in &message.content {
        match block {
            ContentBlock::Thinking { thinking, .. } if !thinking.is_empty() => {
                let chunk = chunk(thinking, &thought(id));
                editor.wire.tell(Told::AgentThoughtChunk(chunk));
            }
            ContentBlock::ToolUse(call) => editor.made(call),
            block => {
                if let Some(text) = block.as_text().filter(|text| !text.is_empty()) {
                    editor.wire.tell(Told::AgentMessageChunk(chunk(text, id)));
                }
            }
        }
    }
}
