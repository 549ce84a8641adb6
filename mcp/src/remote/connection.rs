//! Connects to a server according to its configuration.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::Environment;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{AuthClient, AuthorizationManager};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::time::timeout;

use crate::config::{Address, ServerConfig, Transport};
use crate::key_store::CredentialPlace;
use crate::options::Asked;
use crate::remote::answers::Answers;
use crate::remote::cell::ServerCell;
use crate::remote::client::Client;
use crate::remote::credentials::Credentials;
use crate::remote::error::{ErrorTail, ServerError};
use crate::remote::name::clean_line;
use crate::remote::notifications::Notifications;
use crate::remote::oauth;
use crate::remote::program::{self, ServerProcess};
use crate::remote::revision::{Beginning, DISCOVERY_TIMEOUT, is_refusal};
use crate::remote::sdk_messages;
use crate::remote::whole::WholeClient;
use crate::remote::{sse, stdio};
use crate::sdk::SdkHost;

/// Options for connecting to servers.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) environment: Environment,
    pub(crate) http: ah_http::Options,
    pub(crate) credentials: Option<CredentialPlace>,
    pub(crate) host: Option<SdkHost>,
    pub(crate) asked: Option<Asked>,
}

/// An initialized connection; dropping it ends the server.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Client>,
    pub(crate) notifications: Notifications,
    pub(crate) exit: ExitReport,
    /// How it began.
    pub(crate) beginning: Beginning,
    pub(crate) answers: Answers,
    /// Where its sign-in is kept, if it has one.
    pub(crate) credentials: Option<Credentials>,
}

/// A server, and where it runs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a ServerConfig,
    /// Sandbox of its program.
    pub(crate) cell: Option<&'a Arc<ServerCell>>,
}

/// A connection, or why it could not begin.
type Served = Result<RunningService<RoleClient, Client>, ClientInitializeError>;

/// Reason why a connection could not begin.
enum Failure {
    /// The server does not know this way to begin.
    Refused(ServerError),
    Other(ServerError),
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Self::Other(error)
    }
}

/// Collects evidence about the end of a connection: exit code, last output, sandbox.
pub(crate) struct ExitReport {
    process: Option<ServerProcess>,
    pub(crate) error_tail: ErrorTail,
    /// Sandbox of the server's program.
    cell: Option<Arc<ServerCell>>,
}

impl Connection {
    /// Connects to the server and initializes the protocol, as it began before if that is known. A server over HTTP is
    /// asked without a handshake first, others with one; then the other way is tried.
    pub(crate) async fn connect(
        place: Place<'_>,
        options: &ConnectOptions,
        known: Option<Beginning>,
    ) -> Result<Self, ServerError> {
        let is_web = matches!(place.config.transport, Transport::Http(_));
        if is_web && known != Some(Beginning::Handshake) {
            let first = Self::attempt(place, options, Beginning::Discovery);
            match timeout(DISCOVERY_TIMEOUT, first).await {
                Ok(Ok(connection)) => return Ok(connection),
                // What it knows is the handshake, if anything.
                Ok(Err(Failure::Refused(_) | Failure::Other(ServerError::Transient(_))))
                | Err(_) => {}
                Ok(Err(Failure::Other(error))) => return Err(error),
            }
        }
        let beginning = match known.filter(|_| !is_web) {
            Some(known) => known,
            None => Beginning::Handshake,
        };
        match Self::attempt(place, options, beginning).await {
            Ok(connection) => Ok(connection),
            Err(Failure::Refused(error)) if beginning == Beginning::Handshake && !is_web => {
                let second = Self::attempt(place, options, Beginning::Discovery);
                match timeout(DISCOVERY_TIMEOUT, second).await {
                    Ok(Ok(connection)) => Ok(connection),
                    // What a server said first is about its usual way to start.
                    Ok(Err(_)) | Err(_) => Err(error),
                }
            }
            Err(Failure::Refused(error) | Failure::Other(error)) => Err(error),
        }
    }

