//! The connection state of a server, as seen by senders of requests.
//!
//! The task that supervises a server publishes the state; tools and servers' lists only watch it. So a tool does not
//! depend on how a server is started and restarted.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::Peer;
use tokio::sync::watch;

use crate::remote::answers::Answers;
use crate::remote::credentials::Credentials;
use crate::remote::error::{ErrorTail, ServerError};
use crate::remote::notifications::Notifications;

/// Connection state of a server.
#[derive(Clone)]
pub(crate) enum LinkState {
    Connecting,
    Connected(ConnectedServer),
    Failed(ServerError),
}

impl LinkState {
    /// Returns whether waiting for the state can end. A closed connection is about to become another state.
    fn is_settled(&self) -> bool {
        match self {
            Self::Connecting => false,
            Self::Connected(server) => !server.peer.is_transport_closed(),
            Self::Failed(_) => true,
        }
    }
}

/// A connected server: where requests go, and the notifications that come back.
#[derive(Clone)]
pub(crate) struct ConnectedServer {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) notifications: Notifications,
    pub(crate) answers: Answers,
    /// Where its sign-in is kept.
    pub(crate) credentials: Option<Credentials>,
    /// Why its messages can no longer be read.
    pub(crate) error_tail: ErrorTail,
}

/// Watches the connection state of one server.
#[derive(Clone)]
pub(crate) struct ServerLink {
    server: Arc<str>,
    state: watch::Receiver<LinkState>,
}

impl ServerLink {
    pub(crate) fn new(server: &str, state: watch::Receiver<LinkState>) -> Self {
        Self {
            server: server.into(),
            state,
        }
    }

    /// Name of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Waits until the server is connected; the error is worded for the model and names the server.
    pub(crate) async fn connected(&self) -> Result<ConnectedServer, String> {
        self.settled().await.map_err(|error| {
            let reason = error.of_server(&self.server);
            format!(
                "the MCP server `{}` is not available: {reason}",
                self.server
            )
        })
    }

    /// Waits until the server is connected or has failed.
    pub(crate) async fn settled(&self) -> Result<ConnectedServer, ServerError> {
        let mut state = self.state.clone();
        let settled = state.wait_for(LinkState::is_settled).await;
        match settled.as_deref() {
            Ok(LinkState::Connected(server)) => Ok(server.clone()),
            Ok(LinkState::Failed(error)) => Err(error.clone()),
            Ok(LinkState::Connecting) | Err(_) => Err(ServerError::permanent("it was removed")),
        }
    }
}
