//! Names of spans across programs: W3C Trace Context, in headers and in the variable `TRACEPARENT`.

use std::fmt;

/// Id of a trace.
pub(crate) type TraceId = [u8; 16];
/// Id of a span.
pub(crate) type SpanId = [u8; 8];

/// A span by its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanContext {
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
pub(crate) fn trace_parent(text: &str) -> Option<SpanContext> {
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

/// Writes lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
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
