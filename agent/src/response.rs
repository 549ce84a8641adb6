//! Assembly of streamed events into an answer, complete or interrupted. Pure.

use ah_conversation::{
    BlockStart, CacheMiss, ContentBlock, Cost, Delta, Fields, Input, Model, Opaque, PrefixBreak,
    StopReason, StreamEvent, ToolUse, ToolUseId, Usage, chant, json,
};
use serde_json::{Map, Value};

/// A partially received answer.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    blocks: Vec<(usize, Partial)>,
    /// What the server gave for itself, with the index of the block.
    opaque: Vec<(Option<usize>, Fields)>,
    usage: Usage,
    cost: Option<Cost>,
    cache_miss: Option<CacheMiss>,
    dropped: Vec<PrefixBreak>,
    /// The server's id of the request.
    request_id: Option<String>,
    /// The fallback model that answers.
    model: Option<Model>,
    stop_reason: Option<StopReason>,
    is_whole: bool,
    /// Bytes that have come since the text was last searched for repetition.
    unsearched: usize,
}

/// Number of bytes after which the text is searched for repetition again.
const SEARCHED: usize = 256;

/// An assembled answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelAnswer {
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) stop_reason: StopReason,
    pub(crate) usage: Usage,
    /// Cost reported by the server.
    pub(crate) cost: Option<Cost>,
    /// What was not read from the prompt cache.
    pub(crate) cache_miss: Option<CacheMiss>,
    /// Why the server has left out thinking of earlier answers.
    pub(crate) dropped: Vec<PrefixBreak>,
    /// The model that answered, if not the requested one.
    pub(crate) model: Option<Model>,
    /// The server's id of the request.
    pub(crate) request_id: Option<String>,
    /// What the server gave for itself.
    pub(crate) opaque: Opaque,
}

#[derive(Debug, Clone)]
enum Partial {
    Text {
        text: String,
        others: Vec<Value>,
    },
    Thinking {
        thinking: String,
        signature: Option<String>,
    },
    Redacted {
        data: String,
    },
    ToolUse {
        id: ToolUseId,
        name: String,
        start: Value,
        json: String,
    },
    Other {
        raw: Value,
        json: String,
    },
}

