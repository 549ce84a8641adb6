//! Files that two agents have changed differently at the same time, and what they are told.

use std::path::PathBuf;

/// Environment variable of a subagent's commands, with its id.
pub const AGENT: &str = "AH_AGENT";
/// Most conflicts that are listed.
const MOST: usize = 20;

/// A file that a command of one agent has changed without knowing what another one had changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The file, as the later one has changed it.
    pub path: PathBuf,
    /// Id of the other agent; `None` for the main one.
    pub other: Option<String>,
    /// File with the other's version; `None` if it was too large or may not be read.
    pub version: Option<PathBuf>,
}

/// Returns what the model is told about conflicts; `None` if there are none.
pub(crate) fn told(conflicts: &[Conflict]) -> Option<String> {
    if conflicts.is_empty() {
        return None;
    }
    let mut lines = vec![
        "Conflict: other agents were changing the same files. What was overwritten is kept; compare both versions and \
         put together what is needed of them:"
            .to_owned(),
    ];
    for Conflict {
        path,
        other,
        version,
    } in conflicts.iter().take(MOST)
    {
        let other = other.as_deref().unwrap_or("the main agent");
        let version = match version {
            Some(version) => version.display().to_string(),
            None => "not kept (too large, or not to be read)".to_owned(),
        };
        lines.push(format!(
            "- {}: version of {other}: {version}",
            path.display()
        ));
    }
    let more = conflicts.len().saturating_sub(MOST);
    lines.extend((more > 0).then(|| format!("- and {more} more files")));
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_named() {
        assert_eq!(told(&[]), None);
        let conflict = |other: Option<&str>, version: Option<&str>| Conflict {
            path: "/p/a".into(),
            other: other.map(str::to_owned),
            version: version.map(PathBuf::from),
        };
        let told = told(&[
            conflict(Some("agent-1"), Some("/v/0-a")),
            conflict(None, None),
        ])
        .unwrap();
        let lines: Vec<_> = told.lines().skip(1).collect();
        let expected = [
            "- /p/a: version of agent-1: /v/0-a",
            "- /p/a: version of the main agent: not kept (too large, or not to be read)",
        ];
        assert_eq!(lines, expected);
    }
}
