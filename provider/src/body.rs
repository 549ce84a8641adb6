//! The body of an answer in either form: a stream of events, or one JSON document from a server that ignores the request
//! for a stream. The first character tells which it is; the content type is often wrong. The meaning of the JSON is left
//! to the decoder of each API.

use std::borrow::Cow;

use ah_conversation::ProviderError;
use ah_http::sse;

use crate::failure::{self, protocol};

/// Splits the bytes of an answer into pieces of JSON text.
#[derive(Debug, Default)]
pub struct Body {
    form: Form,
    framing: sse::Decoder,
    document: Vec<u8>,
    events: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Only white space so far.
    #[default]
    Unknown,
    Events,
    /// A JSON document or a web page.
    Document,
}

/// The rest of a body at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest<'a> {
    /// Nothing.
    Nothing,
    /// An event without its end, which may be incomplete.
    Event(sse::Event<'a>),
    /// The whole answer.
    Document(Cow<'a, str>),
}

impl Body {
    /// Accepts the next bytes. [`Self::next_event`] returns their events.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        if self.form == Form::Events {
            self.framing.feed(bytes);
            return Ok(());
        }
        if self.document.len() + bytes.len() > sse::DEFAULT_LIMIT {
            let limit = sse::DEFAULT_LIMIT;
            return Err(unreadable(sse::Error::TooLong { limit }));
        }
        self.document.extend_from_slice(bytes);
        if self.form == Form::Unknown {
            // A byte order mark is not ASCII, so it is skipped.
            let is_first_character = |byte: &&u8| byte.is_ascii() && !byte.is_ascii_whitespace();
            self.form = match self.document.iter().find(is_first_character) {
                None => Form::Unknown,
                Some(b'{' | b'[' | b'<') => Form::Document,
                Some(_) => Form::Events,
            };
        }
        if self.form == Form::Events {
            self.framing.feed(&std::mem::take(&mut self.document));
        }
        Ok(())
    }

    /// Returns the next complete event, or `None` until more bytes are fed.
    pub fn next_event(&mut self) -> Result<Option<sse::Event<'_>>, ProviderError> {
        let event = self.framing.next_event().map_err(unreadable)?;
        self.events += u64::from(event.is_some());
        Ok(event)
    }

    /// Ends the body and returns the rest.
    pub fn finish(&mut self) -> Result<Rest<'_>, ProviderError> {
        if self.form == Form::Document {
            let document = &self.document[..];
            let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
            let text = String::from_utf8_lossy(document);
            return match failure::html_title(&text) {
                Some(title) => Err(protocol(title)),
                None => Ok(Rest::Document(text)),
            };
        }
        Ok(match self.framing.finish() {
            Ok(Some(event)) => Rest::Event(event),
            Ok(None) | Err(_) => Rest::Nothing,
        })
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: sse::Error) -> ProviderError {
    protocol(error.to_string())
}