impl Assembly {
    /// Handles the next event; a retry discards everything before it.
    pub(crate) fn push(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Sent { .. }
            | StreamEvent::LeftOut { .. }
            | StreamEvent::Reading { .. } => {}
            StreamEvent::Accepted { request_id } => self.request_id = Some(request_id.clone()),
            StreamEvent::Retry(_) => {
                *self = Self {
                    model: self.model.take(),
                    ..Self::default()
                };
            }
            StreamEvent::Fallback(notice) => {
                *self = Self {
                    model: Some((*notice.model).clone()),
                    ..Self::default()
                };
            }
            StreamEvent::Opaque { index, fields } => self.opaque.push((*index, fields.clone())),
            StreamEvent::Billed { cost } => self.cost = Some(*cost),
            StreamEvent::CacheMissed(miss) => self.cache_miss = Some(miss.clone()),
            StreamEvent::ThinkingDropped(reason) => self.dropped.push(*reason),
            StreamEvent::Started { usage, .. } => self.usage = *usage,
            StreamEvent::BlockStarted { index, block } => {
                let mut block = Partial::new(block);
                self.tell_apart(&mut block);
                self.blocks.push((*index, block));
            }
            StreamEvent::Delta { index, delta } => {
                if let Some((_, block)) = self.blocks.iter_mut().rev().find(|(at, _)| at == index) {
                    block.grow(delta);
                }
            }
            StreamEvent::BlockStopped { .. } => {}
            StreamEvent::Stopping { stop_reason, usage } => {
                self.stop_reason = Some(stop_reason.clone());
                self.usage = *usage;
            }
            StreamEvent::Ended => self.is_whole = true,
        }
    }

    /// Gives a call a new id if an earlier call of the answer has the same: results are paired by id only.
    fn tell_apart(&self, block: &mut Partial) {
        let is_taken = |wanted: &ToolUseId| {
            let mut ids = self.blocks.iter().map(|(_, block)| block);
            ids.any(|block| matches!(block, Partial::ToolUse { id, .. } if id == wanted))
        };
        if let Partial::ToolUse { id, .. } = block
            && is_taken(id)
        {
            *id = ToolUseId::from(format!("{id}_{}", self.blocks.len()));
        }
    }

    /// Returns the block at `index` as received so far; `None` if it is empty.
    pub(crate) fn block(&self, index: usize) -> Option<ContentBlock> {
        let (_, block) = self.blocks.iter().rev().find(|(at, _)| *at == index)?;
        block.clone().into_block()
    }

    /// Returns whether the model repeats itself since the last event.
    pub(crate) fn repeats(&mut self, event: &StreamEvent) -> bool {
        let StreamEvent::Delta {
            index,
            delta: Delta::Text(more) | Delta::Thinking(more),
        } = event
        else {
            return false;
        };
        self.unsearched += more.len();
        if self.unsearched < SEARCHED {
            return false;
        }
        self.unsearched = 0;
        let block = self.blocks.iter().rev().find(|(at, _)| at == index);
        match block {
            Some((_, Partial::Text { text, .. } | Partial::Thinking { thinking: text, .. })) => {
                chant(text).is_some()
            }
            _ => false,
        }
    }

    /// Whether the answer is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the complete answer. If the output limit cut it, a final tool call with incomplete arguments is left
    /// out.
    pub(crate) fn into_answer(self) -> ModelAnswer {
        let stop_reason = self.stop_reason.unwrap_or(StopReason::EndTurn);
        let is_cut = matches!(
            stop_reason,
            StopReason::MaxTokens | StopReason::ContextWindowExceeded
        );
        let last = self.blocks.len().saturating_sub(1);
        let whole = |(at, block): (usize, Partial)| {
            if is_cut && at == last && block.lost_its_arguments() {
                None
            } else {
                block.into_block()
            }
        };
        let mut opaque = Opaque::default();
        let mut given = self.opaque;
        let mut content = Vec::new();
        for (at, (index, block)) in self.blocks.into_iter().enumerate() {
            if let Some(block) = whole((at, block)) {
                let own = given.extract_if(.., |(of, _)| *of == Some(index));
                opaque
                    .blocks
                    .extend(own.map(|(_, fields)| (content.len(), fields)));
                content.push(block);
            }
        }
        let of_message = given.into_iter().filter(|(of, _)| of.is_none());
        opaque.message = of_message.flat_map(|(_, fields)| fields).collect();
        // There are one or two, room is for four, and a long session has thousands of answers.
        content.shrink_to_fit();
        ModelAnswer {
            content,
            stop_reason,
            usage: self.usage,
            cost: self.cost,
            cache_miss: self.cache_miss,
            dropped: self.dropped,
            model: self.model,
            request_id: self.request_id,
            opaque,
        }
    }

    /// Returns the part of an interrupted answer to keep: text and reasoning, but no tool calls; `None` if there is
    /// no text.
    pub(crate) fn into_interrupted(self) -> Option<ModelAnswer> {
        self.into_ended(StopReason::Interrupted)
    }

    /// Returns the part of an answer that was ended since it repeats itself, also if that is reasoning alone.
    pub(crate) fn into_repetitive(self) -> Option<ModelAnswer> {
        self.into_ended(StopReason::Repetition)
    }

    fn into_ended(self, stop_reason: StopReason) -> Option<ModelAnswer> {
        let keeps =
            |block: &Partial| !matches!(block, Partial::ToolUse { .. } | Partial::Other { .. });
        let blocks = self
            .blocks
            .into_iter()
            .map(|(_, block)| block)
            .filter(keeps);
        let content: Vec<_> = blocks.filter_map(Partial::into_block).collect();
        let says_something = content
            .iter()
            .any(|block| matches!(block, ContentBlock::Text { .. }));
        (says_something || stop_reason == StopReason::Repetition).then_some(ModelAnswer {
            content,
            stop_reason,
            usage: self.usage,
            cost: self.cost,
            cache_miss: self.cache_miss,
            dropped: self.dropped,
            model: self.model,
            request_id: self.request_id,
            // A part of what a server seals is of no use to it.
            opaque: Opaque::default(),
        })
    }
}

