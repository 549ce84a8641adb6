//! Calls of a server's tool.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Access, Content, Context, Input, Output, ProgressSink, ResultBlock, Tool, ToolExtras, ToolSpec,
    ToolUse,
};
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};

use crate::remote::argument_names;
use crate::remote::cell::ServerCell;
use crate::remote::error::ServerError;
use crate::remote::explain::{self, explain};
use crate::remote::link::{ConnectedServer, ServerLink};
use crate::remote::listing::ToolDefinition;
use crate::remote::oauth;
use crate::remote::result;
use crate::remote::rounds::{self, MOST_ROUNDS};
use crate::remote::task;
use crate::remote::unfinished::{Noted, Record};

/// Metadata key of the model's tool use id; hosts of the Agent SDK look for it.
const CALL_ID: &str = "claudecode/toolUseId";

/// Variable with the span of a call; in lower case, the metadata key of the same (W3C Trace Context).
const TRACE_PARENT: &str = "TRACEPARENT";

/// A tool of a server.
pub(crate) struct RemoteTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) link: ServerLink,
    /// Timeout of a call, restarted by each progress notification.
    pub(crate) call_timeout: Duration,
    /// Whether a call has no effect outside the sandbox.
    pub(crate) is_confined: bool,
    /// Sandbox of its server.
    pub(crate) cell: Option<Arc<ServerCell>>,
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.definition.spec
    }

    /// A server's `readOnlyHint` is only a claim, so it never allows a call by itself.
    fn access(&self, _: &Input) -> Vec<Access> {
        let promised = self.definition.status.read_only == Some(true);
        vec![access(self.is_confined, promised)]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        match self.link.connected().await {
            Ok(server) => {
                let output = self.call(&server, call, context).await;
                self.with_refusals(output)
            }
            Err(reason) => Output::error(reason),
        }
    }
}

impl RemoteTool {
    /// Appends what the sandbox refused to the server meanwhile, which its own words seldom say.
    fn with_refusals(&self, output: Output) -> Output {
        match self.cell.as_ref().and_then(|cell| cell.refusals()) {
            Some(text) => with_note(output, &format!("[{text}]")),
            None => output,
        }
    }

    /// Returns the output of a call; structured content is checked against the schema that the tool declares.
    fn output(&self, result: CallToolResult) -> Output {
        let promised = self.definition.output_schema.as_ref();
        let structured = result.structured_content.as_ref();
        let fault = promised
            .zip(structured)
            .and_then(|(promised, structured)| result::broken_promise(promised, structured));
        let output = result::output(result);
        match fault {
            Some(fault) => with_note(output, &fault),
            None => output,
        }
    }

    /// Explains to the model why a call failed.
    async fn refusal(&self, server: &ConnectedServer, error: &ServiceError) -> String {
        match ServerError::of_request(error) {
            ServerError::NeedsAuth { scope } => {
                let credentials = server.credentials.as_ref();
                oauth::refused(scope.as_deref(), self.link.server(), credentials).await
            }
            ServerError::Permanent(_) | ServerError::Transient(_) => {
                explain(error, server.error_tail.fault())
            }
        }
    }

    /// Returns the timeout and the metadata of a request.
    fn request_options(&self, call: &ToolUse, context: &Context) -> PeerRequestOptions {
        let mut meta = RequestMetaObject::new();
        meta.insert(CALL_ID.to_owned(), call.id.as_str().into());
        let parent = context.variables.iter();
        let mut parent = parent.filter(|(name, _)| name == TRACE_PARENT);
        if let Some((_, span)) = parent.next() {
            meta.insert(TRACE_PARENT.to_ascii_lowercase(), span.as_str().into());
        }
        PeerRequestOptions::with_timeout(self.call_timeout)
            .reset_timeout_on_progress()
            .with_meta(meta)
    }

    async fn call(&self, server: &ConnectedServer, call: &ToolUse, context: &Context) -> Output {
        let progress = &context.progress;
        let mut params = CallToolRequestParams::new(self.definition.status.own_name.clone());
        if let Input::Object(arguments) = &call.input {
            let own_names = &self.definition.own_names;
            params = params.with_arguments(argument_names::restore(arguments, own_names));
        }
        for _ in 0..MOST_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            let options = self.request_options(call, context);
            let mut answer = send(server, request.clone(), options, progress).await;
            // A server that refuses for a moment has done nothing.
            if let Some(wait) = answer.as_ref().err().and_then(explain::wait) {
                tokio::time::sleep(wait).await;
                let options = self.request_options(call, context);
                answer = send(server, request, options, progress).await;
            }
            let required = match answer {
                Ok(ServerResult::CallToolResult(result)) => return self.output(result),
                // A result of a kind that the SDK does not know is still worth reading.
                Ok(ServerResult::CustomResult(result)) => return result::unknown(&result.0),
                Ok(ServerResult::InputRequiredResult(required)) => required,
                Ok(ServerResult::CreateTaskResult(created)) => {
                    let record = Record {
                        server: self.link.server().to_owned(),
                        tool: self.definition.status.own_name.clone(),
                        task_id: created.task.task_id.clone(),
                    };
                    let _noted = Noted::new(&context.spool, &record);
                    let end = task::follow(&self.link, created.task, progress, self.call_timeout);
                    return end
                        .await
                        .map_or_else(Output::error, |result| self.output(result));
                }
                Ok(_) => return Output::error("the server's response is not a tool result"),
                Err(error) => return Output::error(self.refusal(server, &error).await),
            };
            params = match rounds::next(params, required, &server.answers).await {
                Ok(params) => params,
                Err(reason) => return Output::error(reason),
            };
        }
        Output::error("the server asks for more and more input; the call was given up")
    }
}

/// Appends a note of ours to an output.
fn with_note(mut output: Output, note: &str) -> Output {
    let text = format!("\n{note}");
    match &mut output.content {
        Content::Bytes(bytes) => bytes.extend(text.into_bytes()),
        Content::Blocks(blocks) => blocks.push(ResultBlock::Text { text }),
        Content::Spool(_) => {}
    }
    output
}

/// Returns the access of a request to a server, whose effect is `promised` to be none or unknown.
pub(crate) fn access(is_confined: bool, promised: bool) -> Access {
    match (is_confined, promised) {
        (true, promised) => Access::Confined { promised },
        (false, true) => Access::Promised,
        (false, false) => Access::Unknown,
    }
}

/// Sends a request and waits for the response. Dropping the future cancels the request on the server.
async fn send(
    ConnectedServer {
        peer,
        notifications,
        ..
    }: &ConnectedServer,
    request: ClientRequest,
    options: PeerRequestOptions,
    progress: &ProgressSink,
) -> Result<ServerResult, ServiceError> {
    let handle: RequestHandle<RoleClient> = peer.send_cancellable_request(request, options).await?;
    let _subscription = notifications.subscribe(handle.progress_token.clone(), progress.clone());
    let mut cancel = CancelOnDrop(Some((peer.clone(), handle.id.clone())));
    let response = handle.await_response().await;
    cancel.0 = None;
    response
}

/// Cancels a pending request when dropped.
struct CancelOnDrop(Option<(Peer<RoleClient>, RequestId)>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((peer, id)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let params = CancelledNotificationParam::new(Some(id), Some("interrupted".to_owned()));
        runtime.spawn(async move {
            // It fails if the server is gone, and then there is nothing to cancel.
            let _ = peer.notify_cancelled(params).await;
        });
    }
}
