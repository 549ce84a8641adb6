//! Queries, their options and requests, against servers of this machine.

use std::sync::Arc;
use std::time::Duration;

use ah::event::{ExitReason, Usage};
use ah::permission::PermissionMode;
use ah::{Message, Options, Query, query, resume};
use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use ah_testkit::wait::eventually;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::World;

#[path = "../../examples/query.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod own_tool;
#[path = "../../examples/ports.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod ports;

/// Options for a query of `server`, in its own world.
fn options(world: &World, server: &Server) -> Options {
    let variables = [
        ("HOME", world.home().display().to_string()),
        ("ANTHROPIC_BASE_URL", server.url()),
        ("ANTHROPIC_API_KEY", "key-of-a-test".to_owned()),
        ("IS_SANDBOX", "1".to_owned()),
    ];
    let options = Options::new()
        .model("sonnet")
        .cwd(world.project())
        .permission_mode(PermissionMode::BypassPermissions)
        .setting_sources([""; 0]);
    let variables = variables.into_iter();
    variables.fold(options, |options, (name, value)| options.env(name, value))
}

/// The kinds of all messages to the end.
async fn kinds(query: &mut Query) -> Vec<String> {
    let mut kinds = Vec::new();
    while let Some(message) = query.next().await {
        let value = serde_json::to_value(message.unwrap()).unwrap();
        // Sent only on a slow machine.
        if value["type"] == "tool_progress" {
            continue;
        }
        let subtype = value["subtype"].as_str().unwrap_or_default();
        kinds.push(
            format!("{} {subtype}", value["type"].as_str().unwrap())
                .trim()
                .to_owned(),
        );
    }
    kinds
}

fn looks() -> Turn {
    uses("Bash", json!({"command": "printf 1"}))
}