    async fn attempt(
        Place { name, config, cell }: Place<'_>,
        options: &ConnectOptions,
        beginning: Beginning,
    ) -> Result<Self, Failure> {
        let error_tail = ErrorTail::default();
        let notifications = Notifications::default();
        let answers = Answers {
            server: name.into(),
            root: root(options.environment.cwd()),
            asked: options.asked.clone(),
        };
        let client = Client::new(answers.clone(), notifications.clone(), beginning);
        let (mut process, mode) = (None, beginning.mode());
        let credentials = match &config.transport {
            Transport::Http(address) | Transport::Sse(address) => {
                oauth::credentials(address, options.credentials.as_ref())
            }
            Transport::Stdio(_) | Transport::Sdk => None,
        };
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
                let streams = (Box::pin(sink), Box::pin(stream));
                client.serve_with_lifecycle(streams, mode).await
            }
            Transport::Http(address) => {
                over_http(client, address, options, credentials.as_ref(), mode).await?
            }
            Transport::Sse(address) => {
                let (url, http, mut headers) = http_client(address, &options.http)?;
                if let Some(manager) = tokens(address, options, credentials.as_ref()).await? {
                    headers.insert(AUTHORIZATION, bearer(&manager).await?);
                }
                let (sink, stream) = sse::messages(http, url, headers, &error_tail)
                    .await
                    .map_err(|error| error_tail.explain(error))?;
                let streams = (Box::pin(sink), Box::pin(stream));
                client.serve_with_lifecycle(streams, mode).await
            }
            Transport::Sdk => {
                let host = options.host.as_ref().ok_or_else(|| {
                    ServerError::permanent(
                        "a server of type `sdk` needs a host program, and none drives this session",
                    )
                })?;
                let (sink, stream) = sdk_messages::messages(host, name);
                let streams = (Box::pin(sink), Box::pin(stream));
                client.serve_with_lifecycle(streams, mode).await
            }
        };
        let exit = ExitReport {
            process,
            error_tail,
            cell: cell.cloned(),
        };
        let error = match served {
            Ok(service) => {
                return Ok(Self {
                    service,
                    notifications,
                    exit,
                    beginning,
                    answers,
                    credentials,
                });
            }
            Err(error) => error,
        };
        Err(exit.failure(error).await)
    }
}

/// Connects over streamable HTTP, with the user's tokens if there are any.
async fn over_http(
    client: Client,
    address: &Address,
    options: &ConnectOptions,
    credentials: Option<&Credentials>,
    mode: ClientLifecycleMode,
) -> Result<Served, ServerError> {
    let (url, http, headers) = http_client(address, &options.http)?;
    let http = WholeClient(http);
    let headers = headers
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers.collect());
    Ok(match tokens(address, options, credentials).await? {
        Some(manager) => {
            let http = AuthClient::new(http, manager);
            let transport = StreamableHttpClientTransport::with_client(http, config);
            client.serve_with_lifecycle(transport, mode).await
        }
        None => {
            let transport = StreamableHttpClientTransport::with_client(http, config);
            client.serve_with_lifecycle(transport, mode).await
        }
    })
}

async fn tokens(
    address: &Address,
    options: &ConnectOptions,
    credentials: Option<&Credentials>,
) -> Result<Option<AuthorizationManager>, ServerError> {
    match credentials {
        Some(credentials) => oauth::tokens(address, &options.http, credentials).await,
        None => Ok(None),
    }
}

/// Returns the header with a token that is valid now.
async fn bearer(manager: &AuthorizationManager) -> Result<HeaderValue, ServerError> {
    let token = manager.get_access_token().await;
    let token = token.map_err(|_| ServerError::NeedsAuth { scope: None })?;
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|_| ServerError::NeedsAuth { scope: None })?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns the URI of the working directory.
fn root(cwd: &Path) -> Arc<str> {
    let uri = Url::from_directory_path(cwd).map(String::from);
    uri.unwrap_or_default().trim_end_matches('/').into()
}

impl ExitReport {
    /// Returns why a closed connection was closed.
    pub(crate) async fn cause(self) -> ServerError {
        self.explain(ServerError::transient("the connection was closed"))
            .await
    }

    /// Returns why a connection could not begin.
    async fn failure(self, error: ClientInitializeError) -> Failure {
        let is_refusal = is_refusal(&error);
        let error = match error {
            ClientInitializeError::JsonRpcError(error) => {
                ServerError::transient(clean_line(&error.message, 500))
            }
            error => self.explain(ServerError::of_start(&error)).await,
        };
        match is_refusal {
            true => Failure::Refused(error),
            false => Failure::Other(error),
        }
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
