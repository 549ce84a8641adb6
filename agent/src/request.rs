//! Conversion of a transcript into a request. Pure.

use std::mem;
use std::sync::Arc;

use ah_conversation::{
    Clock, ContentBlock, Message, Origin, Prefix, Request, Role, ToolSpec, Transcript, Update,
    extend_sendable, trimmed,
};

use crate::SessionSettings;
use crate::prefix::added;

/// The messages of the last request, kept so that the next one only adds the new ones.
#[derive(Debug, Default)]
pub(crate) struct SentRequest {
    messages: Arc<Vec<Arc<Message>>>,
    /// Number of messages of the transcript already included.
    seen: usize,
    /// Position of the summary at their beginning.
    summary: Option<usize>,
    /// Position of the message since which the beginning is sent.
    begun: usize,
    /// What is told before them.
    opening: Option<Arc<Message>>,
    /// Number of messages of the view left out, and the number last reported.
    left_out: usize,
    reported: usize,
}

impl SentRequest {
    /// Returns the request for the next answer, which begins with `prefix`. `binds_thinking` says whether thinking from
    /// before another beginning would be refused.
    pub(crate) fn request(
        &mut self,
        transcript: &Transcript,
        prefix: &Prefix,
        settings: &SessionSettings,
        binds_thinking: bool,
    ) -> Request {
        self.catch_up(transcript, prefix, settings.max_messages, binds_thinking);
        let added = added(prefix, transcript.updates());
        behind(prefix, added, settings, self.messages.clone())
    }

    /// Returns a request with the first messages of the view, or all of them, as the requests so far have said them.
    pub(crate) fn of(
        &self,
        messages: Vec<Arc<Message>>,
        transcript: &Transcript,
        prefix: &Prefix,
        settings: &SessionSettings,
        binds_thinking: bool,
    ) -> Request {
        let view = of_beginning(messages, transcript.prefix_seq(), binds_thinking, false);
        let mut sound = Vec::new();
        let mut said = updates_last(Vec::new(), view);
        // Nothing was answered behind them, and more is said in their place.
        take_updates(&mut said);
        extend_sendable(&mut sound, &said);
        let opening = opening(prefix, sound.first(), self.opening.clone());
        open_with(&mut sound, opening);
        let updates = said.iter().filter_map(|message| match &message.origin {
            Origin::Update(update) => Some(&**update),
            _ => None,
        });
        behind(prefix, added(prefix, updates), settings, Arc::new(sound))
    }

    fn catch_up(
        &mut self,
        transcript: &Transcript,
        prefix: &Prefix,
        max_messages: Option<usize>,
        binds_thinking: bool,
    ) {
        let begun = transcript.prefix_start();
        let grows = max_messages.is_none()
            && self.seen > 0
            && self.summary == transcript.summary()
            && self.begun == begun;
        let newer = if grows {
            transcript.since(self.seen).to_vec()
        } else {
            self.messages = Arc::default();
            let view = transcript.view();
            let all = view.len();
            let view = trimmed(view, max_messages.unwrap_or(0));
            self.left_out = all - view.len();
            let is_cut = self.left_out > 0;
            of_beginning(view, transcript.prefix_seq(), binds_thinking, is_cut)
        };
        let messages = Arc::make_mut(&mut self.messages);
        // An update is the last thing said before an answer, also if its request failed and more was said since.
        let updates = take_updates(messages);
        extend_sendable(messages, &updates_last(updates, newer));
        if !grows {
            self.opening = opening(prefix, messages.first(), self.opening.take());
            open_with(messages, self.opening.clone());
        }
        self.seen = transcript.count();
        self.summary = transcript.summary();
        self.begun = begun;
    }

    /// Returns how many messages `maxConversationMessages` leaves out of the last request, if more than last
    /// reported.
    pub(crate) fn left_out_anew(&mut self) -> Option<usize> {
        let reported = mem::replace(&mut self.reported, self.left_out);
        (self.left_out > reported).then_some(self.left_out)
    }
}

/// Returns the message before or behind `first` with what is of this session alone: `known`, if it is that.
fn opening(
    prefix: &Prefix,
    first: Option<&Arc<Message>>,
    known: Option<Arc<Message>>,
) -> Option<Arc<Message>> {
    let first = first.filter(|_| !prefix.opening.is_empty())?;
    let texts = prefix.opening.iter();
    let content: Vec<_> = texts.map(ContentBlock::text).collect();
    if let Some(known) = known.filter(|it| it.id == first.id && it.content == content) {
        return Some(known);
    }
    Some(Arc::new(Message {
        // Servers keep the caches of sessions apart by the first id.
        id: first.id.clone(),
        parent: None,
        seq: first.seq,
        role: Role::User,
        // Of the engine, and no change of anything.
        origin: Origin::Update(Box::default()),
        created_at: first.created_at,
        content,
        response: None,
    }))
}

