//! Names that others have chosen: how the tools of MCP servers are called stands in one file, and all others ask it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::tokens;
use crate::tidy;

/// The file that knows the names.
const KNOWS: &str = "conversation/src/tool_name.rs";
/// Crates of fakes and checks, which write such names out.
const OUTSIDE: [&str; 3] = ["xtask", "testkit", "fuzz"];

/// Returns every text that spells the name of a server's tool elsewhere, one line each.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in folders {
        if OUTSIDE.contains(&folder.as_str()) {
            continue;
        }
        for path in tidy::files(root, &Path::new(folder).join("src"))? {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            let is_test = is_test || path.ends_with("tests.rs");
            if is_rust && !is_test && path != Path::new(KNOWS) {
                let text = fs::read_to_string(root.join(&path))
                    .with_context(|| format!("reading {}", path.display()))?;
                faults.extend(faults_of(&path.to_string_lossy(), &text));
            }
        }
    }
    Ok(faults)
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let tokens = tokens(text);
    // Texts for people name the form.
    let is_form = |content: &str| content.contains("mcp__SERVER");
    let spelled = tokens
        .iter()
        .filter(|token| token.content.contains("mcp__") && !is_form(token.content));
    let fault = |line| {
        format!("{path}: line {line}: only {KNOWS} knows `mcp__`; use `ah_conversation::ToolName`")
    };
    spelled.map(|token| fault(token.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_servers_tool_is_spelled_in_one_file() {
        for (text, expected) in [
            ("fn f() { name.starts_with(\"mcp__\"); }", 1),
            ("fn f() { format!(\"mcp__{server}__\"); }", 1),
            ("fn f() { say(\"it is named mcp__SERVER__TOOL\"); }", 0),
            ("/// `mcp__server` is a server.\nfn f() {}", 0),
            (
                "#[cfg(test)]\nmod tests { fn f() { run(\"mcp__s__t\"); } }",
                0,
            ),
        ] {
            assert_eq!(faults_of("agent/src/x.rs", text).len(), expected, "{text}");
        }
    }
}
