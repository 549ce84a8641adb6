//! Reasoning as a list of details with their seals, which one vendor's gateway wants back as it gave them.

use serde_json::{Map, Value};

/// The details of one answer, their pieces put together.
#[derive(Debug, Default)]
pub struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Takes the next piece and gives the words in it.
    pub fn read(&mut self, piece: Value) -> Option<String> {
        let Value::Object(piece) = piece else {
            return None;
        };
        let words = ["text", "summary"]
            .into_iter()
            .find_map(|field| piece.get(field)?.as_str());
        let words = words.map(str::to_owned);
        match self.0.last_mut() {
            Some(last) if is_continued(last, &piece) => append(last, piece),
            _ => self.0.push(piece),
        }
        words
    }

    /// All details as JSON, or `None` where none is sealed: the server can do without them then.
    pub fn sealed(&self) -> Option<String> {
        let any = self.0.iter().any(is_sealed);
        any.then(|| serde_json::to_string(&self.0).expect("maps with text for keys"))
    }
}

fn is_sealed(detail: &Map<String, Value>) -> bool {
    let seals = ["signature", "data"].into_iter();
    let mut seals = seals.filter_map(|field| detail.get(field)?.as_str());
    seals.any(|seal| !seal.is_empty())
}

fn is_continued(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let is_same = |field: &str| last.get(field) == piece.get(field);
    is_same("type") && is_same("index") && !is_sealed(last)
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
