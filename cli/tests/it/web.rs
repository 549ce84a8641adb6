//! Web access by the program itself, to a loopback server.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::World;

/// Starts a server with one page at every path, and returns its address.
fn site() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // Ends with the test process.
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .for_each(drop);
            let body = "<html><body><h1>The page</h1><p>It has words.</p></body></html>";
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    format!("http://{address}/page")
}

const OPEN: &str = r#"{"web": {"privateHosts": ["127.0.0.1"]}}"#;
const OPEN_ALONE: &str = r#"{"web": {"privateHosts": ["127.0.0.1"], "reader": "none"}}"#;

/// No permission questions and no sandbox.
const FREE: &[&str] = &["--dangerously-skip-permissions", "--no-sandbox"];

/// The model fetches a page, by either tool name; a loopback address must be allowed first.
#[test]
fn a_page_is_read_where_the_user_has_named_its_host() {
    let url = site();
    for (settings, options, tool, told) in [
        (OPEN_ALONE, FREE, "web_fetch", "# The page"),
        ("{}", FREE, "web_fetch", "no public address"),
        (
            OPEN_ALONE,
            &["-p", "--allowed-tools", "WebFetch(domain:127.0.0.1)"],
            "WebFetch",
            "# The page",
        ),
        (
            OPEN_ALONE,
            &["-p", "--allowed-tools", "WebFetch(domain:example.com)"],
            "WebFetch",
            "denied",
        ),
        (
            OPEN_ALONE,
            &[
                "--dangerously-skip-permissions",
                "--no-sandbox",
                "--disallowed-tools",
                "WebFetch(domain:127.*)",
            ],
            "web_fetch",
            "denied by the rule",
        ),
    ] {
        let world = World::new();
        let call = uses(tool, json!({"url": url, "prompt": "What does it say?"}));
        let server = Server::new([call, says("Done.")]);
        let arguments =
            options
                .iter()
                .copied()
                .chain(["-m", "sonnet", "--settings", settings, "--", "go"]);
        world.asking(&server, arguments).run().expect(0);
        let request = &server.requests()[1].body;
        let result = last_result(request);
        assert!(result.contains(told), "{options:?} {settings}: {result}");
    }
}

/// The reader model gets a request of its own, without tools; its answer becomes the tool result.
#[test]
fn a_reader_answers_from_the_page_in_the_models_place() {
    let url = site();
    let world = World::new();
    let call = uses(
        "web_fetch",
        json!({"url": url, "prompt": "What does it say?"}),
    );
    let server = Server::new([call, says("That it has words."), says("Done.")]);
    let arguments = FREE
        .iter()
        .copied()
        .chain(["-m", "sonnet", "--settings", OPEN, "go"]);
    world.asking(&server, arguments).run().expect(0);
    let requests = server.requests();
    assert!(requests[1].body["tools"].is_null(), "{}", requests[1].body);
    assert!(requests[1].body.to_string().contains("# The page"));
    let result = last_result(&requests[2].body);
    assert!(
        result.contains("That it has words.") && !result.contains("# The page"),
        "{result}"
    );
}

/// The search tool is offered only if the provider implements it.
#[test]
fn a_search_is_offered_where_somebody_makes_it() {
    for (settings, key, is_offered) in [
        (
            r#"{"web": {"search": "http://127.0.0.1:9/search"}}"#,
            None,
            true,
        ),
        (r#"{"web": {"search": "model"}}"#, None, true),
        (r#"{"web": {"search": "brave"}}"#, Some("k"), true),
        (r#"{"web": {"search": "brave"}}"#, None, false),
        (r#"{"web": {"search": "none"}}"#, Some("k"), false),
        ("{}", Some("k"), true),
        // A custom base URL may be any server, which need not implement it.
        ("{}", None, false),
    ] {
        let world = World::new();
        let server = Server::new([says("Done.")]);
        let mut run = world.asking(
            &server,
            ["-n", "-m", "sonnet", "--settings", settings, "go"],
        );
        if let Some(key) = key {
            run = run.env("BRAVE_SEARCH_API_KEY", key);
        }
        let ended = run.run().expect(0);
        let request = server.requests()[0].body.to_string();
        assert_eq!(
            request.contains("\"web_search\""),
            is_offered,
            "{settings} {key:?} {}",
            ended.stderr
        );
    }
}

/// An untrusted project cannot allow hosts.
#[test]
fn a_project_cannot_name_hosts_of_its_own() {
    let world = World::new();
    world.write(".git/HEAD", "");
    world.write(".ah/settings.json", OPEN);
    let call = uses(
        "web_fetch",
        json!({"url": site(), "prompt": "What does it say?"}),
    );
    let server = Server::new([call, says("Done.")]);
    let ended = world
        .asking(&server, FREE.iter().copied().chain(["-m", "sonnet", "go"]))
        .run()
        .expect(0);
    assert!(ended.stderr.contains("(web)"), "{}", ended.stderr);
    let result = last_result(&server.requests()[1].body);
    assert!(result.contains("no public address"), "{result}");
}

fn last_result(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    let content = &messages.last().unwrap()["content"][0];
    assert_eq!(content["type"], "tool_result", "{content}");
    content["content"].to_string()
}
