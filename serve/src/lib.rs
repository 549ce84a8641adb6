//! Sessions over HTTP: listed, begun, prompted, steered, interrupted, forked and answered by any number of clients.
//!
//! The transcript is the state. A stream of events (server-sent events) is the transcript, read from the store message by
//! message as far as its client has come, and a client that reconnects goes on where it was (`Last-Event-ID`). So nothing is
//! kept for slow clients, no run waits for one, and none misses anything.
//!
//! The server is at a loopback address, unless another one was asked for with TLS. Every request needs the token, and must name this server in `Host` and, if a page sends it, in `Origin`: a page in the
//! user's browser, also one whose name was bound to this machine's address, is told nothing. The crate knows no engine: what it
//! serves is behind the port [`Sessions`](ah_desk::Sessions).

mod answer;
mod body;
mod browse;
mod change;
mod doorstep;
mod draft;
mod events;
mod feed;
mod guard;
mod live;
mod page;
mod pieces;
mod probes;
mod rate;
mod routes;
mod server;
mod short;
mod shown;
mod socket;
mod tls;

pub use guard::Token;
pub use live::{Call, Served};
pub use probes::{Probes, probe};
pub use server::{Door, FirstRun, Life, serve};
pub use socket::{Drive, Driven, HostStreams};
pub use tls::Certificate;

/// The description of the interface, as OpenAPI.
pub const DESCRIPTION: &str = include_str!("../../docs/openapi.json");
