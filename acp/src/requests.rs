//! The editor's requests. The connection hands them over one after the other, so whatever takes time runs beside it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthMethod, AuthMethodTerminal, AuthenticateRequest, AuthenticateResponse,
    CancelNotification, ClientCapabilities, CloseSessionRequest, CloseSessionResponse, EnvVariable,
    HttpHeader, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
    ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, McpCapabilities, McpServer,
    NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse,
    ResumeSessionRequest, ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities, SessionCloseCapabilities, SessionId, SessionInfo, SessionListCapabilities,
    SessionResumeCapabilities, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcResponse, on_receive_notification, on_receive_request,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::editor::{Editor, Warn};
use crate::fault::{invalid, not_open};
use crate::held::Held;
use crate::{Engine, Listed, Prompt, Wanted};

/// Most sessions in one answer to a list request.
const PAGE: usize = 100;
/// Id of the way to log in.
const LOGIN: &str = "login";

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
    engine: Arc<dyn Engine>,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    stop: &CancellationToken,
) -> Served {
    let requests = Arc::new(Requests {
        engine,
        warn,
        client: OnceLock::new(),
        held: Mutex::default(),
    });
    let done = connect(transport, &requests, stop).await;
    // A connection that failed has dropped its runs.
    requests.close_all().await;
    match done {
        Ok(()) => Served::Ended,
        Err(error) => Served::Failed(error.to_string()),
    }
}

