//! Repairs a history so that models accept it: each tool use has its result right after it, each result its use.
//!
//! A crash or an interrupt may leave calls without results, a deleted message may leave results without calls,
//! anywhere. The stored state decides, never timing: a call whose result is in the journal has that result.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::{
    CallState, ContentBlock, LiveOutput, Message, Origin, Role, ToolResult, ToolUse, ToolUseId,
    Transcript,
};

const MAY_HAVE_RUN: &str = "The session was interrupted while this tool ran. It may have run, wholly or in part, and \
    was not run again: check its effects before you repeat it.";
const NEVER_RAN: &str = "The session was interrupted before this tool ran; it did not run.";
const UNKNOWN: &str =
    "The result of this tool call is not in the conversation; it may or may not have run.";

/// Returns results for the calls that an earlier process left open in the last answer, in order: those in the
/// journal, and an error for the rest. A started call is never run again.
pub fn close_open_calls(transcript: &Transcript) -> Vec<ToolResult> {
    let close = |call: &ToolUse| match transcript.call(&call.id) {
        Some(CallState::Finished(result)) => result.clone(),
        Some(CallState::Started {
            agent_id: Some(id), ..
        }) => ToolResult::error(
            call,
            format!(
                "{MAY_HAVE_RUN} What the subagent {id} has done is kept: continue it with `resume`."
            ),
        ),
        Some(CallState::Started { agent_id: None, .. }) => ToolResult::error(call, MAY_HAVE_RUN),
        None => ToolResult::error(call, NEVER_RAN),
    };
    transcript.open_calls().into_iter().map(close).collect()
}

/// Returns the result of a call that was interrupted while it ran: what it has written until then, and that it may have
/// had effects.
pub fn interrupted(output: &LiveOutput) -> String {
    let (bytes, before) = output.last(usize::MAX);
    let text = String::from_utf8_lossy(&bytes);
    match (text.trim_end(), before) {
        ("", _) => MAY_HAVE_RUN.to_owned(),
        (text, 0) => format!("{text}\n[{MAY_HAVE_RUN}]"),
        (text, before) => format!("[{before} bytes left out]\n{text}\n[{MAY_HAVE_RUN}]"),
    }
}

/// Returns an output as a person reads it: they have interrupted the call, and need no advice about that.
pub fn without_advice(output: &str) -> Cow<'_, str> {
    if !output.contains(MAY_HAVE_RUN) && output != NEVER_RAN {
        return Cow::Borrowed(output);
    }
    let text = output.replace(MAY_HAVE_RUN, "interrupted");
    Cow::Owned(text.replace(NEVER_RAN, "interrupted before it began"))
}

/// Returns `view` in a form that models accept: it starts with a user message, has no empty messages, every tool use
/// is answered in the message after it and every result belongs to a call in the message before it. Valid messages
/// are passed on unchanged.
pub fn sendable(view: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut sound = Vec::with_capacity(view.len());
    extend_sendable(&mut sound, view);
    sound
}

/// Appends `newer` messages to a [`sendable`] history and keeps it sendable.
pub fn extend_sendable(sound: &mut Vec<Arc<Message>>, newer: &[Arc<Message>]) {
    for message in newer.iter().filter(|message| !message.content.is_empty()) {
        let asking = sound.last().cloned();
        let open = calls_of(asking.as_deref());
        match message.role {
            Role::Assistant => {
                sound.extend(answer_open(asking.as_deref(), &open));
                if !sound.is_empty() {
                    sound.push(message.clone());
                }
            }
            Role::User if is_sound(message, &open) => sound.push(message.clone()),
            Role::User => sound.extend(repaired(message, &open)),
        }
    }
    let asking = sound.last().cloned();
    sound.extend(answer_open(asking.as_deref(), &calls_of(asking.as_deref())));
}

/// Returns the calls that the next message has to answer.
fn calls_of(last: Option<&Message>) -> Vec<&ToolUse> {
    last.into_iter().flat_map(Message::tool_uses).collect()
}

/// Whether the message answers exactly the open calls, before any other content.
fn is_sound(message: &Message, open: &[&ToolUse]) -> bool {
    let results = message.tool_results().count();
    let leads = message
        .content
        .iter()
        .take(results)
        .all(|block| matches!(block, ContentBlock::ToolResult(_)));
    if results != open.len() || !leads {
        return false;
    }
    let in_order = message
        .tool_results()
        .zip(open)
        .all(|(result, call)| result.tool_use_id == call.id);
    in_order || {
        let wanted: HashSet<_> = open.iter().map(|call| &call.id).collect();
        let given: HashSet<_> = message
            .tool_results()
            .map(|result| &result.tool_use_id)
            .collect();
        wanted == given
    }
}

/// Returns the message with exactly one result for each open call, results first; `None` if it would be empty.
fn repaired(message: &Message, open: &[&ToolUse]) -> Option<Arc<Message>> {
    let result_of = |id: &ToolUseId| {
        let mut results = message.tool_results();
        results.find(|result| result.tool_use_id == *id).cloned()
    };
    let results = open
        .iter()
        .map(|call| result_of(&call.id).unwrap_or_else(|| ToolResult::error(call, UNKNOWN)));
    let mut content: Vec<_> = results.map(ContentBlock::ToolResult).collect();
    let others = message.content.iter();
    content.extend(
        others
            .filter(|block| !matches!(block, ContentBlock::ToolResult(_)))
            .cloned(),
    );
    (!content.is_empty()).then(|| {
        Arc::new(Message {
            content,
            ..message.clone()
        })
    })
}

