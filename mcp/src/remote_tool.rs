//! One tool of a server, as a tool of ours.

use std::time::Duration;

use ah_conversation::{Access, Context, Input, Output, ProgressSink, Tool, ToolSpec, ToolUse};
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, RequestId,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};

use crate::listing::Definition;
use crate::name::clean;
use crate::result::output;
use crate::server::{Contact, Line};

/// Under this name a server is told which call of the model it serves; hosts of the Agent SDK look for it.
const CALL_ID: &str = "claudecode/toolUseId";

/// A tool of a server.
pub(crate) struct RemoteTool {
    pub(crate) definition: Definition,
    pub(crate) line: Line,
    /// How long a call may take without a sign of progress.
    pub(crate) patience: Duration,
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.definition.spec
    }

    /// What the server does is its own affair, and what it promises is its word: no call is allowed for that.
    fn access(&self, _: &Input) -> Vec<Access> {
        vec![match self.definition.status.read_only {
            Some(true) => Access::Promised,
            Some(false) | None => Access::Unknown,
        }]
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        match self.line.contact().await {
            Ok(contact) => self.call(&contact, call, &context.progress).await,
            Err(reason) => Output::error(reason),
        }
    }
}

impl RemoteTool {
    async fn call(&self, contact: &Contact, call: &ToolUse, progress: &ProgressSink) -> Output {
        let mut params = CallToolRequestParams::new(self.definition.status.own_name.clone());
        if let Input::Object(arguments) = &call.input {
            params = params.with_arguments(arguments.clone());
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut meta = RequestMetaObject::new();
        meta.insert(CALL_ID.to_owned(), call.id.as_str().into());
        let options = PeerRequestOptions::with_timeout(self.patience)
            .reset_timeout_on_progress()
            .with_meta(meta);
        match ask(contact, request, options, progress).await {
            Ok(ServerResult::CallToolResult(result)) => output(result),
            // What the SDK does not know is better than nothing.
            Ok(ServerResult::CustomResult(result)) => Output::text(result.0.to_string()),
            Ok(ServerResult::InputRequiredResult(_)) => Output::error(
                "the server asks a person for something, and there is nobody to be asked",
            ),
            Ok(_) => Output::error("the server's answer is not the result of a tool"),
            Err(fault) => Output::error(explain(&fault)),
        }
    }
}

/// Sends a request and waits for the answer. Dropped, it tells the server that nobody waits any more.
async fn ask(
    Contact { peer, news }: &Contact,
    request: ClientRequest,
    options: PeerRequestOptions,
    progress: &ProgressSink,
) -> Result<ServerResult, ServiceError> {
    let handle: RequestHandle<RoleClient> = peer.send_cancellable_request(request, options).await?;
    let _listening = news.listen(handle.progress_token.clone(), progress.clone());
    let mut waiting = Waiting(Some((peer.clone(), handle.id.clone())));
    let answer = handle.await_response().await;
    waiting.0 = None;
    answer
}

/// A request that was not answered yet.
struct Waiting(Option<(Peer<RoleClient>, RequestId)>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let (Some((peer, id)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let params = CancelledNotificationParam::new(Some(id), Some("interrupted".to_owned()));
        runtime.spawn(async move {
            // A server that is gone need not be told.
            let _ = peer.notify_cancelled(params).await;
        });
    }
}

/// What went wrong with a request, for the model.
pub(crate) fn explain(fault: &ServiceError) -> String {
    match fault {
        ServiceError::McpError(error) => clean(&error.message, 4_000),
        ServiceError::Timeout { timeout } => {
            format!(
                "no answer and no sign of progress for {} s; it was told to stop",
                timeout.as_secs_f64()
            )
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            "the server ended before it answered; whether the call has changed anything is not known".to_owned()
        }
        other => clean(&other.to_string(), 1_000),
    }
}
