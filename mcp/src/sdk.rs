//! Servers inside the host program: their messages go over the host's own connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Sink, Stream};
use serde_json::Value;

/// JSON-RPC messages to and from one server of the host.
pub struct SdkPipe {
    /// Messages to the server.
    pub to_host: Pin<Box<dyn Sink<Value, Error = io::Error> + Send>>,
    /// Messages from the server. Values that are no JSON-RPC message, such as the acknowledgement of a notification,
    /// are ignored; the end of the stream is the end of the server.
    pub from_host: Pin<Box<dyn Stream<Item = Value> + Send>>,
}

/// Opens pipes to the servers of the host program: a new one, by the server's name, at each start of a server.
#[derive(Clone)]
pub struct SdkHost(Arc<dyn Fn(&str) -> SdkPipe + Send + Sync>);

impl SdkHost {
    /// Creates a host from a function that opens a pipe to the server of a name; it is called within a runtime.
    pub fn new(pipe: impl Fn(&str) -> SdkPipe + Send + Sync + 'static) -> Self {
        Self(Arc::new(pipe))
    }

    /// Opens a pipe to the server `name`.
    pub fn pipe(&self, name: &str) -> SdkPipe {
        (self.0)(name)
    }
}

impl fmt::Debug for SdkHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SdkHost")
    }
}
