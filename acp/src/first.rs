//! Version 1 of the protocol: its requests, and the answers to them.

#![expect(
    clippy::needless_pass_by_value,
    reason = "all that handles requests has one form"
)]

use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthMethod, AuthMethodTerminal, AuthenticateRequest, AuthenticateResponse,
    CancelNotification, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest,
    DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LoadSessionResponse, McpCapabilities, NewSessionRequest,
    NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse, ResumeSessionRequest,
    ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionDeleteCapabilities, SessionForkCapabilities, SessionInfo,
    SessionListCapabilities, SessionResumeCapabilities, SessionSystemPromptCapabilities,
    SessionSystemPromptModeCapabilities, SessionSystemPromptOverrideCapabilities,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, on_receive_notification, on_receive_request,
};
use tokio_util::sync::CancellationToken;

use crate::fault::{invalid, not_open};
use crate::held::Held;
use crate::prompt;
use crate::requests::{
    LOGIN, LOGIN_ARGUMENT, LOGIN_NAME, LOGIN_WORDS, Requests, answer, answer_opened,
};
use crate::wanted::wanted;
use crate::wire::{Abilities, Peer};
use ah_desk::SessionSummary;

/// The program as an editor of this version sees it, until `stop`.
pub(crate) struct First {
    pub(crate) requests: Arc<Requests>,
    pub(crate) stop: CancellationToken,
}

/// Returns what handles a request.
macro_rules! by {
    ($requests:ident, $handle:ident, $request:ty, $response:ty) => {{
        let requests = $requests.clone();
        async move |request: $request, to: Responder<$response>, cx: ConnectionTo<Client>| {
            $handle(requests.clone(), request, to, Peer::First(cx))
        }
    }};
}

impl ConnectTo<Client> for First {
    async fn connect_to(self, client: impl ConnectTo<Agent>) -> Result<(), Error> {
        let Self { requests, stop } = self;
        let all = &requests;
        let cancels = requests.clone();
        Agent
            .v1()
            .name("ah")
            .on_receive_request(
                by!(all, initialize, InitializeRequest, InitializeResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, authenticate, AuthenticateRequest, AuthenticateResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, begin, NewSessionRequest, NewSessionResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, load, LoadSessionRequest, LoadSessionResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, resume, ResumeSessionRequest, ResumeSessionResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, fork, ForkSessionRequest, ForkSessionResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, list, ListSessionsRequest, ListSessionsResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, close, CloseSessionRequest, CloseSessionResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, delete, DeleteSessionRequest, DeleteSessionResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, prompt, PromptRequest, PromptResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, set_mode, SetSessionModeRequest, SetSessionModeResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(
                    all,
                    set_option,
                    SetSessionConfigOptionRequest,
                    SetSessionConfigOptionResponse
                ),
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |request: CancelNotification, _| {
                    cancels.cancel(&request.session_id.0);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .connect_with(client, async |cx| {
                requests.until_end(&Peer::First(cx), &stop).await;
                Ok(())
            })
            .await
    }
}

fn initialize(
    requests: Arc<Requests>,
    request: InitializeRequest,
    to: Responder<InitializeResponse>,
    _: Peer,
) -> Result<(), Error> {
    let client = request.client_capabilities;
    requests.meet(Abilities::first(&client));
    let prompt_modes = SessionSystemPromptModeCapabilities::new()
        .override_(SessionSystemPromptOverrideCapabilities::new());
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(SessionSystemPromptCapabilities::new().mode(prompt_modes));
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions);
    let login = client.auth.terminal.then(|| {
        let login = AuthMethodTerminal::new(LOGIN, LOGIN_NAME)
            .description(LOGIN_WORDS.to_owned())
            .args(vec![LOGIN_ARGUMENT.to_owned()]);
        AuthMethod::Terminal(login)
    });
    let own = Implementation::new("ah", env!("CARGO_PKG_VERSION")).title("ah".to_owned());
    let response = InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(login.into_iter().collect())
        .agent_info(own);
    to.respond(response)
}

fn authenticate(
    requests: Arc<Requests>,
    _: AuthenticateRequest,
    to: Responder<AuthenticateResponse>,
    _: Peer,
) -> Result<(), Error> {
    let checked = requests.check_key();
    to.respond_with_result(checked.map(|()| AuthenticateResponse::new()))
}

fn begin(
    requests: Arc<Requests>,
    request: NewSessionRequest,
    to: Responder<NewSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        let (modes, options) = held.told_choices();
        NewSessionResponse::new(held.id().clone())
            .modes(modes)
            .config_options(options)
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let directories = request.additional_directories;
        let wanted = wanted(
            request.cwd,
            directories,
            &request.mcp_servers,
            request.system_prompt.as_ref(),
        )?;
        requests.open(wanted, peer).await
    })
}