/// A query streams `init`, the answers and the result, and its fields are set by then.
#[tokio::test]
async fn a_query_is_a_stream_of_messages() {
    let usage = Usage {
        input_tokens: 20,
        output_tokens: 3,
        ..Usage::default()
    };
    let last = Turn {
        usage: Some(usage),
        ..says("Done.")
    };
    let (world, server) = (World::new(), Server::new([looks(), last]));
    let mut query = query("go", options(&world, &server));
    let kinds = kinds(&mut query).await;
    assert_eq!(
        kinds,
        [
            "system init",
            "assistant",
            "user",
            "assistant",
            "result success"
        ]
    );
    let result = query.result().unwrap();
    assert_eq!(
        (result.result.as_deref(), result.num_turns),
        (Some("Done."), 2)
    );
    assert_eq!(query.exit_reason(), Some(ExitReason::EndTurn));
    assert_eq!(query.total_usage(), usage);
    // It is an ordinary session and can be resumed.
    assert_eq!(world.texts("assistant"), ["Done."]);
    let id = query.session_id().unwrap().to_owned();
    let server = Server::new([says("Again.")]);
    let resumed = options(&world, &server).resume(id.clone());
    let mut query = ah::query("more", resumed);
    while let Some(message) = query.next().await {
        message.unwrap();
    }
    assert_eq!(query.session_id(), Some(&*id));
    assert_eq!(
        server.requests()[0].body["messages"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
}

/// A check runs in a sandbox. A program that is not ready for one is told so, and is not started again as what sets it up.
#[tokio::test]
async fn a_check_needs_a_program_that_can_confine_it() {
    let (world, server) = (World::new(), Server::new([says("Done.")]));
    let mut query = query("go", options(&world, &server).until("true"));
    let error = loop {
        match query.next().await {
            Some(Err(error)) => break error,
            Some(Ok(_)) => {}
            None => panic!("it has run"),
        }
    };
    assert!(error.to_string().contains("cannot confine"), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_interrupt_ends_the_run_and_its_result_comes() {
    let (world, server) = (World::new(), Server::new([hangs("So far")]));
    let mut partial = options(&world, &server);
    partial.include_partial_messages = true;
    let mut query = query("go", partial);
    while let Some(message) = query.next().await {
        if let Message::StreamEvent(piece) = message.unwrap()
            && piece.event["delta"]["text"] == "So far"
        {
            query.interrupt().await.unwrap();
        }
    }
    assert_eq!(query.exit_reason(), Some(ExitReason::Interrupted));
    assert_eq!(world.texts("assistant"), ["So far"]);
}

/// An abort token ends the run as `aborted`.
#[tokio::test]
async fn an_abort_token_ends_the_run_as_aborted() {
    let (world, server) = (World::new(), Server::new([hangs("So far")]));
    let abort = CancellationToken::new();
    let mut query = query(
        "go",
        options(&world, &server)
            .abort(abort.clone())
            .include_partial_messages(true),
    );
    while let Some(message) = query.next().await {
        if let Message::StreamEvent(piece) = message.unwrap()
            && piece.event["delta"]["text"] == "So far"
        {
            abort.cancel();
        }
    }
    assert_eq!(query.exit_reason(), Some(ExitReason::Aborted));
}

#[tokio::test]
async fn a_query_that_is_closed_leaves_nothing_running() {
    let world = World::new();
    let command = "echo on >started; sleep 1000";
    let server = Server::new([uses("Bash", json!({"command": command}))]);
    let query = query("go", options(&world, &server));
    let started = world.file("started");
    eventually("the command", || started.exists().then_some(())).await;
    query.close().await;
    assert_eq!(world.texts("user"), ["go"]);
    // A command may take a while to end after SIGTERM.
    let is_gone = || (running("sleep 1000", &world) == 0).then_some(());
    eventually("its end", is_gone).await;
}

/// The number of processes in the world's project that run `command`.
fn running(command: &str, world: &World) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let runs = entries.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let cwd = std::fs::read_link(entry.path().join("cwd"));
        String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .contains(command)
            && cwd.is_ok_and(|cwd| cwd == world.project())
    });
    runs.count()
}

/// The model, the mode and the thinking budget can be changed during a run. The effect of the budget on later prompts
/// is tested with the protocol.
#[tokio::test]
async fn model_mode_and_thinking_change_while_it_runs() {
    let world = World::new();
    let turns = [
        uses(
            "Bash",
            json!({"command": "until [ -e go ]; do sleep 0.01; done"}),
        ),
        uses(
            "Write",
            json!({"file_path": world.file("w"), "content": "w"}),
        ),
        says("Done."),
    ];
    let server = Server::new(turns);
    let mut query = query("go", options(&world, &server));
    let mut is_changed = false;
    while let Some(message) = query.next().await {
        if matches!(message.unwrap(), Message::Assistant(_)) && !is_changed {
            is_changed = true;
            query.set_model(Some("haiku")).await.unwrap();
            query.set_max_thinking_tokens(Some(2048)).await.unwrap();
            query
                .set_permission_mode(PermissionMode::Plan)
                .await
                .unwrap();
            std::fs::write(world.file("go"), "").unwrap();
        }
    }
    let last = server.requests().pop().unwrap().body;
    assert!(
        last["model"].as_str().unwrap().contains("haiku"),
        "{}",
        last["model"]
    );
    assert!(
        !world.file("w").exists(),
        "mode `plan` lets nothing be written"
    );
    let refused = query.set_model(Some("haiku")).await;
    assert_eq!(refused.unwrap_err().message, "the query has ended");
}

#[tokio::test]
async fn what_keeps_a_query_from_beginning_is_its_first_item() {
    let (world, server) = (World::new(), Server::new([says("Never.")]));
    let nowhere = options(&world, &server).cwd(world.file("nowhere"));
    let mut refused = query("go", nowhere);
    let error = refused.next().await.unwrap().unwrap_err();
    assert!(
        error.message.contains("there is no such folder"),
        "{error:?}"
    );
    let unknown = options(&world, &server).resume("0e0c8ee9-9f3d-4e1f-8d3b-2c1c3b8f6d51");
    let mut refused = query("go", unknown);
    let mut errors = Vec::new();
    while let Some(message) = refused.next().await {
        errors.extend(message.err());
    }
    assert_eq!(errors.len(), 1, "{errors:?}");
}

/// A program that does not call the launcher would run itself again for each command, so opening is refused.
#[tokio::test]
async fn the_sandbox_needs_a_program_that_can_launch() {
    let (world, server) = (World::new(), Server::new([says("Never.")]));
    let confined = options(&world, &server).settings(json!({"sandbox": {"enabled": true}}));
    let error = query("go", confined).next().await.unwrap().unwrap_err();
    assert!(error.hint.unwrap().contains("enter()"));
    assert_eq!(server.requests().len(), 0);
}

/// Two queries with different folders, models, prompts and stores share no state.
#[tokio::test]
async fn two_queries_at_once_do_not_disturb_each_other() {
    let one = |name: &'static str| async move {
        let world = World::new();
        let command = format!("printf {name} >mine; printf {name}");
        let server = Server::new([uses("Bash", json!({"command": command})), says(name)]);
        let mut query = query(
            name,
            options(&world, &server).system_prompt(format!("You are {name}.")),
        );
        let mut last = String::new();
        while let Some(message) = query.next().await {
            if let Message::Assistant(said) = message.unwrap() {
                last = said.text();
            }
        }
        let system = server.requests()[0].body["system"].to_string();
        assert!(system.contains(&format!("You are {name}.")), "{system}");
        assert_eq!((&*world.text("mine"), &*last), (name, name));
    };
    tokio::join!(one("first"), one("second"), one("third"));
}

