//! The requests of a client.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use ah_conversation::encoding::Decoder;
use ah_conversation::json;
use ah_desk::{Prompt, Which};
use futures_util::stream;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, ElicitRequest, ElicitResult, GetTaskParams, GetTaskResult, Implementation,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _, BufReader,
};
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

use crate::caller::{Caller, Way};
use crate::follow::{Outcome, Run, Stops, Waiting, still_running, still_waiting, waiting};
use crate::question;
use crate::served::Served;
use crate::{sessions, tools};

/// Largest message of a client, in bytes.
const LARGEST_MESSAGE: usize = 32 * 1024 * 1024;
/// Bytes that are read at once, and that wait to be written.
const PIPE_SIZE: usize = 64 << 10;
/// Key of the question in a request of several rounds.
const QUESTION: &str = "question";
/// Milliseconds that a client may wait between two questions about a task.
const POLL_INTERVAL: u64 = 1_000;

/// Serves the client at the other end of `read` and `write` until it is gone, or `stop` is cancelled. Its runs end then.
///
/// # Errors
///
/// If the connection fails before it is set up; the text says why.
pub async fn serve(
    served: Served,
    (read, write): (
        impl AsyncRead + Send + Unpin + 'static,
        impl AsyncWrite + Send + Unpin + 'static,
    ),
    stop: &CancellationToken,
) -> Result<(), String> {
    let (said, lines) = tokio::io::duplex(PIPE_SIZE);
    let told = tokio::spawn(tell(lines, write));
    let transport =
        AsyncRwTransport::new_server(whole(read), said).with_max_line_length(LARGEST_MESSAGE);
    let server = AgentServer::new(served);
    let tasks = server.tasks.clone();
    let served = rmcp::service::serve_server_with_ct(server, transport, stop.clone()).await;
    let served = match served {
        Ok(running) => running
            .waiting()
            .await
            .map(drop)
            .map_err(|error| error.to_string()),
        // A client that leaves without a word has nothing to be told.
        Err(
            rmcp::service::ServerInitializeError::ConnectionClosed(_)
            | rmcp::service::ServerInitializeError::Cancelled,
        ) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    tasks.shutdown();
    tokio::select! {
        // An error is that of a client that reads nothing more.
        _ = told => {}
        () = stop.cancelled() => {}
    }
    served
}

/// Passes on what the SDK writes, with lines that are lines for every reader.
async fn tell(
    lines: impl AsyncRead + Send + Unpin,
    mut write: impl AsyncWrite + Send + Unpin,
) -> io::Result<()> {
    let mut lines = BufReader::new(lines).lines();
    while let Some(line) = lines.next_line().await? {
        write.write_all(json::one_line(line).as_bytes()).await?;
        write.write_all(b"\n").await?;
        write.flush().await?;
    }
    Ok(())
}

/// Returns an input as UTF-8.
fn decoded(read: impl AsyncRead + Send + Unpin + 'static) -> impl AsyncBufRead + Send + Unpin {
    let start = Some((read, Decoder::default()));
    let pieces = stream::unfold(start, async |state| {
        let (mut read, mut decoder) = state?;
        let mut piece = Vec::with_capacity(PIPE_SIZE);
        Some(match read.read_buf(&mut piece).await {
            Ok(0) => (Ok(io::Cursor::new(decoder.end())), None),
            Ok(_) => {
                let piece = decoder.feed(&piece).into_owned();
                (Ok(io::Cursor::new(piece)), Some((read, decoder)))
            }
            Err(error) => (Err(error), None),
        })
    });
    StreamReader::new(Box::pin(pieces))
}

/// Returns the lines of a client without halves of characters, which the SDK would refuse.
fn whole(read: impl AsyncRead + Send + Unpin + 'static) -> impl AsyncRead + Send + Unpin {
    let lines = stream::unfold(decoded(read), async |mut read| {
        let mut line = Vec::new();
        // A longer one is refused, whether it is cut or not.
        let mut limited = (&mut read).take(LARGEST_MESSAGE as u64 + 1);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) => None,
            Ok(_) => {
                let line = json::whole_bytes(&line).into_text().into_owned();
                Some((Ok(io::Cursor::new(line)), read))
            }
            Err(error) => Some((Err(error), read)),
        }
    });
    StreamReader::new(Box::pin(lines))
}

