//! Serves an editor in the version of the protocol that it begins with.

use std::sync::Arc;

use agent_client_protocol::{Agent, Client, ConnectTo};
use ah_desk::Sessions;
use tokio_util::sync::CancellationToken;

use crate::first::First;
use crate::requests::Requests;
use crate::second::Second;

/// End of serving an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Served {
    /// It has closed the connection, or `stop` was cancelled.
    Ended,
    /// The connection failed; the error text.
    Failed(String),
}

/// Serves the editor at the other end of `transport` until it closes the connection, or `stop` is cancelled. `warn` is
/// called with notices that the editor does not show.
pub async fn serve(
    transport: impl ConnectTo<Agent>,
    sessions: Arc<dyn Sessions>,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    stop: &CancellationToken,
) -> Served {
    let requests = Arc::new(Requests::new(sessions, warn));
    let first = First {
        requests: requests.clone(),
        stop: stop.clone(),
    };
    let second = Second {
        requests: requests.clone(),
        stop: stop.clone(),
    };
    let router = Agent.protocol_router().with_v1(first).with_v2(second);
    let router = ConnectTo::<Client>::connect_to(router, transport);
    let done = tokio::select! {
        biased;
        done = router => done,
        () = stopped_early(&requests, stop) => Ok(()),
    };
    // A connection that failed has dropped its runs.
    requests.close_all().await;
    match done {
        Ok(()) => Served::Ended,
        Err(error) => Served::Failed(error.to_string()),
    }
}

/// Waits until `stop`, before any editor has said what it is. Afterwards its version stops by itself, and in order.
async fn stopped_early(requests: &Requests, stop: &CancellationToken) {
    stop.cancelled().await;
    if requests.has_met() {
        std::future::pending::<()>().await;
    }
}
