//! Servers inside the program that drives this one: their messages go through whatever that program speaks with us.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Sink, SinkExt, Stream, StreamExt, future};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use serde_json::Value;

/// JSON-RPC messages to and from one server of the host.
pub struct SdkPipe {
    /// Takes our requests and notifications, and answers to what the server asks.
    pub to_host: Pin<Box<dyn Sink<Value, Error = io::Error> + Send>>,
    /// Gives the server's answers, requests and notifications. What is no message is passed over, so that an
    /// acknowledgement of a notification does no harm; the end is the end of the server.
    pub from_host: Pin<Box<dyn Stream<Item = Value> + Send>>,
}

/// Where the servers of the host are. Asked for a fresh pipe, by the server's name, each time that one is started.
#[derive(Clone)]
pub struct SdkHost(Arc<dyn Fn(&str) -> SdkPipe + Send + Sync>);

impl SdkHost {
    /// A host whose servers `pipe` reaches, within a runtime.
    pub fn new(pipe: impl Fn(&str) -> SdkPipe + Send + Sync + 'static) -> Self {
        Self(Arc::new(pipe))
    }
}

impl fmt::Debug for SdkHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SdkHost")
    }
}

/// Messages to and from the server `name` of the host.
pub(crate) fn messages(
    host: &SdkHost,
    name: &str,
) -> (
    impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + use<>,
    impl Stream<Item = ServerJsonRpcMessage> + Send + use<>,
) {
    let SdkPipe { to_host, from_host } = (host.0)(name);
    let to_value = |message: ClientJsonRpcMessage| {
        future::ready(serde_json::to_value(message).map_err(io::Error::from))
    };
    let stream =
        from_host.filter_map(|message| future::ready(serde_json::from_value(message).ok()));
    (to_host.with(to_value), stream)
}
