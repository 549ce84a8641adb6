//! What must hold, each looked at in one place.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ah_conversation::{ContentBlock, MailKind, Message, MessageId, Role, ToolUseId};

use crate::law::{Fault, Law};
use crate::world::State;

/// What a tool says that has done its work.
pub(crate) fn written(call: &ToolUseId) -> String {
    format!("Written for {call}.")
}

/// What a tool says that has looked.
pub(crate) fn looked(call: &ToolUseId) -> String {
    format!("Looked for {call}.")
}

/// Looks at a request with these messages, after one with the messages `before` to the same model or to another, which may not get
/// what the first has thought.
pub(crate) fn request(
    messages: &[Arc<Message>],
    before: &[Arc<Message>],
    is_same_model: bool,
) -> Result<(), Fault> {
    let is_same = |(old, new): &(&Arc<Message>, &Arc<Message>)| match is_same_model {
        true => old == new,
        false => old.id == new.id && said(old).eq(said(new)),
    };
    let at = before.iter().zip(messages).take_while(is_same).count();
    if at < before.len() {
        return Err(Law::Continued.broken(format!("message {at} is another than before")));
    }
    if messages
        .first()
        .is_none_or(|message| message.role != Role::User)
    {
        return Err(Law::Accepted.broken("a request does not begin with the user"));
    }
    let mut ids = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        if message.content.is_empty() {
            return Err(Law::Accepted.broken(format!("message {at} is empty")));
        }
        if !ids.insert(&message.id) {
            return Err(Law::Accepted.broken(format!("message {at} has the id of another")));
        }
        let asked: Vec<_> = message.tool_uses().map(|call| &call.id).collect();
        let next = messages.get(at + 1);
        let told = next.into_iter().flat_map(|next| next.tool_results());
        let told: Vec<_> = told.map(|result| &result.tool_use_id).collect();
        if asked != told {
            let what =
                format!("message {at} calls {asked:?}, the next has the results of {told:?}");
            return Err(Law::Accepted.broken(what));
        }
    }
    Ok(())
}

fn said(message: &Message) -> impl Iterator<Item = &ContentBlock> {
    let is_thought = |block: &&ContentBlock| {
        matches!(
            block,
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
        )
    };
    message
        .content
        .iter()
        .filter(move |block| !is_thought(block))
}

/// Looks at what a process has left, however it ended: at all messages, of every branch.
pub(crate) fn always(all: &[Message], state: &State) -> Result<(), Fault> {
    kept(all, state)?;
    once(all, state)?;
    delivered(all, state, false)
}

/// Looks at what watchers of a process were shown that ended by itself.
pub(crate) fn shown(all: &[Message], state: &State) -> Result<(), Fault> {
    for shown in &state.shown {
        let stored = all.iter().find(|message| message.id == shown.id);
        if stored.is_none_or(|stored| stored.content != shown.content) {
            let what = format!("a message by the {:?} is stored otherwise", shown.role);
            return Err(Law::Shown.broken(what));
        }
    }
    let mut stored = { &state.acknowledged }[state.acknowledged_before..].iter();
    let is_shown = |id: &&MessageId| state.shown.iter().any(|shown| shown.id == **id);
    match stored.find(|id| !is_shown(id)) {
        Some(id) => Err(Law::Shown.broken(format!("message {id} was shown to nobody"))),
        None => Ok(()),
    }
}

/// Looks at what a run has left that ended by itself. Mail is due unless it may have come while the run ended.
pub(crate) fn at_rest(all: &[Message], state: &State, mail_is_due: bool) -> Result<(), Fault> {
    let results = results(all);
    let is_lost = |(call, _): &&(ToolUseId, String)| !results.contains_key(call);
    if let Some((call, _)) = state.ended.iter().find(is_lost) {
        return Err(Law::Kept.broken(format!("{call} has ended, and has no result")));
    }
    for call in &state.ledger {
        let told = results.get(call).map(Vec::as_slice).unwrap_or_default();
        let is_report =
            |told: &String| told.contains(&written(call)) || told.contains("may have run");
        if !told.iter().any(is_report) {
            let what = format!("{call} has had an effect, and its result is {told:?}");
            return Err(Law::Reported.broken(what));
        }
    }
    answered(all, state)?;
    delivered(all, state, mail_is_due)
}

