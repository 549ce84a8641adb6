//! A conversation from the pieces that other programs keep, in an order that models accept: an answer's calls are
//! followed by all their results, and by nothing else's.

use ah_conversation::{
    Clock as _, ContentBlock, Message, MessageId, Origin, Response, ResultBlock, Role, StopReason,
    Time, ToolResult, ToolUse, ToolUseId, Usage,
};
use ah_ids::SystemClock;

/// Answer to a call whose result was not recorded.
const NO_RESULT: &str = "[the imported session has no result of this call]";

/// The conversation so far.
#[derive(Default)]
pub struct Conversation {
    messages: Vec<Message>,
    /// Calls of the last answer that have no result yet.
    open: Vec<ToolUse>,
    clock: SystemClock,
    /// What could not be taken over, in order.
    pub left: Vec<String>,
}

impl Conversation {
    /// Notes what is left out.
    pub fn leave(&mut self, place: &str, why: &str) {
        self.left.push(format!("{place}: {why}"));
    }

    /// Adds a message of a person, or of the program on their behalf. Empty ones are left out.
    pub fn user(&mut self, origin: Origin, content: Vec<ContentBlock>, at: Time) {
        if content.is_empty() {
            return;
        }
        let id = self.clock.message_id();
        self.told(id, origin, content, at);
    }

    /// Adds a message of a person under an id of its own.
    pub fn told(&mut self, id: MessageId, origin: Origin, content: Vec<ContentBlock>, at: Time) {
        self.close();
        self.push(id, Role::User, origin, content, None, at);
    }

    /// Adds an answer under an id of its own.
    pub fn said(
        &mut self,
        id: MessageId,
        content: Vec<ContentBlock>,
        response: Response,
        at: Time,
    ) {
        self.close();
        self.open = calls(&content);
        self.push(
            id,
            Role::Assistant,
            Origin::Model,
            content,
            Some(response),
            at,
        );
    }

    /// Adds results, and texts behind them, under an id of its own. Results of calls that are not there are left out.
    pub fn results(&mut self, id: MessageId, place: &str, content: Vec<ContentBlock>, at: Time) {
        let mut kept = Vec::new();
        for block in content {
            let ContentBlock::ToolResult(result) = &block else {
                kept.push(block);
                continue;
            };
            let call = self
                .open
                .iter()
                .position(|call| call.id == result.tool_use_id);
            if let Some(call) = call {
                self.open.remove(call);
                kept.push(block);
            } else {
                self.leave(place, "the result of a call that is not there");
            }
        }
        let are_results = matches!(kept.first(), Some(ContentBlock::ToolResult(_)));
        if are_results {
            // What has no result belongs into the same message.
            let missing = std::mem::take(&mut self.open);
            let missing = missing
                .iter()
                .map(|call| ContentBlock::ToolResult(ToolResult::error(call, NO_RESULT)));
            let count = kept
                .iter()
                .take_while(|block| matches!(block, ContentBlock::ToolResult(_)))
                .count();
            let rest = kept.split_off(count);
            kept.extend(missing);
            kept.extend(rest);
            self.push(id, Role::User, Origin::Results, kept, None, at);
        } else if !kept.is_empty() {
            self.told(id, Origin::Reminder, kept, at);
        }
    }

    /// Adds blocks of an answer: to the last one, if nothing came since.
    pub fn answer(&mut self, blocks: Vec<ContentBlock>, response: Response, at: Time) {
        if blocks.is_empty() {
            return;
        }
        let is_more = matches!(self.messages.last(), Some(last) if last.role == Role::Assistant);
        let calls = calls(&blocks);
        if is_more && let Some(last) = self.messages.last_mut() {
            last.content.extend(blocks);
            if let Some(known) = &mut last.response {
                known.stop_reason = response.stop_reason;
                known.usage += response.usage;
            }
        } else {
            self.close();
            let id = self.clock.message_id();
            self.push(
                id,
                Role::Assistant,
                Origin::Model,
                blocks,
                Some(response),
                at,
            );
        }
        self.open.extend(calls);
        if let Some(response) = self
            .messages
            .last_mut()
            .and_then(|last| last.response.as_mut())
            && !self.open.is_empty()
        {
            response.stop_reason = StopReason::ToolUse;
        }
    }

    /// Adds the result of a call; `place` names it if there is no such call.
    pub fn result(
        &mut self,
        place: &str,
        id: &str,
        content: Vec<ResultBlock>,
        is_error: bool,
        at: Time,
    ) {
        let Some(at_call) = self.open.iter().position(|call| call.id.as_str() == id) else {
            self.leave(place, "the result of a call that is not there");
            return;
        };
        let call = self.open.remove(at_call);
        let block = ContentBlock::ToolResult(ToolResult {
            tool_use_id: call.id,
            tool_name: call.name,
            content,
            is_error,
            duration_ms: 0,
            details: None,
            lines: None,
        });
        self.add_result(block, at);
    }

    /// Sets the tokens of the last answer.
    pub fn usage(&mut self, usage: Usage) {
        let answers = self.messages.iter_mut().rev();
        let mut responses = answers.filter_map(|message| message.response.as_mut());
        if let Some(response) = responses.next() {
            response.usage = usage;
        }
    }

    /// Returns the id of the last message.
    pub fn last(&self) -> Option<MessageId> {
        self.messages.last().map(|message| message.id.clone())
    }

    /// Returns all messages, the last of which may have calls without results, and what was left out.
    pub fn end_open(self) -> (Vec<Message>, Vec<String>) {
        (self.messages, self.left)
    }

    /// Returns all messages and what was left out.
    pub fn end(mut self) -> (Vec<Message>, Vec<String>) {
        self.close();
        (self.messages, self.left)
    }

    /// Answers the calls that have no result.
    fn close(&mut self) {
        let at = self.messages.last().map_or(Time(0), |last| last.created_at);
        for call in std::mem::take(&mut self.open) {
            self.add_result(
                ContentBlock::ToolResult(ToolResult::error(&call, NO_RESULT)),
                at,
            );
        }
    }

    fn add_result(&mut self, block: ContentBlock, at: Time) {
        match self.messages.last_mut() {
            Some(last) if last.origin == Origin::Results => last.content.push(block),
            _ => {
                let id = self.clock.message_id();
                self.push(id, Role::User, Origin::Results, vec![block], None, at);
            }
        }
    }

    fn push(
        &mut self,
        id: MessageId,
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
        response: Option<Response>,
        at: Time,
    ) {
        let behind = Message::behind(self.messages.last(), (id, at), role, origin, content);
        self.messages.push(Message { response, ..behind });
    }
}

fn calls(blocks: &[ContentBlock]) -> Vec<ToolUse> {
    let calls = blocks.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

/// Returns a call with arguments as text or as a value.
pub fn call(id: &str, name: &str, input: serde_json::Value) -> ContentBlock {
    ContentBlock::ToolUse(ToolUse {
        id: ToolUseId::from(id),
        name: name.to_owned(),
        input: input.into(),
    })
}

/// Returns what is known of an answer of this model.
pub fn response(provider: &str, model: &str) -> Response {
    Response {
        stop_reason: StopReason::EndTurn,
        usage: Usage::default(),
        cost: None,
        model: model.to_owned(),
        provider: provider.to_owned(),
        latency_ms: 0,
        request_id: None,
        opaque: None,
    }
}

/// Returns a text of a result.
pub fn text(text: impl Into<String>) -> ResultBlock {
    ResultBlock::Text { text: text.into() }
}
