//! An MCP server as a shell script: it answers what a test says, also what no server should.

use serde_json::{Value, json};

/// A server on standard streams, which any machine with a shell can run.
#[derive(Debug, Clone)]
pub struct McpScript {
    start: String,
    initialize: Value,
    tools: Vec<Value>,
    cases: String,
}

impl McpScript {
    /// A server without tools.
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

    /// Runs this before anything is read.
    #[must_use]
    pub fn start(mut self, shell: &str) -> Self {
        self.start.push_str(shell);
        self
    }

    /// Answers the handshake with `more` in the place of what is usual.
    #[must_use]
    pub fn initialize(mut self, more: &Value) -> Self {
        for (key, value) in more.as_object().into_iter().flatten() {
            self.initialize[key] = value.clone();
        }
        self
    }

    /// A tool that takes anything; what its calls do is for [`on`](Self::on) to say.
    #[must_use]
    pub fn tool(self, name: &str) -> Self {
        self.definition(json!({"name": name, "inputSchema": {"type": "object"}}))
    }

    /// A tool as the server lists it.
    #[must_use]
    pub fn definition(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Runs `shell` for every message that contains `part`, the first such part that was given counting. The message
    /// is `$line` and its id `$id`; `text WORDS` and `answer JSON` answer it.
    #[must_use]
    pub fn on(mut self, part: &str, shell: &str) -> Self {
        self.cases
            .push_str(&format!("*{}*) {shell} ;;\n", quoted(part)));
        self
    }

    /// The same for every call of a tool.
    #[must_use]
    pub fn on_call(self, tool: &str, shell: &str) -> Self {
        self.on(&format!("\"name\":\"{tool}\""), shell)
    }

    /// The server as a configuration names it.
    pub fn config(&self) -> Value {
        json!({"command": "/bin/sh", "args": ["-c", self.script()]})
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

/// A word of the shell that means `text`.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
