//! Fields of answers that only their server understands, put together from the pieces of a stream. No field is known by
//! its vendor: what a reader has not taken for itself is kept.

use ah_conversation::{Fields, said, says_nothing};
use serde_json::Value;

/// Fields whose text arrives in pieces. Other texts within lists and objects are whole.
const TEXTS: [&str; 5] = ["text", "thinking", "summary", "signature", "data"];
/// Fields after which the text of an item is complete.
const SEALS: [&str; 2] = ["signature", "data"];

/// Adds a later piece of an answer or a call: its texts continue earlier ones, unless they repeat them.
pub fn merge(whole: &mut Fields, piece: Fields) {
    for (name, more) in said(piece) {
        match (whole.get_mut(&name), more) {
            (Some(Value::String(text)), Value::String(more)) => {
                // A label is sent with each piece, and no text begins with itself.
                if *text != more || is_text(&name) {
                    text.push_str(&more);
                }
            }
            (Some(known), more) => update(known, more),
            (None, more) => drop(whole.insert(name, more)),
        }
    }
}

/// Whether the pieces of a field are always text: reasoning may well repeat its first piece.
fn is_text(name: &str) -> bool {
    name.starts_with("reasoning") || TEXTS.contains(&name)
}

/// Brings a value up to date: objects and lists grow, all else is replaced.
fn update(known: &mut Value, more: Value) {
    match (known, more) {
        (Value::Object(known), Value::Object(more)) => update_fields(known, more),
        (Value::Array(known), Value::Array(more)) => extend(known, more),
        (known, more) => *known = more,
    }
}

fn update_fields(known: &mut Fields, more: Fields) {
    for (name, more) in more {
        match (known.get_mut(&name), more) {
            (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&&*name) => {
                text.push_str(&more);
            }
            (Some(Value::String(seal)), Value::String(more)) if name.ends_with("_signature") => {
                if *seal != more {
                    seal.push_str(&more);
                }
            }
            (Some(known), more) if !says_nothing(&more) => update(known, more),
            (Some(_), _) => {}
            (None, more) => drop(known.insert(name, more)),
        }
    }
}

/// Adds the items of a later piece of a list. Those of one piece are different ones.
pub fn extend(known: &mut Vec<Value>, more: Vec<Value>) {
    let earlier = known.len();
    for (at, item) in more.into_iter().enumerate() {
        if !is_piece(&item) && known[..earlier].contains(&item) {
            continue;
        }
        let place = known[..earlier]
            .iter()
            .rposition(|last| continues(last, &item));
        // Without an index only the last item can go on.
        let place = place.filter(|place| {
            item.get("index").is_some() || (at == 0 && place + 1 == earlier && is_piece(&item))
        });
        match (place.map(|place| &mut known[place]), item) {
            (Some(Value::Object(known)), Value::Object(item)) => update_fields(known, item),
            (_, item) => known.push(item),
        }
    }
}

/// Whether an item continues `last`: they are of one kind, place and id, and `last` is not sealed.
fn continues(last: &Value, item: &Value) -> bool {
    let is_same = |name: &str| last.get(name) == item.get(name);
    let has_other_id = match (last.get("id"), item.get("id")) {
        (Some(Value::String(last)), Some(Value::String(id))) => last != id,
        _ => false,
    };
    let has_other_form = TEXTS.iter().any(|name| {
        let values = last.get(name).zip(item.get(name));
        values.is_some_and(|(last, item)| last.is_array() != item.is_array())
    });
    last.is_object()
        && !has_other_form
        && is_same("type")
        && is_same("index")
        && !has_other_id
        && !has_text(last, &SEALS)
}

/// Whether an item has text of which there may be more.
fn is_piece(item: &Value) -> bool {
    has_text(item, &TEXTS)
}

fn has_text(item: &Value, names: &[&str]) -> bool {
    let mut values = names.iter().filter_map(|name| item.get(name));
    values.any(|value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(pieces) => pieces.iter().any(is_piece),
        _ => false,
    })
}
