//! Which model is asked: aliases, variables, lists of servers, names that no list has, and the model of a session.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::support::binary::{Ah, World};

/// A server that answers every request with this document; it runs until the test ends.
pub fn server_of(document: &'static str) -> String {
    answering("200 OK", document)
}

/// The same with a status.
pub fn answering(status: &'static str, document: &'static str) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(&stream).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let length = document.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{document}"
            );
        }
    });
    url
}

/// The binary without the names that other tests give to models.
fn plain<'a>(world: &World, server: &Server, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
    let ah = world.asking(server, arguments);
    let unset = [
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
    ];
    unset.into_iter().fold(ah, |ah, name| ah.env(name, ""))
}

/// The models that a server was asked for.
fn asked(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let model = |body: &serde_json::Value| body["model"].as_str().unwrap().to_owned();
    requests
        .iter()
        .map(|request| model(&request.body))
        .collect()
}

#[test]
fn aliases_stand_for_the_newest_models_unless_a_variable_says_otherwise() {
    let world = World::new();
    let server = Server::new(["a", "b", "c", "d", "e"].map(says));
    for (arguments, variable) in [
        (&["-n", "go"][..], None),
        (&["-n", "-m", "sonnet", "go"], None),
        (&["-n", "-m", "fable", "go"], None),
        (
            &["-n", "go"],
            Some(("ANTHROPIC_DEFAULT_OPUS_MODEL", "glm-5")),
        ),
        (&["-n", "go"], Some(("ANTHROPIC_MODEL", "glm-6"))),
    ] {
        let ah = plain(&world, &server, arguments.iter().copied());
        let ah = variable
            .into_iter()
            .fold(ah, |ah, (name, value)| ah.env(name, value));
        let ended = ah.run().expect(0);
        assert_eq!(
            ended.stderr.contains("no server lists the model"),
            variable.is_some(),
            "{}",
            ended.stderr
        );
    }
    assert_eq!(
        asked(&server),
        [
            "claude-opus-5-5",
            "claude-sonnet-5-5",
            "claude-fable-5-2",
            "glm-5",
            "glm-6"
        ]
    );
}

#[test]
fn the_doctor_says_what_the_model_is_and_who_said_so() {
    let world = World::new();
    let server = Server::new([says("unasked")]);
    for (variables, expected) in [
        (&[][..], "opus (built in), which is claude-opus-5-5"),
        (
            &[("ANTHROPIC_DEFAULT_OPUS_MODEL", "glm-5")],
            "opus (built in), which is glm-5 (ANTHROPIC_DEFAULT_OPUS_MODEL)",
        ),
        (&[("ANTHROPIC_MODEL", "glm-6")], "glm-6 (ANTHROPIC_MODEL)"),
    ] {
        let ah = plain(&world, &server, ["doctor"]);
        let ah = variables
            .iter()
            .fold(ah, |ah, (name, value)| ah.env(name, value));
        let page = ah.run().stdout;
        let line = page.lines().find(|line| line.contains(" model "));
        assert_eq!(
            line,
            Some(format!("ok       model        {expected}").as_str())
        );
    }
}

