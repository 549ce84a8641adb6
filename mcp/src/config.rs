//! Configuration of a server, and its resolution: variables are expanded and the transport is chosen. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ah_conversation::ServerScope;
use ah_process::Authority;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::needs::Needs;

/// Entry of a server in `.mcp.json` or in the settings. Unknown keys are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ServerEntry {
    /// Transport type: `stdio`, `http`, `sse` or `sdk`; inferred from `command` or `url` if absent.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Program to start.
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the program, added to those of every child process.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// URL of the server.
    pub url: Option<String>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How the user signs in to a server with a URL.
    #[serde(default)]
    pub oauth: SignInSettings,
    /// Name of a server of type `sdk` within its host program.
    pub name: Option<String>,
    /// Call timeout in milliseconds, restarted by each progress notification.
    pub timeout: Option<u64>,
    /// Hosts that the program may reach from the sandbox, as `HOST:PORT`.
    #[serde(default, rename = "allowHosts")]
    pub allow_hosts: Vec<String>,
    /// Hosts that the program may reach by plain HTTP, as `HOST:PORT`.
    #[serde(default, rename = "allowHttp")]
    pub allow_http: Vec<String>,
    /// Source of the entry.
    #[serde(skip)]
    pub scope: ServerScope,
}

/// How the user signs in to a server. Most servers need none of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SignInSettings {
    /// Name by which the issuer knows this program, if the user has registered it.
    pub client_id: Option<String>,
    /// Secret that belongs to the name.
    pub client_secret: Option<String>,
    /// URL of a document that describes this program to issuers that take one in the place of a registration.
    pub client_metadata_url: Option<String>,
    /// Port of the loopback address that the browser returns to; any free one by default.
    pub callback_port: Option<u16>,
    /// Scopes to ask for, in place of those that the server names.
    pub scopes: Vec<String>,
}

/// Resolved configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Transport, with its parameters.
    pub transport: Transport,
    /// Call timeout, restarted by each progress notification; `None` for the default of the session.
    pub call_timeout: Option<Duration>,
    /// Source of the configuration.
    pub scope: ServerScope,
    /// Hosts that its program needs, if it is one.
    pub needs: Needs,
    /// Whether its program may reach these hosts from the sandbox.
    pub is_granted: bool,
    /// The project that it belongs to; `None` for the user's own.
    pub project: Option<PathBuf>,
    /// The entry shown to programs: variables are not expanded, and fields that may hold secrets (`env`, `headers`)
    /// are left out.
    pub as_written: Value,
}

/// Transport to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process, over its standard streams.
    Stdio(Program),
    /// Streamable HTTP.
    Http(Address),
    /// HTTP with server-sent events, the transport of protocol revision 2024-11-05.
    Sse(Address),
    /// A server inside the host program, over the host's own connection.
    Sdk,
}

/// Program of a `stdio` server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name or path of the executable; looked up in `PATH` unless it contains a slash.
    pub command: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Additional environment variables.
    pub environment: BTreeMap<String, String>,
}

/// URL and headers of a server over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// URL.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// How the user signs in.
    pub sign_in: SignInSettings,
}

impl ServerEntry {
    /// Resolves the entry: expands `${NAME}` and `${NAME:-default}` through `variable` and chooses the transport.
    ///
    /// # Errors
    ///
    /// Fails if `command` or `url` is missing, a variable is not set, or the type is unknown.
    pub fn resolve(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ServerConfig, String> {
        let expanded = |text: &String| expand(text, variable);
        let all = |map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(name, value)| Ok((name.clone(), expanded(value)?)))
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        let address = || {
            Ok::<_, String>(Address {
                url: expanded(self.url.as_ref().ok_or("it has no `url`")?)?,
                headers: all(&self.headers)?,
                sign_in: SignInSettings {
                    client_id: self.oauth.client_id.as_ref().map(expanded).transpose()?,
                    client_secret: { self.oauth.client_secret.as_ref() }
                        .map(expanded)
                        .transpose()?,
                    ..self.oauth.clone()
                },
            })
        };
        let mut needs = Needs::default();
        let transport = match self.kind() {
            "stdio" => {
                let program = Program {
                    command: match &self.command {
                        Some(command) if !command.trim().is_empty() => expanded(command)?,
                        _ => return Err("it has no `command`".to_owned()),
                    },
                    arguments: self.args.iter().map(expanded).collect::<Result<_, _>>()?,
                    environment: all(&self.env)?,
                };
                needs = Needs::of(
                    &program.command,
                    &program.arguments,
                    program.environment.values(),
                    [hosts(&self.allow_hosts)?, hosts(&self.allow_http)?],
                );
                Transport::Stdio(program)
            }
            "http" | "streamable-http" => Transport::Http(address()?),
            "sse" => Transport::Sse(address()?),
            "sdk" => Transport::Sdk,
            kind => {
                return Err(format!(
                    "the type `{kind}` is not supported; known are stdio, http, sse and sdk"
                ));
            }
        };
        Ok(ServerConfig {
            transport,
            call_timeout: self.timeout.map(Duration::from_millis),
            scope: self.scope,
            needs,
            is_granted: false,
            project: None,
            as_written: match self.kind() {
                "stdio" => {
                    json!({"type": "stdio", "command": self.command, "args": self.args})
                }
                "sdk" => json!({"type": "sdk", "name": self.name}),
                kind => json!({"type": kind, "url": self.url}),
            },
        })
    }

