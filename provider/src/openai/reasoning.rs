//! Reasoning in the fields of various servers. It is shown as text and, like every field that is not ours, given back as
//! it came: some servers refuse a call without the reasoning before it.

use ah_conversation::Fields;
use serde_json::Value;

/// Fields whose text is reasoning. Some servers send the same text in several.
const TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// The field with reasoning as a list of items, some of them signed, as OpenRouter sends it.
const DETAILS: &str = "reasoning_details";

/// Returns the reasoning to show in a piece of an answer.
pub fn text(piece: &Fields) -> String {
    let mut texts = TEXTS
        .iter()
        .filter_map(|name| piece.get(*name)?.as_str())
        .filter(|text| !text.is_empty());
    texts.next().map_or_else(|| details(piece), str::to_owned)
}

fn details(piece: &Fields) -> String {
    let items = piece.get(DETAILS).and_then(Value::as_array);
    let texts = items.into_iter().flatten().filter_map(|item| {
        let mut names = ["text", "summary"].into_iter();
        names.find_map(|name| item.get(name)?.as_str())
    });
    texts.collect()
}

/// Returns the fields with `null` in the place of the text that is `shown`, which is kept with the answer.
pub fn shown_once(mut fields: Fields, shown: &str) -> Fields {
    for name in TEXTS {
        if let Some(text) = fields.get_mut(name).filter(|text| **text == *shown) {
            *text = Value::Null;
        }
    }
    fields
}

/// Adds the text of the reasoning, if no field has it.
pub fn add_text(fields: &mut Fields) {
    if !TEXTS.iter().any(|name| fields.contains_key(*name)) {
        fields.insert(TEXTS[0].to_owned(), Value::Null);
    }
}

/// Returns the fields as they came: with the text of the reasoning in the place of `null`.
pub fn with_text(mut fields: Fields, shown: &str) -> Fields {
    for name in TEXTS {
        if let Some(text) = fields.get_mut(name).filter(|text| text.is_null()) {
            *text = shown.into();
        }
    }
    fields.retain(|name, text| !(TEXTS.contains(&&**name) && *text == ""));
    fields
}

/// Fills the text of the reasoning, if there is none, with a space: Moonshot takes an empty one for none.
pub fn fill(fields: &mut Fields) {
    let text = fields.entry(TEXTS[0]).or_insert(Value::Null);
    if text.as_str().is_none_or(str::is_empty) {
        *text = " ".into();
    }
}

/// Whether a field holds reasoning.
pub fn is_reasoning(name: &str) -> bool {
    name.starts_with("reasoning") || name.starts_with("thinking")
}
