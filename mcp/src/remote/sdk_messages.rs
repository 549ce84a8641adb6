//! Typed messages of a server inside the host program.

use std::io;

use futures_util::{Sink, SinkExt, Stream, StreamExt, future};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};

use crate::sdk::{SdkHost, SdkPipe};

/// Opens the streams of messages to and from the host's server `name`.
pub(crate) fn messages(
    host: &SdkHost,
    name: &str,
) -> (
    impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + use<>,
    impl Stream<Item = ServerJsonRpcMessage> + Send + use<>,
) {
    let SdkPipe { to_host, from_host } = host.pipe(name);
    let to_value = |message: ClientJsonRpcMessage| {
        future::ready(serde_json::to_value(message).map_err(io::Error::from))
    };
    let stream =
        from_host.filter_map(|message| future::ready(serde_json::from_value(message).ok()));
    (to_host.with(to_value), stream)
}