/// Puts the opening before the first message, or behind a summary: a server drops what stands before its own.
fn open_with(messages: &mut Vec<Arc<Message>>, opening: Option<Arc<Message>>) {
    let at = messages.first().is_some_and(|first| first.is_summary());
    let at = usize::from(at);
    messages.splice(at..at, opening);
}

/// Returns a request with these messages behind the beginning of the branch.
fn behind(
    prefix: &Prefix,
    added: Arc<[ToolSpec]>,
    settings: &SessionSettings,
    messages: Arc<Vec<Arc<Message>>>,
) -> Request {
    Request {
        system: prefix.system.clone(),
        tools: prefix.tools.clone(),
        added,
        messages,
        max_output: settings.limits.reserved_output,
        thinking: settings.thinking,
        first_thinking: prefix.thinking,
        sampling: settings.sampling.clone(),
        tells_progress: false,
        answer: None,
        summary: None,
        whole: false,
        precedes_pause: false,
    }
}

/// Returns the messages of a view as they stand behind the current beginning: updates from before it are part of it, and
/// thinking from before it is not valid any more, all of it if the oldest messages are cut off.
fn of_beginning(
    view: Vec<Arc<Message>>,
    valid_from: u32,
    binds_thinking: bool,
    is_cut: bool,
) -> Vec<Arc<Message>> {
    let is_before = |message: &Message| message.seq < valid_from;
    view.into_iter()
        .filter(|message| !(is_before(message) && is_update(message)))
        .map(|message| {
            if binds_thinking && (is_cut || is_before(&message)) {
                without_thinking(message)
            } else {
                message
            }
        })
        .collect()
}

fn without_thinking(message: Arc<Message>) -> Arc<Message> {
    let is_thinking = |block: &ContentBlock| {
        matches!(
            block,
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
        )
    };
    // What a server gives with a message for itself may be thinking as well.
    let response = message.response.as_ref();
    let opaque = response.and_then(|response| response.opaque.as_ref());
    let is_sealed = opaque.is_some_and(|opaque| !opaque.message.is_empty());
    if message.role == Role::User || !(is_sealed || message.content.iter().any(is_thinking)) {
        return message;
    }
    let mut stripped = (*message).clone();
    stripped.retain_blocks(|block| !is_thinking(block));
    if let Some(opaque) = { stripped.response.as_mut() }.and_then(|of| of.opaque.as_mut()) {
        opaque.message.clear();
    }
    Arc::new(stripped)
}

fn is_update(message: &Message) -> bool {
    matches!(message.origin, Origin::Update(_))
}

/// Removes and returns the updates at the end.
fn take_updates(messages: &mut Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let others = messages.iter().rposition(|message| !is_update(message));
    messages.split_off(others.map_or(0, |last| last + 1))
}

/// Returns the messages with each update behind the user's messages that follow it.
fn updates_last(updates: Vec<Arc<Message>>, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut ordered = Vec::with_capacity(messages.len() + updates.len());
    let mut waiting = updates;
    for message in messages {
        if is_update(&message) {
            waiting.push(message);
            continue;
        }
        if message.role == Role::Assistant {
            ordered.extend(merged(std::mem::take(&mut waiting)));
        }
        ordered.push(message);
    }
    ordered.extend(merged(waiting));
    ordered
}

/// Returns updates that no answer separates as one, since a system message has to be the last before an answer.
fn merged(updates: Vec<Arc<Message>>) -> Option<Arc<Message>> {
    if updates.len() < 2 {
        return updates.into_iter().next();
    }
    let mut whole = Update::default();
    let mut texts = [const { Vec::new() }; 4];
    for message in &updates {
        let Origin::Update(update) = &message.origin else {
            continue;
        };
        for (texts, words) in texts.iter_mut().zip(message.words_of(update)) {
            texts.extend(words);
        }
        whole.facts.extend(update.facts.iter().cloned());
        whole.mode = update.mode.or(whole.mode);
        whole.tools.extend(update.tools.iter().cloned());
        whole.thinking = update.thinking.or(whole.thinking);
    }
    let texts = texts.into_iter().filter(|texts| !texts.is_empty());
    let content = texts.map(|texts| ContentBlock::text(texts.join("\n\n")));
    let mut message = Message::clone(updates.last()?);
    message.content = content.collect();
    message.origin = Origin::Update(Box::new(whole));
    Some(Arc::new(message))
}

/// Returns a prompt behind `last`, or one that begins a request, of which the conversation is not told.
pub(crate) fn prompt(
    clock: &dyn Clock,
    last: Option<&Arc<Message>>,
    content: Vec<ContentBlock>,
) -> Message {
    let stamp = (clock.message_id(), clock.now());
    let last = last.map(|last| &**last);
    Message::behind(last, stamp, Role::User, Origin::Prompt, content)
}
