//! `reasoning_details`: reasoning as a list of signed items, which OpenRouter expects back unchanged.

use serde_json::{Map, Value};

/// The details of one answer, put together from their pieces.
#[derive(Debug, Default)]
pub struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Adds the next piece and returns the text in it.
    pub fn read(&mut self, piece: Value) -> Option<String> {
        let Value::Object(piece) = piece else {
            return None;
        };
        let text = ["text", "summary"]
            .into_iter()
            .find_map(|field| piece.get(field)?.as_str())
            .map(str::to_owned);
        match self.0.last_mut() {
            Some(last) if is_continued(last, &piece) => append(last, piece),
            _ => self.0.push(piece),
        }
        text
    }

    /// Returns all details as JSON, or `None` if none is signed; the server does not need them then.
    pub fn signed(&self) -> Option<String> {
        let any = self.0.iter().any(is_signed);
        any.then(|| serde_json::to_string(&self.0).expect("maps with text for keys"))
    }
}

fn is_signed(detail: &Map<String, Value>) -> bool {
    ["signature", "data"]
        .into_iter()
        .filter_map(|field| detail.get(field)?.as_str())
        .any(|signature| !signature.is_empty())
}

fn is_continued(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let is_same = |field: &str| last.get(field) == piece.get(field);
    is_same("type") && is_same("index") && !is_signed(last)
}

fn append(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (field, value) in piece {
        match (last.get_mut(&field), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(&*field, "text" | "summary" | "signature" | "data") =>
            {
                text.push_str(&more);
            }
            (None | Some(Value::Null), value) => {
                last.insert(field, value);
            }
            _ => {}
        }
    }
}
