//! Port: what answers requests without a connection. A simulation plays servers so, byte by byte.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use reqwest::header::HeaderMap;
use reqwest::{Body, Response, Url};

/// A request.
#[derive(Debug)]
pub struct Outgoing {
    /// Address.
    pub url: Url,
    /// Headers.
    pub headers: HeaderMap,
    /// Pieces of the body; `None` for a `GET`.
    pub body: Option<Vec<Bytes>>,
}

/// The answer to a request.
pub struct Incoming {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Pieces of the body, as they come. An error is a lost connection.
    pub body: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
}

/// Answers requests.
pub trait Transport: Send + Sync {
    /// Returns the answer to a request.
    ///
    /// # Errors
    ///
    /// If there is no connection.
    fn send(&self, request: Outgoing) -> io::Result<Incoming>;
}

/// A transport as a value.
#[derive(Clone)]
pub struct Own(pub Arc<dyn Transport>);

impl Own {
    /// Returns the answer to a request.
    ///
    /// # Errors
    ///
    /// If there is no connection.
    pub fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: &Option<Vec<Bytes>>,
    ) -> io::Result<Response> {
        let (url, body) = (url.clone(), body.clone());
        Ok(self.0.send(Outgoing { url, headers, body })?.into())
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Own")
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Own {}

impl From<Incoming> for Response {
    fn from(incoming: Incoming) -> Self {
        let mut response = http::Response::new(Body::wrap_stream(incoming.body));
        *response.status_mut() = http::StatusCode::from_u16(incoming.status).unwrap_or_default();
        *response.headers_mut() = incoming.headers;
        response.into()
    }
}
