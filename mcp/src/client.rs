//! What a server learns of us, and what it may ask: where the work is, and that we heard it.
#![expect(
    deprecated,
    reason = "servers of today ask for roots and send their log, whatever the next revision of the protocol says"
)]

use std::path::Path;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientInfo, ErrorData, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, Root,
    RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use crate::name::clean_line;
use crate::news::News;

/// Our side of a connection.
pub(crate) struct Client {
    server: String,
    root: String,
    news: News,
}

impl Client {
    /// The client of the server `server`; what it tells unasked goes to `news`.
    pub(crate) fn new(server: &str, cwd: &Path, news: News) -> Self {
        let root = reqwest::Url::from_directory_path(cwd);
        Self {
            server: server.to_owned(),
            root: root.map(String::from).unwrap_or_default(),
            news,
        }
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientInfo {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        ClientInfo::new(
            capabilities,
            Implementation::new("ah", env!("CARGO_PKG_VERSION")),
        )
        // The revision after it has no handshake, and no server needs that one yet.
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let root = self.root.trim_end_matches('/');
        Ok(ListRootsResult::new(vec![Root::new(root)]))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.news.has_changed.notify_one();
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.news.progress(&progress);
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = clean_line(&message.data.to_string(), 1_000);
        tracing::debug!(server = self.server, level = ?message.level, "{text}");
    }
}
