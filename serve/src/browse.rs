//! What a client looks at beside the current branch: the whole tree, the messages of any branch, a message and a call's
//! output in full.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;

use crate::answer::{Answer, Failure, blocking, text, told};
use crate::feed::Feed;
use crate::live::Lives;

/// Nodes that are told at once.
const NODES: usize = 2_000;
/// Most of the output of a running call that is told, in bytes.
const OUTPUT: usize = 64 * 1024;

/// The routes, each in `docs/openapi.json`.
pub(crate) fn routes(lives: Arc<Lives>) -> Router {
    let session = "/v1/sessions/{session}";
    Router::new()
        .route(&format!("{session}/tree"), get(tree))
        .route(&format!("{session}/messages/{{message}}"), get(message))
        .route(&format!("{session}/calls/{{call}}/output"), get(output))
        .with_state(lives)
}

#[derive(Deserialize)]
struct From {
    #[serde(default)]
    from: usize,
}

async fn tree(
    State(lives): State<Arc<Lives>>,
    Path(session): Path<String>,
    from: Result<Query<From>, axum::extract::rejection::QueryRejection>,
) -> Result<Answer, Failure> {
    let Query(From { from }) = from.map_err(|_| Failure::query())?;
    let told_tree = of(&lives, session, move |feed| feed.tree(from, NODES)).await?;
    let next = (told_tree.nodes.len() == NODES).then_some(from.saturating_add(NODES));
    let value = json!({
        "name": told_tree.name,
        "current": told_tree.current,
        "spent_usd": told_tree.spent_usd,
        "nodes": told_tree.nodes,
        "next": next,
    });
    Ok(told(StatusCode::OK, &value))
}

async fn message(
    State(lives): State<Arc<Lives>>,
    Path((session, message)): Path<(String, String)>,
) -> Result<Answer, Failure> {
    let id = message.clone();
    let found = of(&lives, session, move |feed| feed.whole(&id)).await?;
    let found = found.ok_or_else(|| missing("message", &message))?;
    Ok(text(StatusCode::OK, found.json))
}

async fn output(
    State(lives): State<Arc<Lives>>,
    Path((session, call)): Path<(String, String)>,
) -> Result<Answer, Failure> {
    let (id, name) = (call.clone(), session.clone());
    let found = of(&lives, session, move |feed| feed.output(&id)).await?;
    // What still runs has not been stored.
    let so_far = || {
        let output = lives.of(&name).output(&call, OUTPUT)?;
        let is_cut = output.len() == OUTPUT;
        Some(
            lives
                .shown()
                .so_far(&String::from_utf8_lossy(&output), is_cut),
        )
    };
    let output = found.or_else(so_far);
    let output = output.ok_or_else(|| missing("call", &call))?;
    let mut response = Response::new(Body::from(output));
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Reads something of a session.
async fn of<T: Send + 'static>(
    lives: &Arc<Lives>,
    session: String,
    read: impl FnOnce(&Feed) -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    let (lives, name) = (lives.clone(), session.clone());
    let read = blocking(move || match lives.feed(&name)? {
        Some(feed) => read(&feed).map(Some),
        None => Ok(None),
    });
    read.await?.ok_or_else(|| Failure::missing(&session))
}

fn missing(what: &str, id: &str) -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        &format!("the session has no {what} `{id}`"),
    )
}
