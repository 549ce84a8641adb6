//! OTLP in JSON: the document with the spans, and the text form of a span's context (W3C Trace Context).

use std::fmt;

use serde_json::{Value, json};

use super::spans::{Attribute, Span};

/// The attributes are those of this version of the semantic conventions.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Id of a trace.
pub(super) type TraceId = [u8; 16];
/// Id of a span.
pub(super) type SpanId = [u8; 8];

/// A span by its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub trace: TraceId,
    pub span: SpanId,
}

/// As a value of `traceparent`.
impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", hex(&self.trace), hex(&self.span))
    }
}

/// Reads a value of `traceparent`; `None` if it is not valid.
pub(super) fn trace_parent(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
    let version = bytes::<1>(parts.next()?)?;
    let context = SpanContext {
        trace: bytes(parts.next()?)?,
        span: bytes(parts.next()?)?,
    };
    let _flags = bytes::<1>(parts.next()?)?;
    let is_whole = version != [0] || parts.next().is_none();
    let is_valid = version != [0xff] && context.trace != [0; 16] && context.span != [0; 8];
    (is_whole && is_valid).then_some(context)
}

/// Returns the document for these spans of a program with the attributes `resource`.
pub(super) fn document(
    resource: &[(String, String)],
    spans: &[Span],
    redact: &dyn Fn(&str) -> String,
) -> Value {
    let resource = { resource.iter() }
        .map(|(name, value)| json!({"key": name, "value": {"stringValue": value}}));
    let spans = spans.iter().map(|span| of_span(span, redact));
    json!({"resourceSpans": [{
        "resource": {"attributes": resource.collect::<Vec<_>>()},
        "scopeSpans": [{
            "scope": {"name": "ah", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans.collect::<Vec<_>>(),
            "schemaUrl": SCHEMA,
        }],
    }]})
}

fn of_span(span: &Span, redact: &dyn Fn(&str) -> String) -> Value {
    let attributes = span.attributes.iter();
    let attributes =
        attributes.map(|(name, value)| json!({"key": name, "value": attribute(value, redact)}));
    // 0 leaves the judgement to others; 2 is an error.
    let status = match &span.error {
        Some(text) => json!({"code": 2, "message": redact(text)}),
        None => json!({"code": 0}),
    };
    let mut value = json!({
        "traceId": hex(&span.context.trace),
        "spanId": hex(&span.context.span),
        "name": redact(&span.name),
        "kind": span.kind as u8,
        // 64-bit numbers are strings in this form of JSON.
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = span.parent {
        value["parentSpanId"] = hex(&parent).into();
    }
    value
}

fn attribute(value: &Attribute, redact: &dyn Fn(&str) -> String) -> Value {
    match value {
        Attribute::Text(text) => json!({"stringValue": redact(text)}),
        Attribute::Texts(texts) => {
            let texts = texts
                .iter()
                .map(|text| json!({"stringValue": redact(text)}));
            json!({"arrayValue": {"values": texts.collect::<Vec<_>>()}})
        }
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_parent_is_read_and_written() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_parent(text).unwrap().to_string(), text);
        for invalid in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-é-é-01",
        ] {
            assert_eq!(trace_parent(invalid), None, "{invalid}");
        }
        let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x";
        assert!(trace_parent(later).is_some());
    }
}
