//! What a session has said stays as it was said: each request continues an earlier one, whatever changes around it, and
//! a server that binds thinking to what stands before it never refuses one.

use ah_conversation::Usage;
use ah_provider::script::failure::Failure;
use ah_provider::script::format::{Block, Turn};
use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, thinks, uses};
use ah_testkit::server::Server;
use ah_testkit::server::messages::binding::{continues, stretch};
use serde_json::{Value, json};

use crate::support::binary::World;

/// A model that binds its thinking, and one of another kind.
const BINDING: &str = "claude-opus-5-5";
const OLDER: &str = "claude-opus-4-6";

fn answer(text: &str) -> Turn {
    thinks(&format!("I think of {text}"), text)
}

fn looks(text: &str) -> Turn {
    Turn {
        thinking: Some("I shall look.".into()),
        text: Some(text.into()),
        ..uses("bash", json!({"command": "true"}))
    }
}

/// The files of a repository at a commit; git itself is not needed.
fn commit(world: &World, digit: char) {
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    world.write(
        ".git/refs/heads/main",
        format!("{}\n", digit.to_string().repeat(40)),
    );
}

fn bodies(server: &Server) -> Vec<Value> {
    server
        .requests()
        .into_iter()
        .map(|request| request.body)
        .collect()
}

/// Returns the text of everything that a request says after the one before, with the roles.
fn news(server: &Server, at: usize) -> String {
    let bodies = bodies(server);
    stretch(&bodies[at], &bodies[at - 1])
}

/// Fails unless each request continues an earlier one, and none was refused.
fn assert_append_only(server: &Server) {
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies = bodies(server);
    for (at, body) in bodies.iter().enumerate().skip(1) {
        let is_continued = bodies[..at].iter().any(|earlier| continues(body, earlier));
        assert!(
            is_continued,
            "request {at} continues none before it:\n{body:#}"
        );
    }
}

/// Runs `prompts` one after the other, each in a process of its own, with `between` before each but the first.
fn talk(world: &World, server: &Server, model: &str, prompts: &[&[&str]], between: impl Fn(usize)) {
    for (at, prompt) in prompts.iter().enumerate() {
        if at > 0 {
            between(at);
        }
        let arguments = ["-m", model].into_iter().chain(prompt.iter().copied());
        world.asking(server, arguments).run().expect(0);
    }
}

#[test]
fn a_commit_between_prompts_is_told_behind_what_was_said() {
    for model in [BINDING, OLDER] {
        for prompts in [
            [&["one"][..], &["two"], &["third"]],
            [&["-p", "one"], &["-p", "-c", "two"], &["-p", "-c", "third"]],
        ] {
            let world = World::new();
            commit(&world, 'a');
            let server = Server::new([looks("A"), answer("B"), answer("C"), answer("D")]);
            talk(&world, &server, model, &prompts, |at| {
                commit(&world, if at == 1 { 'b' } else { 'c' });
            });
            assert_append_only(&server);
            let told = news(&server, 2);
            assert!(told.contains("Git commit: bbbbbbbbb"), "{told}");
            assert!(told.contains("user: two"), "{told}");
            // What others can write, such as the name of a branch, never comes from the system.
            assert!(!told.contains("system:"), "{told}");
        }
    }
}

#[test]
fn changed_instructions_are_told_without_the_authority_of_the_system() {
    for model in [BINDING, OLDER] {
        let world = World::new();
        world.write("AGENTS.md", "Use tabs.");
        let server = Server::new([answer("A"), answer("B"), answer("C")]);
        let prompts = [&["one"][..], &["two"], &["third"]];
        talk(&world, &server, model, &prompts, |at| match at {
            1 => {
                world.write("AGENTS.md", "Use spaces.");
            }
            _ => std::fs::remove_file(world.file("AGENTS.md")).unwrap(),
        });
        assert_append_only(&server);
        let [changed, gone] = [news(&server, 1), news(&server, 2)];
        assert!(changed.contains("Use spaces."), "{changed}");
        assert!(gone.contains("no longer applies"), "{gone}");
        assert!(!format!("{changed}{gone}").contains("system:"), "{changed}");
    }
}

