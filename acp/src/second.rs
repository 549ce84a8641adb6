//! Version 2 of the protocol, a draft: its requests, and the answers to them. A prompt is answered as soon as it is a
//! message, and the end of its run is an update.

#![expect(
    clippy::needless_pass_by_value,
    reason = "all that handles requests has one form"
)]

use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::schema::{
    AbsolutePath, AgentCapabilities, AuthMethod, AuthMethodTerminal, CancelSessionNotification,
    CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
    ErrorStopReason, ForkSessionRequest, ForkSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoginAuthRequest,
    LoginAuthResponse, LogoutAuthRequest, LogoutAuthResponse, McpCapabilities, McpHttpCapabilities,
    McpStdioCapabilities, NewSessionRequest, NewSessionResponse, PromptCapabilities,
    PromptEmbeddedContextCapabilities, PromptImageCapabilities, PromptRequest, PromptResponse,
    ReplayFrom, ResumeSessionRequest, ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionConfigOptionValue,
    SessionDeleteCapabilities, SessionForkCapabilities, SessionInfo, SessionListCursor,
    SessionSystemPromptCapabilities, SessionSystemPromptModeCapabilities,
    SessionSystemPromptOverrideCapabilities, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, StopReason, UserMessage,
};
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, on_receive_notification, on_receive_request, v1,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::fault::invalid;
use crate::held::Held;
use crate::prompt;
use crate::requests::{
    LOGIN, LOGIN_ARGUMENT, LOGIN_NAME, LOGIN_WORDS, Requests, answer, answer_opened, reply,
};
use crate::told::{self, parsed};
use crate::wanted::wanted;
use crate::wire::{Abilities, Peer};
use ah_desk::{SessionSummary, Start};

/// The program as an editor of this version sees it, until `stop`.
pub(crate) struct Second {
    pub(crate) requests: Arc<Requests>,
    pub(crate) stop: CancellationToken,
}

/// Returns what handles a request.
macro_rules! by {
    ($requests:ident, $handle:ident, $request:ty, $response:ty) => {{
        let requests = $requests.clone();
        async move |request: $request, to: Responder<$response>, cx: ConnectionTo<Client>| {
            $handle(requests.clone(), request, to, Peer::Second(cx))
        }
    }};
}

