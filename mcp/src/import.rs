//! Servers in the files of other programs and of the MCP registry, as entries of ours. Pure.

use std::collections::BTreeMap;

use ah_conversation::json;
use serde_json::{Map, Value, json};

/// Keys of an entry that mean the same here.
const SAME: [&str; 6] = ["command", "args", "env", "url", "headers", "oauth"];

/// Returns the servers of a file by name: of `.mcp.json` and its like, of VS Code, Zed and opencode, or the one of a
/// `server.json` of the MCP registry. Servers that are switched off are left out.
///
/// # Errors
///
/// If the file has none of these forms, or a server of the registry offers no way to run it here.
pub fn imported(file: &Value) -> Result<BTreeMap<String, Value>, String> {
    // The registry's API wraps its entries.
    let file = file
        .get("server")
        .filter(|it| it.is_object())
        .unwrap_or(file);
    if file.get("packages").or(file.get("remotes")).is_some() {
        let name = file["name"].as_str().ok_or("the server has no name")?;
        let short = name.rsplit('/').next().unwrap_or(name);
        return Ok(BTreeMap::from([(short.to_owned(), registered(file)?)]));
    }
    let keys = ["mcpServers", "servers", "context_servers", "mcp"];
    let servers = keys.iter().find_map(|key| file.get(key)?.as_object());
    let servers = servers.ok_or(
        "no servers found; known are `mcpServers`, `servers`, `context_servers`, `mcp` and the registry's `server.json`",
    )?;
    let is_on = |entry: &Value| entry["disabled"] != true && entry["enabled"] != false;
    let on = servers.iter().filter(|(_, entry)| is_on(entry));
    Ok(on
        .map(|(name, entry)| (name.clone(), configured(entry)))
        .collect())
}

/// Returns an entry of another program's configuration.
fn configured(theirs: &Value) -> Value {
    let mut entry = Map::new();
    for key in SAME {
        if let Some(value) = theirs.get(key) {
            entry.insert(key.to_owned(), value.clone());
        }
    }
    // Zed keeps the program in an object of its own, opencode in a list with its arguments.
    match theirs.get("command") {
        Some(Value::Object(command)) => {
            for (ours, name) in [("command", "path"), ("args", "args"), ("env", "env")] {
                entry.remove(ours);
                entry.extend(
                    command
                        .get(name)
                        .map(|value| (ours.to_owned(), value.clone())),
                );
            }
        }
        Some(Value::Array(words)) => {
            let (first, rest) = words.split_first().unwrap_or((&Value::Null, &[]));
            entry.insert("command".to_owned(), first.clone());
            entry.insert("args".to_owned(), rest.into());
        }
        _ => {}
    }
    for (name, ours) in [
        ("environment", "env"),
        ("serverUrl", "url"),
        ("httpUrl", "url"),
    ] {
        if let Some(value) = theirs.get(name) {
            entry.insert(ours.to_owned(), value.clone());
        }
    }
    if theirs.get("type").or(theirs.get("transport")) == Some(&json!("sse")) {
        entry.insert("type".to_owned(), json!("sse"));
    }
    let text = Value::Object(entry).to_string();
    // VS Code asks for inputs; here they are variables.
    json::from_str(&inputs(&text)).unwrap_or_default()
}

/// Replaces `${input:api-key}` by `${API_KEY}`, and `${env:NAME}` by `${NAME}`.
fn inputs(text: &str) -> String {
    let mut parts = text.split("${input:");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        replaced.push_str(&format!("${{{}}}{rest}", variable(name)));
    }
    replaced.replace("${env:", "${")
}

/// Returns a name of a variable for a word.
fn variable(word: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => c.to_ascii_uppercase(),
        _ => '_',
    };
    word.trim_matches(['<', '>', '{', '}'])
        .chars()
        .map(plain)
        .collect()
}

