//! Server-sent events.

use ah_http::sse::{Decoder, Error};

/// Low enough for inputs to reach it.
const LIMIT: usize = 300;

/// The events and the end of a stream do not depend on how it is cut into pieces.
pub fn run(bytes: &[u8]) {
    let whole = events(bytes, usize::MAX);
    for size in [1, 2, 7] {
        assert_eq!(events(bytes, size), whole, "in pieces of {size}");
    }
    let (events, _) = whole;
    for (name, data) in events {
        assert!(!name.contains(['\r', '\n']) && name.len() + data.len() <= LIMIT);
    }
}

fn events(bytes: &[u8], size: usize) -> (Vec<(String, String)>, Option<Error>) {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in bytes.chunks(size) {
        decoder.feed(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push((event.name.to_owned(), event.data.to_owned())),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    match decoder.finish() {
        Ok(Some(event)) => events.push((event.name.to_owned(), event.data.to_owned())),
        Ok(None) => {}
        Err(error) => return (events, Some(error)),
    }
    (events, None)
}
