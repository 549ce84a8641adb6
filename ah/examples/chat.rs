//! A chat over HTTP: a prompt posted to `/chats/NAME` is answered with the model's words as they arrive. Each chat
//! has a database of its own, so a server that was killed continues where it stopped.
//!
//! `cargo run -p ah --example chat -- chats sonnet`, then `curl -N -d Hello http://127.0.0.1:3000/chats/anna`

use std::path::PathBuf;
use std::sync::Arc;

use ah::event::{Event, EventKind};
use ah::{Agent, Error, ErrorKind, Options};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::stream;
use tokio::sync::mpsc;

struct Chats {
    folder: PathBuf,
    model: String,
}

/// Returns the server; the databases are in `folder`.
pub fn app(folder: PathBuf, model: String) -> Router {
    let chats = Arc::new(Chats { folder, model });
    Router::new()
        .route("/chats/{name}", post(answer))
        .with_state(chats)
}

async fn answer(
    State(chats): State<Arc<Chats>>,
    Path(name): Path<String>,
    prompt: String,
) -> Result<Body, (StatusCode, String)> {
    if !name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err((StatusCode::NOT_FOUND, "letters and digits only\n".into()));
    }
    let (sender, words) = mpsc::unbounded_channel();
    let failure = sender.clone();
    let on_event = move |event: &Event| {
        if let EventKind::TextDelta { text } = &event.kind {
            // The client may have disconnected; the answer is stored nevertheless.
            let _ = sender.send(Ok(text.clone()));
        }
    };
    let mut agent = Agent::with(Options::new().model(&chats.model))
        .store_file(chats.folder.join(format!("{name}.db")))
        .on_event(on_event)
        .open()
        .await
        .map_err(|error| refusal(&error))?;
    tokio::spawn(async move {
        if let Err(error) = agent.run(prompt).await {
            let _ = failure.send(Err(error));
        }
    });
    // It ends with the agent, which holds the sender.
    let words = stream::unfold(words, async |mut words| Some((words.recv().await?, words)));
    Ok(Body::from_stream(words))
}

fn refusal(error: &Error) -> (StatusCode, String) {
    let status = match error.kind {
        ErrorKind::SessionBusy => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("{error}\n"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "chats".to_owned()));
    let model = arguments.next().unwrap_or_else(|| "sonnet".to_owned());
    std::fs::create_dir_all(&folder)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app(folder, model)).await?)
}
