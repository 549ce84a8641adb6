//! The server: a loopback address, and who gets to the routes.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_desk::{Refusal, Start};
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::http::header::CONNECTION;
use axum::middleware::{self, Next, map_response};
use axum::response::IntoResponse as _;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::doorstep::{Doorstep, Visitor};
use crate::guard::{Guard, Scheme, Token};
use crate::live::{Lives, Refused, Served};
use crate::page::{Page, guarded};
use crate::rate::Rate;
use crate::routes::routes;
use crate::tls::{Certificate, TlsListener};

/// Interval at which a server that ends by itself looks whether it is used again.
const LOOK: Duration = Duration::from_secs(1);
/// Number of times that it finds itself unused before it ends. A client that has started it needs time to come.
const PATIENCE: u32 = 10;

/// What a person reads who opens the address without its key.
const THE_WAY_IN: &str = "This is a server of ah. Open the link that `ah serve` printed after `page:`. Programs send the \
    token as `Authorization: Bearer TOKEN`.\n";

/// Time in which requests may end once the server is stopped.
const LEAVE: Duration = Duration::from_secs(1);

/// Where clients come in.
pub struct Door {
    /// Its listener.
    pub listener: TcpListener,
    /// The secret that every request names.
    pub token: Token,
    /// The certificate, for TLS; without one, the address has to be a loopback address.
    pub certificate: Option<Certificate>,
    /// Names by which clients may know the server, besides its address.
    pub names: Vec<String>,
}

/// How long a server is there.
#[derive(Debug)]
pub enum Life {
    /// Until it is stopped.
    UntilStopped,
    /// As long as a run is in progress or somebody watches.
    WhileInUse(Option<Box<FirstRun>>),
}

/// A run that begins with its server.
#[derive(Debug)]
pub struct FirstRun {
    /// Its session.
    pub start: Start,
    /// Its prompt.
    pub prompt: String,
    /// Prompts to run afterwards, in turn.
    pub queued: Vec<String>,
    /// Receives the id of its session, or why it did not begin.
    pub begun: oneshot::Sender<Result<String, Refusal>>,
}

/// Serves clients at a door until `stop` is cancelled or its life is over.
///
/// # Errors
///
/// If the address may not be served without TLS, or not at all.
pub async fn serve(
    door: Door,
    served: Served,
    life: Life,
    stop: CancellationToken,
) -> io::Result<()> {
    let address = door.listener.local_addr()?;
    if !address.ip().is_loopback() && door.certificate.is_none() {
        let text = "an address that is not a loopback address is served with TLS only";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let scheme = match door.certificate {
        Some(_) => Scheme::Https,
        None => Scheme::Http,
    };
    let page = Page::at(&door.token.key());
    let lives = Arc::new(Lives::new(served));
    let routes = routes(lives.clone(), stop.clone()).merge(page.routes());
    let guard = Arc::new(Guard::new(door.token, scheme, address, &door.names));
    let rate = Arc::new(Mutex::new(Rate::new(Instant::now())));
    if let Life::WhileInUse(first) = life {
        tokio::spawn(end_when_unused(first, lives.clone(), stop.clone()));
    }
    let checked = middleware::from_fn(move |request: Request, next: Next| {
        let refusal = refusal((&guard, &page), &rate, &request);
        async move {
            match refusal {
                // Those who may not ask say nothing more, and are told nothing; a person at the bare address is told the way.
                Some(status) => {
                    let is_bare = (status, request.uri().path()) == (StatusCode::UNAUTHORIZED, "/");
                    let words = if is_bare { THE_WAY_IN } else { "" };
                    (status, [(CONNECTION, "close")], words).into_response()
                }
                None => {
                    if let Some(ConnectInfo(visitor)) =
                        request.extensions().get::<ConnectInfo<Visitor>>()
                    {
                        visitor.let_in();
                    }
                    next.run(request).await
                }
            }
        }
    });
    let routes = routes.layer(checked).layer(map_response(guarded));
    let closed = CancellationToken::new();
    let done = leave(stop.clone(), closed.clone());
    match door.certificate {
        None => {
            let doorstep = Doorstep::new(door.listener, closed);
            let served = axum::serve(
                doorstep,
                routes.into_make_service_with_connect_info::<Visitor>(),
            );
            until(done, served.with_graceful_shutdown(stop.cancelled_owned())).await
        }
        Some(certificate) => {
            let listener = TlsListener::new(door.listener, certificate)?;
            let doorstep = Doorstep::new(listener, closed);
            let served = axum::serve(
                doorstep,
                routes.into_make_service_with_connect_info::<Visitor>(),
            );
            until(done, served.with_graceful_shutdown(stop.cancelled_owned())).await
        }
    }
}

/// Waits for the end of all connections, or until they are left.
async fn until(
    done: impl Future<Output = ()>,
    served: impl IntoFuture<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::select! {
        served = served.into_future() => served,
        () = done => Ok(()),
    }
}

/// Closes the connections that are open some time after `stop`; completes when nothing is waited for any more.
async fn leave(stop: CancellationToken, closed: CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LEAVE).await;
    closed.cancel();
    // They see it at once, unless they are being answered.
    tokio::time::sleep(LEAVE).await;
}

/// Begins the first run, and cancels `stop` once nobody needs the server any more.
async fn end_when_unused(first: Option<Box<FirstRun>>, lives: Arc<Lives>, stop: CancellationToken) {
    if let Some(first) = first {
        let FirstRun {
            start,
            prompt,
            queued,
            begun,
        } = *first;
        let session = lives.begin(start, prompt.into()).await;
        let is_lost = session.is_err();
        if let Ok(session) = &session {
            let (lives, session) = (lives.clone(), session.clone());
            tokio::spawn(async move { lives.run_queued(&session, queued).await });
        }
        // Whoever asked for it may be gone; the run goes on.
        let _ = begun.send(session.map_err(Refused::refusal));
        if is_lost {
            return stop.cancel();
        }
    }
    let mut unused = 0;
    while unused < PATIENCE {
        tokio::time::sleep(LOOK).await;
        unused += 1;
        if lives.is_used() {
            lives.unused().await;
            unused = 0;
        }
    }
    stop.cancel();
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
        let mut rate = rate.lock();
        let is_left = rate.take(Instant::now());
        (!is_left).then_some(StatusCode::TOO_MANY_REQUESTS)
    })
}