impl Partial {
    fn new(block: &BlockStart) -> Self {
        match block {
            BlockStart::Text(text) => Self::Text {
                text: text.clone(),
                others: Vec::new(),
            },
            BlockStart::Thinking(thinking) => Self::Thinking {
                thinking: thinking.clone(),
                signature: None,
            },
            BlockStart::RedactedThinking(data) => Self::Redacted { data: data.clone() },
            BlockStart::ToolUse { id, name, input } => Self::ToolUse {
                id: id.clone(),
                name: name.clone(),
                start: input.clone(),
                json: String::new(),
            },
            BlockStart::Other(raw) => Self::Other {
                raw: raw.clone(),
                json: String::new(),
            },
        }
    }

    fn grow(&mut self, delta: &Delta) {
        match (self, delta) {
            (Self::Text { text, .. }, Delta::Text(more)) => text.push_str(more),
            (Self::Text { others, .. }, Delta::Other(raw)) => others.push(raw.clone()),
            (Self::Thinking { thinking, .. }, Delta::Thinking(more)) => thinking.push_str(more),
            (Self::Thinking { signature, .. }, Delta::Signature(more)) => {
                signature.get_or_insert_default().push_str(more);
            }
            (Self::ToolUse { json, .. } | Self::Other { json, .. }, Delta::InputJson(more)) => {
                json.push_str(more);
            }
            (Self::Other { raw, .. }, Delta::Text(more)) => append(raw, "text", more),
            (Self::Other { raw, .. }, Delta::Other(delta)) => {
                for (name, value) in delta
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| *name != "type")
                {
                    match value {
                        Value::String(more) => append(raw, name, more),
                        other => drop(
                            raw.as_object_mut()
                                .map(|map| map.insert(name.clone(), other.clone())),
                        ),
                    }
                }
            }
            // A delta of the wrong kind is ignored.
            _ => {}
        }
    }

    fn lost_its_arguments(&self) -> bool {
        match self {
            Self::ToolUse { json, .. } => json::from_str::<Map<String, Value>>(json).is_err(),
            _ => false,
        }
    }

    /// Returns the block, or `None` if it is empty.
    fn into_block(self) -> Option<ContentBlock> {
        match self {
            Self::Text { text, .. } if text.is_empty() => None,
            Self::Text { text, others } if others.is_empty() => Some(ContentBlock::Text { text }),
            Self::Text { text, others } => Some(ContentBlock::Other {
                raw: cited(&text, others),
            }),
            Self::Thinking {
                thinking,
                signature,
            } => {
                let signature = signature.filter(|signature| !signature.is_empty());
                (!thinking.is_empty() || signature.is_some()).then_some(ContentBlock::Thinking {
                    thinking,
                    signature,
                })
            }
            Self::Redacted { data } => Some(ContentBlock::RedactedThinking { data }),
            Self::ToolUse {
                id,
                name,
                start,
                json,
            } => Some(ContentBlock::ToolUse(ToolUse {
                id,
                name,
                input: input(start, json),
            })),
            Self::Other { mut raw, json } => {
                if let (false, Some(map)) = (json.is_empty(), raw.as_object_mut()) {
                    map.insert("input".into(), input(Value::Null, json).to_value());
                }
                Some(ContentBlock::Other { raw })
            }
        }
    }
}