/// The server is there in the second process only. One that becomes ready during a run takes the same path; waiting for it
/// here would take as long as a first request waits.
#[test]
fn tools_of_a_later_server_are_added_at_the_end() {
    let world = World::new();
    let script = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello");
    let config = json!({"mcpServers": {"s": script.config()}}).to_string();
    let greet = |thought: &str| Turn {
        thinking: Some(thought.into()),
        ..uses("mcp__s__greet", json!({}))
    };
    let server = Server::new([
        answer("A"),
        greet("I greet."),
        answer("B"),
        greet("I greet again."),
        answer("C"),
    ]);
    let with = ["--mcp-config", &config, "two"];
    let prompts = [&["one"][..], &with, &["third"]];
    talk(&world, &server, BINDING, &prompts, |_| {});
    assert_append_only(&server);
    let bodies = bodies(&server);
    let last = bodies.last().unwrap().to_string();
    assert!(last.contains("tool_addition"), "{last}");
    assert!(last.contains("hello"), "{last}");
    // The server is not there in the third process, so its tool answers that it is gone.
    assert!(last.contains("there is no tool `mcp__s__greet`"), "{last}");
}

/// A server that comes within a run is told of at the end as well; the model had waited for it.
#[test]
fn tools_of_a_server_that_comes_during_a_run_are_added_at_the_end() {
    for (model, manner, wait) in [
        (BINDING, &[][..], "mcp_servers"),
        (BINDING, &["-p"], "McpServers"),
        (OLDER, &[], "mcp_servers"),
    ] {
        let world = World::new();
        let script = McpScript::new()
            .start("until [ -e go ]; do sleep 0.02; done;")
            .tool("greet")
            .on_call("greet", "text hello");
        let config = json!({"mcpServers": {"s": script.config()}}).to_string();
        let then = |name: &str, input: Value| Turn {
            thinking: Some("I wait.".into()),
            ..uses(name, input)
        };
        let shell = if manner.is_empty() { "bash" } else { "Bash" };
        let server = Server::new([
            then(shell, json!({"command": "touch go"})),
            then(wait, json!({})),
            then("mcp__s__greet", json!({})),
            then(wait, json!({})),
            answer("Done."),
        ]);
        let common = [
            "-m",
            model,
            "--mcp-config",
            &config,
            "--permission-mode",
            "bypassPermissions",
        ];
        let arguments = [manner, &common[..], &["begin"]].concat();
        world.asking(&server, arguments).run().expect(0);
        assert_eq!(server.refusals(), Vec::<String>::new());
        let bodies = bodies(&server);
        let names = bodies[0]["tools"].to_string();
        assert!(names.contains(wait) && !names.contains("greet"), "{names}");
        assert!(bodies[3].to_string().contains("hello"), "{:#}", bodies[3]);
        assert!(
            !bodies[4].to_string().contains("there is no tool"),
            "{:#}",
            bodies[4]
        );
        let usage = world.ah(["usage"]).run().expect(0).stdout;
        assert_eq!(
            usage.contains("there are new tools"),
            model == OLDER,
            "{usage}"
        );
        if model == BINDING {
            assert_append_only(&server);
            assert!(bodies[2].to_string().contains("tool_addition"));
        }
    }
}

#[test]
fn a_model_without_additions_gets_new_tools_at_the_beginning_and_the_break_is_declared() {
    let world = World::new();
    let script = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello");
    let config = json!({"mcpServers": {"s": script.config()}}).to_string();
    let server = Server::new([answer("A"), answer("B")]);
    let with = ["-p", "-c", "--mcp-config", &config, "two"];
    talk(&world, &server, OLDER, &[&["-p", "one"], &with], |_| {});
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies = bodies(&server);
    assert!(bodies[1]["tools"].to_string().contains("mcp__s__greet"));
    assert_eq!(bodies[0]["system"], bodies[1]["system"]);
    let usage = world.ah(["usage"]).run().expect(0).stdout;
    assert!(usage.contains("there are new tools"), "{usage}");
}

