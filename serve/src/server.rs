//! The server: a loopback address, and who gets to the routes.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next, map_response};
use axum::response::IntoResponse as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::guard::{Guard, Token};
use crate::live::Lives;
use crate::page::{Page, guarded};
use crate::port::Sessions;
use crate::rate::Rate;
use crate::routes::routes;

/// Serves clients at the listener's address, which must be a loopback address, until `stop` is cancelled.
///
/// # Errors
///
/// If the address is another, or cannot be served.
pub async fn serve(
    listener: TcpListener,
    token: Token,
    sessions: Arc<dyn Sessions>,
    stop: CancellationToken,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        let text = "only a loopback address is served";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let page = Page::at(&token.key());
    let routes = routes(Arc::new(Lives::new(sessions)), stop.clone()).merge(page.routes());
    let guard = Arc::new(Guard::new(token, address.port()));
    let rate = Arc::new(Mutex::new(Rate::new(Instant::now())));
    let checked = middleware::from_fn(move |request: Request, next: Next| {
        let refusal = refusal((&guard, &page), &rate, &request);
        async move {
            match refusal {
                // Nothing is said to those who may not ask.
                Some(status) => status.into_response(),
                None => next.run(request).await,
            }
        }
    });
    let routes = routes.layer(checked).layer(map_response(guarded));
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

fn refusal(
    (guard, page): (&Guard, &Page),
    rate: &Mutex<Rate>,
    request: &Request,
) -> Option<StatusCode> {
    // A browser that opens the page has no token yet. Whoever knows its address was given that with the token.
    let refused = if page.has(request.method(), request.uri().path()) {
        guard.strange(request.headers())
    } else {
        guard.refusal(request.headers())
    };
    // Whoever is not answered takes nothing from those who are.
    refused.or_else(|| {
        let mut rate = rate.lock().unwrap_or_else(PoisonError::into_inner);
        let is_left = rate.take(Instant::now());
        (!is_left).then_some(StatusCode::TOO_MANY_REQUESTS)
    })
}
