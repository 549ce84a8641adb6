//! Servers that their command installs from a package registry, in the sandbox: `npx`, `uvx` and the like.
//!
//! A stand-in for `npx` asks a registry on the loopback interface for a package, through the proxy, and keeps it in its
//! home as `npx` does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::{greet, results};
use crate::confined::{greeter, knocking};
use crate::sandbox::is_missing;
use crate::support::binary::{Ah, World};

/// A world in which `npx` is the stand-in, and the registry's address.
fn world() -> (World, String) {
    let (world, registry) = (World::new(), greeter());
    let install = format!(
        r#"
if [ ! -f "$HOME/.npm/package" ]; then
    exec 3<>/dev/tcp/127.0.0.1/3128
    printf 'GET http://{registry}/ HTTP/1.1\r\nHost: {registry}\r\nConnection: close\r\n\r\n' >&3
    case $(cat <&3) in
    *greeted) mkdir -p "$HOME/.npm"; echo installed >"$HOME/.npm/package"; echo x >>downloads ;;
    *) printf 'npm error 403\nError: no\n    at install (npm.js:1:1)\n' >&2; exit 1 ;;
    esac
fi
echo run >>"$HOME/.npm/runs"
"#
    );
    let script = McpScript::new().start(&install).tool("greet").on_call(
        "greet",
        r#"text "$(grep -c run "$HOME/.npm/runs") runs, $*""#,
    );
    let npx = world.home().join("bin/npx");
    fs::create_dir_all(npx.parent().unwrap()).unwrap();
    fs::write(&npx, script.as_program()).unwrap();
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).unwrap();
    (world, registry)
}

/// The entry of a server that `npx` installs from `registry`.
fn servers(registry: &str) -> Value {
    let url = format!("http://{registry}/");
    let entry =
        json!({"command": "npx", "args": ["-y", "greeter"], "env": {"npm_config_registry": url}});
    json!({"mcpServers": {"s": entry}})
}

fn with_path(world: &World, ah: Ah) -> Ah {
    let path = std::env::var("PATH").unwrap_or_default();
    ah.env("PATH", format!("{}/bin:{path}", world.home().display()))
}

/// The folders that keep the homes of servers.
fn homes(world: &World) -> Vec<PathBuf> {
    let folders = fs::read_dir(world.home().join(".ah/servers"));
    let folders = folders.into_iter().flatten().flatten();
    folders.map(|folder| folder.path().join("home")).collect()
}

const SANDBOXED: [&str; 6] = [
    "--sandbox",
    "-n",
    "-m",
    "sonnet",
    "--allowed-tools",
    "mcp__s",
];