/// Returns a message that answers the calls still open.
fn answer_open(asking: Option<&Message>, open: &[&ToolUse]) -> Option<Arc<Message>> {
    let asking = asking.filter(|_| !open.is_empty())?;
    let results = open.iter().map(|call| ToolResult::error(call, UNKNOWN));
    Some(Arc::new(Message {
        id: asking.id.clone(),
        parent: Some(asking.id.clone()),
        seq: asking.seq + 1,
        role: Role::User,
        origin: Origin::Results,
        created_at: asking.created_at,
        content: results.map(ContentBlock::ToolResult).collect(),
        response: None,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{messages, shown, transcript};

    #[test]
    fn histories_are_repaired_per_id_in_both_directions() {
        for (line, expected) in [
            (
                "user assistant:tool_use(a, b) results",
                "user(user) assistant(words t1? t2?) user(t1= t2=)",
            ),
            (
                "user assistant:tool_use(a, b) results(t2)",
                "user(user) assistant(words t1? t2?) user(t1! t2=)",
            ),
            (
                "user assistant:tool_use(a) user",
                "user(user) assistant(words t1?) user(t1! user)",
            ),
            (
                "user assistant:tool_use(a)",
                "user(user) assistant(words t1?) user(t1!)",
            ),
            (
                "user assistant:tool_use(a) assistant:end_turn",
                "user(user) assistant(words t1?) user(t1!) assistant(words)",
            ),
            (
                "user results(t9) assistant:end_turn",
                "user(user) assistant(words)",
            ),
            (
                "user assistant:tool_use(a) results(t1, t9)",
                "user(user) assistant(words t1?) user(t1=)",
            ),
            ("assistant:end_turn user", "user(user)"),
            (
                "user empty assistant:max_tokens(nothing) user",
                "user(user) user(user)",
            ),
            (
                "user assistant:tool_use(a) results steering",
                "user(user) assistant(words t1?) user(t1=) user(steering)",
            ),
        ] {
            assert_eq!(shown(&sendable(&messages(line))), expected, "{line}");
        }
    }

    #[test]
    fn a_valid_history_is_unchanged() {
        let sound =
            messages("user assistant:tool_use(a, b) results steering assistant:end_turn user");
        assert!(
            sendable(&sound)
                .iter()
                .zip(&sound)
                .all(|(sent, stored)| Arc::ptr_eq(sent, stored))
        );
    }

    #[test]
    fn open_calls_are_closed_from_the_journal() {
        let mut transcript = transcript("user assistant:tool_use(a, b, c, d)");
        transcript.start_call("t1".into(), true);
        transcript.start_call("t3".into(), true);
        let call = ToolUse {
            id: "t3".into(),
            name: "c".into(),
            input: crate::Input::default(),
        };
        transcript.finish_call(ToolResult {
            is_error: false,
            ..ToolResult::error(&call, "done")
        });
        let results: Vec<String> = close_open_calls(&transcript)
            .iter()
            .map(ToolResult::text)
            .collect();
        assert_eq!(results, [MAY_HAVE_RUN, NEVER_RAN, "done", NEVER_RAN]);
    }

    /// Checks a history as the Messages API does.
    fn error(history: &[Arc<Message>]) -> Option<String> {
        let mut asked: Vec<ToolUseId> = Vec::new();
        for (at, message) in history.iter().enumerate() {
            let given: Vec<_> = message
                .tool_results()
                .map(|result| result.tool_use_id.clone())
                .collect();
            let is_user = message.role == Role::User;
            if message.content.is_empty() {
                return Some(format!("message {at} is empty"));
            }
            if at == 0 && !is_user {
                return Some("the first message is not the user's".to_owned());
            }
            if given != asked {
                return Some(format!(
                    "message {at} answers {given:?}, asked were {asked:?}"
                ));
            }
            let leads = message
                .content
                .iter()
                .take(given.len())
                .all(|block| matches!(block, ContentBlock::ToolResult(_)));
            if !leads {
                return Some(format!("message {at} says something before its results"));
            }
            asked = message.tool_uses().map(|call| call.id.clone()).collect();
        }
        (!asked.is_empty()).then(|| "the last calls have no results".to_owned())
    }

    fn word() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "user",
            "empty",
            "steering",
            "results",
            "results(t1)",
            "results(t2, t3)",
            "summary",
            "summary(1)",
            "summary(3)",
            "assistant:end_turn",
            "assistant:max_tokens(nothing)",
            "assistant:tool_use(a)",
            "assistant:tool_use(a, b)",
        ])
    }

    proptest! {
        #[test]
        fn every_history_becomes_valid(words in prop::collection::vec(word(), 0..14)) {
            let view = transcript(&words.join(" ")).view();
            let sent = sendable(&view);
            prop_assert_eq!(error(&sent), None, "{}", shown(&sent));
            prop_assert_eq!(shown(&sendable(&sent)), shown(&sent));
            let user_text = |messages: &[Arc<Message>]| messages.iter().filter(|message| message.role == Role::User).map(|message| message.text()).collect::<String>();
            prop_assert_eq!(user_text(&sent), user_text(&view));
        }

        #[test]
        fn a_summary_keeps_the_newest_message_in_view(words in prop::collection::vec(word(), 1..14), tokens in 0u64..60) {
            let mut line = words.join(" ");
            let before = transcript(&line);
            let Some(first) = before.tail_within(tokens) else { return Ok(()) };
            let newest = before.last().map(|last| last.id.clone());
            line.push_str(&format!(" summary({}) user", first.as_str().trim_start_matches('m')));
            let view = transcript(&line).view();
            let newest_is_summary = before.last().is_some_and(|last| last.is_summary());
            prop_assert!(newest_is_summary || view.iter().any(|message| Some(&message.id) == newest.as_ref()));
            prop_assert_eq!(error(&sendable(&view)), None);
        }
    }
}