/// Registers what is done at each request, and runs the connection.
async fn connect(
    transport: impl ConnectTo<Agent>,
    requests: &Arc<Requests>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let [first, new, load, resume, list] = std::array::from_fn(|_| requests.clone());
    let [close, prompt, cancel, mode, option, login] = std::array::from_fn(|_| requests.clone());
    Agent
        .v1()
        .name("ah")
        .on_receive_request(
            async move |request: InitializeRequest, to: Responder<InitializeResponse>, _| {
                to.respond(first.initialize(request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: AuthenticateRequest, to: Responder<AuthenticateResponse>, _| {
                to.respond_with_result(login.authenticate())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, to: Responder<NewSessionResponse>, cx| {
                new.clone().begin(request, to, cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, to: Responder<LoadSessionResponse>, cx| {
                load.clone().load(request, to, cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, to: Responder<ResumeSessionResponse>, cx| {
                resume.clone().resume(request, to, cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, to: Responder<ListSessionsResponse>, _| {
                to.respond_with_result(list.list(&request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, to: Responder<CloseSessionResponse>, cx| {
                close.close(&request, to, &cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, to: Responder<PromptResponse>, cx| {
                prompt.prompt(request, to, &cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest,
                        to: Responder<SetSessionModeResponse>,
                        _| { to.respond_with_result(mode.set_mode(&request)) },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest,
                        to: Responder<SetSessionConfigOptionResponse>,
                        cx| { option.set_option(request, to, &cx) },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |request: CancelNotification, _| {
                cancel.cancel(&request);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_with(transport, async |cx| requests.until_end(&cx, stop).await)
        .await
}

/// What requests work on.
struct Requests {
    engine: Arc<dyn Engine>,
    warn: Warn,
    /// What the editor can do.
    client: OnceLock<ClientCapabilities>,
    /// The open sessions.
    held: Mutex<HashMap<SessionId, Arc<Held>>>,
}

impl Requests {
    fn initialize(&self, request: InitializeRequest) -> InitializeResponse {
        let can_log_in = request.client_capabilities.auth.terminal;
        // The first request counts.
        let _ = self.client.set(request.client_capabilities);
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions);
        let login = can_log_in.then(|| {
            let login = AuthMethodTerminal::new(LOGIN, "ah login")
                .description("Save an API key, or choose a model server".to_owned())
                .args(vec!["--login".to_owned()]);
            AuthMethod::Terminal(login)
        });
        let own = Implementation::new("ah", env!("CARGO_PKG_VERSION")).title("ah".to_owned());
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .auth_methods(login.into_iter().collect())
            .agent_info(own)
    }

    /// Checks that a login was successful.
    fn authenticate(&self) -> Result<AuthenticateResponse, Error> {
        match self.engine.has_key() {
            true => Ok(AuthenticateResponse::new()),
            false => Err(Error::new(
                Error::auth_required().code,
                "there is no key for the model; run `ah login` in a terminal",
            )),
        }
    }

    fn begin(
        self: Arc<Self>,
        request: NewSessionRequest,
        to: Responder<NewSessionResponse>,
        cx: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let respond = |held: &Held| {
            let (modes, options) = held.told_choices();
            NewSessionResponse::new(held.id().clone())
                .modes(modes)
                .config_options(options)
        };
        answer_opened(to, &cx.clone(), respond, async move {
            let wanted = wanted(
                request.cwd,
                request.additional_directories,
                request.mcp_servers,
            );
            self.open(wanted?, cx).await
        })
    }

    fn load(
        self: Arc<Self>,
        request: LoadSessionRequest,
        to: Responder<LoadSessionResponse>,
        cx: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let respond = |held: &Held| {
            let (modes, options) = held.told_choices();
            LoadSessionResponse::new()
                .modes(modes)
                .config_options(options)
        };
        answer_opened(to, &cx.clone(), respond, async move {
            let wanted = wanted(
                request.cwd,
                request.additional_directories,
                request.mcp_servers,
            );
            let held = self.reopen(request.session_id, wanted?, cx).await?;
            held.replay().await;
            Ok(held)
        })
    }

    fn resume(
        self: Arc<Self>,
        request: ResumeSessionRequest,
        to: Responder<ResumeSessionResponse>,
        cx: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let respond = |held: &Held| {
            let (modes, options) = held.told_choices();
            ResumeSessionResponse::new()
                .modes(modes)
                .config_options(options)
        };
        answer_opened(to, &cx.clone(), respond, async move {
            let wanted = wanted(
                request.cwd,
                request.additional_directories,
                request.mcp_servers,
            );
            self.reopen(request.session_id, wanted?, cx).await
        })
    }

    fn list(&self, request: &ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        let all = self.engine.list(request.cwd.as_deref())?;
        // The cursor is the id of the last session of the page before.
        let begin = match &request.cursor {
            None => 0,
            Some(last) => match all.iter().position(|listed| listed.id == *last) {
                Some(at) => at + 1,
                None => return Err(invalid("there is no such page of sessions")),
            },
        };
        let end = (begin + PAGE).min(all.len());
        let next = (end < all.len()).then(|| all[end - 1].id.clone());
        let listed = all.into_iter().skip(begin).take(PAGE);
        Ok(ListSessionsResponse::new(listed.map(info).collect()).next_cursor(next))
    }

    fn close(
        &self,
        request: &CloseSessionRequest,
        to: Responder<CloseSessionResponse>,
        cx: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let held = self.lock().remove(&request.session_id);
        let Some(held) = held else {
            return to.respond_with_error(not_open(&request.session_id));
        };
        beside(cx, async move {
            held.close().await;
            reply(to, Ok(CloseSessionResponse::new()));
        })
    }

    fn prompt(
        &self,
        request: PromptRequest,
        to: Responder<PromptResponse>,
        cx: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let prepared = self.held(&request.session_id).and_then(|held| {
            let prompt = Prompt::of(request.prompt, &held.folder)?;
            Ok((held, prompt))
        });
        let (held, prompt) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return to.respond_with_error(error),
        };
        let stop = held.begin();
        let withdrawn = to.cancellation();
        beside(cx, async move {
            let run = held.run(prompt, &stop);
            tokio::pin!(run);
            let reason = tokio::select! {
                reason = &mut run => reason,
                () = withdrawn.cancelled() => {
                    stop.cancel();
                    run.await
                }
            };
            reply(to, reason.map(PromptResponse::new));
        })
    }

    fn cancel(&self, request: &CancelNotification) {
        if let Some(held) = self.lock().get(&request.session_id) {
            held.cancel();
        }
    }

    /// Waits until the editor has ended, or `stop`. Runs end in order while the connection still stands.
    async fn until_end(
        &self,
        cx: &ConnectionTo<Client>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        tokio::select! {
            () = cx.incoming_closed() => {}
            () = stop.cancelled() => {}
        }
        self.close_all().await;
        Ok(())
    }

    fn set_mode(&self, request: &SetSessionModeRequest) -> Result<SetSessionModeResponse, Error> {
        let held = self.held(&request.session_id)?;
        held.set_mode(&request.mode_id.0)?;
        Ok(SetSessionModeResponse::new())
    }

    fn set_option(
        &self,
        request: SetSessionConfigOptionRequest,
        to: Responder<SetSessionConfigOptionResponse>,
        cx: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let held = match self.held(&request.session_id) {
            Ok(held) => held,
            Err(error) => return to.respond_with_error(error),
        };
        beside(cx, async move {
            let set = match request.value.as_value_id() {
                Some(value) => held.set_option(&request.config_id.0, &value.0).await,
                None => Err(invalid("the value of an option must be a name")),
            };
            let (_, options) = held.told_choices();
            reply(
                to,
                set.map(|()| SetSessionConfigOptionResponse::new(options)),
            );
        })
    }

    /// Opens a stored session. The editor may have it open already; then it is opened anew.
    async fn reopen(
        &self,
        id: SessionId,
        wanted: Wanted,
        cx: ConnectionTo<Client>,
    ) -> Result<Arc<Held>, Error> {
        let wanted = Wanted {
            stored: Some(id.to_string()),
            ..wanted
        };
        let former = self.lock().remove(&id);
        if let Some(former) = former {
            former.close().await;
        }
        self.open(wanted, cx).await
    }

    async fn open(&self, wanted: Wanted, cx: ConnectionTo<Client>) -> Result<Arc<Held>, Error> {
        let client = self.client.get().and_then(|client| client.session.as_ref());
        let shows_notices = client.is_some_and(|client| client.notices.is_some());
        let editor = Arc::new(Editor::new(cx, shows_notices, self.warn.clone()));
        let opened = self.engine.open(&wanted, editor.clone()).await?;
        let held = Arc::new(Held::new(opened, editor));
        self.lock().insert(held.id().clone(), held.clone());
        Ok(held)
    }

    fn held(&self, id: &SessionId) -> Result<Arc<Held>, Error> {
        self.lock().get(id).cloned().ok_or_else(|| not_open(id))
    }

    /// Closes all sessions. It may be dropped with the connection and called again.
    async fn close_all(&self) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for held in &all {
            held.cancel();
        }
        for held in all {
            held.close().await;
            self.lock().remove(held.id());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` beside the connection, which takes further requests meanwhile.
fn beside(
    cx: &ConnectionTo<Client>,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    cx.spawn(async {
        work.await;
        Ok(())
    })
}

/// Opens a session beside the connection, and answers with what `respond` makes of it. The commands are told behind the
/// answer: the editor knows a new session only then.
fn answer_opened<T: JsonRpcResponse + Send + 'static>(
    to: Responder<T>,
    cx: &ConnectionTo<Client>,
    respond: impl FnOnce(&Held) -> T + Send + 'static,
    opening: impl Future<Output = Result<Arc<Held>, Error>> + Send + 'static,
) -> Result<(), Error> {
    beside(cx, async move {
        let held = opening.await;
        let response = held.as_ref().map(|held| respond(held));
        reply(to, response.map_err(Clone::clone));
        if let Ok(held) = held {
            held.tell_commands().await;
        }
    })
}

/// Answers a request. An answer that cannot be sent is lost with the connection.
fn reply<T: JsonRpcResponse>(to: Responder<T>, result: Result<T, Error>) {
    if let Err(error) = to.respond_with_result(result) {
        tracing::debug!(%error, "an answer is lost");
    }
}

fn info(listed: Listed) -> SessionInfo {
    SessionInfo::new(listed.id, listed.folder)
        .title(Some(listed.title).filter(|title| !title.is_empty()))
        .updated_at(listed.updated)
}

/// Returns the new session that an editor wants.
fn wanted(
    folder: PathBuf,
    directories: Vec<PathBuf>,
    servers: Vec<McpServer>,
) -> Result<Wanted, Error> {
    if let Some(relative) = [&folder]
        .into_iter()
        .chain(&directories)
        .find(|it| !it.is_absolute())
    {
        return Err(invalid(format!(
            "`{}` is not an absolute path",
            relative.display()
        )));
    }
    if !folder.is_dir() {
        return Err(invalid(format!(
            "there is no folder `{}`",
            folder.display()
        )));
    }
    let servers = servers.into_iter().map(server);
    Ok(Wanted {
        folder,
        directories,
        servers: servers.collect::<Result<_, _>>()?,
        stored: None,
    })
}

/// Returns the name of a server, and its entry as in the settings.
fn server(server: McpServer) -> Result<(String, Value), Error> {
    let pairs = |pairs: Vec<(String, String)>| {
        let pairs = pairs.into_iter().map(|(name, value)| (name, value.into()));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    match server {
        McpServer::Stdio(server) => {
            let pair = |it: EnvVariable| (it.name, it.value);
            let env = pairs(server.env.into_iter().map(pair).collect());
            let command = server.command.to_string_lossy();
            let entry = json!({"command": command, "args": server.args, "env": env});
            Ok((server.name, entry))
        }
        McpServer::Http(server) => {
            let pair = |it: HttpHeader| (it.name, it.value);
            let headers = pairs(server.headers.into_iter().map(pair).collect());
            let entry = json!({"type": "http", "url": server.url, "headers": headers});
            Ok((server.name, entry))
        }
        _ => Err(invalid("MCP servers are reached over pipes or HTTP")),
    }
}