#[test]
fn a_fork_goes_on_with_what_its_branch_began_with() {
    let world = World::new();
    commit(&world, 'a');
    let server = Server::new([answer("A"), answer("B"), answer("C"), answer("D")]);
    let prompts = [&["one"][..], &["two"], &["@1", "other two"], &["third"]];
    talk(&world, &server, BINDING, &prompts, |at| {
        commit(&world, ['b', 'c', 'd'][at - 1]);
    });
    assert_append_only(&server);
    let bodies = bodies(&server);
    assert_eq!(bodies[0]["system"], bodies[2]["system"]);
    assert!(bodies[2].to_string().contains("Git commit: ccccccccc"));
    assert!(!bodies[2].to_string().contains("Git commit: bbbbbbbbb"));
}

#[test]
fn the_mode_is_told_by_the_system_where_the_model_takes_that() {
    for (model, role) in [(BINDING, "system: "), (OLDER, "user: ")] {
        let world = World::new();
        let server = Server::new([answer("A"), answer("B"), answer("C")]);
        let prompts = [
            &["-p", "one"][..],
            &["-p", "-c", "--permission-mode", "plan", "two"],
            &["-p", "-c", "--permission-mode", "plan", "third"],
        ];
        talk(&world, &server, model, &prompts, |_| {});
        assert_append_only(&server);
        let told = news(&server, 1);
        let expected = format!("{role}[UPDATE] The permission mode is now `plan`");
        assert!(told.contains(&expected), "{told}");
        assert!(!news(&server, 2).contains("[UPDATE]"));
    }
}

#[test]
fn another_system_prompt_by_option_is_a_declared_break() {
    let world = World::new();
    let server = Server::new([answer("A"), answer("B"), answer("C")]);
    let brief = ["-p", "-c", "--append-system-prompt", "Be brief.", "two"];
    talk(
        &world,
        &server,
        BINDING,
        &[&["-p", "one"], &brief, &["-p", "-c", "third"]],
        |_| {},
    );
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies = bodies(&server);
    assert!(!continues(&bodies[1], &bodies[0]));
    assert!(!bodies[1]["messages"].to_string().contains("I think of A"));
    // An option that is not given again stays in force.
    assert!(continues(&bodies[2], &bodies[1]));
    let usage = world.ah(["usage"]).run().expect(0).stdout;
    assert!(
        usage.contains("the options for the system prompt changed"),
        "{usage}"
    );
    let shown: Value =
        serde_json::from_str(&world.ah(["usage", "--json"]).run().expect(0).stdout).unwrap();
    assert_eq!(shown["calls"][1]["prefix_broken"], "options");
    assert_eq!(shown["calls"][2]["prefix_broken"], Value::Null);
}

/// Returns `turn` with so many tokens of input.
fn long(turn: Turn) -> Turn {
    Turn {
        usage: Some(Usage {
            input_tokens: 9_000,
            output_tokens: 10,
            ..Usage::default()
        }),
        ..turn
    }
}

#[test]
fn a_summary_is_asked_for_behind_what_was_said_and_keeps_no_thinking_from_before() {
    let world = World::new();
    let server = Server::new([
        looks("A"),
        long(answer("B")),
        answer("In short."),
        answer("C"),
        answer("D"),
    ]);
    let prompts = [
        &["one"][..],
        &["--compact-at", "9000", "two"],
        &["--compact-at", "9000", "third"],
    ];
    talk(&world, &server, BINDING, &prompts, |_| {});
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies = bodies(&server);
    let [summary, after, last] = &bodies[2..] else {
        panic!("{} requests", bodies.len())
    };
    assert!(continues(summary, &bodies[1]), "{summary:#}");
    assert!(news(&server, 2).contains("[COMPACTION]"), "{summary:#}");
    let messages = after["messages"].to_string();
    assert!(
        messages.contains("[COMPACTION SUMMARY]\\nIn short."),
        "{messages}"
    );
    assert!(!messages.contains("I think of B"), "{messages}");
    assert!(continues(last, after), "{last:#}");
    assert!(last["messages"].to_string().contains("I think of C"));
    let usage = world.ah(["usage"]).run().expect(0).stdout;
    assert!(
        usage.contains("call 4 missed the prompt cache: the conversation was compacted"),
        "{usage}"
    );
    assert_eq!(
        usage.matches("missed the prompt cache").count(),
        1,
        "{usage}"
    );
}