#[test]
fn a_server_of_the_users_is_installed_once_and_keeps_its_home() {
    if is_missing() {
        return;
    }
    let (world, registry) = world();
    let settings = world.home().join(".ah/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(settings, servers(&registry).to_string()).unwrap();
    for expected in ["1 runs, -y greeter", "2 runs, -y greeter"] {
        let knock = uses("bash", json!({"command": knocking(&registry)}));
        let server = Server::new([knock, greet(), says("Done.")]);
        let arguments = [&SANDBOXED[..], &["--", "go"]].concat();
        let asking = world.asking_as_typed(&server, arguments);
        with_path(&world, asking).run().expect(0);
        let results = results(&server);
        // Its hosts are its own: commands of the same run do not reach them.
        assert!(results[0].0.contains("is not allowed"), "{results:?}");
        assert_eq!(results[1], (expected.to_owned(), false));
    }
    assert_eq!(world.text("downloads"), "x\n");
    assert_eq!(homes(&world), [world.home().join(".ah/servers/s/home")]);
    let mode = fs::metadata(&homes(&world)[0]).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    assert!(!world.home().join(".npm").exists());
}

#[test]
fn a_project_s_server_is_asked_about_once_and_again_when_it_changes() {
    if is_missing() {
        return;
    }
    let (world, registry) = world();
    world.write(".mcp.json", servers(&registry).to_string());
    let run = |typed: Option<&str>| {
        let server = Server::new([uses("mcp_servers", json!({})), greet(), says("Done.")]);
        let arguments = [&SANDBOXED[..], &["--trust", "--", "go"]].concat();
        let asking = with_path(&world, world.asking_as_typed(&server, arguments));
        let asking = match typed {
            Some(typed) => asking.at_terminal().stdin(typed),
            None => asking,
        };
        let ended = asking.run().expect(0);
        let is_asked = ended.stderr.contains("May it connect to them?");
        let mut results = results(&server);
        let (text, is_error) = results.pop().unwrap();
        let text = if is_error {
            results.pop().unwrap().0
        } else {
            text
        };
        (text, !is_error, is_asked, ended.stderr)
    };
    // Nobody can be asked: what was refused, and what would allow it, instead of the end of a stack trace.
    let (text, is_there, is_asked, stderr) = run(None);
    assert!(!is_there && !is_asked, "{text}");
    let warning = format!(
        "`s` of the project may not connect to its hosts: `ah mcp test s` on a terminal asks and remembers the answer; or use --allow-host registry.npmjs.org:443 --allow-http {registry}"
    );
    assert_eq!(stderr.matches(&warning).count(), 1, "{stderr}");
    for part in [
        &format!("{registry} is not allowed; `--allow-http {registry}` would allow it"),
        "`ah mcp test s` on a terminal asks",
        "`sandbox.allowHosts` in your settings",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("npm"), "{text}");
    for (typed, expected) in [
        // Not now: asked again.
        (Some("\n"), (false, true)),
        (Some("n\n"), (false, true)),
        (Some(""), (false, false)),
    ] {
        let (text, is_there, is_asked, stderr) = run(typed);
        assert_eq!((is_there, is_asked), expected, "{typed:?}: {text} {stderr}");
        let is_open = typed == Some("\n");
        assert_eq!(stderr.contains("may not connect"), is_open, "{stderr}");
    }
    // Another definition is another question.
    let mut changed = servers(&registry);
    changed["mcpServers"]["s"]["args"] = json!(["-y", "other"]);
    world.write(".mcp.json", changed.to_string());
    let (text, is_there, is_asked, stderr) = run(Some("y\n"));
    assert!(is_there && is_asked, "{text} {stderr}");
    for part in ["`s` of `", "npx -y other", &registry] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let (text, is_there, is_asked, _) = run(None);
    assert!(is_there && !is_asked, "{text}");
    assert_eq!(text, "2 runs, -y other");
    world.write(".mcp.json", servers(&registry).to_string());
    assert!(run(Some("\n")).2);
}

#[test]
fn what_a_server_reaches_is_listed() {
    let (world, _) = world();
    let files = json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files"]},
        "remote": {"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.example.com/sse"], "allowHosts": ["api.example.com:443"]},
        "plain": {"command": "node", "args": ["server.js"]},
        "free": {"command": "uvx", "args": ["tool"]},
        "http": {"url": "https://mcp.example.com/mcp"},
    }});
    world.write(".mcp.json", files.to_string());
    let own = json!({
        "mcpServers": {"own": {"command": "uvx", "args": ["own"]}},
        "sandbox": {"unconfinedServers": ["free"]},
    });
    let settings = world.home().join(".ah/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(settings, own.to_string()).unwrap();
    let listed = world.as_typed(["--trust", "mcp", "list", "--json"]).run();
    let listed: Vec<Value> = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    let seen: Vec<_> = listed
        .iter()
        .map(|server| {
            let text = |key: &str| server[key].as_str().unwrap().to_owned();
            let home = text("home").replace(&world.home().display().to_string(), "~");
            let (home, _) = home.rsplit_once('@').unwrap_or((&home, ""));
            format!("{}: {} | {home}", text("name"), text("network"))
        })
        .collect();
    insta::assert_snapshot!(seen.join("\n"), @r"
    files: not allowed: registry.npmjs.org:443 | ~/.ah/servers/files
    free: not sandboxed | yours
    http: - | -
    own: pypi.org:443, files.pythonhosted.org:443 | ~/.ah/servers/own/home
    plain: none | ~/.ah/servers/plain
    remote: not allowed: registry.npmjs.org:443, api.example.com:443, mcp.example.com:443 | ~/.ah/servers/remote
    ");
    let shown = world.as_typed(["--trust", "mcp", "list"]).run().expect(0);
    assert!(
        shown
            .stdout
            .contains("pypi.org:443, files.pythonhosted.org:443")
    );
    let shown = world.as_typed(["--trust", "mcp", "get", "own"]).run();
    let shown = shown.expect(0).stdout;
    assert!(
        shown.contains("network ") && shown.contains("home "),
        "{shown}"
    );
}

/// A server that a project's subagent brings needs the user's answer like one of `.mcp.json`; one of the user's own
/// definitions does not.
#[test]
fn a_server_of_a_definition_is_asked_about_like_others() {
    if is_missing() {
        return;
    }
    let (world, registry) = world();
    let entry = &servers(&registry)["mcpServers"]["s"];
    let front = json!({"name": "guest", "description": "d", "mcpServers": [{"s": entry}]});
    let definition = format!("---\n{front}\n---\nYou greet.\n");
    let place = world.write(".ah/agents/guest.md", &definition);
    let run = |typed: Option<&str>| {
        let input = json!({"description": "d", "prompt": "Greet.", "subagent_type": "guest"});
        let turns = [
            uses("agent", input),
            greet(),
            says("It was said."),
            says("Done."),
        ];
        let server = Server::new(turns);
        let arguments = [&SANDBOXED[..], &["--trust", "--", "go"]].concat();
        let asking = with_path(&world, world.asking_as_typed(&server, arguments));
        let asking = match typed {
            Some(typed) => asking.at_terminal().stdin(typed),
            None => asking,
        };
        let ended = asking.run().expect(0);
        let told = server.requests()[2].body["messages"].to_string();
        let is_asked = ended.stderr.contains("The MCP server `guest/s` of");
        (told.contains("runs, -y greeter"), is_asked, ended.stderr)
    };
    let (is_there, is_asked, stderr) = run(None);
    assert!(!is_there && !is_asked, "{stderr}");
    let warning = "`guest/s` of the project may not connect to its hosts: `ah` on a terminal asks";
    assert_eq!(stderr.matches(warning).count(), 1, "{stderr}");
    let (is_there, is_asked, stderr) = run(Some("n\n"));
    assert!(!is_there && is_asked, "{stderr}");
    let (is_there, is_asked, stderr) = run(Some(""));
    assert!(!is_there && !is_asked, "{stderr}");
    fs::remove_file(&place).unwrap();
    let own = world.home().join(".ah/agents");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("guest.md"), &definition).unwrap();
    let (is_there, is_asked, stderr) = run(None);
    assert!(is_there && !is_asked, "{stderr}");
}
