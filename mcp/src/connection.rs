//! From a server's configuration to a server that can be asked.

use ah_conversation::Environment;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt};

use crate::client::Client;
use crate::config::{Address, ServerConfig, Transport};
use crate::fault::{Fault, LastWords};
use crate::name::clean_line;
use crate::news::News;
use crate::program::{self, Confined, Running};
use crate::sdk::{self, SdkHost};
use crate::{sse, stdio};

/// What is needed to reach servers.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub(crate) environment: Environment,
    pub(crate) http: ah_http::Options,
    pub(crate) host: Option<SdkHost>,
    pub(crate) confined: Option<Confined>,
}

/// A server that can be asked, until it ends or this is dropped.
pub(crate) struct Live {
    pub(crate) service: RunningService<RoleClient, Client>,
    pub(crate) news: News,
    pub(crate) end: End,
}

/// What tells, at the end, how it came.
pub(crate) struct End {
    running: Option<Running>,
    last_words: LastWords,
    /// Whether its program runs in the sandbox.
    is_confined: bool,
}

impl Live {
    /// Reaches the server and shakes hands.
    pub(crate) async fn connect(
        name: &str,
        config: &ServerConfig,
        reach: &Reach,
    ) -> Result<Self, Fault> {
        let last_words = LastWords::default();
        let news = News::default();
        let client = Client::new(name, reach.environment.cwd(), news.clone());
        let (mut running, mut is_confined) = (None, false);
        let served = match &config.transport {
            Transport::Stdio(program) => {
                let confined = reach.confined.as_ref().filter(|all| all.holds(name));
                is_confined = confined.is_some();
                let started = program::start(program, &reach.environment, confined);
                let (child, pipes) = started.await?;
                let messages = stdio::messages(pipes, name, &last_words);
                let (sink, stream, listener) = messages.map_err(|fault| Fault::of(&fault))?;
                running = Some(Running { child, listener });
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
            Transport::Http(address) => {
                let (url, http, headers) = http_client(address, &reach.http)?;
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                let headers = headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone()));
                let config = config.custom_headers(headers.collect());
                let transport = StreamableHttpClientTransport::with_client(http, config);
                client.serve(transport).await
            }
            Transport::Sse(address) => {
                let (url, http, headers) = http_client(address, &reach.http)?;
                let messages = sse::messages(http, url, headers, &last_words).await;
                let (sink, stream) = messages.map_err(|fault| last_words.explain(fault))?;
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
            Transport::Sdk => {
                let host = reach.host.as_ref().ok_or_else(|| {
                    let reason = "only a program that drives this one can serve it";
                    Fault::hopeless(format!("its type is `sdk`: {reason}"))
                })?;
                let (sink, stream) = sdk::messages(host, name);
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
        };
        let end = End {
            running,
            last_words,
            is_confined,
        };
        match served {
            Ok(service) => Ok(Self { service, news, end }),
            Err(ClientInitializeError::JsonRpcError(error)) => {
                Err(Fault::failed(clean_line(&error.message, 500)))
            }
            Err(error) => Err(end.explain(Fault::of_start(&error)).await),
        }
    }
}

impl End {
    /// Why the connection has ended, which it has.
    pub(crate) async fn fate(self) -> Fault {
        self.explain(Fault::failed("the connection ended")).await
    }

    async fn explain(self, fault: Fault) -> Fault {
        let fault = match self.running {
            Some(running) => running.fate(fault).await,
            None => fault,
        };
        let fault = self.last_words.explain(fault);
        match self.is_confined {
            true => fault.in_sandbox(),
            false => fault,
        }
    }
}

fn http_client(
    address: &Address,
    options: &ah_http::Options,
) -> Result<(Url, reqwest::Client, HeaderMap), Fault> {
    let client = ah_http::client(options, &address.url).map_err(Fault::hopeless)?;
    let url = Url::parse(&address.url).map_err(Fault::hopeless)?;
    let mut headers = HeaderMap::new();
    for (name, value) in &address.headers {
        let parsed = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::try_from(value).ok());
        let Some((parsed, mut value)) = parsed else {
            // The value may be a secret.
            return Err(Fault::hopeless(format!("the header `{name}` is none")));
        };
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok((url, client, headers))
}
