//! What must hold, each looked at in one place.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ah_conversation::{ContentBlock, MailKind, Message, MessageId, Origin, Role, ToolUseId};
use ah_protocol::Message as Told;

use crate::law::{Fault, Law};
use crate::world::State;

/// What is said of a call of which nobody knows whether it has run.
const MAY_HAVE_RUN: &str = "may have run";

/// What is said of a call whose server has ended.
const UNKNOWN: &str = "unknown whether the call had any effect";

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
        true => old.id == new.id && old.content == new.content,
        false => old.id == new.id && said(old).eq(said(new)),
    };
    // What is told before an answer is its last word, also if more was said until it came.
    let is_update = |message: &Arc<Message>| matches!(message.origin, Origin::Update(_));
    let end = before.iter().rposition(|message| !is_update(message));
    let before = &before[..end.map_or(0, |last| last + 1)];
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

/// Looks at a request that is about to be sent: there is something left of the budget.
pub(crate) fn bounded(state: &State) -> Result<(), Fault> {
    match state.budget {
        Some(budget) if state.spent > budget => {
            let what = format!(
                "{} of {budget} tokens are used, and an agent asks for more",
                state.spent
            );
            Err(Law::Bounded.broken(what))
        }
        _ => Ok(()),
    }
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

/// Looks at what the host of a process was told that ended by itself: it has all that is stored, once.
pub(crate) fn told(all: &[Message], state: &State) -> Result<(), Fault> {
    let results = results(all);
    let (mut calls, mut texts, mut ended) = (HashSet::new(), String::new(), HashSet::new());
    let mut ends = 0;
    for told in &state.told {
        let content = match told {
            Told::Assistant(told) => &told.message["content"],
            Told::User(told) => &told.message["content"],
            Told::Result(_) => {
                ends += 1;
                continue;
            }
            _ => continue,
        };
        for block in content.as_array().into_iter().flatten() {
            let text = |field: &str| block[field].as_str().unwrap_or_default();
            match text("type") {
                "tool_use" => drop(calls.insert(ToolUseId::from(text("id")))),
                "tool_result" => {
                    let call = ToolUseId::from(text("tool_use_id"));
                    let stored = results.get(&call).map(Vec::as_slice).unwrap_or_default();
                    let is_stored = stored.iter().any(|it| it == text("content"));
                    if block["content"].is_string()
                        && !is_stored
                        && !is_lost_above(&call, all, &results, state)
                    {
                        let what = format!("the host has another result of {call} than {stored:?}");
                        return Err(Law::Shown.broken(what));
                    }
                    if !ended.insert(call.clone()) {
                        return Err(Law::Shown.broken(format!("{call} ends twice for the host")));
                    }
                }
                "text" => texts.push_str(text("text")),
                _ => {}
            }
        }
    }
    let new = { &state.acknowledged }[state.acknowledged_before..].iter();
    let new: HashSet<_> = new.collect();
    for message in all
        .iter()
        .filter(|it| it.role == Role::Assistant && new.contains(&it.id))
    {
        if !texts.contains(&message.text()) {
            let what = format!("the host does not know {:?}", message.text());
            return Err(Law::Shown.broken(what));
        }
        for call in message.tool_uses() {
            if !calls.contains(&call.id)
                || results.contains_key(&call.id) && !ended.contains(&call.id)
            {
                let what = format!("the host does not know {}, or its result", call.id);
                return Err(Law::Shown.broken(what));
            }
        }
    }
    match ends {
        0 => Err(Law::Shown.broken("the host was not told of the end")),
        _ => Ok(()),
    }
}

/// Looks at a transcript: it ends as the conversation does.
pub(crate) fn transcribed(current: &[Arc<Message>], transcript: &[Message]) -> Result<(), Fault> {
    let said = |message: &Message| -> Vec<String> {
        let calls = message.tool_uses().map(|call| format!("calls {}", call.id));
        let results = message.tool_results();
        let results = results.map(|it| format!("{} of {}", it.text(), it.tool_use_id));
        let text = (message.role == Role::Assistant).then(|| message.text());
        let text = text.into_iter().filter(|text| !text.is_empty());
        text.chain(calls).chain(results).collect()
    };
    let stored = current
        .iter()
        .rev()
        .flat_map(|message| said(message).into_iter().rev());
    let mut written = transcript
        .iter()
        .rev()
        .flat_map(|message| said(message).into_iter().rev());
    for stored in stored {
        let written = written.next();
        if written.as_ref() != Some(&stored) {
            let what = format!("the transcript has {written:?} in the place of {stored:?}");
            return Err(Law::Shown.broken(what));
        }
    }
    Ok(())
}

/// Looks at what a run has left that ended by itself. Mail is due unless it may have come while the run ended.
pub(crate) fn at_rest(all: &[Message], state: &State, mail_is_due: bool) -> Result<(), Fault> {
    let results = results(all);
    let is_lost = |(call, _): &&(ToolUseId, String)| {
        !results.contains_key(call) && !is_lost_above(call, all, &results, state)
    };
    if let Some((call, _)) = state.ended.iter().find(is_lost) {
        return Err(Law::Kept.broken(format!("{call} has ended, and has no result")));
    }
    for call in &state.ledger {
        let told = results.get(call).map(Vec::as_slice).unwrap_or_default();
        let is_report = |told: &String| {
            let may_have = [MAY_HAVE_RUN, UNKNOWN];
            told.contains(&written(call)) || may_have.iter().any(|words| told.contains(words))
        };
        if !told.iter().any(is_report) && !is_lost_above(call, all, &results, state) {
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

/// Whether a call was made by a subagent that may have done more than is known.
fn is_lost_above(
    call: &ToolUseId,
    all: &[Message],
    results: &BTreeMap<ToolUseId, Vec<String>>,
    state: &State,
) -> bool {
    state.below.get(call).is_some_and(|(above, agent)| {
        let told = results.get(above).map(Vec::as_slice).unwrap_or_default();
        let is_cut_off = |message: &Message| {
            let text = message.text();
            text.contains(agent) && text.contains(MAY_HAVE_RUN)
        };
        told.iter().any(|told| told.contains(MAY_HAVE_RUN))
            || all.iter().any(is_cut_off)
            || is_lost_above(above, all, results, state)
    })
}

fn kept(branch: &[Message], state: &State) -> Result<(), Fault> {
    let places = branch.iter().enumerate();
    let places: HashMap<_, _> = places.map(|(at, message)| (&message.id, at)).collect();
    let mut last = HashMap::new();
    for (at, id) in state.acknowledged.iter().enumerate() {
        let place = places.get(id).copied();
        // Conversations side by side are in no order.
        let before = last.insert(state.owners.get(id), place).flatten();
        if place.is_none() || before > place {
            let what = format!("acknowledged message {at} is not there");
            return Err(Law::Kept.broken(what));
        }
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
