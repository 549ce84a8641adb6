//! What clients see of a run while it goes on: without secrets, also where one comes in pieces.

use ah_conversation::Environment;
use ah_mcp_server as agent;
use ah_serve::{BlockKind, Ended, Offer, Pick, Piece, Question, Refusal, RunEvent};
use serde_json::Value;

/// Translates the events of a run for clients.
pub(super) struct Shown {
    environment: Environment,
    /// The end of a piece that may be the first part of a secret, which comes with the next piece.
    held: Option<Piece>,
}

impl Shown {
    pub(super) fn to_clients(environment: Environment) -> Self {
        Self {
            environment,
            held: None,
        }
    }

    /// Returns what clients get of an event.
    pub(super) fn translated(&mut self, event: agent::RunEvent) -> Vec<RunEvent> {
        let event = match event {
            agent::RunEvent::Began(session) => Some(RunEvent::Began(session)),
            agent::RunEvent::Step(_) => Some(RunEvent::Step),
            agent::RunEvent::Streamed(event) => match streamed(&event) {
                Some(RunEvent::Piece(piece)) => return self.pieces(piece),
                other => other,
            },
            agent::RunEvent::Asked(question, answer) => {
                let picks = question.choices.into_iter().map(|choice| Pick {
                    question: choice.question,
                    header: choice.header,
                    is_multiple: choice.is_multiple,
                    options: { choice.options.into_iter() }
                        .map(|option| Offer {
                            label: option.label,
                            description: option.description,
                        })
                        .collect(),
                });
                let question = Question {
                    id: 0,
                    about: self.redacted(&question.about),
                    picks: picks.collect(),
                };
                Some(RunEvent::Asked(question, answer))
            }
            agent::RunEvent::Ended(agent::Ended {
                text,
                refusal: Some(refusal),
                ..
            }) => Some(RunEvent::Refused(match refusal {
                agent::Refusal::Busy => Refusal::Busy(text),
                agent::Refusal::Missing => Refusal::Missing(text),
            })),
            agent::RunEvent::Ended(ended) => Some(RunEvent::Ended(Ended {
                text: self.redacted(&ended.text),
                is_error: ended.is_error,
                is_stopped: ended.is_stopped,
                turns: ended.turns,
                cost_usd: ended.cost_usd,
            })),
        };
        let held = self.held.take().map(RunEvent::Piece);
        held.into_iter().chain(event).collect()
    }

    fn pieces(&mut self, mut piece: Piece) -> Vec<RunEvent> {
        let mut pieces = Vec::new();
        match self.held.take() {
            Some(held) if held.block == piece.block => piece.text.insert_str(0, &held.text),
            other => pieces.extend(other),
        }
        let text = self.redacted(&piece.text);
        let (text, held) = text.split_at(self.environment.safe_length(&text));
        let begins = piece.text.is_empty();
        if !held.is_empty() {
            self.held = Some(Piece {
                text: held.to_owned(),
                ..piece.clone()
            });
        }
        if begins || !text.is_empty() {
            text.clone_into(&mut piece.text);
            pieces.push(piece);
        }
        pieces.into_iter().map(RunEvent::Piece).collect()
    }

    fn redacted(&self, text: &str) -> String {
        self.environment.redact(text).into_owned()
    }
}

/// Returns the piece of an answer in an event of the Messages API; `None` if it shows nothing.
fn streamed(event: &Value) -> Option<RunEvent> {
    let (kind, text) = match event["type"].as_str()? {
        "message_start" => return Some(RunEvent::Answering),
        "content_block_start" => match event["content_block"]["type"].as_str()? {
            "text" => (BlockKind::Text, ""),
            "thinking" | "redacted_thinking" => (BlockKind::Thinking, ""),
            _ => (BlockKind::Call, event["content_block"]["name"].as_str()?),
        },
        "content_block_delta" => match event["delta"]["type"].as_str()? {
            "text_delta" => (BlockKind::Text, event["delta"]["text"].as_str()?),
            "thinking_delta" => (BlockKind::Thinking, event["delta"]["thinking"].as_str()?),
            _ => return None,
        },
        _ => return None,
    };
    Some(RunEvent::Piece(Piece {
        block: usize::try_from(event["index"].as_u64()?).ok()?,
        kind,
        text: text.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_in_pieces_is_replaced() {
        let secret = ("MY_TOKEN".to_owned(), "a-long-secret".to_owned());
        let mut shown = Shown::to_clients(Environment::new([secret], "/".into()));
        let mut texts = Vec::new();
        let begins =
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}});
        let deltas = [
            "It is a-lo",
            "ng-sec",
            "ret, is it?",
            " No, a-long",
            " one: a",
        ];
        let deltas = deltas.map(|text| {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        });
        let ends = json!({"type": "content_block_stop", "index": 0});
        for event in [begins].into_iter().chain(deltas).chain([ends]) {
            for event in shown.translated(agent::RunEvent::Streamed(event)) {
                let RunEvent::Piece(piece) = event else {
                    panic!("a piece becomes something else");
                };
                texts.push(piece.text);
            }
        }
        let expected = [
            "",
            "It is ",
            "[MY_TOKEN], is it?",
            " No, ",
            "a-long one: ",
            "a",
        ];
        assert_eq!(texts, expected);
    }
}
