//! Settings of tools: which there are, how their calls run, and what is kept of them.

use ah_agent::tool_search::ToolSearchMode;
use serde_json::value::RawValue;

use super::file::File;
use super::group::{Setter, first, group, in_force, put_in_force};
use crate::concurrency::Concurrency;
use crate::entry::{SettingEntry, entry};
use crate::error::Error;
use crate::origin::{Origin, Sourced};
use crate::profile::Profile;

/// Default maximum size of a stored tool output in bytes.
const MAX_OUTPUT: u64 = 64 * 1024 * 1024;

group! {
    /// Tools and their calls.
    ToolSettings => ToolConfig {
        /// The set of tools, as --profile chooses it; `small` also shortens results, summarises earlier and limits thinking.
        /// Absent: `small` for a window below 33,000 tokens and for servers on this machine, else `default`, or `sdk` in the Agent
        /// SDK interface.
        profile: Profile = "profile", Anyone, {"enum": ["default", "minimal", "sdk", "small"]};
        /// How many MiB of files' earlier contents are kept for undo, by all sessions of a project together; the oldest go first.
        /// A session keeps at most 256. A project can set it only where it is trusted.
        undo_megabytes: u64 = "undoMegabytes", User, {"type": "integer", "minimum": 0}, 1024;
        /// Whether the model has a tool, `script`, that calls other tools from one piece of Lua.
        code_mode: bool = "codeMode", Anyone, {"type": "boolean", "default": false};
        /// Whether tools of MCP servers are listed by name and searched; auto: above 30 tools or 20,000 bytes of definitions.
        tool_search: ToolSearchMode = "toolSearch", Anyone, {"enum": ["auto", "on", "off"], "default": "auto"};
        /// Whether the tool calls of one answer run together; auto: those that only read.
        tool_concurrency: Concurrency = "toolConcurrency", Anyone, {"enum": ["auto", "serial", "parallel"]}, Concurrency::Auto;
        /// How many characters of one tool's output the model sees, from the beginning; 0 or absent: head and tail, as much as
        /// the tool says.
        max_tool_result_chars: usize = "maxToolResultChars", Anyone, {"type": "integer", "minimum": 0};
        /// How many bytes of one tool's output are kept; of more, the beginning and the end.
        max_tool_output_bytes: u64 = "maxToolOutputBytes", Anyone, {"type": "integer", "minimum": 0}, MAX_OUTPUT;
    }
}
