//! Port within the crate: what writes the bodies of requests to one model, for each API in its own way.

use std::sync::Arc;

use ah_conversation::{Continuity, Message, Model, ProviderError, Request};
use bytes::Bytes;

use crate::abilities::Abilities;
use crate::fields;
use crate::held::{Held, HeldBody, may_be_forgotten};

/// Writes the bodies of requests to one model.
pub trait RequestEncoder: Send + 'static {
    /// The model that the requests are for.
    fn model(&self) -> &Model;

    /// Returns how the model takes changes in a conversation.
    fn continuity(&self) -> Continuity {
        Continuity::default()
    }

    /// Returns the abilities of the model, to which what is learned of it is added.
    fn abilities(&mut self) -> &mut Abilities;

    /// Returns the body of `request` in pieces, which share memory with those of earlier requests. The first ends where the
    /// messages begin.
    fn encode(&mut self, request: &Request) -> Vec<Bytes>;

    /// Returns what stands before the messages of the whole body of a request.
    fn beginning(&self, whole: &[Bytes]) -> Bytes {
        whole.first().cloned().unwrap_or_default()
    }

    /// Returns the body of `request` to a server that is asked to hold conversations: with what it does not hold yet, or with
    /// all. `whole` is the body to a server that holds nothing, as it was just encoded. `None` if the server is not asked.
    fn held(&mut self, _request: &Request, _whole: &[Bytes]) -> Option<HeldBody> {
        None
    }

    /// Notes what the server holds of the conversation that begins with `first`.
    fn hold(&mut self, _first: &Arc<Message>, _held: Held) {}

    /// Returns the digest of the first messages of the conversation that begins with `first`, so many of them.
    fn said(&self, _first: &Arc<Message>, _messages: usize) -> Option<String> {
        None
    }

    /// Asks the server to hold no conversation any more.
    fn hold_nothing(&mut self) {}

    /// Whether what the server holds outlives the connection, so that another process may go on with it.
    fn outlives_connection(&self) -> bool {
        false
    }

    /// Whether the server may have forgotten what it held, as it answers with `error` to what is new.
    fn may_be_forgotten(&self, error: &ProviderError) -> bool {
        may_be_forgotten(error)
    }

    /// Whether conversations are held as long as a WebSocket is open.
    fn needs_sockets(&self) -> bool {
        false
    }
}

/// Returns the body of `request` without the fields that the server refuses.
pub(crate) fn encoded(encoder: &mut impl RequestEncoder, request: &Request) -> Vec<Bytes> {
    let body = encoder.encode(request);
    fields::without(body, &encoder.abilities().refused_fields)
}
