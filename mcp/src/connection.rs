//! From a server's configuration to a server that can be asked.

use std::collections::VecDeque;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ah_conversation::Environment;
use ah_process::{Child, Command, Keep};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Client;
use crate::config::{Address, ServerConfig, Transport};
use crate::name::{clean, clean_line};
use crate::{sse, stdio};

/// How many lines of a server's standard error are kept to explain its end.
const LAST_LINES: usize = 3;
/// How long the end of a child is waited for once it has closed its output.
const MOMENT: Duration = Duration::from_millis(500);

/// Why a server cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It wants to know who asks.
    NeedsAuth,
    /// Trying again makes no difference.
    Hopeless(String),
    /// It may be there later.
    Failed(String),
}

impl Fault {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// An error of the network, with what caused it.
    pub(crate) fn of(error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::Failed(clean_line(&text, 500))
    }

    fn of_start(error: &ClientInitializeError) -> Self {
        match error {
            error if error.is_authorization_required() => Self::NeedsAuth,
            ClientInitializeError::ConnectionClosed(_) => Self::failed("it ended while starting"),
            ClientInitializeError::TransportError { error, .. } => Self::of(&*error.error),
            other => Self::of(other),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsAuth => f.write_str("it wants credentials, or other ones than it was given"),
            Self::Hopeless(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

/// The last that a server said on its way out, and what its messages broke on.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    pub(crate) fn add(&self, line: String) {
        // Each change is whole, so a panic leaves nothing half done.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// `fault`, with the last words where there are some.
    fn explain(&self, fault: Fault) -> Fault {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = lines.iter().map(String::as_str).collect::<Vec<_>>();
        match fault {
            Fault::Failed(text) if !words.is_empty() => {
                let words = clean(&words.join("; "), 500);
                Fault::Failed(format!("{text}; it said: {words}"))
            }
            fault => fault,
        }
    }
}

/// What is needed to reach servers.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub(crate) environment: Environment,
    pub(crate) http: ah_http::Options,
}

/// A server that can be asked, until it ends or this is dropped.
pub(crate) struct Live {
    pub(crate) service: RunningService<RoleClient, Client>,
    /// Told when the server says that its tools are other ones.
    has_changed: Arc<Notify>,
    end: End,
}

/// What tells, at the end, how it came.
pub(crate) struct End {
    running: Option<Running>,
    last_words: LastWords,
}

/// A server that is a child of ours.
struct Running {
    child: Child,
    /// Reads what it says besides.
    listener: JoinHandle<()>,
}

impl Live {
    /// Reaches the server and shakes hands.
    pub(crate) async fn connect(
        name: &str,
        config: &ServerConfig,
        reach: &Reach,
    ) -> Result<Self, Fault> {
        let last_words = LastWords::default();
        let has_changed = Arc::new(Notify::new());
        let cwd = reach.environment.cwd();
        let client = Client::new(name, cwd, has_changed.clone());
        let mut running = None;
        let served = match &config.transport {
            Transport::Stdio { .. } => {
                let command = command(&config.transport, reach)?;
                let (started, pipes) = command
                    .converse()
                    .await
                    .map_err(|fault| Fault::Hopeless(fault.to_string()))?;
                let messages = stdio::messages(pipes, name, &last_words);
                let (sink, stream, listener) = messages.map_err(|fault| Fault::of(&fault))?;
                running = Some(Running {
                    child: started,
                    listener,
                });
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
            Transport::Http(address) => {
                let (url, http, headers) = http_client(address, reach)?;
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                let headers = headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone()));
                let config = config.custom_headers(headers.collect());
                let transport = StreamableHttpClientTransport::with_client(http, config);
                client.serve(transport).await
            }
            Transport::Sse(address) => {
                let (url, http, headers) = http_client(address, reach)?;
                let messages = sse::messages(http, url, headers, &last_words).await;
                let (sink, stream) = messages.map_err(|fault| last_words.explain(fault))?;
                client.serve((Box::pin(sink), Box::pin(stream))).await
            }
        };
        let end = End {
            running,
            last_words,
        };
        match served {
            Ok(service) => Ok(Self {
                service,
                has_changed,
                end,
            }),
            Err(ClientInitializeError::JsonRpcError(error)) => {
                Err(Fault::failed(clean_line(&error.message, 500)))
            }
            Err(error) => Err(end.explain(Fault::of_start(&error)).await),
        }
    }

    pub(crate) fn into_parts(self) -> (RunningService<RoleClient, Client>, Arc<Notify>, End) {
        (self.service, self.has_changed, self.end)
    }
}

impl End {
    /// Why the connection has ended, which it has.
    pub(crate) async fn fate(self) -> Fault {
        self.explain(Fault::failed("the connection ended")).await
    }

    /// `fault`, with how the child ended, if it did.
    async fn explain(self, fault: Fault) -> Fault {
        let Some(Running { child, listener }) = self.running else {
            return self.last_words.explain(fault);
        };
        // Its output ends a moment before it does, and its last words may still be on their way.
        let fault = match timeout(MOMENT, child.wait()).await {
            Ok(outcome) => {
                Fault::failed(format!("it ended with exit code {}", outcome.ending.code()))
            }
            Err(_) => fault,
        };
        let _ = timeout(MOMENT, listener).await;
        self.last_words.explain(fault)
    }
}

/// The child that `transport` describes. It sees what every child sees, and what its configuration gives it.
fn command(transport: &Transport, reach: &Reach) -> Result<Command, Fault> {
    let Transport::Stdio {
        command,
        arguments,
        environment: added,
    } = transport
    else {
        unreachable!("only servers on standard streams are children")
    };
    let environment = &reach.environment;
    let inherited = environment
        .for_children()
        .filter(|(name, _)| !added.contains_key(*name));
    let variables: Vec<(String, String)> = inherited
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain(
            added
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        )
        .collect();
    let program = find_program(command, &variables, environment.cwd()).ok_or_else(|| {
        Fault::Hopeless(format!(
            "there is no program `{}`",
            clean_line(command, 200)
        ))
    })?;
    Ok(Command {
        program,
        arguments: arguments.iter().map(OsString::from).collect(),
        cwd: environment.cwd().to_owned(),
        environment: variables,
        stdin: Vec::new(),
        deadline: None,
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: None,
        note: |_| None,
    })
}

/// The program `name`: as a path, or in the absolute folders of the search path.
fn find_program(name: &str, variables: &[(String, String)], cwd: &Path) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = match name.contains('/') {
        true => vec![cwd.join(name)],
        false => {
            let paths = variables.iter().filter(|(name, _)| name == "PATH");
            paths
                .flat_map(|(_, path)| std::env::split_paths(path))
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(name))
                .collect()
        }
    };
    candidates.into_iter().find(|path| path.is_file())
}

fn http_client(
    address: &Address,
    reach: &Reach,
) -> Result<(Url, reqwest::Client, HeaderMap), Fault> {
    let client = ah_http::client(&reach.http, &address.url)
        .map_err(|error| Fault::Hopeless(error.to_string()))?;
    let url = Url::parse(&address.url).map_err(|error| Fault::Hopeless(error.to_string()))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &address.headers {
        let parsed = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::try_from(value).ok());
        let Some((parsed, mut value)) = parsed else {
            // The value may be a secret.
            return Err(Fault::Hopeless(format!("the header `{name}` is none")));
        };
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok((url, client, headers))
}