    /// Returns the transport type, given or inferred.
    pub fn kind(&self) -> &str {
        match &self.kind {
            Some(kind) => kind,
            None if self.command.is_none() && self.url.is_some() => "http",
            None => "stdio",
        }
    }
}

fn hosts(list: &[String]) -> Result<Vec<Authority>, String> {
    let parsed = list.iter().map(|host| host.parse::<Authority>());
    parsed
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// Expands the variables in `text`. A `${` that is not followed by a name and a brace stays as it is.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        expanded.push_str(before);
        let Some(end) = from.find('}') else {
            rest = from;
            break;
        };
        let inner = &from[2..end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        match (variable(name), default) {
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => return Err(format!("the variable {name} is not set")),
        }
        rest = &from[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(value: Value) -> Result<ServerConfig, String> {
        let entry: ServerEntry = serde_json::from_value(value).unwrap();
        entry.resolve(&|name| (name == "HOST").then(|| "h.example".to_owned()))
    }

    #[test]
    fn variables_are_expanded() {
        for (text, expected) in [
            ("plain $HOST", Ok("plain $HOST")),
            ("https://${HOST}/x", Ok("https://h.example/x")),
            ("${HOST}${HOST:-y}", Ok("h.exampleh.example")),
            ("${PORT:-80}", Ok("80")),
            ("${PORT:-}", Ok("")),
            ("${PORT:-a:-b}", Ok("a:-b")),
            ("${PORT}", Err("the variable PORT is not set")),
            ("${HOST", Ok("${HOST")),
            ("${} ${a b} ${HOST}", Ok("${} ${a b} h.example")),
            ("ü${HOST}ü", Ok("üh.exampleü")),
        ] {
            let variable = |name: &str| (name == "HOST").then(|| "h.example".to_owned());
            let expanded = expand(text, &variable);
            assert_eq!(
                expanded.as_deref().map_err(String::as_str),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn the_type_decides_the_transport() {
        let stdio = Transport::Stdio(Program {
            command: "npx".to_owned(),
            arguments: vec!["h.example".to_owned()],
            environment: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
        });
        let address = || Address {
            url: "https://h.example/mcp".to_owned(),
            headers: BTreeMap::from([("x-team".to_owned(), "h.example".to_owned())]),
            ..Address::default()
        };
        let url = json!({"url": "https://${HOST}/mcp", "headers": {"x-team": "${HOST}"}});
        let with_type = |kind: &str, mut entry: Value| {
            entry["type"] = json!(kind);
            entry
        };
        let command = json!({"command": "npx", "args": ["${HOST}"], "env": {"A": "b"}});
        for (entry, expected) in [
            (command.clone(), Ok(stdio.clone())),
            (with_type("stdio", command), Ok(stdio)),
            (url.clone(), Ok(Transport::Http(address()))),
            (
                with_type("http", url.clone()),
                Ok(Transport::Http(address())),
            ),
            (with_type("sse", url), Ok(Transport::Sse(address()))),
            (
                json!({"type": "sdk", "name": "calculator"}),
                Ok(Transport::Sdk),
            ),
            (
                json!({"type": "claudeai-proxy", "id": "x"}),
                Err(
                    "the type `claudeai-proxy` is not supported; known are stdio, http, sse and sdk",
                ),
            ),
            (json!({}), Err("it has no `command`")),
            (json!({"type": "http"}), Err("it has no `url`")),
            (
                json!({"command": "${NOWHERE}/x"}),
                Err("the variable NOWHERE is not set"),
            ),
            (
                json!({"command": "x", "allowHosts": ["h.example"]}),
                Err("invalid host and port `h.example`; expected HOST:PORT, as in example.com:443"),
            ),
        ] {
            let found = resolve(entry.clone()).map(|config| config.transport);
            assert_eq!(found, expected.map_err(str::to_owned), "{entry}");
        }
        let timeout = resolve(json!({"command": "x", "timeout": 1500})).unwrap();
        assert_eq!(timeout.call_timeout, Some(Duration::from_millis(1500)));
    }
}
