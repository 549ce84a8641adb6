//! Interactions that the server stores, as the vendor does (`https://ai.google.dev/gemini-api/docs/interactions-overview`: for a
//! day, or 55 in the paid tier).

use serde_json::Value;

use super::super::json::list;
use super::super::refusal::Refusal;
use super::super::stored::Stored;

/// Returns a request with what is stored put before it; `None` if nothing is to be stored.
///
/// # Errors
/// If what it continues is not stored.
pub fn whole(stored: &Stored, body: &Value) -> Result<Option<Value>, Refusal> {
    if body["store"] == false {
        return Ok(None);
    }
    let mut whole = body.as_object().cloned().unwrap_or_default();
    let previous = whole.shift_remove(PREVIOUS);
    if let Some(id) = previous.as_ref().and_then(Value::as_str) {
        let mut steps = stored.up_to(id).ok_or_else(|| Refusal {
            status: 404,
            kind: "not_found_error",
            ..Refusal::invalid(format!("Interaction with id '{id}' was not found."))
        })?;
        steps.extend_from_slice(list(body, "input"));
        whole.insert("input".to_owned(), steps.into());
    }
    Ok(Some(whole.into()))
}

/// Stores an answer to the request `body`.
pub fn keep(stored: &mut Stored, body: &Value, (id, output): (&str, &[Value])) {
    let steps = [list(body, "input"), output].concat();
    stored.keep(id, body[PREVIOUS].as_str(), steps);
}

/// Field that names the interaction before.
const PREVIOUS: &str = "previous_interaction_id";
