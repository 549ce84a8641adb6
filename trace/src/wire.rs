//! OTLP in JSON: the document with the spans.

use serde_json::{Value, json};

use super::context::hex;
use super::spans::{Attribute, Span};

/// The attributes are those of this version of the semantic conventions.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Returns the document for these spans of a program with the attributes `resource`.
pub(crate) fn document(
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
        Attribute::Dollars(dollars) => json!({"doubleValue": dollars}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
    }
}