/// Returns the entry of a server in the registry: the first package that can be run, else the first address.
fn registered(server: &Value) -> Result<Value, String> {
    let list = |key: &str| server[key].as_array().cloned().unwrap_or_default();
    let packages = list("packages");
    if let Some(entry) = packages.iter().find_map(packaged) {
        return Ok(entry);
    }
    let remotes = list("remotes");
    let Some(remote) = remotes.iter().find(|remote| remote["url"].is_string()) else {
        return Err(
            "the server has no package of npm, PyPI, NuGet or Docker, and no address".to_owned(),
        );
    };
    let url = remote["url"].as_str().unwrap_or_default();
    let kind = if remote["type"] == "sse" {
        "sse"
    } else {
        "http"
    };
    let mut entry = json!({"type": kind, "url": templates(url)});
    let headers = values(&remote["headers"]);
    if !headers.is_empty() {
        entry["headers"] = headers.into();
    }
    Ok(entry)
}

/// Returns the entry of a package, if its registry is known and it speaks over standard streams.
fn packaged(package: &Value) -> Option<Value> {
    let kind = package["transport"]["type"].as_str().unwrap_or("stdio");
    let name = package["identifier"].as_str().filter(|_| kind == "stdio")?;
    let version = package["version"]
        .as_str()
        .filter(|version| !version.is_empty());
    let at =
        |sign: &str| version.map_or(name.to_owned(), |version| format!("{name}{sign}{version}"));
    let (command, before, what) = match package["registryType"].as_str()? {
        "npm" => ("npx", vec!["-y".to_owned()], at("@")),
        "pypi" => ("uvx", Vec::new(), at("@")),
        "nuget" => ("dnx", vec!["--yes".to_owned()], at("@")),
        "oci" => (
            "docker",
            ["run", "-i", "--rm"].map(str::to_owned).to_vec(),
            name.to_owned(),
        ),
        _ => return None,
    };
    let environment = values(&package["environmentVariables"]);
    let mut args = before;
    args.extend(
        words(&package["runtimeArguments"])
            .into_iter()
            .filter(|word| word != "-y"),
    );
    if command == "docker" {
        // The program in the container sees only what is passed on.
        args.extend(
            environment
                .keys()
                .flat_map(|name| ["-e".to_owned(), name.clone()]),
        );
    }
    args.push(what);
    args.extend(words(&package["packageArguments"]));
    let mut entry = json!({"command": command, "args": args});
    if !environment.is_empty() {
        entry["env"] = environment.into();
    }
    Some(entry)
}

/// Returns the words of a list of arguments. What the user has to choose is a variable.
fn words(arguments: &Value) -> Vec<String> {
    let mut words = Vec::new();
    for argument in arguments.as_array().into_iter().flatten() {
        let given = argument
            .get("value")
            .or(argument.get("default"))
            .and_then(Value::as_str);
        let hint = argument["valueHint"].as_str().or(argument["name"].as_str());
        let is_needed = argument["isRequired"] == true || argument["type"] == "positional";
        let value = match (given, hint) {
            (Some(given), _) => Some(templates(given)),
            (None, Some(hint)) if is_needed && !hint.starts_with('-') => {
                Some(format!("${{{}}}", variable(hint)))
            }
            _ => None,
        };
        let name = argument["name"]
            .as_str()
            .filter(|_| argument["type"] == "named");
        if name.is_some() && given.is_none() && !is_needed {
            continue;
        }
        words.extend(name.map(str::to_owned));
        words.extend(value);
    }
    words
}

/// Returns the variables or headers of a list that have a value, or need one.
fn values(list: &Value) -> Map<String, Value> {
    let value = |item: &Value| {
        let name = item["name"].as_str()?;
        let fallback = variable(name);
        let value = match (item["value"].as_str(), item["default"].as_str()) {
            (Some(value), _) => templates(value),
            (None, Some(default)) => format!("${{{fallback}:-{default}}}"),
            (None, None) if item["isRequired"] == true => format!("${{{fallback}}}"),
            (None, None) => return None,
        };
        Some((name.to_owned(), json!(value)))
    };
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(value)
        .collect()
}

