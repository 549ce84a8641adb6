//! What must hold, each said once. A fault is a sentence for people.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ah_conversation::{MailKind, Message, MessageId, Role, ToolUseId};

use crate::world::State;

/// What a tool says that has done its work.
pub(crate) fn written(call: &ToolUseId) -> String {
    format!("Written for {call}.")
}

/// A request has a history that every vendor accepts, and continues the one before.
pub(crate) fn request(messages: &[Arc<Message>], before: &[MessageId]) -> Result<(), String> {
    let continued = messages.iter().map(|message| &message.id);
    if !before.iter().eq(continued.take(before.len())) {
        return Err("a request does not continue the one before".to_owned());
    }
    if messages
        .first()
        .is_none_or(|message| message.role != Role::User)
    {
        return Err("a request does not begin with the user".to_owned());
    }
    let mut ids = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        if message.content.is_empty() {
            return Err(format!("message {at} of a request is empty"));
        }
        if !ids.insert(&message.id) {
            return Err(format!("message {at} of a request has the id of another"));
        }
        let asked: Vec<_> = message.tool_uses().map(|call| &call.id).collect();
        let next = messages.get(at + 1);
        let told = next.into_iter().flat_map(|next| next.tool_results());
        let told: Vec<_> = told.map(|result| &result.tool_use_id).collect();
        if asked != told {
            return Err(format!(
                "message {at} asks for {asked:?}, and the next has the results of {told:?}"
            ));
        }
    }
    Ok(())
}

/// What holds at any time, whatever has happened to the processes.
pub(crate) fn always(branch: &[Arc<Message>], state: &State) -> Result<(), String> {
    acknowledged(branch, state)?;
    effects(branch, state)?;
    mail(branch, state, false)
}

/// What holds in addition when the last run has ended by itself. Mail is due unless it may have come while the run ended.
pub(crate) fn at_rest(
    branch: &[Arc<Message>],
    state: &State,
    mail_is_due: bool,
) -> Result<(), String> {
    let results = results(branch);
    for call in &state.ledger {
        let told = results.get(call).map(String::as_str).unwrap_or_default();
        if !told.contains(&written(call)) && !told.contains("may have run") {
            return Err(format!(
                "{call} has had an effect, and its result is {told:?}"
            ));
        }
    }
    mail(branch, state, mail_is_due)
}

/// What was acknowledged is there: messages in order, and results of calls as they were journalled.
fn acknowledged(branch: &[Arc<Message>], state: &State) -> Result<(), String> {
    let mut ids = branch.iter().map(|message| &message.id);
    if let Some(id) = state
        .acknowledged
        .iter()
        .find(|id| !ids.any(|other| other == *id))
    {
        return Err(format!("message {id} was acknowledged and is not there"));
    }
    let results = results(branch);
    for (call, text) in &state.ended {
        if results.get(call).is_some_and(|told| told != text) {
            return Err(format!(
                "the end of {call} was acknowledged, and its result is another"
            ));
        }
    }
    Ok(())
}

/// No call has two effects, and none is reported that did not happen.
fn effects(branch: &[Arc<Message>], state: &State) -> Result<(), String> {
    let mut had = HashSet::new();
    if let Some(call) = state.ledger.iter().find(|call| !had.insert(*call)) {
        return Err(format!("{call} has had its effect twice"));
    }
    for (call, told) in results(branch) {
        if let Some(name) = told.strip_prefix("Written for ")
            && (!had.contains(&call) || !name.starts_with(&format!("{call}.")))
        {
            return Err(format!(
                "the result of {call} is {told:?}, which did not happen"
            ));
        }
    }
    Ok(())
}

/// Queued messages are in the conversation once and in their order; those that are due have arrived.
fn mail(branch: &[Arc<Message>], state: &State, is_due: bool) -> Result<(), String> {
    for kind in [MailKind::Steer, MailKind::FollowUp] {
        let sent = state.mail.iter().filter(|(other, _)| *other == kind);
        let mut arrived = Vec::new();
        for (_, text) in sent {
            let is_it =
                |message: &Message| message.role == Role::User && message.text().contains(text);
            let mut places = branch
                .iter()
                .enumerate()
                .filter(|(_, message)| is_it(message));
            match (places.next(), places.next()) {
                (_, Some(_)) => return Err(format!("{text} has arrived twice")),
                (Some((place, _)), None) => arrived.push(place),
                (None, None) if is_due => return Err(format!("{text} has not arrived")),
                (None, None) => {}
            }
        }
        if !arrived.is_sorted() {
            return Err(format!("mail ({kind:?}) has arrived in another order"));
        }
    }
    Ok(())
}

fn results(branch: &[Arc<Message>]) -> HashMap<ToolUseId, String> {
    let all = branch.iter().flat_map(|message| message.tool_results());
    all.map(|result| (result.tool_use_id.clone(), result.text()))
        .collect()
}
