//! Whether a process is well, for what watches over it: plain HTTP without a token, since nothing is said but numbers.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What is asked.
#[async_trait]
pub trait Probes: Send + Sync {
    /// Returns whether the process takes work.
    fn is_ready(&self) -> bool;

    /// Returns the metrics as Prometheus reads them.
    async fn metrics(&self) -> String;
}

/// Answers `/healthz`, `/readyz` and `/metrics` until `stop` is cancelled.
///
/// # Errors
///
/// If the address cannot be served.
pub async fn probe(
    listener: TcpListener,
    probes: Arc<dyn Probes>,
    stop: CancellationToken,
) -> io::Result<()> {
    let ready = probes.clone();
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route(
            "/readyz",
            get(async move || match ready.is_ready() {
                true => (StatusCode::OK, "ready\n"),
                false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            }),
        )
        .route(
            "/metrics",
            get(async move || {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                ([(CONTENT_TYPE, kind)], probes.metrics().await)
            }),
        );
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}
