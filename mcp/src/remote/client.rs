//! The client side of a connection: answers a server's requests and takes its notifications.
#![expect(
    deprecated,
    reason = "current servers request roots and send logs, though the next protocol revision deprecates both"
)]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientInfo, CustomNotification, ElicitRequestParams, ElicitResult,
    ErrorData, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion, Root, RootsCapabilities, TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use serde_json::Value;

use crate::remote::answers::Answers;
use crate::remote::name::clean_line;
use crate::remote::notifications::Notifications;
use crate::remote::revision::Beginning;

/// Tells that what a server asked for is done; the SDK has no type for it.
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The client side of a connection.
pub(crate) struct Client {
    answers: Answers,
    notifications: Notifications,
    /// Whether servers may carry out calls as tasks, an extension of the revisions without a handshake.
    follows_tasks: bool,
}

impl Client {
    /// Creates the client of a server, whose notifications go to `notifications`.
    pub(crate) fn new(
        answers: Answers,
        notifications: Notifications,
        beginning: Beginning,
    ) -> Self {
        Self {
            answers,
            notifications,
            follows_tasks: beginning == Beginning::Discovery,
        }
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientInfo {
        let mut capabilities = ClientCapabilities::default();
        if self.follows_tasks {
            let tasks = (TASKS_EXTENSION_ID.to_owned(), Default::default());
            capabilities.extensions = Some([tasks].into());
        }
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = self.answers.elicitation();
        ClientInfo::new(
            capabilities,
            Implementation::new("ah", env!("CARGO_PKG_VERSION")),
        )
        // Later revisions have no handshake.
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(&*self.answers.root)]))
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.answers.elicit(question).await)
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        let id = notification
            .params
            .as_ref()
            .map(|params| &params["elicitationId"]);
        if let Some(Value::String(id)) = id
            && notification.method == ELICITATION_COMPLETE
        {
            self.answers.complete(id);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notifications.tools_changed.notify_one();
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.notifications.progress(&progress);
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = clean_line(&message.data.to_string(), 1_000);
        tracing::debug!(server = &*self.answers.server, level = ?message.level, "{text}");
    }
}