impl ConnectTo<Client> for Second {
    async fn connect_to(self, client: impl ConnectTo<Agent>) -> Result<(), Error> {
        let Self { requests, stop } = self;
        let all = &requests;
        let cancels = requests.clone();
        Agent
            .v2()
            .name("ah")
            .on_receive_request(
                by!(all, initialize, InitializeRequest, InitializeResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, log_in, LoginAuthRequest, LoginAuthResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, log_out, LogoutAuthRequest, LogoutAuthResponse),
                on_receive_request!(),
            )
            .on_receive_request(
                by!(all, begin, NewSessionRequest, NewSessionResponse),
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
                by!(
                    all,
                    set_option,
                    SetSessionConfigOptionRequest,
                    SetSessionConfigOptionResponse
                ),
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |request: CancelSessionNotification, _| {
                    cancels.cancel(&request.session_id.0);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .connect_with(client, async |cx| {
                requests.until_end(&Peer::Second(cx), &stop).await;
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
    let client = request.capabilities;
    requests.meet(Abilities::second(&client));
    let prompts = PromptCapabilities::new()
        .image(PromptImageCapabilities::new())
        .embedded_context(PromptEmbeddedContextCapabilities::new());
    let servers = McpCapabilities::new()
        .stdio(McpStdioCapabilities::new())
        .http(McpHttpCapabilities::new());
    let prompt_modes = SessionSystemPromptModeCapabilities::new()
        .override_(SessionSystemPromptOverrideCapabilities::new());
    let sessions = SessionCapabilities::new()
        .prompt(prompts)
        .mcp(servers)
        .fork(SessionForkCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(SessionSystemPromptCapabilities::new().mode(prompt_modes));
    let can_log_in = client.auth.is_some_and(|auth| auth.terminal.is_some());
    let login = can_log_in.then(|| {
        let login = AuthMethodTerminal::new(LOGIN, LOGIN_NAME)
            .description(LOGIN_WORDS.to_owned())
            .args(vec![LOGIN_ARGUMENT.to_owned()]);
        AuthMethod::Terminal(login)
    });
    let own = Implementation::new("ah", env!("CARGO_PKG_VERSION")).title("ah".to_owned());
    let response = InitializeResponse::new(ProtocolVersion::V2, own)
        .capabilities(AgentCapabilities::new().session(sessions))
        .auth_methods(login.into_iter().collect::<Vec<_>>());
    to.respond(response)
}

fn log_in(
    requests: Arc<Requests>,
    _: LoginAuthRequest,
    to: Responder<LoginAuthResponse>,
    _: Peer,
) -> Result<(), Error> {
    let checked = requests.check_key();
    to.respond_with_result(checked.map(|()| LoginAuthResponse::new()))
}

/// Keys are of the user, not of the editor: they are not removed at its word.
fn log_out(
    _: Arc<Requests>,
    _: LogoutAuthRequest,
    to: Responder<LogoutAuthResponse>,
    _: Peer,
) -> Result<(), Error> {
    to.respond_with_error(invalid(
        "remove the key where it is stored; `ah doctor` shows where",
    ))
}

fn begin(
    requests: Arc<Requests>,
    request: NewSessionRequest,
    to: Responder<NewSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        NewSessionResponse::new(held.id().0.clone())
            .config_options(told::options(&held.told_choices().1))
            .available_commands(told::commands(&held.told_commands(&[])))
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let directories = request.additional_directories;
        let wanted = wanted_by(
            request.cwd,
            directories,
            &request.mcp_servers,
            request.system_prompt.as_ref(),
        )?;
        requests.open(wanted, peer).await
    })
}

fn resume(
    requests: Arc<Requests>,
    request: ResumeSessionRequest,
    to: Responder<ResumeSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        held.editor.wire.tell_second(told::idle(None));
        ResumeSessionResponse::new()
            .config_options(told::options(&held.told_choices().1))
            .available_commands(told::commands(&held.told_commands(&[])))
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let is_told = match request.replay_from {
            None => false,
            Some(ReplayFrom::Start(_)) => true,
            Some(_) => {
                return Err(invalid(
                    "a conversation can only be replayed from its start",
                ));
            }
        };
        let directories = request.additional_directories;
        let wanted = wanted_by(
            request.cwd,
            directories,
            &request.mcp_servers,
            request.system_prompt.as_ref(),
        )?;
        let held = requests.reopen(&request.session_id.0, wanted, peer).await?;
        if is_told {
            held.replay().await;
        }
        Ok(held)
    })
}

fn fork(
    requests: Arc<Requests>,
    request: ForkSessionRequest,
    to: Responder<ForkSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let respond = |held: &Held| {
        ForkSessionResponse::new(held.id().0.clone())
            .config_options(told::options(&held.told_choices().1))
            .available_commands(told::commands(&held.told_commands(&[])))
    };
    answer_opened(to, &peer.clone(), respond, async move {
        let directories = request.additional_directories;
        let wanted = wanted_by(
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
    let folder = request.cwd.as_ref().map(AsRef::as_ref);
    let page = request.cursor.as_ref().map(AsRef::as_ref);
    to.respond_with_result(requests.list(folder, page).map(|(page, next)| {
        let page = page.into_iter().map(info).collect::<Vec<_>>();
        ListSessionsResponse::new(page).next_cursor(next.map(SessionListCursor::new))
    }))
}

/// Closes a session; one that is not open is closed already.
fn close(
    requests: Arc<Requests>,
    request: CloseSessionRequest,
    to: Responder<CloseSessionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    answer(to, &peer, async move {
        requests.close(&request.session_id.0).await;
        Ok(CloseSessionResponse::new())
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

fn prompt(
    requests: Arc<Requests>,
    request: PromptRequest,
    to: Responder<PromptResponse>,
    peer: Peer,
) -> Result<(), Error> {
    let prepared = requests.held(&request.session_id.0).and_then(|held| {
        let blocks = serde_json::to_value(&request.prompt).ok().and_then(parsed);
        let blocks = blocks.ok_or_else(|| invalid("a part of the prompt is of an unknown kind"))?;
        let prompt = prompt::of(blocks, &held.folder)?;
        Ok((held, prompt))
    });
    let (held, prompt) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return to.respond_with_error(error),
    };
    let stop = held.begin();
    let withdrawn = to.cancellation();
    let to = Arc::new(Mutex::new(Some(to)));
    let accepted = {
        let (to, wire) = (to.clone(), held.editor.wire.clone());
        Box::new(move |id: &ah_conversation::MessageId| {
            if let Some(to) = take(&to) {
                reply(to, Ok(PromptResponse::new(id.as_str())));
            }
            let message = UserMessage::new(id.as_str()).content(request.prompt);
            wire.tell_second(SessionUpdate::UserMessage(message));
            wire.tell_second(told::running());
        })
    };
    let inserted = match held.steer(&prompt, accepted) {
        Ok(()) => return Ok(()),
        Err(inserted) => inserted,
    };
    peer.beside(async move {
        let run = held.run(prompt, &stop, inserted);
        tokio::pin!(run);
        let reason = tokio::select! {
            reason = &mut run => reason,
            () = withdrawn.cancelled() => {
                stop.cancel();
                run.await
            }
        };
        match (take(&to), reason) {
            // It never was a message.
            (Some(to), Err(error)) => reply(to, Err(error)),
            (Some(to), Ok(_)) => reply(to, Err(Error::request_cancelled())),
            (None, reason) => held
                .editor
                .wire
                .tell_second(told::idle(Some(ended(reason)))),
        }
    })
}

fn ended(reason: Result<v1::schema::StopReason, Error>) -> StopReason {
    match reason {
        Ok(reason) => match reason {
            v1::schema::StopReason::MaxTokens => StopReason::MaxTokens,
            v1::schema::StopReason::MaxTurnRequests => StopReason::MaxTurnRequests,
            v1::schema::StopReason::Refusal => StopReason::Refusal,
            v1::schema::StopReason::Cancelled => StopReason::Cancelled,
            _ => StopReason::EndTurn,
        },
        Err(error) => {
            let error = serde_json::to_value(error).ok().and_then(parsed);
            StopReason::Error(ErrorStopReason::new().error(error))
        }
    }
}

fn set_option(
    requests: Arc<Requests>,
    request: SetSessionConfigOptionRequest,
    to: Responder<SetSessionConfigOptionResponse>,
    peer: Peer,
) -> Result<(), Error> {
    answer(to, &peer, async move {
        let held = requests.held(&request.session_id.0)?;
        let SessionConfigOptionValue::Id { value, .. } = request.value else {
            return Err(invalid("the value of an option must be a name"));
        };
        held.set_option(&request.config_id.0, &value.0).await?;
        let options = told::options(&held.told_choices().1);
        Ok(SetSessionConfigOptionResponse::new(options))
    })
}

fn wanted_by(
    folder: AbsolutePath,
    directories: Vec<AbsolutePath>,
    servers: &[impl serde::Serialize],
    system_prompt: Option<&impl serde::Serialize>,
) -> Result<Start, Error> {
    let directories = directories.into_iter().map(|it| it.0);
    wanted(folder.0, directories, servers, system_prompt)
}

fn take<T>(value: &Mutex<Option<T>>) -> Option<T> {
    value.lock().take()
}
