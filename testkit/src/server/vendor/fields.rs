//! Fields that a request may have, for vendors that refuse others.

use serde_json::Value;

use super::super::json::list;

/// Known fields of requests of chat completions.
pub struct Fields {
    /// Those at the top.
    pub request: &'static [&'static str],
    /// Those of messages by role; messages of a role that is not listed are not checked.
    pub messages: &'static [(&'static str, &'static [&'static str])],
}

/// A field that is not known.
pub struct Unknown<'a> {
    /// Number and role of its message; `None` for one at the top.
    pub message: Option<(usize, &'a str)>,
    /// Its name.
    pub field: &'a str,
}

impl Fields {
    /// Returns the first unknown field of `body`.
    pub fn unknown<'a>(&self, body: &'a Value) -> Option<Unknown<'a>> {
        if let Some(field) = first_other(body, self.request) {
            let message = None;
            return Some(Unknown { message, field });
        }
        let mut messages = list(body, "messages").iter().enumerate();
        messages.find_map(|(number, message)| {
            let role = message["role"].as_str()?;
            let (_, known) = self.messages.iter().find(|(known, _)| *known == role)?;
            let field = first_other(message, known)?;
            let message = Some((number, role));
            Some(Unknown { message, field })
        })
    }
}

/// Returns the first field of `object` that is not `known`.
pub fn first_other<'a>(object: &'a Value, known: &[&str]) -> Option<&'a str> {
    let mut fields = object.as_object()?.keys().map(String::as_str);
    fields.find(|field| !known.contains(field))
}