/// Looks at what was answered to questions.
fn answered(all: &[Message], state: &State) -> Result<(), Fault> {
    let results: Vec<_> = results(all).into_values().flatten().collect();
    let has_arrived = |text: &String| results.iter().any(|told| told.contains(text));
    let mut answers = state.answers.iter().filter(|answer| answer.is_due);
    match answers.find(|answer| !has_arrived(&answer.text)) {
        Some(answer) => Err(Law::Answered.broken(format!("{} is lost", answer.text))),
        None => Ok(()),
    }
}

fn kept(branch: &[Message], state: &State) -> Result<(), Fault> {
    let mut ids = branch.iter().map(|message| &message.id);
    let lost = |id| !ids.any(|other| other == id);
    if let Some(at) = state.acknowledged.iter().position(lost) {
        let what = format!("acknowledged message {at} is not there");
        return Err(Law::Kept.broken(what));
    }
    let results = results(branch);
    let is_other = |(call, text): &&(ToolUseId, String)| {
        results.get(call).is_some_and(|told| !told.contains(text))
    };
    match state.ended.iter().find(is_other) {
        Some((call, _)) => {
            Err(Law::Kept.broken(format!("the result of {call} is another than its end")))
        }
        None => Ok(()),
    }
}

fn once(branch: &[Message], state: &State) -> Result<(), Fault> {
    let mut had = HashSet::new();
    if let Some(call) = state.ledger.iter().find(|call| !had.insert(*call)) {
        return Err(Law::Once.broken(format!("{call} has had its effect twice")));
    }
    let results = results(branch).into_iter();
    let mut told =
        results.flat_map(|(call, told)| told.into_iter().map(move |told| (call.clone(), told)));
    for (call, told) in told.by_ref() {
        let is_false = told.starts_with("Written")
            && !(told == written(&call) && had.contains(&call))
            || told.starts_with("Looked") && told != looked(&call);
        if is_false {
            let what = format!("the result of {call} is {told:?}, which did not happen");
            return Err(Law::Once.broken(what));
        }
    }
    Ok(())
}

fn delivered(branch: &[Message], state: &State, is_due: bool) -> Result<(), Fault> {
    for kind in [MailKind::Steer, MailKind::FollowUp] {
        let mut arrived = Vec::new();
        for sent in state.mail.iter().filter(|sent| sent.kind == kind) {
            let text = &sent.text;
            let is_it =
                |message: &Message| message.role == Role::User && message.text().contains(text);
            let mut places = branch
                .iter()
                .enumerate()
                .filter(|(_, message)| is_it(message));
            match (places.next(), places.next()) {
                (_, Some(_)) => {
                    return Err(Law::Delivered.broken(format!("{text} has arrived twice")));
                }
                (Some((place, _)), None) => arrived.push(place),
                (None, None) if is_due && sent.is_acknowledged => {
                    return Err(Law::Delivered.broken(format!("{text} has not arrived")));
                }
                (None, None) => {}
            }
        }
        if !arrived.is_sorted() {
            return Err(
                Law::Delivered.broken(format!("mail ({kind:?}) has arrived in another order"))
            );
        }
    }
    Ok(())
}

/// Returns what was said of each call: more than once, if the conversation went on behind it again.
fn results(all: &[Message]) -> BTreeMap<ToolUseId, Vec<String>> {
    let mut results: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for result in all.iter().flat_map(|message| message.tool_results()) {
        let told = results.entry(result.tool_use_id.clone()).or_default();
        told.push(result.text());
    }
    results
}
