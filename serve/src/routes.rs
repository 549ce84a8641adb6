//! What each request does.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::PermissionMode;
use ah_desk::{At, Prompt as Said, Start, Which};
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::map_response;
use axum::response::IntoResponse as _;
use axum::response::sse::{KeepAlive, Sse};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::DESCRIPTION;
use crate::answer::{Answer, Failure, blocking, in_words, text, told};
use crate::body::{LARGEST, Whole, read};
use crate::browse;
use crate::change;
use crate::events::{Watcher, last};
use crate::feed::{Feed, LastSeen};
use crate::live::{Lives, Refused};
use crate::socket::{Driven, LONGEST, drive};

/// Streams of events at once.
const STREAMS: usize = 512;
/// Messages that are read at once.
const PAGE: usize = 256;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Shared {
    lives: Arc<Lives>,
    streams: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Returns the routes, of which `docs/openapi.json` has each.
pub(crate) fn routes(lives: Arc<Lives>, stop: CancellationToken) -> Router {
    let others = browse::routes(lives.clone()).merge(change::routes(lives.clone()));
    let shared = Shared {
        lives,
        streams: Arc::new(Semaphore::new(STREAMS)),
        stop,
    };
    let session = "/v1/sessions/{session}";
    Router::new()
        .route("/openapi.json", get(description))
        .route("/v1/sdk", get(sdk))
        .route("/v1/sessions", get(list).post(create))
        .route(session, get(show))
        .route(&format!("{session}/messages"), get(messages))
        .route(&format!("{session}/events"), get(events))
        .route(&format!("{session}/prompt"), post(prompt))
        .route(&format!("{session}/steer"), post(steer))
        .route(&format!("{session}/interrupt"), post(interrupt))
        .route(&format!("{session}/fork"), post(fork))
        .route(&format!("{session}/questions/{{question}}"), post(answer))
        .fallback(async || Failure::new(StatusCode::NOT_FOUND, "there is no such path"))
        .method_not_allowed_fallback(async || {
            Failure::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path has no such method",
            )
        })
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(shared)
        .merge(others)
        .layer(map_response(in_words))
}

/// A prompt, or a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompt {
    prompt: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    mode: Option<PermissionMode>,
    #[serde(default)]
    pictures: Vec<String>,
}

/// A prompt for a session that is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NextPrompt {
    prompt: String,
    #[serde(default)]
    at: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    mode: Option<PermissionMode>,
    #[serde(default)]
    pictures: Vec<String>,
}

