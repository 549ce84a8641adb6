//! What a client changes beside the conversation: a session's name, its files, what waits for its run, the session itself;
//! and what it can choose.

use std::sync::Arc;

use ah_desk::{FilesAt, FilesDiff, Refusal};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, patch};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Failure, blocking, told};
use crate::body::{Whole, read};
use crate::live::{Lives, Refused};

/// The routes, each in `docs/openapi.json`; those of a session itself stand beside the one that shows it.
pub(crate) fn routes(lives: Arc<Lives>) -> Router {
    let session = "/v1/sessions/{session}";
    Router::new()
        .route("/v1/choices", get(choices))
        .route(&format!("{session}/queue"), get(queue))
        .route(&format!("{session}/queue/{{message}}"), delete(withdraw))
        .route(&format!("{session}/files/{{at}}"), get(files).post(restore))
        .merge(Router::new().route(session, patch(rename).delete(remove)))
        .with_state(lives)
}

type Done = Result<Answer, Failure>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    plan: String,
}

async fn choices(State(lives): State<Arc<Lives>>) -> Done {
    let read = move || lives.served().sessions.choices().map_err(|it| it.text);
    let choices = blocking(read).await?;
    let models = choices
        .models
        .iter()
        .map(|model| json!({ "name": model.alias, "title": model.name }));
    let value = json!({
        "model": choices.model,
        "models": models.collect::<Vec<Value>>(),
        "mode": choices.mode,
        "modes": choices.modes,
    });
    Ok(told(StatusCode::OK, &value))
}

async fn queue(State(lives): State<Arc<Lives>>, Path(session): Path<String>) -> Done {
    there(&lives, &session).await?;
    let all = lives.clone();
    let read = move || {
        all.served()
            .sessions
            .waiting(&session)
            .map_err(|it| it.text)
    };
    let waiting = blocking(read).await?;
    let waiting = waiting
        .into_iter()
        .map(|one| json!({ "id": one.id, "text": lives.shown().redacted(&one.text) }));
    let value = json!({ "messages": waiting.collect::<Vec<Value>>() });
    Ok(told(StatusCode::OK, &value))
}

async fn withdraw(
    State(lives): State<Arc<Lives>>,
    Path((session, message)): Path<(String, String)>,
) -> Done {
    there(&lives, &session).await?;
    let withdraw = move || {
        let withdrawn = lives.served().sessions.withdraw(&session, &message);
        withdrawn.map_err(|refusal| refusal.text)
    };
    match blocking(withdraw).await? {
        true => Ok(told(StatusCode::OK, &json!({}))),
        false => Err(Failure::new(
            StatusCode::CONFLICT,
            "the message is no longer queued: the run has read it, or it was taken back",
        )),
    }
}

async fn rename(
    State(lives): State<Arc<Lives>>,
    Path(session): Path<String>,
    Whole(body): Whole,
) -> Done {
    let Name { name } = read(&body)?;
    at_rest(&lives, &session).await?;
    let renamed = lives.served().sessions.rename(&session, &name).await;
    renamed.map_err(refused)?;
    Ok(told(StatusCode::OK, &json!({})))
}

async fn remove(State(lives): State<Arc<Lives>>, Path(session): Path<String>) -> Done {
    at_rest(&lives, &session).await?;
    let (all, name) = (lives.clone(), session.clone());
    let remove = move || Ok(all.served().sessions.remove(&name));
    blocking(remove).await?.map_err(refused)?;
    lives.forget(&session);
    Ok(told(StatusCode::OK, &json!({})))
}

async fn files(
    State(lives): State<Arc<Lives>>,
    Path((session, at)): Path<(String, String)>,
) -> Done {
    let at = place(&at)?;
    at_rest(&lives, &session).await?;
    let found = lives.served().sessions.files(&session, at).await;
    let diff = lives
        .shown()
        .files(found.map_err(refused)?.unwrap_or_else(nothing));
    Ok(told(StatusCode::OK, &json!(diff)))
}

async fn restore(
    State(lives): State<Arc<Lives>>,
    Path((session, at)): Path<(String, String)>,
    Whole(body): Whole,
) -> Done {
    let Plan { plan } = read(&body)?;
    let at = place(&at)?;
    at_rest(&lives, &session).await?;
    let restored = lives.served().sessions.restore(&session, at, &plan).await;
    let failed = restored.map_err(refused)?.ok_or_else(|| {
        Failure::new(
            StatusCode::CONFLICT,
            "it would change something else by now: look at it again",
        )
    })?;
    Ok(told(StatusCode::OK, &json!({ "failed": failed })))
}

/// Returns the state of files that an address names.
fn place(at: &str) -> Result<FilesAt, Failure> {
    let read = serde_json::from_value(json!(at));
    read.map_err(|_| Failure::new(StatusCode::NOT_FOUND, "there is no such path"))
}

/// What there is if there is no such state.
fn nothing() -> FilesDiff {
    FilesDiff::default()
}

fn refused(refusal: Refusal) -> Failure {
    Failure::refused(Refused::Run(refusal), "")
}

/// Fails if there is no such session.
async fn there(lives: &Arc<Lives>, session: &str) -> Result<(), Failure> {
    let (all, name) = (lives.clone(), session.to_owned());
    let feed = blocking(move || all.feed(&name)).await?;
    feed.map(drop).ok_or_else(|| Failure::missing(session))
}

/// Fails if there is no such session, or a run of it is in progress here.
async fn at_rest(lives: &Arc<Lives>, session: &str) -> Result<(), Failure> {
    there(lives, session).await?;
    match lives.state(session) {
        Some(state) if state.running => Err(Failure::new(
            StatusCode::CONFLICT,
            "a run is in progress: interrupt it, or wait for its end",
        )),
        _ => Ok(()),
    }
}