/// Returns an answer with a summary that the server wrote itself.
fn summary_of_the_server() -> Turn {
    let block = json!({"type": "compaction", "content": "In short.", "signature": "seal"});
    Turn {
        content: vec![Block {
            other: Some(block),
            ..Block::default()
        }],
        stop_reason: Some("compaction".to_owned()),
        ..Turn::default()
    }
}

/// A server that holds conversations has each of them as it would have been sent, and is sent what is new.
#[test]
fn a_server_that_holds_the_conversation_is_sent_what_is_new() {
    for model in [BINDING, OLDER] {
        let world = World::new();
        let state = json!({"conversationState": "on"}).to_string();
        world.write("../home/.ah/settings.json", state);
        let looks_at = |at: usize| Turn {
            thinking: Some("I shall look.".into()),
            ..uses("bash", json!({"command": format!("true {at:02}")}))
        };
        let turns = (0..12).map(looks_at);
        let turns = turns.chain([answer("A"), looks("Again."), answer("B")]);
        let server = Server::new(turns);
        talk(&world, &server, model, &[&["one"], &["two"]], |_| {});
        assert_eq!(server.refusals(), Vec::<String>::new(), "{model}");
        let requests = server.requests();
        let kinds = requests.iter().map(|it| it.body["thread"]["type"].as_str());
        let starts: Vec<_> = kinds.map(|kind| kind == Some("create")).collect();
        // Another process goes on with what is held.
        let expected: Vec<_> = (0..15).map(|at| at == 0).collect();
        assert_eq!(starts, expected, "{model}");
        let whole = |at: usize| requests[at].whole.as_ref().unwrap_or(&requests[at].body);
        for at in 1..requests.len() {
            assert!(continues(whole(at), whole(at - 1)), "{model}: {at}");
        }
        let sizes: Vec<_> = requests[2..13].iter().map(|it| it.bytes).collect();
        let (least, most) = sizes.iter().min().zip(sizes.iter().max()).unwrap();
        assert!(most * 20 <= least * 21, "{model}: {sizes:?}");
    }
}

#[test]
fn a_session_that_is_not_kept_leaves_no_note_of_what_is_held() {
    let world = World::new();
    let state = json!({"conversationState": "on"}).to_string();
    world.write("../home/.ah/settings.json", state);
    let server = Server::new([says("One."), says("Two.")]);
    let notes = world.file("../home/.ah/held");
    let arguments = ["-n", "-m", OLDER, "--no-session-persistence", "one"];
    world.asking(&server, arguments).run().expect(0);
    assert!(!notes.exists());
    let arguments = ["-n", "-m", OLDER, "two"];
    world.asking(&server, arguments).run().expect(0);
    assert!(notes.exists());
}