/// Returns the arguments: the joined pieces, or those of the start event if there were none.
fn input(start: Value, json: String) -> Input {
    if json.trim().is_empty() {
        return if start.is_null() {
            Input::default()
        } else {
            start.into()
        };
    }
    match json::from_str::<Value>(&json) {
        Ok(value @ Value::Object(_)) => value.into(),
        read => match (json::repaired::object(&json), read) {
            (Some(object), _) => Input::Object(object),
            (None, Ok(value)) => value.into(),
            (None, Err(_)) => Input::Malformed(Value::String(json)),
        },
    }
}

/// Returns a text block with its citations in the vendor's format.
fn cited(text: &str, others: Vec<Value>) -> Value {
    let citations: Vec<Value> = others
        .into_iter()
        .filter_map(|mut other| Some(other.get_mut("citation")?.take()))
        .collect();
    serde_json::json!({"type": "text", "text": text, "citations": citations})
}

fn append(raw: &mut Value, name: &str, more: &str) {
    let Some(map) = raw.as_object_mut() else {
        return;
    };
    match map.get_mut(name) {
        Some(Value::String(text)) => text.push_str(more),
        _ => drop(map.insert(name.to_owned(), Value::String(more.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assemble(events: &[StreamEvent]) -> Assembly {
        let mut assembly = Assembly::default();
        events.iter().for_each(|event| assembly.push(event));
        assembly
    }

    fn block(index: usize, block: BlockStart, deltas: Vec<Delta>) -> Vec<StreamEvent> {
        let mut events = vec![StreamEvent::BlockStarted { index, block }];
        events.extend(
            deltas
                .into_iter()
                .map(|delta| StreamEvent::Delta { index, delta }),
        );
        events.push(StreamEvent::BlockStopped { index });
        events
    }

    fn tool(index: usize, json: &[&str]) -> Vec<StreamEvent> {
        let start = BlockStart::ToolUse {
            id: "t".into(),
            name: "bash".into(),
            input: json!({}),
        };
        block(
            index,
            start,
            json.iter()
                .map(|piece| Delta::InputJson((*piece).into()))
                .collect(),
        )
    }

    fn text(index: usize, words: &str) -> Vec<StreamEvent> {
        block(
            index,
            BlockStart::Text(String::new()),
            vec![Delta::Text(words.into())],
        )
    }

    fn stop(reason: &str) -> Vec<StreamEvent> {
        vec![
            StreamEvent::Stopping {
                stop_reason: reason.into(),
                usage: Usage::default(),
            },
            StreamEvent::Ended,
        ]
    }

    fn content(parts: &[Vec<StreamEvent>]) -> String {
        let assembly = assemble(&parts.concat());
        assert!(assembly.is_whole());
        serde_json::to_string(&assembly.into_answer().content).unwrap()
    }

    #[test]
    fn arguments_are_joined_and_parsed() {
        for (pieces, expected) in [
            (vec!["{\"command\"", ": \"ls\"}"], r#"{"command":"ls"}"#),
            (vec![], "{}"),
            (vec![""], "{}"),
            (vec!["[1]"], "[1]"),
            // An escape may be cut, and may be half of a character.
            (
                vec![r#"{"a":"x \ud8"#, r#"3d y","b":"\ud83d"#, r#"\ude00"}"#],
                "{\"a\":\"x \u{fffd} y\",\"b\":\"😀\"}",
            ),
            (vec!["{\"command\""], r#""{\"command\"""#),
            // One reading, or several.
            (vec!["{\"command\": ", "\"ls\""], r#"{"command":"ls"}"#),
            (vec!["{\"command\": \"ls"], r#""{\"command\": \"ls""#),
        ] {
            let content = content(&[tool(0, &pieces), stop("tool_use")]);
            assert!(
                content.contains(&format!("\"input\":{expected}")),
                "{content}"
            );
        }
    }

    #[test]
    fn calls_with_the_same_id_get_distinct_ids() {
        let calls = [tool(0, &[]), text(1, "Well."), tool(2, &[]), tool(3, &[])];
        let answer = assemble(&[calls.concat(), stop("tool_use")].concat()).into_answer();
        let ids = answer.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call.id.to_string()),
            _ => None,
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["t", "t_2", "t_3"]);
    }

    #[test]
    fn a_call_that_the_output_limit_cut_is_left_out() {
        let cut =
            |pieces: &[&str]| content(&[text(0, "Well."), tool(1, pieces), stop("max_tokens")]);
        let words = r#"[{"type":"text","text":"Well."}]"#;
        assert_eq!(cut(&["{\"command\": \"rm "]), words);
        assert_eq!(cut(&[]), words);
        assert!(cut(&["{\"command\": \"ls\"}"]).contains("tool_use"));
    }

    #[test]
    fn what_a_server_gives_stays_with_its_block() {
        let fields = |word: &str| Fields::from_iter([(word.to_owned(), json!(1))]);
        let given = |index, word| {
            vec![StreamEvent::Opaque {
                index,
                fields: fields(word),
            }]
        };
        let empty = block(0, BlockStart::Text(String::new()), Vec::new());
        let events = [
            empty,
            given(Some(0), "nothing"),
            text(1, "Well."),
            tool(2, &["{}"]),
            given(Some(2), "call"),
            given(None, "message"),
            tool(3, &["{\"a"]),
            given(Some(3), "cut"),
            stop("max_tokens"),
        ];
        let answer = assemble(&events.concat()).into_answer();
        assert_eq!(answer.content.len(), 2);
        let expected = Opaque {
            message: fields("message"),
            blocks: vec![(1, fields("call"))],
        };
        assert_eq!(answer.opaque, expected);
        let interrupted = assemble(&events.concat()).into_interrupted().unwrap();
        assert!(interrupted.opaque.is_empty());
    }

    #[test]
    fn an_interrupted_answer_keeps_words_and_reasoning_but_no_call() {
        let thinking = block(
            0,
            BlockStart::Thinking(String::new()),
            vec![Delta::Thinking("Hm".into())],
        );
        let answer = assemble(&[thinking.clone(), text(1, "I wi"), tool(2, &["{}"])].concat())
            .into_interrupted()
            .unwrap();
        assert_eq!(answer.stop_reason, StopReason::Interrupted);
        assert_eq!(answer.content.len(), 2);
        assert!(assemble(&thinking).into_interrupted().is_none());
    }

    #[test]
    fn a_retry_voids_what_came_before() {
        let retry = ah_conversation::RetryNotice {
            attempt: 0,
            delay: std::time::Duration::ZERO,
            status: None,
            error: String::new(),
            skip: ah_conversation::SkipDelay::default(),
        };
        let parts = vec![
            text(0, "half"),
            vec![StreamEvent::Retry(retry)],
            text(0, "whole"),
            stop("end_turn"),
        ];
        assert_eq!(content(&parts), r#"[{"type":"text","text":"whole"}]"#);
    }

    #[test]
    fn unknown_blocks_and_deltas_are_kept() {
        let server_tool = block(
            0,
            BlockStart::Other(json!({"type": "server_tool_use", "id": "s", "input": {}})),
            vec![Delta::InputJson("{\"query\":1}".into())],
        );
        let summary = block(
            1,
            BlockStart::Other(json!({"type": "compaction", "content": ""})),
            vec![Delta::Other(
                json!({"type": "compaction_delta", "content": "So far"}),
            )],
        );
        let cited = block(
            2,
            BlockStart::Text(String::new()),
            vec![
                Delta::Other(json!({"type": "citations_delta", "citation": {"url": "u"}})),
                Delta::Text("Said.".into()),
            ],
        );
        insta::assert_snapshot!(content(&[server_tool, summary, cited, stop("end_turn")]), @r#"[{"type":"other","raw":{"type":"server_tool_use","id":"s","input":{"query":1}}},{"type":"other","raw":{"type":"compaction","content":"So far"}},{"type":"other","raw":{"type":"text","text":"Said.","citations":[{"url":"u"}]}}]"#);
    }
}
