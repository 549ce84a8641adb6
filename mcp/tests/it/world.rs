//! Servers in a temporary folder, and calls of their tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Content, Context, Environment, Input, Interface, Output, ResultBlock, ServerStatus, Servers,
    Tool, ToolUse, ToolUseId,
};
use ah_mcp::{Options, RemoteServers, ServerEntry};
use ah_testkit::mcp::McpScript;
pub use ah_testkit::wait::{HANG, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A temporary folder, and servers that run in it.
pub struct World {
    pub folder: TempDir,
    pub servers: Arc<RemoteServers>,
}

impl World {
    /// Starts one server, called `s`.
    pub fn new(server: &McpScript) -> Self {
        Self::with(&json!({"s": server.config()}), |_| {})
    }

    /// Starts servers from their configuration, with changed options.
    pub fn with(servers: &Value, change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").unwrap();
        let variables = [
            ("PATH", path.as_str()),
            ("GREETING", "hello"),
            ("MY_TOKEN", "secret"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::new(variables, folder.path().to_owned());
        let mut options = Options {
            reserved: None,
            asked: None,
            confined: None,
            environment: environment.clone(),
            http: ah_http::Options::default(),
            credentials: None,
            outputs: None,
            host: None,
            start_timeout: HANG,
            call_timeout: HANG,
            denied: Vec::new(),
            granted: ah_mcp::Granted::All,
            interface: Interface::Native,
        };
        change(&mut options);
        let entries: BTreeMap<String, ServerEntry> =
            serde_json::from_value(servers.clone()).unwrap();
        let variable = |name: &str| environment.get(name).map(str::to_owned);
        let servers = entries
            .into_iter()
            .map(|(name, entry)| (name, entry.resolve(&variable).unwrap()))
            .collect();
        let servers = Arc::new(RemoteServers::start(servers, options));
        Self { folder, servers }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the text of a file in the folder; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the status of the first server.
    pub fn status(&self) -> ServerStatus {
        self.servers.status().remove(0)
    }

    /// Returns the tool of this name once every server is connected or has failed.
    pub async fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.servers.settled().await;
        let tools = self.servers.tools();
        let tool = tools.into_iter().find(|tool| tool.spec().name == name);
        tool.unwrap_or_else(|| panic!("no {name}: {:?}", self.servers.status()))
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, input: Value) -> Output {
        let tool = self.tool(name).await;
        run(&tool, input).await
    }

    /// Calls a tool of a server that is still starting.
    pub async fn call_early(&self, name: &str) -> Output {
        let tool = self.servers.find(name).unwrap();
        run(&tool, json!({})).await
    }
}

pub async fn run(tool: &Arc<dyn Tool>, input: Value) -> Output {
    run_with(tool, input, Context::new(PathBuf::from("/nowhere"))).await
}

pub async fn run_with(tool: &Arc<dyn Tool>, input: Value, context: Context) -> Output {
    let Value::Object(input) = input else {
        panic!("an object: {input}")
    };
    let call = ToolUse {
        id: ToolUseId::from("call"),
        name: tool.spec().name.clone(),
        input: Input::Object(input),
    };
    tokio::time::timeout(HANG, tool.run(&call, &context))
        .await
        .unwrap()
}

/// Returns the names of a server's tools.
pub fn names(status: &ServerStatus) -> Vec<&str> {
    status.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Returns an output as text.
pub fn show(output: &Output) -> String {
    let text = match &output.content {
        Content::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Content::Blocks(blocks) => blocks
            .iter()
            .map(|block| match block {
                ResultBlock::Text { text } => text.clone(),
                ResultBlock::Image(image) => format!("<{}>", image.media_type),
                ResultBlock::Audio(audio) => format!("<{}>", audio.media_type),
            })
            .collect(),
        Content::Spool(_) => panic!("outputs of servers are not spooled"),
    };
    if output.is_error {
        format!("failed: {text}")
    } else {
        text
    }
}
