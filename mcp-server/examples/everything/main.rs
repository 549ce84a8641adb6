//! The server of the engine with all that the conformance suite looks for: tools, prompts and resources of its own, over
//! HTTP on a port of this machine. It prints its address. For tests only: `ah mcp serve` has none of this, and no HTTP.

#![expect(deprecated, reason = "the suite asks for what older clients use, too")]

mod contents;
mod jobs;
mod rounds;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::Audience;
use ah_conversation::{
    Cost, Environment, Head, Message, MessageId, SessionId, StoreError, Time, ToolUseId, Verdicts,
};
use ah_desk::{
    Choices, FileLeft, FilesAt, FilesDiff, OpenSession, Prompt, Refusal, Running, Scope,
    SessionSummary, Sessions, Start, Transcript, Waiting,
};
use ah_mcp_server::{AgentServer, Served};
use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CreateMessageRequestParams, ElicitRequestParams,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::TaskManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use contents::{
    PROMPTS, called, complete, header_tool, of_json, prompt, resource, schema_tool, tool_names,
};

/// Pause between the notifications of a tool that sends some.
const PAUSE: Duration = Duration::from_millis(20);

/// One session, whose runs repeat their prompt, or are jobs of the suite.
struct Echo;

#[async_trait]
impl Sessions for Echo {
    fn list(&self, _: Scope<'_>) -> Result<Vec<SessionSummary>, Refusal> {
        Ok(vec![SessionSummary {
            id: SessionId::from("01"),
            folder: None,
            title: "A session".to_owned(),
            is_known: true,
            messages: 1,
            tokens: 0,
            updated: Time(1_767_225_600_000),
        }])
    }

    fn transcript(&self, id: &str) -> Result<Option<Box<dyn Transcript>>, Refusal> {
        Ok((id == "01").then(|| Box::new(Empty) as _))
    }

    fn follow(&self, _: &str, _: Box<dyn Fn() -> bool + Send>) {}

    async fn open(&self, _: &Start, _: Audience) -> Result<OpenSession, Refusal> {
        Err(Refusal::failed("clients of the suite drive no session"))
    }

    fn begin(&self, _: Start, prompt: Prompt) -> Running {
        jobs::begin(prompt.text)
    }

    fn send(&self, _: &str, _: &str) -> Result<String, Refusal> {
        Ok("02".to_owned())
    }

    fn waiting(&self, _: &str) -> Result<Vec<Waiting>, Refusal> {
        Ok(Vec::new())
    }

    fn withdraw(&self, _: &str, _: &str) -> Result<bool, Refusal> {
        Ok(false)
    }