#[tokio::test]
async fn a_tool_a_callback_and_a_hook_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let lines = own_tool::run(folder.path()).await.unwrap();
    // The hook may run while the previous message is still in the queue.
    let (hooks, told): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.starts_with("hook"));
    assert_eq!(hooks, [r#"hook: {"output":"rain in Oslo"}"#]);
    insta::assert_snapshot!(told.join("\n"), @r#"
    model: Two tries.
    told: "rain in Oslo"
    told: "there is no such city"
    model: It rains in Oslo.
    success: 3 turns
    "#);
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "only the scenario is there: {left:?}");
}

#[tokio::test]
async fn a_model_and_a_store_of_ones_own() {
    let (answers, events, store) = ports::run().await.unwrap();
    assert_eq!(answers, ["You said: Hello", "You said: And again"]);
    assert_eq!(store.messages().len(), 4);
    let count = |name: &str| events.iter().filter(|event| event.contains(name)).count();
    assert_eq!((count("agent_start"), count("agent_end")), (2, 2));
    assert!(Arc::strong_count(&store) == 1, "nothing holds on to it");
}

/// A query may choose an agent and pass definitions, and writes its log to a file.
#[tokio::test]
async fn a_query_runs_as_a_definition_and_has_a_log_of_its_own() {
    let (world, server) = (World::new(), Server::new([says("Hm.")]));
    let digger = json!({"description": "digs", "prompt": "You dig.", "tools": ["Bash"]});
    let log = world.file("query.log");
    let mut query = query(
        "go",
        options(&world, &server)
            .agent("digger")
            .define_agent("digger", digger)
            .debug_file(log.clone()),
    );
    while let Some(message) = query.next().await {
        message.unwrap();
    }
    let body = &server.requests()[0].body;
    assert!(body["system"].to_string().contains("You dig."), "{body}");
    assert_eq!(body["tools"].as_array().unwrap().len(), 1, "{body}");
    let log = std::fs::read_to_string(log).unwrap();
    // `tracing` may miss a line whose place another test reaches in the same moment, so either of two counts.
    let address = server.url().replace("http://", "");
    assert!(
        log.contains("a query begins model=\"sonnet\"") || log.contains(&address),
        "{log}"
    );
}

/// A query that a limit has ended continues without another prompt.
#[tokio::test]
async fn an_unfinished_query_is_resumed_without_a_prompt() {
    let (world, server) = (World::new(), Server::new([looks(), says("Done.")]));
    let mut query = query("go", options(&world, &server).max_turns(1));
    kinds(&mut query).await;
    assert_eq!(query.exit_reason(), Some(ExitReason::MaxTurns));
    let again = options(&world, &server).continue_last(true);
    let mut query = resume(again.clone());
    assert_eq!(kinds(&mut query).await.last().unwrap(), "result success");
    let last = query.result().unwrap();
    assert_eq!(last.result.as_deref(), Some("Done."));
    assert_eq!(world.texts("user"), ["go"]);
    // Now nothing is left, and the model is not asked.
    let mut query = resume(again);
    assert_eq!(kinds(&mut query).await.last().unwrap(), "result success");
    assert_eq!(server.requests().len(), 2);
}

/// The limits of an agent are those of a query.
#[tokio::test]
async fn tokens_and_time_limit_a_query() {
    let usage = Usage {
        input_tokens: 300,
        ..Usage::default()
    };
    let costly = Turn {
        usage: Some(usage),
        ..looks()
    };
    let (world, server) = (World::new(), Server::new([costly, says("Never.")]));
    let mut limited = query("go", options(&world, &server).max_tokens(250));
    kinds(&mut limited).await;
    assert_eq!(limited.exit_reason(), Some(ExitReason::BudgetExceeded));
    let (world, server) = (World::new(), Server::new([hangs("So far")]));
    let mut limited = query(
        "go",
        options(&world, &server).timeout(Duration::from_millis(1)),
    );
    kinds(&mut limited).await;
    assert_eq!(limited.exit_reason(), Some(ExitReason::Timeout));
}