/// The engine as a server. Clones share their runs.
#[derive(Clone)]
pub struct AgentServer {
    served: Served,
    tasks: TaskManager,
    /// Runs that wait for an answer, by session.
    waiting: Arc<Mutex<BTreeMap<String, Waiting>>>,
    stops: Arc<Stops>,
}

impl AgentServer {
    /// Creates the server of these sessions.
    pub fn new(served: Served) -> Self {
        Self {
            served,
            tasks: TaskManager::new(),
            waiting: Arc::default(),
            stops: Arc::default(),
        }
    }

    /// Follows a run to what its call answers with.
    async fn driven(&self, run: Run, context: &RequestContext<RoleServer>) -> CallToolResponse {
        let caller = Caller::of_call(context);
        let stop = run.stopper();
        let follow = run.follow(&caller, None);
        tokio::pin!(follow);
        let outcome = tokio::select! {
            outcome = &mut follow => outcome,
            () = context.ct.cancelled() => {
                stop.cancel();
                follow.await
            }
        };
        let waiting_run = match outcome {
            Outcome::Ended(result) => return result.into(),
            Outcome::Waiting(waiting) => *waiting,
        };
        let session = waiting_run.session().to_owned();
        let response = match (&caller.way, question::form(&waiting_run.question)) {
            (Way::Rounds, Some(form)) => {
                let request = InputRequest::Elicitation(ElicitRequest::new(form));
                let requests = InputRequests::from([(QUESTION.to_owned(), request)]);
                InputRequiredResult::new(Some(requests), Some(session.clone())).into()
            }
            _ => waiting(&session, &waiting_run.question).into(),
        };
        self.waiting.lock().insert(session, waiting_run);
        response
    }

    /// Turns a run into a task.
    fn as_task(&self, run: Run, context: RequestContext<RoleServer>) -> CallToolResponse {
        let options = TaskOptions::new()
            .with_ttl_ms(None)
            .with_poll_interval_ms(POLL_INTERVAL);
        let kept = self.waiting.clone();
        let task = self.tasks.spawn(options, |task| {
            Box::pin(async move {
                let caller = Caller::of_task(&context, task.clone());
                let stop = run.stopper();
                let follow = run.follow(&caller, Some(&task));
                tokio::pin!(follow);
                let outcome = tokio::select! {
                    outcome = &mut follow => outcome,
                    () = task.cancelled() => {
                        stop.cancel();
                        follow.await;
                        return Err(TaskExit::Cancelled);
                    }
                };
                Ok(match outcome {
                    Outcome::Ended(result) => result,
                    Outcome::Waiting(run) => {
                        let result = waiting(run.session(), &run.question);
                        let mut kept = kept.lock();
                        kept.insert(run.session().to_owned(), *run);
                        result
                    }
                })
            })
        });
        CallToolResponse::Task(CreateTaskResult::new(task))
    }

    /// Begins a run; returns why not if the session has one already.
    fn begin(&self, arguments: &JsonObject) -> Result<Result<Run, CallToolResult>, ErrorData> {
        let (start, prompt) = tools::wanted(arguments)?;
        let wanted = match &start.which {
            Which::Resume(session, _) => session.clone(),
            _ => String::new(),
        };
        if let Some(waiting) = self.waiting.lock().get(&wanted) {
            return Ok(Err(still_waiting(&wanted, &waiting.question)));
        }
        if self.stops.has(&wanted) {
            return Ok(Err(still_running(&wanted)));
        }
        // A model has written it.
        let prompt = Prompt {
            text: prompt,
            is_verbatim: true,
            ..Prompt::default()
        };
        let running = self.served.sessions.begin(start, prompt);
        Ok(Ok(Run::new(running, wanted, self.stops.clone())))
    }