fn load(
    requests: Arc<Requests>,
    request: LoadSessionRequest,
    to: Responder<LoadSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        let (modes, options) = held.told_choices();
        LoadSessionResponse::new()
            .modes(modes)
            .config_options(options)
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let directories = request.additional_directories;
        let wanted = wanted(
            request.cwd,
            directories,
            &request.mcp_servers,
            request.system_prompt.as_ref(),
        )?;
        let held = requests.reopen(&request.session_id.0, wanted, peer).await?;
        held.replay().await;
        Ok(held)
    })
}

fn resume(
    requests: Arc<Requests>,
    request: ResumeSessionRequest,
    to: Responder<ResumeSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        let (modes, options) = held.told_choices();
        ResumeSessionResponse::new()
            .modes(modes)
            .config_options(options)
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let directories = request.additional_directories;
        let wanted = wanted(
            request.cwd,
            directories,
            &request.mcp_servers,
            request.system_prompt.as_ref(),
        )?;
        requests.reopen(&request.session_id.0, wanted, peer).await
    })
}

fn fork(
    requests: Arc<Requests>,
    request: ForkSessionRequest,
    to: Responder<ForkSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        let (modes, options) = held.told_choices();
        ForkSessionResponse::new(held.id().clone())
            .modes(modes)
            .config_options(options)
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let directories = request.additional_directories;
        let wanted = wanted(
            request.cwd,
            directories,
            &request.mcp_servers,
            request.system_prompt.as_ref(),
        )?;
        requests.fork(&request.session_id.0, wanted, peer).await
    })
}

fn list(
    requests: Arc<Requests>,
    request: ListSessionsRequest,
    to: Responder<ListSessionsResponse>,
    _: Peer,
) -> Result<(), Error> {
    let info = |listed: SessionSummary| {
        let updated = listed.updated_text();
        SessionInfo::new(listed.id.to_string(), listed.folder.unwrap_or_default())
            .title(Some(listed.title).filter(|title| !title.is_empty()))
            .updated_at(updated)
    };
    let listed = requests.list(request.cwd.as_deref(), request.cursor.as_deref());
    to.respond_with_result(listed.map(|(page, next)| {
        let page = page.into_iter().map(info).collect();
        ListSessionsResponse::new(page).next_cursor(next)
    }))
}

fn close(
    requests: Arc<Requests>,
    request: CloseSessionRequest,
    to: Responder<CloseSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    answer(to, &peer, async move {
        let id = &request.session_id.0;
        let was_open = requests.close(id).await;
        let closed = was_open.then(CloseSessionResponse::new);
        closed.ok_or_else(|| not_open(id))
    })
}

fn delete(
    requests: Arc<Requests>,
    request: DeleteSessionRequest,
    to: Responder<DeleteSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    answer(to, &peer, async move {
        requests.delete(&request.session_id.0).await?;
        Ok(DeleteSessionResponse::new())
    })
}

/// Runs a prompt; it is answered when the run has ended.
fn prompt(
    requests: Arc<Requests>,
    request: PromptRequest,
    to: Responder<PromptResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let prepared = requests.held(&request.session_id.0).and_then(|held| {
        let prompt = prompt::of(request.prompt, &held.folder)?;
        Ok((held, prompt))
    });
    let (held, prompt) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return to.respond_with_error(error),
    };
    let stop = held.begin();
    let withdrawn = to.cancellation();
    let steered = held.steer(&prompt, Box::new(|_| {}));
    answer(to, &peer, async move {
        let inserted = match steered {
            Err(inserted) => inserted,
            // It is answered with the run that it steers.
            Ok(()) => {
                held.idle().await;
                let reason = match stop.is_cancelled() {
                    true => StopReason::Cancelled,
                    false => StopReason::EndTurn,
                };
                return Ok(PromptResponse::new(reason));
            }
        };
        let run = held.run(prompt, &stop, inserted);
        tokio::pin!(run);
        let reason = tokio::select! {
            reason = &mut run => reason,
            () = withdrawn.cancelled() => {
                stop.cancel();
                run.await
            }
        };
        reason.map(PromptResponse::new)
    })
}

fn set_mode(
    requests: Arc<Requests>,
    request: SetSessionModeRequest,
    to: Responder<SetSessionModeResponse>,
    peer: Peer,
) -> Result<(), Error> {
    answer(to, &peer, async move {
        let held = requests.held(&request.session_id.0)?;
        held.set_mode(&request.mode_id.0).await?;
        Ok(SetSessionModeResponse::new())
    })
}

fn set_option(
    requests: Arc<Requests>,
    request: SetSessionConfigOptionRequest,
    to: Responder<SetSessionConfigOptionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    answer(to, &peer, async move {
        let held = requests.held(&request.session_id.0)?;
        let value = request.value.as_value_id();
        let value = value.ok_or_else(|| invalid("the value of an option must be a name"))?;
        held.set_option(&request.config_id.0, &value.0).await?;
        let (_, options) = held.told_choices();
        Ok(SetSessionConfigOptionResponse::new(options))
    })
}
