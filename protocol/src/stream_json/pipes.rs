//! MCP servers that live in the host: their JSON-RPC goes over the link, one `mcp_message` each way.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::FuturesUnordered;
use futures_util::{Sink, Stream, StreamExt, sink, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::link::Link;
use super::output::is_too_long;

/// The way to the servers of the host.
#[derive(Clone)]
pub struct Pipes {
    link: Arc<Link>,
    /// What the host says by itself, or answers, by server.
    inbound: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Value>>>>,
}

/// The way to one server: JSON-RPC messages out and in.
pub struct Pipe {
    /// To the server.
    pub outbound: Pin<Box<dyn Sink<Value, Error = Gone> + Send>>,
    /// From the server.
    pub inbound: Pin<Box<dyn Stream<Item = Value> + Send>>,
}

/// Nobody listens any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host has closed its side")]
pub struct Gone;

impl Pipes {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            inbound: Arc::default(),
        }
    }

    /// The way to the server of this name. Another way to it that was there before leads nowhere from now on.
    pub fn pipe(&self, server: &str) -> Pipe {
        let (to_us, from_host) = mpsc::unbounded_channel();
        let (to_host, from_us) = mpsc::unbounded_channel();
        self.lock().insert(server.to_owned(), to_us.clone());
        let carrying = carry(self.link.clone(), server.to_owned(), from_us, to_us);
        // It ends with the side that sends.
        tokio::spawn(carrying);
        Pipe {
            outbound: Box::pin(sink::unfold(to_host, async |to_host, message| {
                let sent = to_host.send(message);
                sent.map(|()| to_host).map_err(|_| Gone)
            })),
            inbound: Box::pin(stream::unfold(from_host, async |mut from_host| {
                let message = from_host.recv().await?;
                Some((message, from_host))
            })),
        }
    }

    /// Hands on what a server says by itself; says whether anybody listens.
    pub(crate) fn deliver(&self, server: &str, message: Value) -> bool {
        let inbound = self.lock();
        let listener = inbound.get(server);
        listener.is_some_and(|listener| listener.send(message).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::UnboundedSender<Value>>> {
        self.inbound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries messages to a server, and its answers back, until the client goes. Several may be on their way at once; what
/// is not answered when it goes is withdrawn.
async fn carry(
    link: Arc<Link>,
    server: String,
    mut from_us: mpsc::UnboundedReceiver<Value>,
    to_us: mpsc::UnboundedSender<Value>,
) {
    let mut asked = FuturesUnordered::new();
    loop {
        tokio::select! {
            // The line of a message is out before the next message is taken, so that their order stays.
            biased;
            Some(()) = asked.next() => {}
            message = from_us.recv() => match message {
                Some(message) => asked.push(ask(&link, &server, message, &to_us)),
                None => return,
            },
        }
    }
}

/// Carries one message, and the answer to it.
async fn ask(link: &Link, server: &str, message: Value, to_us: &mpsc::UnboundedSender<Value>) {
    let id = message.get("id").cloned();
    // Cut, it would be another call.
    if is_too_long(&message) {
        let text = "it is too long for the host, which takes lines up to 1 MiB";
        let _ = id.map(|id| to_us.send(failure(&id, text)));
        return;
    }
    let answer = link.ask(json!({
        "subtype": "mcp_message",
        "server_name": server,
        "message": message,
    }));
    let answer = answer.await;
    // A notification is acknowledged and no more.
    let Some(id) = id else { return };
    let answer = match answer.map(|mut answer| answer["mcp_response"].take()) {
        Ok(response) if response.is_object() => response,
        Ok(_) => failure(&id, "the host has not answered it"),
        Err(fault) => failure(&id, &fault),
    };
    // The client may have gone meanwhile.
    let _ = to_us.send(answer);
}

fn failure(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32_000, "message": text}})
}
