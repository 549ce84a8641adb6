//! The two ways in which a connection begins: with a handshake, or without.
//!
//! Nearly all programs still know the handshake, and some end when anything else comes first, so it is tried first. Only
//! one that refuses it is asked what it is. Over HTTP each request stands for itself, so a server is asked what it is at
//! once; one that does not say gets the handshake.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, Peer};
use tokio::time::sleep;

use crate::remote::notifications::Notifications;

/// Minimum time between two requests for the list of tools, however often it changes.
pub(crate) const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// Way in which a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The handshake of revisions up to 2025-11-25.
    Handshake,
    /// `server/discover`, since revision 2026-07-28: each request stands for itself.
    Discovery,
}

impl Beginning {
    /// Returns the mode of the SDK.
    pub(crate) fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Handshake => ClientLifecycleMode::Initialize,
            Self::Discovery => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// Wait before listening again to a server that has ended the stream.
const LISTEN_AGAIN: Duration = Duration::from_secs(30);
/// Time for the answer of a server that refused the handshake: it may know nothing else either, and be silent.
pub(crate) const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns whether a failed handshake may mean that the server knows none: it answered that it does not know the method,
/// the version, or requests without metadata.
pub(crate) fn is_refusal(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::JsonRpcError(error) = error else {
        return false;
    };
    matches!(
        error.code,
        ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_PARAMS
            | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
            | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
            | ErrorCode::HEADER_MISMATCH
    )
}

/// Passes on changes of the list of tools. Without a handshake, a server sends them only to those who listen; it never
/// returns.
pub(crate) async fn listen(peer: &Peer<RoleClient>, notifications: &Notifications) {
    if has_subscriptions(peer) {
        follow(peer, notifications).await;
    }
    std::future::pending::<()>().await;
}

/// Returns whether the server tells changes of its tools to those who listen.
fn has_subscriptions(peer: &Peer<RoleClient>) -> bool {
    let info = peer.peer_info();
    info.is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        let changes = tools.is_some_and(|tools| tools.list_changed == Some(true));
        changes && !info.protocol_version.has_initialize()
    })
}

/// Listens until the server refuses.
async fn follow(peer: &Peer<RoleClient>, notifications: &Notifications) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    while let Ok(mut subscription) = peer.listen(filter.clone()).await {
        while let Ok(Some(_)) = subscription.next().await {
            notifications.tools_changed.notify_one();
        }
        // A stream may end at any time; what changed meanwhile is not told again.
        sleep(LISTEN_AGAIN).await;
        notifications.tools_changed.notify_one();
    }
}
