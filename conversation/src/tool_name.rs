//! Names of tools as models see them. The only place that knows how the tools of MCP servers are called:
//! `mcp__SERVER__TOOL`.

/// Beginning of the names of servers' tools.
const OF_SERVERS: &str = "mcp__";
/// Text between the server and its tool.
const BETWEEN: &str = "__";

/// Name of a tool, or of all tools of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName<'a>(pub &'a str);

impl<'a> ToolName<'a> {
    /// Returns what the names of a server's tools begin with; `server` has no characters that such names do not have.
    pub fn of_server(server: &str) -> String {
        format!("{OF_SERVERS}{server}{BETWEEN}")
    }

    /// Whether it is of a server's tool, or of all of them.
    pub fn is_of_server(self) -> bool {
        self.0.starts_with(OF_SERVERS)
    }

    /// Whether it is that of a server, and stands for all its tools.
    pub fn is_server(self) -> bool {
        self.is_of_server() && self.0.matches(BETWEEN).count() == 1
    }

    /// Returns the server and its tool; `None` if it is no tool of a server.
    pub fn parts(self) -> Option<(&'a str, &'a str)> {
        self.of_servers()?.split_once(BETWEEN)
    }

    /// Returns the name without what all servers' tools begin with.
    pub fn plain(self) -> &'a str {
        self.of_servers().unwrap_or(self.0)
    }

    fn of_servers(self) -> Option<&'a str> {
        self.0.strip_prefix(OF_SERVERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whether_a_server_has_the_tool() {
        for (name, is_of_server, is_server, parts, plain) in [
            ("Bash", false, false, None, "Bash"),
            ("mcp__s", true, true, None, "s"),
            ("mcp__s__t", true, false, Some(("s", "t")), "s__t"),
            ("mcp__s__t__u", true, false, Some(("s", "t__u")), "s__t__u"),
            ("my_mcp__s", false, false, None, "my_mcp__s"),
        ] {
            let known = ToolName(name);
            assert_eq!(known.is_of_server(), is_of_server, "{name}");
            assert_eq!(known.is_server(), is_server, "{name}");
            assert_eq!(known.parts(), parts, "{name}");
            assert_eq!(known.plain(), plain, "{name}");
        }
        assert_eq!(ToolName::of_server("s"), "mcp__s__");
    }
}