/// A place in the tree.
#[derive(Deserialize)]
struct Place {
    at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkPrompt {
    prompt: String,
    #[serde(default)]
    at: Option<At>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    mode: Option<PermissionMode>,
    #[serde(default)]
    pictures: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    answers: Option<BTreeMap<String, String>>,
}

type Done = Result<Answer, Failure>;

async fn description() -> Answer {
    text(StatusCode::OK, DESCRIPTION.to_owned())
}

async fn sdk(
    State(shared): State<Shared>,
    driven: Result<Query<Driven>, QueryRejection>,
    upgrade: WebSocketUpgrade,
) -> Done {
    let unreadable = |_| Failure(StatusCode::BAD_REQUEST, Failure::query().1);
    let Query(driven) = driven.map_err(unreadable)?;
    let permit = stream_permit(&shared)?;
    let upgrade = upgrade.max_message_size(LONGEST).max_frame_size(LONGEST);
    Ok(upgrade.on_upgrade(async move |socket| {
        drive(socket, driven, &shared.lives.served().drive, &shared.stop).await;
        drop(permit);
    }))
}

async fn list(State(shared): State<Shared>) -> Done {
    let lives = shared.lives.clone();
    let mut listed = blocking(move || lives.list()).await?;
    for session in &mut listed {
        let state = session["id"].as_str().and_then(|id| shared.lives.state(id));
        let state = state.unwrap_or_default();
        session["running"] = state.running.into();
        session["questions"] = state.questions.len().into();
    }
    // A run has begun before its prompt is stored: a hook may look at that first.
    listed.retain(|session| session["running"] == true || session["messages"] != 0);
    Ok(told(StatusCode::OK, &json!({ "sessions": listed })))
}

async fn create(State(shared): State<Shared>, Whole(body): Whole) -> Done {
    let all: Prompt = read(&body)?;
    let start = start(Which::New, all.model, all.mode);
    begin(&shared, start, all.prompt, all.pictures).await
}

async fn show(State(shared): State<Shared>, Path(session): Path<String>) -> Done {
    feed(&shared, &session).await?;
    let state = shared.lives.of(&session).state().borrow().clone();
    let value = json!({ "id": session, "state": state });
    Ok(told(StatusCode::OK, &value))
}

async fn messages(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    place: Result<Query<Place>, QueryRejection>,
    headers: HeaderMap,
) -> Done {
    let Query(Place { at }) = place.map_err(|_| Failure::query())?;
    let feed = feed(&shared, &session).await?;
    let seen = last_seen(&headers);
    let read = move || match at {
        Some(at) => feed.up_to(&at, PAGE),
        None => {
            let seen = seen.map(LastSeen::named);
            feed.after(seen.as_ref(), PAGE, None).map(Some)
        }
    };
    let unseen = blocking(read).await?;
    let missing = || Failure::new(StatusCode::NOT_FOUND, "the session has no such message");
    let unseen = unseen.ok_or_else(missing)?;
    let entries = unseen.entries.iter().map(|entry| entry.json.as_str());
    let entries = entries.collect::<Vec<_>>().join(",");
    let (is_anew, is_whole) = (unseen.is_anew, unseen.is_whole);
    let json =
        format!("{{\"messages\":[{entries}],\"is_anew\":{is_anew},\"is_whole\":{is_whole}}}");
    Ok(text(StatusCode::OK, json))
}

async fn events(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    headers: HeaderMap,
) -> Done {
    let feed = feed(&shared, &session).await?;
    let permit = stream_permit(&shared)?;
    let live = shared.lives.of(&session);
    let (shown, stop) = (shared.lives.shown().clone(), shared.stop.clone());
    let watcher = Watcher::new(feed, live, shown, last_seen(&headers), stop, permit);
    let stream = Sse::new(watcher.events()).keep_alive(KeepAlive::default());
    Ok(stream.into_response())
}

async fn prompt(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    Whole(body): Whole,
) -> Done {
    let all: NextPrompt = read(&body)?;
    feed(&shared, &session).await?;
    let which = Which::Resume(session, all.at.map(At::Message));
    let start = start(which, all.model, all.mode);
    begin(&shared, start, all.prompt, all.pictures).await
}

async fn fork(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    Whole(body): Whole,
) -> Done {
    let all: ForkPrompt = read(&body)?;
    feed(&shared, &session).await?;
    let start = start(Which::Fork(session, all.at), all.model, all.mode);
    begin(&shared, start, all.prompt, all.pictures).await
}

async fn steer(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    Whole(body): Whole,
) -> Done {
    let Message { message } = read(&body)?;
    feed(&shared, &session).await?;
    if message.trim().is_empty() {
        return Err(Failure::impossible("the message is empty"));
    }
    let lives = shared.lives.clone();
    let send = move || {
        let sent = lives.served().sessions.send(&session, &message);
        sent.map_err(|refusal| refusal.text)
    };
    let id = blocking(send).await?;
    Ok(told(StatusCode::ACCEPTED, &json!({ "message": id })))
}

async fn interrupt(State(shared): State<Shared>, Path(session): Path<String>) -> Done {
    feed(&shared, &session).await?;
    let idle = "no run of this server is in progress";
    let interrupted = shared.lives.of(&session).interrupt();
    interrupted.map_err(|error| Failure::refused(error, idle))?;
    Ok(told(StatusCode::ACCEPTED, &json!({})))
}

async fn answer(
    State(shared): State<Shared>,
    Path((session, question)): Path<(String, String)>,
    Whole(body): Whole,
) -> Done {
    let Answers { answers } = read(&body)?;
    feed(&shared, &session).await?;
    let gone = "the question is not open: it was answered, or its run has ended";
    let refused = |error| Failure::refused(error, gone);
    // What is no number names no question.
    let question = question.parse().map_err(|_| refused(Refused::Idle))?;
    let answered = shared.lives.of(&session).answer(question, answers);
    answered.map_err(refused)?;
    Ok(told(StatusCode::OK, &json!({})))
}

fn start(which: Which, model: Option<String>, mode: Option<PermissionMode>) -> Start {
    Start {
        which,
        model,
        mode,
        ..Start::default()
    }
}

async fn begin(shared: &Shared, start: Start, text: String, pictures: Vec<String>) -> Done {
    if text.trim().is_empty() {
        return Err(Failure::impossible("the prompt is empty"));
    }
    let prompt = Said {
        text,
        pictures,
        ..Said::default()
    };
    let begun = shared.lives.begin(start, prompt).await;
    let session = begun.map_err(|error| Failure::refused(error, ""))?;
    Ok(told(StatusCode::CREATED, &json!({ "session": session })))
}

/// Returns the permit of one more stream.
fn stream_permit(shared: &Shared) -> Result<OwnedSemaphorePermit, Failure> {
    let permit = shared.streams.clone().try_acquire_owned();
    permit.map_err(|_| {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Failure::new(status, "there are too many streams")
    })
}

/// Returns the feed of a session.
async fn feed(shared: &Shared, session: &str) -> Result<Arc<Feed>, Failure> {
    let (lives, name) = (shared.lives.clone(), session.to_owned());
    let feed = blocking(move || lives.feed(&name)).await?;
    feed.ok_or_else(|| Failure::missing(session))
}

fn last_seen(headers: &HeaderMap) -> Option<String> {
    last(headers.get("last-event-id")?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_description_has_every_place() {
        let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
        let places = description["paths"].as_object().unwrap();
        let source = [
            include_str!("routes.rs"),
            include_str!("browse.rs"),
            include_str!("change.rs"),
        ];
        let lines = source.iter().flat_map(|source| source.lines());
        let routes = lines.filter(|line| line.trim().starts_with(".route("));
        assert_eq!(routes.count(), places.len());
    }
}