/// The list of a LiteLLM proxy: its window is that of the model, and the model is known by its name alone.
#[test]
fn the_lists_of_servers_are_kept_in_the_users_folder() {
    let world = World::new();
    let list = r#"{"data": [{"model_name": "team-smart", "model_info": {"max_input_tokens": 90000,
        "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}}]}"#;
    let url = server_of(list);
    let refresh = |url: &str| {
        let ah = world.ah(["models", "--refresh"]);
        ah.env("LITELLM_BASE_URL", url)
            .env("LITELLM_API_KEY", "k")
            .run()
    };
    let path = world.home().join(".ah/models/litellm.json");
    let ended = refresh(&url).expect(0);
    assert_eq!(
        ended.stdout,
        format!("litellm: 1 models, {}\n", path.display())
    );
    let kept: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        kept["models"]["litellm/team-smart"]["context_window"],
        90_000
    );
    assert_eq!(kept["source"], format!("{url}/v1/model/info"));
    let listed = world.ah(["models"]).run().expect(0).stdout;
    let line = listed
        .lines()
        .find(|line| line.contains("team-smart"))
        .unwrap();
    let words: Vec<_> = line.split_whitespace().take(5).collect();
    assert_eq!(
        words,
        ["litellm/team-smart", "90.0k", "16.3k", "1.00", "2.00"]
    );
    // A list that cannot be had leaves the old one.
    let ended = refresh("http://127.0.0.1:1").expect(1);
    assert!(
        ended
            .stderr
            .contains("litellm: cannot connect to 127.0.0.1:1"),
        "{}",
        ended.stderr
    );
    assert!(path.exists());
    let ended = world.ah(["models", "--refresh"]).run().expect(1);
    assert!(
        ended.stderr.contains("no model server is set up"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_session_continues_with_its_model_until_another_is_named() {
    let world = World::new();
    let server = Server::new(["a", "b", "c", "d", "e", "f", "g"].map(says));
    fs::create_dir_all(world.home().join(".ah")).unwrap();
    let settings = world.home().join(".ah/settings.json");
    fs::write(&settings, r#"{"model": "claude-of-settings"}"#).unwrap();
    let told = "the session continues with claude-named; change it with `--model`";
    for (arguments, variable, tells) in [
        (&["-n", "-m", "claude-named", "begin"][..], "", false),
        (&["go on"], "", true),
        (&["-p", "-c", "go on"], "", true),
        (&["go on"], "claude-of-variable", false),
        (&["-m", "claude-named", "go on"], "", false),
        (&["-n", "begin"], "", false),
        (&["go on"], "", false),
    ] {
        let ah = plain(&world, &server, arguments.iter().copied());
        let ended = ah.env("ANTHROPIC_MODEL", variable).run().expect(0);
        assert_eq!(
            ended.stderr.contains(told),
            tells,
            "{arguments:?}: {}",
            ended.stderr
        );
    }
    assert_eq!(
        asked(&server),
        [
            "claude-named",
            "claude-named",
            "claude-named",
            "claude-of-variable",
            "claude-named",
            "claude-of-settings",
            "claude-of-settings",
        ]
    );
}

/// A gateway may say what an answer costs; where one does not, a run with a cost limit ends after it.
#[test]
fn a_cost_limit_without_a_price_needs_a_server_that_says_the_cost() {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let arguments = |model| ["-n", "-m", model, "--max-budget-usd", "1", "go"];
    let ended = plain(&world, &server, arguments("team-model"))
        .run()
        .expect(1);
    assert!(
        ended.stderr.contains("the price of team-model is unknown"),
        "{}",
        ended.stderr
    );
    let ended = plain(&world, &server, arguments("litellm/team-model"));
    let ended = ended
        .env("LITELLM_BASE_URL", server.url())
        .env("LITELLM_API_KEY", "key-of-a-test")
        .run()
        .expect(1);
    let told = "the cost of the answer is not known, so the cost limit cannot be enforced";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert_eq!(asked(&server), ["team-model"]);
}

#[test]
fn settings_of_the_cache_and_of_patience_reach_the_server() {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let settings = r#"{"cacheTtl": "1h", "firstEventTimeout": 1}"#;
    world
        .asking(&server, ["-n", "--settings", settings, "go"])
        .run()
        .expect(0);
    let body = server.requests()[0].body.to_string();
    let count = |part: &str| body.matches(part).count();
    let marks = count(r#""cache_control":{"#);
    assert_eq!((marks, count(r#""ttl":"1h""#)), (4, 4), "{body}");
    // A server that accepts the connection and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let patience = r#"{"firstEventTimeout": 1, "providers": {"gw": {"baseUrl": "URL"}}}"#;
    let settings = patience.replace("URL", &url);
    let ah = world.ah(["-p", "-m", "gw/m", "--settings", &settings, "go"]);
    let ended = ah.env("CLAUDE_CODE_MAX_RETRIES", "0").run().expect(1);
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert!(told.contains("no data from the server for 1 s"), "{told}");
}

/// Editors ask the program for its key before they start a session.
#[test]
fn the_state_of_the_key_is_told_to_editors() {
    let world = World::new();
    let status = |key: &str| {
        world
            .as_typed(["auth", "status", "--json"])
            .env("ANTHROPIC_API_KEY", key)
            .run()
    };
    let with = status("sk-test");
    assert_eq!(with.code, Some(0), "{}", with.stderr);
    insta::assert_snapshot!(with.stdout.trim(), @r#"
{
  "loggedIn": true,
  "authMethod": "api_key",
  "apiProvider": "firstParty",
  "analyticsDisabled": true,
  "apiKeySource": "ANTHROPIC_API_KEY"
}
"#);
    let without = status("");
    assert_eq!(without.code, Some(1));
    insta::assert_snapshot!(without.stdout.trim(), @r#"
{
  "loggedIn": false,
  "authMethod": "none",
  "apiProvider": "firstParty",
  "analyticsDisabled": true
}
"#);
    let text = world
        .as_typed(["auth", "status", "--text"])
        .env("ANTHROPIC_API_KEY", "sk-test")
        .run();
    assert!(
        text.stdout.ends_with(": ANTHROPIC_API_KEY\n"),
        "{}",
        text.stdout
    );
}

const TWO: &str = r#"{"data": [{"id": "claude-team-large"}, {"id": "claude-team-small"}]}"#;
const REFUSAL: &str = r#"{"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}"#;

#[test]
fn the_doctor_says_what_the_server_has_answered() {
    let world = World::new();
    let cases = [
        (
            server_of(TWO),
            "claude-team-large",
            "ok       server       anthropic: key valid, model available (2 models)",
            "",
        ),
        (
            server_of(TWO),
            "claude-team-larg",
            "note     server       anthropic answered: the key works, but it does not list the model",
            "did you mean `anthropic/claude-team-large`",
        ),
        (
            answering("401 Unauthorized", REFUSAL),
            "sonnet",
            "problem  server       anthropic refuses the key: ",
            "invalid x-api-key",
        ),
        (
            "http://127.0.0.1:1".to_owned(),
            "sonnet",
            "problem  server       anthropic cannot be reached: ",
            "cannot connect to 127.0.0.1:1",
        ),
        (
            server_of("<html>"),
            "sonnet",
            "note     server       anthropic answered, but without a list of models",
            "",
        ),
    ];
    for (url, model, line, also) in &cases {
        let ask = |arguments: &[&str]| {
            let ah = world.ah(["-m", model].iter().chain(arguments).copied());
            let ah = ah.env("ANTHROPIC_BASE_URL", url);
            ah.env("ANTHROPIC_API_KEY", "key-of-a-test").run().stdout
        };
        let page = ask(&["doctor"]);
        assert!(page.contains(line) && page.contains(also), "{page}");
        let page = ask(&["doctor", "--offline"]);
        assert!(!page.contains(" server "), "{page}");
    }
    // Without a key there is nothing to ask.
    let page = world.ah(["-m", "sonnet", "doctor"]).run().expect(1).stdout;
    assert!(!page.contains(" server "), "{page}");
}

#[test]
fn a_newer_version_is_asked_for_on_request_only() {
    let world = World::new();
    let ask = |url: &str, arguments: &[&str]| {
        let all = ["-m", "script:demo", "doctor"];
        let ah = world.ah(all.iter().chain(arguments).copied());
        ah.env("GITHUB_API_URL", url).run().stdout
    };
    for (status, document, expected) in [
        (
            "200 OK",
            r#"{"tag_name": "v99.1.0"}"#,
            "note     update       version 99.1.0 is available; this is ",
        ),
        (
            "200 OK",
            r#"{"tag_name": "v0.0.1"}"#,
            "ok       update       up to date; the newest is 0.0.1",
        ),
        (
            "404 Not Found",
            "{}",
            "ok       update       there is no release yet",
        ),
        (
            "200 OK",
            r#"{"tag_name": "\u001b[2J"}"#,
            "problem  update       could not check for updates: ",
        ),
    ] {
        let page = ask(&answering(status, document), &["--updates"]);
        assert!(page.contains(expected), "{page}");
        assert!(!page.contains('\x1b'), "{page}");
        let is_hinted = page.contains("hint: get it from https://");
        assert_eq!(is_hinted, expected.starts_with("note"), "{page}");
    }
    let page = ask("http://127.0.0.1:1", &["--updates"]);
    assert!(page.contains("problem  update "), "{page}");
    // Without the option nobody is asked.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let page = ask(&url, &[]);
    assert!(!page.contains(" update "), "{page}");
    assert!(listener.accept().is_err());
}

#[test]
fn a_name_that_is_no_model_gets_the_nearest() {
    let world = World::new();
    for (name, expected) in [
        ("sonet", "did you mean `sonnet`"),
        ("clade-opus-5", "`claude-opus-5`"),
        ("gpt-55", "`gpt-5.5`"),
        // The vendor of a known model is known.
        ("gpt-5", "OPENAI_API_KEY"),
        ("nothing-like-it", "hint: known are `fable`"),
    ] {
        let ended = world.ah(["-p", "-m", name, "go"]).run();
        assert_ne!(ended.code, Some(0));
        assert!(ended.stderr.contains(expected), "{name}: {}", ended.stderr);
    }
}
