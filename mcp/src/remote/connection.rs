//! Connects to a server according to its configuration.

use std::sync::Arc;

use ah_conversation::Environment;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt};

use crate::config::{Address, ServerConfig, Transport};
use crate::remote::cell::ServerCell;
use crate::remote::client::Client;
use crate::remote::error::{ErrorTail, ServerError};
use crate::remote::name::clean_line;
use crate::remote::notifications::Notifications;
use crate::remote::program::{self, ServerProcess};
use crate::remote::sdk_messages;
use crate::remote::{sse, stdio};
use crate::sdk::SdkHost;

/// Options for connecting to servers.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) environment: Environment,
    pub(crate) http: ah_http::Options,
    pub(crate) host: Option<SdkHost>,
}

/// An initialized connection; dropping it ends the server.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Client>,
    pub(crate) notifications: Notifications,
    pub(crate) exit: ExitReport,
}

/// Collects evidence about the end of a connection: exit code, last output, sandbox.
pub(crate) struct ExitReport {
    process: Option<ServerProcess>,
    error_tail: ErrorTail,
    /// Sandbox of the server's program.
    cell: Option<Arc<ServerCell>>,
}

impl Connection {
    /// Connects to the server and initializes the protocol. A program runs in `cell`, if given.
    pub(crate) async fn connect(
        name: &str,
        config: &ServerConfig,
        options: &ConnectOptions,
        cell: Option<&Arc<ServerCell>>,
    ) -> Result<Self, ServerError> {
        let error_tail = ErrorTail::default();
        let notifications = Notifications::default();
        let client = Client::new(name, options.environment.cwd(), notifications.clone());
        let mut process = None;
        let served = match &config.transport {
            Transport::Stdio(program) => {
                let cell = cell.map(|cell| &**cell);
                let (child, pipes) = program::start(program, &options.environment, cell).await?;
                let (sink, stream, stderr_reader) = stdio::messages(pipes, name, &error_tail)
                    .map_err(|error| ServerError::of(&error))?;
                process = Some(ServerProcess {
                    child,
                    stderr_reader,
                });
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
            Transport::Http(address) => {
                let (url, http, headers) = http_client(address, &options.http)?;
                let headers = headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers);
                let transport = StreamableHttpClientTransport::with_client(http, config);
                client.serve(transport).await
            }
            Transport::Sse(address) => {
                let (url, http, headers) = http_client(address, &options.http)?;
                let (sink, stream) = sse::messages(http, url, headers, &error_tail)
                    .await
                    .map_err(|error| error_tail.explain(error))?;
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
            Transport::Sdk => {
                let host = options.host.as_ref().ok_or_else(|| {
                    ServerError::permanent(
                        "a server of type `sdk` needs a host program, and none drives this session",
                    )
                })?;
                let (sink, stream) = sdk_messages::messages(host, name);
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
        };
        let exit = ExitReport {
            process,
            error_tail,
            cell: cell.cloned(),
        };
        match served {
            Ok(service) => Ok(Self {
                service,
                notifications,
                exit,
            }),
            Err(ClientInitializeError::JsonRpcError(error)) => {
                Err(ServerError::transient(clean_line(&error.message, 500)))
            }
            Err(error) => Err(exit.explain(ServerError::of_start(&error)).await),
        }
    }
}

impl ExitReport {
    /// Returns why a closed connection was closed.
    pub(crate) async fn cause(self) -> ServerError {
        self.explain(ServerError::transient("the connection was closed"))
            .await
    }

    async fn explain(self, error: ServerError) -> ServerError {
        let error = match self.process {
            Some(process) => process.exit_cause(error).await,
            None => error,
        };
        let Some(cell) = self.cell else {
            return self.error_tail.explain(error);
        };
        match cell.refusals() {
            // The program's own words about it only say that the network failed.
            Some(refusals) => error.because(&refusals),
            None => self.error_tail.explain(error).because(cell.hint()),
        }
    }
}

fn http_client(
    address: &Address,
    options: &ah_http::Options,
) -> Result<(Url, reqwest::Client, HeaderMap), ServerError> {
    let client = ah_http::client(options, &address.url).map_err(ServerError::permanent)?;
    let url = Url::parse(&address.url).map_err(ServerError::permanent)?;
    let mut headers = HeaderMap::new();
    for (name, value) in &address.headers {
        let parsed = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::try_from(value).ok());
        let Some((parsed, mut value)) = parsed else {
            // The value may be a secret, so it is not shown.
            return Err(ServerError::permanent(format!("invalid header `{name}`")));
        };
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok((url, client, headers))
}