    /// Continues the run whose question an earlier round has asked.
    fn next_round(&self, state: &str, responses: Option<InputResponses>) -> Result<Run, ErrorData> {
        let waiting = self.waiting.lock().remove(state);
        let waiting = waiting.ok_or_else(|| {
            ErrorData::invalid_params("no run is waiting with this request state", None)
        })?;
        let response = responses.and_then(|mut all| all.remove(QUESTION));
        let filled = response.and_then(|it| serde_json::from_value::<ElicitResult>(it).ok());
        let answers = filled.and_then(|filled| question::filled_in(&waiting.question, &filled));
        Ok(waiting.answer(answers))
    }

    /// Continues a run with the answers of the calling agent; refused if a person has to give them.
    fn answered(&self, arguments: &JsonObject) -> Result<Result<Run, String>, ErrorData> {
        let session = tools::text(arguments, "session")?;
        let mut kept = self.waiting.lock();
        let Some(waiting) = kept.get(&session).filter(|it| !it.question.is_permission) else {
            return Ok(Err(format!(
                "no run of the session `{session}` is waiting for an answer"
            )));
        };
        let given = arguments.get("answers").unwrap_or(&Value::Null);
        let answers = match question::answers(&waiting.question, given) {
            Ok(answers) => answers,
            Err(reason) => return Ok(Err(reason)),
        };
        let waiting = kept.remove(&session);
        Ok(waiting
            .map(|waiting| waiting.answer(Some(answers)))
            .ok_or_else(String::new))
    }

    fn stopped(&self, session: &str) -> CallToolResult {
        let is_there = self.stops.stop(session);
        // One that waits takes no more part.
        let waiting = self.waiting.lock().remove(session);
        match is_there || waiting.is_some() {
            true => said("stopped"),
            false => failed(format!("no run of the session `{session}` is in progress")),
        }
    }
}

fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_tasks()
            .build();
        let own = Implementation::new("ah", env!("CARGO_PKG_VERSION")).with_title("ah");
        ServerConfig::new(capabilities)
            .with_server_info(own)
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let run = match (&*request.name, &request.request_state) {
            (tools::RUN | tools::ANSWER, Some(state)) => {
                let run = self.next_round(state, request.input_responses)?;
                return Ok(self.driven(run, &context).await);
            }
            (tools::RUN, None) => match self.begin(&arguments)? {
                Ok(run) => run,
                Err(result) => return Ok(result.into()),
            },
            (tools::ANSWER, None) => match self.answered(&arguments)? {
                Ok(run) => run,
                Err(reason) => return Ok(failed(reason).into()),
            },
            (tools::STEER, _) => {
                let session = tools::text(&arguments, "session")?;
                let message = tools::text(&arguments, "message")?;
                let sent = self.served.sessions.send(&session, &message);
                return Ok(match sent {
                    Ok(_) => {
                        said("queued: it is told before the next step, or with the next run").into()
                    }
                    Err(refusal) => failed(refusal.text).into(),
                });
            }
            (tools::STOP, _) => {
                return Ok(self.stopped(&tools::text(&arguments, "session")?).into());
            }
            (name, _) => {
                let message = format!("there is no tool `{name}`");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        let capabilities = context.client_capabilities();
        if capabilities.is_some_and(|it| it.supports_tasks()) {
            return Ok(self.as_task(run, context));
        }
        Ok(self.driven(run, &context).await)
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = page.and_then(|page| page.cursor);
        sessions::list(&self.served, cursor.as_deref())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(sessions::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(sessions::read(&self.served, &request.uri)?.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_one_line_for_every_reader() {
        let mut written = Vec::new();
        tell("[\"a\u{2028}b\"]\n{}\n".as_bytes(), &mut written)
            .await
            .unwrap();
        assert_eq!(written, b"[\"a\\u2028b\"]\n{}\n");
    }

    #[tokio::test]
    async fn messages_in_utf_16_are_read() {
        // The letter's bytes are those of a line end, too.
        let text = "\u{feff}\"上\"\n[]\n";
        let input: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut read = String::new();
        let mut messages = whole(io::Cursor::new(input));
        messages.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "\"上\"\n[]\n");
    }
}
