//! MCP server as a shell script, whose responses a test chooses, invalid ones included.

use serde_json::{Value, json};

/// MCP server on standard streams; it needs no more than a shell.
#[derive(Debug, Clone)]
pub struct McpScript {
    start: String,
    initialize: Value,
    tools: Vec<Value>,
    cases: String,
}

impl McpScript {
    /// Creates a server without tools.
    #[expect(clippy::new_without_default, reason = "no server is a default")]
    pub fn new() -> Self {
        Self {
            start: String::new(),
            initialize: json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "scripted", "version": "1.0"},
            }),
            tools: Vec::new(),
            cases: String::new(),
        }
    }

    /// Runs `shell` before anything is read.
    #[must_use]
    pub fn start(mut self, shell: &str) -> Self {
        self.start.push_str(shell);
        self
    }

    /// Overrides fields of the handshake's result.
    #[must_use]
    pub fn initialize(mut self, more: &Value) -> Self {
        for (key, value) in more.as_object().into_iter().flatten() {
            self.initialize[key] = value.clone();
        }
        self
    }

    /// Adds a tool that accepts any input; [`on_call`](Self::on_call) sets its result.
    #[must_use]
    pub fn tool(self, name: &str) -> Self {
        self.definition(json!({"name": name, "inputSchema": {"type": "object"}}))
    }

    /// Adds a tool by its definition in `tools/list`.
    #[must_use]
    pub fn definition(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Runs `shell` for every message that contains `part`; of several matching parts, the first added counts. The
    /// message is `$line` and its id `$id`; `text WORDS` and `answer JSON` respond to it.
    #[must_use]
    pub fn on(mut self, part: &str, shell: &str) -> Self {
        self.cases
            .push_str(&format!("*{}*) {shell} ;;\n", quoted(part)));
        self
    }

    /// Runs `shell` for every call of a tool.
    #[must_use]
    pub fn on_call(self, tool: &str, shell: &str) -> Self {
        self.on(&format!("\"name\":\"{tool}\""), shell)
    }

    /// Returns the server's entry for a configuration.
    pub fn config(&self) -> Value {
        json!({"command": "/bin/sh", "args": ["-c", self.script()]})
    }

    /// Returns the server as an executable file, for a folder of `PATH`. It runs in bash, which can open connections.
    pub fn as_program(&self) -> String {
        format!("#!/bin/bash\n{}", self.script())
    }

    fn script(&self) -> String {
        let list = json!({"tools": self.tools});
        format!(
            r#"
answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
text() {{ answer "{{\"content\":[{{\"type\":\"text\",\"text\":\"$1\"}}]}}"; }}
{}
while IFS= read -r line; do
id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
case $line in
{}*'"method":"initialize"'*) answer {} ;;
*'"method":"tools/list"'*) answer {} ;;
esac
done
"#,
            self.start,
            self.cases,
            quoted(&self.initialize.to_string()),
            quoted(&list.to_string()),
        )
    }
}

/// Quotes `text` for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