/// The same over a WebSocket; `ah usage` says how much was not sent.
#[test]
fn a_server_that_opens_sockets_is_sent_what_is_new() {
    let world = World::new();
    let state = json!({"conversationState": "on"}).to_string();
    world.write("../home/.ah/settings.json", state);
    let looks_at = |at: usize| uses("bash", json!({"command": format!("true {at:02}")}));
    let turns = (0..12).map(looks_at);
    let turns = turns.chain([says("A"), looks_at(12), says("B")]);
    let server = Server::new(turns).opens_sockets();
    for prompt in ["one", "two"] {
        let model = "openai-responses/gpt-6.2-sol";
        let ah = world.asking(&server, ["-m", model, prompt]);
        ah.env("OPENAI_BASE_URL", server.url())
            .env("OPENAI_API_KEY", "key-of-a-test")
            .run()
            .expect(0);
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let requests = server.requests();
    let starts = requests
        .iter()
        .map(|it| it.body["previous_response_id"].is_null());
    // Another process has no socket.
    let expected: Vec<_> = (0..15).map(|at| at == 0 || at == 13).collect();
    assert_eq!(starts.collect::<Vec<_>>(), expected);
    let sizes: Vec<_> = requests[2..13].iter().map(|it| it.bytes).collect();
    let (least, most) = sizes.iter().min().zip(sizes.iter().max()).unwrap();
    assert!(most * 20 <= least * 21, "{sizes:?}");
    let usage = world.ah(["usage"]).run().expect(0).stdout;
    assert!(
        usage.contains("13 requests sent only what was new"),
        "{usage}"
    );
    assert!(
        usage.contains("0 times the server had forgotten"),
        "{usage}"
    );
}

/// Gemini is asked by the Interactions API, with the signatures of its thoughts. Where the user lets it store them, it is sent what
/// is new, and once more all after it has forgotten.
#[test]
fn gemini_is_sent_what_is_new_only_where_it_may_store_it() {
    for stores in [false, true] {
        let world = World::new();
        let settings = json!({
            "conversationState": "on",
            "providers": {"gemini-interactions": {"extraBody": {"store": stores}}},
        });
        world.write("../home/.ah/settings.json", settings.to_string());
        let looks_at = |at: usize| Turn {
            thinking: Some("I shall look.".into()),
            ..uses("bash", json!({"command": format!("true {at:02}")}))
        };
        let turns = (0..12).map(looks_at);
        let turns = turns.chain([answer("A"), looks_at(12), answer("B"), answer("C")]);
        let server = Server::new(turns);
        for prompt in ["one", "two", "third"] {
            if prompt == "third" {
                server.forget();
            }
            let model = "gemini-interactions/gemini-3.8-flash";
            let ah = world.asking(&server, ["-m", model, prompt]);
            ah.env("GEMINI_BASE_URL", server.url())
                .env("GEMINI_API_KEY", "key-of-a-test")
                .run()
                .expect(0);
        }
        let refusals = server.refusals();
        let is_forgotten = |text: &String| text.ends_with("was not found.");
        assert_eq!(refusals.len(), usize::from(stores), "{refusals:?}");
        assert!(refusals.iter().all(is_forgotten), "{refusals:?}");
        let requests = server.requests();
        let starts = requests.iter();
        let starts = starts.map(|it| it.body["previous_interaction_id"].is_null());
        let asked = 16 + refusals.len();
        // Another process goes on with what is stored.
        let expected: Vec<_> = (0..asked)
            .map(|at| !stores || at == 0 || at == 16)
            .collect();
        assert_eq!(starts.collect::<Vec<_>>(), expected);
        assert!(requests.iter().all(|it| it.body["store"] == stores));
        let last = requests.last().unwrap().body["input"].as_array().unwrap();
        let thoughts = last.iter().filter(|step| step["type"] == "thought");
        assert_eq!(thoughts.count(), 15, "{last:?}");
        let sizes: Vec<_> = requests[2..13].iter().map(|it| it.bytes).collect();
        let (least, most) = sizes.iter().min().zip(sizes.iter().max()).unwrap();
        assert_eq!(most * 20 <= least * 21, stores, "{sizes:?}");
        let usage = world.ah(["usage"]).run().expect(0).stdout;
        let is_told = usage.contains("14 requests sent only what was new");
        assert_eq!(is_told, stores, "{usage}");
    }
}

/// Where the settings ask for it, the server writes the summary, and its block stands for what it summarises. A model
/// that the server does not offer this for, and a server that does not know it, get the usual request.
#[test]
fn a_summary_can_be_left_to_the_server() {
    let refusal = Turn {
        error: Some(Failure {
            status: Some(400),
            kind: Some("invalid_request_error".to_owned()),
            message: Some("compaction: Extra inputs are not permitted".to_owned()),
            ..Failure::default()
        }),
        ..Turn::default()
    };
    for (model, summary, written) in [
        (BINDING, &[summary_of_the_server()][..], true),
        (OLDER, &[summary_of_the_server()], true),
        (BINDING, &[refusal, answer("In short.")], false),
        // What lies between has dropped the wish.
        (OLDER, &[answer("I go on."), answer("In short.")], false),
        ("claude-haiku-4-5", &[answer("In short.")], false),
    ] {
        let world = World::new();
        world.write(
            "../home/.ah/settings.json",
            json!({"serverCompaction": true}).to_string(),
        );
        let begin = [looks("A"), long(answer("B"))];
        let end = [answer("C"), answer("D")];
        let turns = begin.into_iter().chain(summary.iter().cloned()).chain(end);
        let server = Server::new(turns);
        let crowded = ["--compact-at", "9000"];
        let prompts = ["one", "two", "third"].map(|prompt| [crowded[0], crowded[1], prompt]);
        let prompts: Vec<_> = prompts.iter().map(|prompt| &prompt[..]).collect();
        talk(&world, &server, model, &prompts, |_| {});
        let refusals = server.refusals();
        assert_eq!(refusals, Vec::<String>::new(), "{model}");
        let bodies = bodies(&server);
        let asked: Vec<_> = bodies.iter().map(|body| &body["compaction"]).collect();
        let is_asked = model != "claude-haiku-4-5";
        let wish = json!({"type": "summarize"});
        assert_eq!(asked.contains(&&wish), is_asked, "{model}: {asked:?}");
        let asks_model = |body: &Value| body["messages"].to_string().contains("[COMPACTION] ");
        assert_eq!(bodies.iter().any(asks_model), !written, "{model}");
        let [.., after, last] = &bodies[..] else {
            panic!("{} requests", bodies.len())
        };
        assert!(continues(last, after), "{model}: {last:#}");
        let first = &after["messages"][0];
        if written {
            let block = &summary_of_the_server().content[0].other;
            assert_eq!(Some(&first["content"][0]), block.as_ref(), "{model}");
            assert_eq!(first["role"], "assistant", "{model}");
        } else {
            let text = first["content"][0]["text"].as_str().unwrap_or_default();
            assert_eq!(text, "[COMPACTION SUMMARY]\nIn short.", "{model}");
        }
    }
}

#[test]
fn a_model_that_hides_its_thoughts_is_asked_to_show_them_and_to_drop_what_is_invalid() {
    let world = World::new();
    let server = Server::new([answer("A"), answer("B")]);
    talk(&world, &server, BINDING, &[&["one"]], |_| {});
    talk(&world, &server, OLDER, &[&["two"]], |_| {});
    let [newest, older] = &server.requests()[..] else {
        panic!("two requests")
    };
    let expected = json!({
        "type": "adaptive",
        "display": "summarized",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    });
    assert_eq!(newest.body["thinking"], expected);
    assert_eq!(
        newest.headers["anthropic-beta"],
        "inline-tools-2026-09-15,thinking-binding-controls-2026-08-01"
    );
    assert_eq!(older.body["thinking"], Value::Null);
    assert!(!older.headers.contains_key("anthropic-beta"));
}

#[test]
fn a_server_that_refuses_the_newest_features_is_asked_without_them_once() {
    let world = World::new();
    let refusal = Turn {
        error: Some(Failure {
            status: Some(400),
            kind: Some("invalid_request_error".to_owned()),
            message: Some(
                "thinking.adaptive.block_binding: Extra inputs are not permitted".to_owned(),
            ),
            ..Failure::default()
        }),
        ..Turn::default()
    };
    let server = Server::new([refusal, looks("A"), answer("B")]);
    talk(&world, &server, BINDING, &[&["one"]], |_| {});
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            let beta = request.headers.contains_key("anthropic-beta");
            (!request.body["thinking"].is_null(), beta)
        })
        .collect();
    assert_eq!(asked, [(true, true), (false, false), (false, false)]);
}

#[test]
fn a_window_in_the_settings_summarises_at_four_fifths_of_it() {
    for (window, summaries) in [(11_000, 1), (20_000, 0)] {
        let world = World::new();
        world.write(
            "../home/.ah/settings.json",
            json!({"autoCompactWindow": window}).to_string(),
        );
        let server = Server::new([long(answer("A")), answer("In short."), answer("B")]);
        talk(&world, &server, OLDER, &[&["one"], &["two"]], |_| {});
        let bodies = bodies(&server);
        let asks = |body: &&Value| body["messages"].to_string().contains("[COMPACTION] ");
        assert_eq!(bodies.iter().filter(asks).count(), summaries, "{window}");
    }
}
