//! Connections to MCP servers that run in the host: JSON-RPC over the link, one `mcp_message` per message.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{Sink, Stream, StreamExt, sink, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::link::Link;
use super::output::is_too_long;

/// Connections to the servers of the host.
#[derive(Clone)]
pub struct Pipes {
    link: Arc<Link>,
    /// Senders of incoming messages by server.
    inbound: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Value>>>>,
}

/// Connection to one server: JSON-RPC messages in both directions.
pub struct Pipe {
    /// To the server.
    pub outbound: Pin<Box<dyn Sink<Value, Error = Gone> + Send>>,
    /// From the server.
    pub inbound: Pin<Box<dyn Stream<Item = Value> + Send>>,
}

/// The receiver was dropped.
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

    /// Opens a connection to a server. An earlier one to the same server receives nothing more.
    pub fn pipe(&self, server: &str) -> Pipe {
        let (to_us, from_host) = mpsc::unbounded_channel();
        let (to_host, from_us) = mpsc::unbounded_channel();
        self.inbound.lock().insert(server.to_owned(), to_us.clone());
        let carrying = carry(self.link.clone(), server.to_owned(), from_us, to_us);
        // The task ends when `outbound` is dropped.
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

    /// Hands on a message that a server sent by itself; returns whether there is a receiver.
    pub(crate) fn deliver(&self, server: &str, message: Value) -> bool {
        let inbound = self.inbound.lock();
        let listener = inbound.get(server);
        listener.is_some_and(|listener| listener.send(message).is_ok())
    }
}

/// Carries messages to a server and its answers back until the client is dropped. Several may be open at once; those still
/// open then are withdrawn.
async fn carry(
    link: Arc<Link>,
    server: String,
    mut from_us: mpsc::UnboundedReceiver<Value>,
    to_us: mpsc::UnboundedSender<Value>,
) {
    let mut asked = FuturesUnordered::new();
    loop {
        tokio::select! {
            // A message is sent before the next one is taken, so that their order is kept.
            biased;
            Some(()) = asked.next() => {}
            message = from_us.recv() => match message {
                Some(message) => asked.push(ask(&link, &server, message, &to_us)),
                None => return,
            },
        }
    }
}

/// Carries one message and its answer.
async fn ask(link: &Link, server: &str, message: Value, to_us: &mpsc::UnboundedSender<Value>) {
    let id = message.get("id").cloned();
    // It must not be cut, which would change the call.
    if is_too_long(&message) {
        let text = "the message is too long for the host, which accepts lines up to 1 MiB";
        let _ = id.map(|id| to_us.send(failure(&id, text)));
        return;
    }
    let answer = link.ask(json!({
        "subtype": "mcp_message",
        "server_name": server,
        "message": message,
    }));
    let answer = answer.await;
    // A notification is only acknowledged.
    let Some(id) = id else { return };
    let answer = match answer.map(|mut answer| answer["mcp_response"].take()) {
        Ok(response) if response.is_object() => response,
        Ok(_) => failure(&id, "the host sent no response"),
        Err(fault) => failure(&id, &fault.to_string()),
    };
    // The client may be dropped by now.
    let _ = to_us.send(answer);
}

fn failure(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32_000, "message": text}})
}
