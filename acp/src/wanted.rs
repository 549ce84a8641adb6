//! The session that an editor wants, from requests of either version. Pure, but for a look at the folder.

use std::path::PathBuf;

use agent_client_protocol::Error;
use ah_desk::{Start, SystemPrompt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::fault::invalid;

/// Returns the new session that an editor wants.
pub(crate) fn wanted(
    folder: PathBuf,
    directories: impl IntoIterator<Item = PathBuf>,
    servers: &[impl Serialize],
    system_prompt: Option<&impl Serialize>,
) -> Result<Start, Error> {
    let directories: Vec<_> = directories.into_iter().collect();
    let relative = { [&folder].into_iter() }
        .chain(&directories)
        .find(|it| !it.is_absolute());
    if let Some(relative) = relative {
        let relative = relative.display();
        return Err(invalid(format!("`{relative}` is not an absolute path")));
    }
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(invalid(format!("there is no folder `{folder}`")));
    }
    let servers = servers.iter().map(server).collect::<Result<_, _>>()?;
    Ok(Start {
        folder: Some(folder),
        directories,
        servers,
        system_prompt: system_prompt.map(of_system_prompt).transpose()?,
        ..Start::default()
    })
}

/// Returns the system prompt of an editor. What cannot be told the model is an error, as the protocol wants it.
fn of_system_prompt(given: &impl Serialize) -> Result<SystemPrompt, Error> {
    let given = serde_json::to_value(given).unwrap_or_default();
    let replaces = match given["mode"].as_str() {
        Some("append") => false,
        Some("override") => true,
        _ => {
            return Err(invalid(
                "the mode of a system prompt is `append` or `override`",
            ));
        }
    };
    let blocks = given["content"].as_array().into_iter().flatten();
    let texts = blocks.map(
        |block| match (block["type"].as_str(), block["text"].as_str()) {
            (Some("text"), Some(text)) => Ok(text),
            _ => Err(invalid("a system prompt consists of texts")),
        },
    );
    let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n\n");
    if text.trim().is_empty() {
        return Err(invalid("the system prompt is empty"));
    }
    Ok(SystemPrompt { text, replaces })
}

/// Returns the name of a server, and its entry as in the settings. Version 1 names no type for those over pipes.
fn server(server: &impl Serialize) -> Result<(String, Value), Error> {
    let server = serde_json::to_value(server).unwrap_or_default();
    let pairs = |field: &str| {
        let pairs = server[field].as_array().into_iter().flatten();
        let pairs = pairs.map(|pair| {
            let name = pair["name"].as_str().unwrap_or_default();
            (name.to_owned(), pair["value"].clone())
        });
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let name = server["name"].as_str().unwrap_or_default().to_owned();
    let entry = match server["type"].as_str() {
        None | Some("stdio") => {
            let arguments = server["args"].as_array().cloned().unwrap_or_default();
            json!({"command": server["command"], "args": arguments, "env": pairs("env")})
        }
        Some("http") => {
            json!({"type": "http", "url": server["url"], "headers": pairs("headers")})
        }
        Some(_) => return Err(invalid("MCP servers are reached over pipes or HTTP")),
    };
    Ok((name, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_prompt_is_appended_or_replaces_ours() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let of = |mode: &str, content: Value| {
            let told = of_system_prompt(&json!({"mode": mode, "content": content}));
            told.ok().map(|told| (told.text, told.replaces))
        };
        let both = || json!([text("Be brief."), text("Be kind.")]);
        let joined = "Be brief.\n\nBe kind.".to_owned();
        assert_eq!(of("append", both()), Some((joined.clone(), false)));
        assert_eq!(of("override", both()), Some((joined, true)));
        assert_eq!(of("_prepend", both()), None);
        assert_eq!(of("append", json!([])), None);
        let picture = json!({"type": "image", "data": "", "mimeType": "image/png"});
        assert_eq!(of("append", json!([text("x"), picture])), None);
    }

    #[test]
    fn servers_of_both_versions_are_entries_of_the_settings() {
        let first = json!({"name": "a", "command": "/bin/a", "args": ["-x"], "env": [{"name": "K", "value": "v"}]});
        let mut second = first.clone();
        second["type"] = json!("stdio");
        let entry = json!({"command": "/bin/a", "args": ["-x"], "env": {"K": "v"}});
        for told in [&first, &second] {
            assert_eq!(server(told).unwrap(), ("a".to_owned(), entry.clone()));
        }
        let bare = json!({"type": "stdio", "name": "b", "command": "/b"});
        let entry = json!({"command": "/b", "args": [], "env": {}});
        assert_eq!(server(&bare).unwrap().1, entry);
        let web = json!({"type": "http", "name": "c", "url": "https://c", "headers": []});
        let entry = json!({"type": "http", "url": "https://c", "headers": {}});
        assert_eq!(server(&web).unwrap().1, entry);
        assert!(server(&json!({"type": "sse", "name": "d", "url": "https://d"})).is_err());
    }
}
