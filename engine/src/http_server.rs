//! Sessions over HTTP. Runs are those that other agents get ([`mcp_server`](crate::mcp_server)): a session of the folder, with
//! the rules and the sandbox of `-p`, whose questions go to the clients.

mod stored;

use std::sync::Arc;

use ah_config::Error;
use ah_conversation::neutralise;
use ah_mcp::serve::{self as agent, Runner as _};
use ah_serve::{At, Ended, Offer, Pick, Question, RunEvent, Running, Sessions, Transcript, Wanted};
use ah_store::{SessionHead, Tree};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::stored::Stored;
use crate::mcp_server::{ClientRequest, ClientRuns};
use crate::session_folders::sessions;

pub use ah_serve::Token;

/// Bytes of a token.
const TOKEN: usize = 32;

/// Returns a new token as text.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn new_token() -> Result<String, Error> {
    let mut bytes = [0; TOKEN];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("there are no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Serves clients at the listener's loopback address until the request's `stop` is cancelled; then its runs end, with all
/// messages stored.
///
/// # Errors
///
/// If the settings are not valid for runs, or the address cannot be served.
pub async fn serve_http(
    listener: TcpListener,
    token: Token,
    request: ClientRequest<'_>,
) -> Result<(), Error> {
    let stop = request.stop.clone();
    let runs = Arc::new(ClientRuns::new(request)?);
    let sessions = Arc::new(HttpSessions(runs.clone()));
    let served = ah_serve::serve(listener, token, sessions, stop).await;
    runs.end();
    served.map_err(|error| Error::failure(format!("cannot serve: {error}")))
}

/// The sessions of the folder.
struct HttpSessions(Arc<ClientRuns>);

impl Sessions for HttpSessions {
    fn list(&self) -> Result<Vec<Value>, String> {
        let heads = sessions(self.0.config()).list();
        let mut heads = heads.map_err(|error| error.to_string())?;
        heads.retain(|head| head.problem.is_none() && head.messages > 0);
        heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
        Ok(heads.iter().map(listed).collect())
    }

    fn transcript(&self, session: &str) -> Result<Option<Box<dyn Transcript>>, String> {
        let Some(paths) = self.0.paths(session)? else {
            return Ok(None);
        };
        let tree = Tree::open(&paths).map_err(|error| error.to_string())?;
        let runs = self.0.clone();
        Ok(Some(Box::new(Stored { tree, runs })))
    }

    fn begin(&self, wanted: Wanted) -> Running {
        let wanted = agent::Wanted {
            prompt: wanted.prompt,
            session: wanted.session,
            is_fork: wanted.is_fork,
            at: wanted.at.map(|at| match at {
                At::Number(seq) => agent::At::Number(seq),
                At::Message(id) => agent::At::Message(id),
            }),
            model: wanted.model,
        };
        let agent::Running { mut events, stop } = self.0.begin(wanted);
        let (sender, receiver) = mpsc::unbounded_channel();
        let ends = stop.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if sender.send(translated(event)).is_err() {
                    ends.cancel();
                    break;
                }
            }
        });
        Running {
            events: receiver,
            stop,
        }
    }

    fn steer(&self, session: &str, message: &str) -> Result<(), String> {
        self.0.steer(session, message)
    }
}

fn listed(head: &SessionHead) -> Value {
    let title = match &head.name {
        Some(name) => name.as_str(),
        None => head.first_text.lines().next().unwrap_or_default(),
    };
    json!({
        "id": head.id.to_string(),
        "title": neutralise(title),
        "messages": head.messages,
        "tokens": head.tokens,
        "updated_ms": head.last_written.0,
    })
}

fn translated(event: agent::RunEvent) -> RunEvent {
    match event {
        agent::RunEvent::Began(session) => RunEvent::Began(session),
        agent::RunEvent::Step(_) => RunEvent::Step,
        agent::RunEvent::Asked(question, answer) => {
            let picks = question.choices.into_iter().map(|choice| Pick {
                question: choice.question,
                header: choice.header,
                is_multiple: choice.is_multiple,
                options: { choice.options.into_iter() }
                    .map(|option| Offer {
                        label: option.label,
                        description: option.description,
                    })
                    .collect(),
            });
            let question = Question {
                id: 0,
                about: question.about,
                picks: picks.collect(),
            };
            RunEvent::Asked(question, answer)
        }
        agent::RunEvent::Ended(ended) => RunEvent::Ended(Ended {
            text: ended.text,
            is_error: ended.is_error,
            is_stopped: ended.is_stopped,
            turns: ended.turns,
            cost_usd: ended.cost_usd,
        }),
    }
}
