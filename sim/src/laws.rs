//! What must hold, each looked at in one place.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ah_conversation::{MailKind, Message, Role, ToolUseId};

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

/// Looks at a request with these messages, after one with the messages `before`.
pub(crate) fn request(messages: &[Arc<Message>], before: &[Arc<Message>]) -> Result<(), Fault> {
    if !messages.starts_with(before) {
        let same = before.iter().zip(messages).take_while(|(a, b)| a == b);
        let at = same.count();
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

/// Looks at what a process has left, however it ended.
pub(crate) fn always(branch: &[Arc<Message>], state: &State) -> Result<(), Fault> {
    kept(branch, state)?;
    once(branch, state)?;
    delivered(branch, state, false)
}

/// Looks at what a run has left that ended by itself. Mail is due unless it may have come while the run ended.
pub(crate) fn at_rest(
    branch: &[Arc<Message>],
    state: &State,
    mail_is_due: bool,
) -> Result<(), Fault> {
    let results = results(branch);
    for call in &state.ledger {
        let told = results.get(call).map(String::as_str).unwrap_or_default();
        if !told.contains(&written(call)) && !told.contains("may have run") {
            let what = format!("{call} has had an effect, and its result is {told:?}");
            return Err(Law::Reported.broken(what));
        }
    }
    delivered(branch, state, mail_is_due)
}

fn kept(branch: &[Arc<Message>], state: &State) -> Result<(), Fault> {
    let mut ids = branch.iter().map(|message| &message.id);
    let lost = |id| !ids.any(|other| other == id);
    if let Some(at) = state.acknowledged.iter().position(lost) {
        let what = format!("acknowledged message {at} is not there");
        return Err(Law::Kept.broken(what));
    }
    let results = results(branch);
    let is_other =
        |(call, text): &&(ToolUseId, String)| results.get(call).is_some_and(|told| told != text);
    match state.ended.iter().find(is_other) {
        Some((call, _)) => {
            Err(Law::Kept.broken(format!("the result of {call} is another than its end")))
        }
        None => Ok(()),
    }
}

fn once(branch: &[Arc<Message>], state: &State) -> Result<(), Fault> {
    let mut had = HashSet::new();
    if let Some(call) = state.ledger.iter().find(|call| !had.insert(*call)) {
        return Err(Law::Once.broken(format!("{call} has had its effect twice")));
    }
    for (call, told) in results(branch) {
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

fn delivered(branch: &[Arc<Message>], state: &State, is_due: bool) -> Result<(), Fault> {
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

fn results(branch: &[Arc<Message>]) -> BTreeMap<ToolUseId, String> {
    let all = branch.iter().flat_map(|message| message.tool_results());
    all.map(|result| (result.tool_use_id.clone(), result.text()))
        .collect()
}