/// Replaces `{api_key}` by `${API_KEY}`.
fn templates(text: &str) -> String {
    let mut parts = text.split('{');
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((name, rest)) if !replaced.ends_with('$') => {
                replaced.push_str(&format!("${{{}}}{rest}", variable(name)));
            }
            _ => {
                replaced.push('{');
                replaced.push_str(part);
            }
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_read() {
        for (file, expected) in [
            (
                json!({"mcpServers": {"a": {"command": "npx", "args": ["-y", "a"], "env": {"K": "${K}"}, "alwaysAllow": []}, "off": {"command": "x", "disabled": true}}}),
                json!({"a": {"command": "npx", "args": ["-y", "a"], "env": {"K": "${K}"}}}),
            ),
            (
                json!({"mcpServers": {"w": {"serverUrl": "https://a.example/mcp"}, "g": {"httpUrl": "https://b.example/mcp", "headers": {"A": "b"}}, "s": {"type": "sse", "url": "https://c.example"}}}),
                json!({"g": {"headers": {"A": "b"}, "url": "https://b.example/mcp"}, "s": {"type": "sse", "url": "https://c.example"}, "w": {"url": "https://a.example/mcp"}}),
            ),
            (
                json!({"inputs": [{"id": "api-key"}], "servers": {"v": {"type": "http", "url": "https://a.example", "headers": {"Authorization": "Bearer ${input:api-key} ${env:X}"}}}}),
                json!({"v": {"url": "https://a.example", "headers": {"Authorization": "Bearer ${API_KEY} ${X}"}}}),
            ),
            (
                json!({"context_servers": {"z": {"command": {"path": "zed", "args": ["a"], "env": {"B": "c"}}}, "y": {"command": "y", "args": []}}}),
                json!({"y": {"command": "y", "args": []}, "z": {"command": "zed", "args": ["a"], "env": {"B": "c"}}}),
            ),
            (
                json!({"mcp": {"o": {"type": "local", "command": ["npx", "-y", "o"], "environment": {"A": "b"}}, "off": {"type": "remote", "url": "https://x", "enabled": false}}}),
                json!({"o": {"command": "npx", "args": ["-y", "o"], "env": {"A": "b"}}}),
            ),
        ] {
            let found = imported(&file).unwrap();
            assert_eq!(json!(found), expected, "{file}");
        }
        assert!(imported(&json!({"model": "x"})).is_err());
        assert!(imported(&json!([])).is_err());
    }

    #[test]
    fn servers_of_the_registry_become_command_lines() {
        let package = |more: Value| {
            let mut package = json!({"registryType": "npm", "identifier": "@a/b", "version": "1.2.3", "transport": {"type": "stdio"}});
            package
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({"name": "io.github.a/b", "packages": [package]})
        };
        for (file, expected) in [
            (
                package(json!({})),
                json!({"command": "npx", "args": ["-y", "@a/b@1.2.3"]}),
            ),
            (
                json!({"server": package(json!({"registryType": "pypi", "identifier": "b"}))}),
                json!({"command": "uvx", "args": ["b@1.2.3"]}),
            ),
            (
                package(
                    json!({"registryType": "oci", "identifier": "docker.io/a/b:1", "version": "", "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true}]}),
                ),
                json!({"command": "docker", "args": ["run", "-i", "--rm", "-e", "KEY", "docker.io/a/b:1"], "env": {"KEY": "${KEY}"}}),
            ),
            (
                package(json!({
                    "runtimeArguments": [{"type": "named", "name": "--node-options", "value": "x"}],
                    "packageArguments": [
                        {"type": "positional", "valueHint": "target_dir"},
                        {"type": "named", "name": "--level", "default": "{level}"},
                        {"type": "named", "name": "--optional"},
                        {"type": "positional", "value": "serve"},
                    ],
                    "environmentVariables": [{"name": "A", "default": "b"}, {"name": "C"}],
                })),
                json!({"command": "npx", "args": ["-y", "--node-options", "x", "@a/b@1.2.3", "${TARGET_DIR}", "--level", "${LEVEL}", "serve"], "env": {"A": "${A:-b}"}}),
            ),
            (
                json!({"name": "a/b", "packages": [{"registryType": "mcpb", "identifier": "x"}], "remotes": [
                    {"type": "streamable-http", "url": "https://{tenant}.example.com/mcp", "headers": [{"name": "X-Key", "value": "Bearer {api_key}", "isRequired": true}]}]}),
                json!({"type": "http", "url": "https://${TENANT}.example.com/mcp", "headers": {"X-Key": "Bearer ${API_KEY}"}}),
            ),
        ] {
            let found = imported(&file).unwrap();
            assert_eq!(json!(found), json!({"b": expected}), "{file}");
        }
        let nothing =
            json!({"name": "a/b", "packages": [{"registryType": "mcpb", "identifier": "x"}]});
        assert!(imported(&nothing).unwrap_err().contains("no package"));
    }
}