    async fn rename(&self, _: &str, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    async fn files(&self, _: &str, _: FilesAt) -> Result<Option<FilesDiff>, Refusal> {
        Ok(None)
    }

    async fn restore(
        &self,
        _: &str,
        _: FilesAt,
        _: &str,
    ) -> Result<Option<Vec<FileLeft>>, Refusal> {
        Ok(None)
    }

    fn choices(&self) -> Result<Choices, Refusal> {
        Ok(Choices::default())
    }

    fn remove(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn has_key(&self) -> bool {
        true
    }
}

/// A transcript without messages.
struct Empty;

impl Transcript for Empty {
    fn name(&self) -> Result<Option<String>, StoreError> {
        Ok(Some("A session".to_owned()))
    }

    fn current(&self) -> Result<Option<MessageId>, StoreError> {
        Ok(None)
    }

    fn message(&self, _: &MessageId) -> Result<Option<Message>, StoreError> {
        Ok(None)
    }

    fn verdicts(&self) -> Result<Verdicts, StoreError> {
        Ok(Verdicts::new())
    }

    fn heads(&self) -> Result<Vec<Head>, StoreError> {
        Ok(Vec::new())
    }

    fn spent(&self) -> Result<Cost, StoreError> {
        Ok(Cost::default())
    }

    fn copy_output(&self, _: &ToolUseId, _: &mut dyn Write) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Returns what the suite is served.
fn served() -> Served {
    Served {
        sessions: Arc::new(Echo),
        environment: Environment::new([], "/".into()),
        written: |name, _, _| format!("# {name}"),
    }
}

/// The engine's server, and what the suite looks for beside it.
#[derive(Clone)]
struct Everything(AgentServer, TaskManager);

type Context = RequestContext<RoleServer>;

impl Everything {
    async fn asked(&self, context: &Context, form: Value) -> Result<Value, ErrorData> {
        let params: ElicitRequestParams = of_json(form)?;
        let answer = context.peer.create_elicitation(params).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let action = serde_json::to_value(&answer.action).unwrap_or_default();
        let content = answer.content.unwrap_or_default();
        let text = format!(
            "action={}, content={content}",
            action.as_str().unwrap_or_default()
        );
        Ok(json!({"content": [{"type": "text", "text": text}]}))
    }

    /// Tools that send something meanwhile; `None` if it is none of them.
    async fn talking(
        &self,
        name: &str,
        arguments: &JsonObject,
        context: &Context,
    ) -> Result<Option<Value>, ErrorData> {
        let text = |name: &str| {
            arguments
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let done = json!({"content": [{"type": "text", "text": "done"}]});
        Ok(Some(match name {
            "test_tool_with_logging" => {
                for data in [
                    "Tool execution started",
                    "Tool processing data",
                    "Tool execution completed",
                ] {
                    log(context, data).await;
                    tokio::time::sleep(PAUSE).await;
                }
                done
            }
            "test_tool_with_progress" => {
                for progress in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let told =
                            ProgressNotificationParam::new(token, progress).with_total(100.0);
                        // A client that is gone needs none.
                        let _ = context.peer.notify_progress(told).await;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                done
            }
            "test_sampling" => {
                let asked = json!({
                    "messages": [{"role": "user", "content": {"type": "text", "text": text("prompt")}}],
                    "maxTokens": 100,
                });
                json!({"content": [{"type": "text", "text": sampled(context, asked).await?}]})
            }
            "test_elicitation" => self.asked(context, contents::form(text("message"))).await?,
            "test_elicitation_sep1034_defaults" => {
                self.asked(context, contents::defaults()).await?
            }
            "test_elicitation_sep1330_enums" => self.asked(context, contents::choices()).await?,
            "test_missing_capability" => {
                let needed = ClientCapabilities::builder().enable_sampling().build();
                let known = context.client_capabilities();
                if known.is_none_or(|known| known.sampling.is_none()) {
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                done
            }
            _ => return Ok(None),
        }))
    }
}

async fn log(context: &Context, data: &str) {
    let told = rmcp::model::LoggingMessageNotificationParam::new(
        rmcp::model::LoggingLevel::Info,
        data.into(),
    );
    // A client that is gone needs none.
    let _ = context.peer.notify_logging_message(told).await;
}

async fn sampled(context: &Context, asked: Value) -> Result<String, ErrorData> {
    let params: CreateMessageRequestParams = of_json(asked)?;
    let answer = context.peer.create_message(params).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let answer = serde_json::to_value(&answer).unwrap_or_default();
    Ok(format!(
        "LLM response: {}",
        answer["content"]["text"].as_str().unwrap_or_default()
    ))
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let mut info = self.0.get_info();
        info.capabilities = capabilities;
        info
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.0.list_tools(page, context).await?;
        let input = json!({"type": "object"});
        let input: JsonObject = of_json(input)?;
        let names = tool_names().chain(jobs::TOOLS);
        let tools = names.map(|name| Tool::new(name, "A tool of the suite.", input.clone()));
        listed.tools.extend(tools);
        listed.tools.push(of_json(schema_tool())?);
        listed.tools.push(of_json(header_tool())?);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tool = (name == "header_tool").then(header_tool)?;
        of_json(tool).ok()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let known = context.client_capabilities();
        if let Some(run) = jobs::as_run(&request, known.as_ref())? {
            return self.0.call_tool(run, context).await;
        }
        if let Some(response) = jobs::called(&request, &self.1)? {
            return Ok(response);
        }
        if !request.name.starts_with("test_") && request.name != "json_schema_2020_12_tool" {
            return self.0.call_tool(request, context).await;
        }
        if let Some(response) = rounds::called(&request, &context)? {
            return Ok(response);
        }
        let arguments = request.arguments.clone().unwrap_or_default();
        let said = match self.talking(&request.name, &arguments, &context).await? {
            Some(said) => said,
            None => called(&request.name)
                .ok_or_else(|| ErrorData::invalid_params("there is no such tool", None))?,
        };
        let result: rmcp::model::CallToolResult = of_json(complete(said))?;
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = PROMPTS.iter().map(|(name, arguments)| {
            let arguments = arguments
                .iter()
                .map(|it| json!({"name": it, "required": true}));
            of_json(json!({"name": name, "description": "A prompt of the suite.", "arguments": arguments.collect::<Vec<_>>()}))
        });
        Ok(ListPromptsResult::with_all_items(
            prompts.collect::<Result<_, _>>()?,
        ))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(response) = rounds::prompted(&request)? {
            return Ok(response);
        }
        let arguments = request.arguments.unwrap_or_default();
        let said = prompt(&request.name, &arguments)
            .ok_or_else(|| ErrorData::invalid_params("there is no such prompt", None))?;
        let result: rmcp::model::GetPromptResult = of_json(complete(said))?;
        Ok(result.into())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let values = json!({"values": ["paris", "park"], "total": 2, "hasMore": false});
        of_json(complete(json!({"completion": values})))
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.0.list_resources(page, context).await?;
        for uri in [
            "test://static-text",
            "test://static-binary",
            "test://watched-resource",
        ] {
            listed
                .resources
                .push(of_json(json!({"uri": uri, "name": uri}))?);
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.0.list_resource_templates(page, context).await?;
        let template = json!({"uriTemplate": "test://template/{id}/data", "name": "template"});
        listed.resource_templates.push(of_json(template)?);
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match resource(&request.uri) {
            Some(contents) => {
                let result: rmcp::model::ReadResourceResult = of_json(complete(contents))?;
                Ok(result.into())
            }
            None => self.0.read_resource(request, context).await,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: Context,
    ) -> Result<GetTaskResult, ErrorData> {
        match self.1.get_task(&request.task_id) {
            Ok(task) => Ok(GetTaskResult::new(task)),
            Err(_) => self.0.get_task(request, context).await,
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        match self.1.get_task(&request.task_id) {
            Ok(_) => self
                .1
                .update_task(&request.task_id, request.input_responses),
            Err(_) => self.0.update_task(request, context).await,
        }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        match self.1.get_task(&request.task_id) {
            Ok(_) => self.1.cancel_task(&request.task_id),
            Err(_) => self.0.cancel_task(request, context).await,
        }
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }
}

#[expect(clippy::print_stdout, reason = "whoever starts it needs the address")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let server = Everything(AgentServer::new(served()), TaskManager::new());
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off is none of ours.
            let _ = connection.await;
        });
    }
}
