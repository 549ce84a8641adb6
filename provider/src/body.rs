//! The body of an answer in either form: a stream of events, or the one JSON document of a server that does not heed
//! that a stream was asked for. Which it is shows in the first character; headers are often wrong about it. What the
//! JSON means is left to the decoders of each API.

use ah_conversation::ProviderError;
use ah_http::sse;

use crate::failure::{self, protocol};

/// Turns the bytes of an answer into pieces of JSON text.
#[derive(Debug, Default)]
pub struct Body {
    form: Form,
    framing: sse::Decoder,
    document: Vec<u8>,
    events: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing but space has come.
    #[default]
    Unknown,
    Events,
    /// Or a web page.
    Document,
}

/// What the end of a body leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest<'a> {
    /// Nothing.
    Nothing,
    /// An event that may be cut.
    Event(sse::Event<'a>),
    /// The whole answer.
    Document(&'a str),
}

impl Body {
    /// Takes the next bytes. Their events are to be fetched with [`Self::next_event`].
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
            // Not being ASCII, a byte order mark is no mark of either.
            let is_mark = |byte: &&u8| byte.is_ascii() && !byte.is_ascii_whitespace();
            self.form = match self.document.iter().find(is_mark) {
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

    /// The next event that is whole, or `None` until more bytes are fed.
    pub fn next_event(&mut self) -> Result<Option<sse::Event<'_>>, ProviderError> {
        let event = self.framing.next_event().map_err(unreadable)?;
        self.events += u64::from(event.is_some());
        Ok(event)
    }

    /// Notes that no more bytes will come, and gives what is left.
    pub fn finish(&mut self) -> Result<Rest<'_>, ProviderError> {
        if self.form == Form::Document {
            let text = str::from_utf8(&self.document);
            let text = text.map_err(|_| unreadable(sse::Error::NotUtf8))?;
            let text = text.trim_start_matches('\u{feff}');
            return match failure::html_title(text) {
                Some(title) => Err(protocol(title)),
                None => Ok(Rest::Document(text)),
            };
        }
        Ok(match self.framing.finish() {
            Ok(Some(event)) => Rest::Event(event),
            Ok(None) | Err(_) => Rest::Nothing,
        })
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: sse::Error) -> ProviderError {
    protocol(error.to_string())
}
