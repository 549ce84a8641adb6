//! Processing of the tool calls of one answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_agent::ToolConcurrency;
use ah_conversation::{Access, Output, PermissionMode, Permissions, Progress};
use ah_testkit::script::{says, uses, uses_all};
use serde_json::json;
use tokio::sync::Barrier;

use crate::world::{Fake, World};

/// A read-only tool that answers once `count` of its calls run at the same time.
fn meeting(count: usize) -> Fake {
    let barrier = Arc::new(Barrier::new(count));
    Fake::reading("look", move |_| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Output::text("seen")
        }
    })
}

/// A tool that answers with the maximum number of its concurrent calls so far.
fn counting(access: Access) -> Fake {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    Fake::touching("count", access, move |_| {
        let (running, most) = (running.clone(), most.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Output::text(most.load(Ordering::SeqCst).to_string())
        }
    })
}

fn calls(tool: &str, count: usize) -> ah_testkit::script::Turn {
    uses_all((0..count).map(|number| (tool, json!({"number": number}))))
}

/// All calls of an answer run, and read-only ones run together.
#[tokio::test]
async fn read_only_calls_run_together() {
    let mut world = World::new([calls("look", 8), says("Done.")]).with(meeting(8));
    world.run("look").await;
    assert_eq!(world.last_results(), vec!["seen"; 8]);
}

#[tokio::test]
async fn progress_is_reported_before_the_end_of_a_call() {
    let tool = Fake::telling("work", |context| async move {
        for done in [1.0, 2.0] {
            context.progress.report(Progress {
                done,
                total: Some(2.0),
                message: None,
            });
            tokio::task::yield_now().await;
        }
        Output::text("done")
    });
    let mut world = World::new([uses("work", json!({})), says("Done.")]).with(tool);
    world.run("go").await;
    let events = world.events();
    let of_call: Vec<_> = events
        .lines()
        .filter(|line| line.contains("work"))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(
        of_call,
        ["tool_call_start", "progress", "progress", "tool_call_end"],
        "{events}"
    );
}

#[tokio::test]
async fn at_most_ten_calls_run_at_once() {
    let mut world =
        World::new([calls("count", 25), says("Done.")]).with(counting(Access::Read("x".into())));
    world.run("count").await;
    assert_eq!(
        world.last_results().iter().max().map(String::as_str),
        Some("10")
    );
}

#[tokio::test]
async fn mutating_calls_run_alone_unless_configured_otherwise() {
    for (concurrency, access, most) in [
        (ToolConcurrency::Auto, Access::Unknown, "1"),
        (ToolConcurrency::Auto, Access::Read("x".into()), "4"),
        (ToolConcurrency::Serial, Access::Read("x".into()), "1"),
        (ToolConcurrency::Parallel, Access::Unknown, "4"),
    ] {
        let mut world = World::new([calls("count", 4), says("Done.")]).with(counting(access));
        world.settings.concurrency = concurrency;
        world.run("count").await;
        assert_eq!(
            world.last_results().iter().max().map(String::as_str),
            Some(most),
            "{concurrency:?}"
        );
    }
}

/// Results keep the order of the calls, whichever finishes first.
#[tokio::test]
async fn results_keep_the_order_of_the_calls() {
    let barrier = Arc::new(Barrier::new(2));
    let slow_first = Fake::reading("look", move |input| {
        let (barrier, number) = (
            barrier.clone(),
            input.get("number").cloned().unwrap_or_default(),
        );
        async move {
            // The first call continues only after the second has reached this point; it answers last.
            barrier.wait().await;
            if number == 0 {
                tokio::task::yield_now().await;
            }
            Output::text(number.to_string())
        }
    });
    let mut world = World::new([calls("look", 2), says("Done.")]).with(slow_first);
    world.run("look").await;
    assert_eq!(world.last_results(), ["0", "1"]);
}

/// An unknown tool and a failing one give error results; their neighbours succeed and the run continues.
#[tokio::test]
async fn unknown_failing_and_panicking_tools_give_error_results() {
    let turn = uses_all([
        ("nowhere", json!({})),
        ("fail", json!({})),
        ("panic", json!({})),
        ("look", json!({"wrong": "schema is open"})),
    ]);
    let mut world = World::new([turn, says("Done.")])
        .with(Fake::reading("fail", |_| async {
            Output::error("no luck")
        }))
        .with(Fake::reading("panic", |_| async { panic!("oh no") }))
        .with(Fake::reading("look", |_| async { Output::text("seen") }));
    let outcome = world.run("try").await;
    assert_eq!(outcome.answer, "Done.");
    insta::assert_snapshot!(world.last_results().join("\n"), @"
        there is no tool `nowhere`; the tools are fail, panic, look
        no luck
        the tool `panic` panicked: oh no
        seen
        ");
    insta::assert_snapshot!(world.last_errors(), @"error error error ok");
}

#[tokio::test]
async fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
    let named = ["look_file", "Lok", "file-look", "functions.look", "nowhere"];
    let turn = uses_all(named.map(|name| (name, json!({}))));
    let mut world = World::new([turn, says("Done.")])
        .with(Fake::reading("look", |_| async { Output::text("seen") }));
    world.run("try").await;
    insta::assert_snapshot!(world.last_results().join("\n"), @"
    there is no tool `look_file`; did you mean `look`? the tools are look
    there is no tool `Lok`; did you mean `look`? the tools are look
    there is no tool `file-look`; did you mean `look`? the tools are look
    there is no tool `functions.look`; did you mean `look`? the tools are look
    there is no tool `nowhere`; the tools are look
    ");
}

#[tokio::test]
async fn invalid_arguments_are_reported_all_at_once_and_the_tool_does_not_run() {
    let picky = Fake::reading("look", |_| async { Output::text("ran") }).with_schema(json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    }));
    let mut world = World::new([
        uses_all([
            ("look", json!({"limit": "many"})),
            ("look", json!({"file_path": "x", "limit": "3"})),
        ]),
        says("Done."),
    ])
    .with(picky);
    world.run("look").await;
    insta::assert_snapshot!(world.last_results().join("\n"), @r#"
        validation error: "path" is a required property; `limit`: the value is not of type "integer"
        ran
        "#);
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_is_reported() {
    let mut world = World::new([uses("change", json!({})), says("Done.")]).with(Fake::touching(
        "change",
        Access::Unknown,
        |_| async { Output::text("changed") },
    ));
    world.settings.permissions = Permissions {
        mode: PermissionMode::Default,
        ..Permissions::default()
    };
    let outcome = world.run("change").await;
    assert_eq!(outcome.denials.len(), 1);
    insta::assert_snapshot!(world.last_results().join("\n"), @"Permission to use change was denied: it needs to be allowed, and nobody can be asked.");
}

/// The model sees head and tail, the store keeps everything.
#[tokio::test]
async fn a_long_output_is_truncated_for_the_model_and_stored_whole() {
    let long = "line\n".repeat(20_000);
    let output = long.clone();
    let mut world = World::new([uses("look", json!({})), says("Done.")])
        .with(Fake::reading("look", move |_| {
            std::future::ready(Output::text(output.clone()))
        }));
    world.run("look").await;
    let seen = world.last_results().remove(0);
    assert!(
        seen.len() < 31_000 && seen.contains("70000 bytes removed from the middle"),
        "{}",
        seen.len()
    );
    let page = world.stored_output(1, 1_000_000).await;
    assert_eq!(
        (page.lines, page.text.trim_end()),
        (20_000, long.trim_end())
    );
}

/// With `maxToolResultChars` the model sees the beginning with an exact notice, and the user a warning.
#[tokio::test]
async fn a_result_is_cut_to_the_configured_number_of_characters() {
    for (limit, shown) in [(Some(40_000), 40_000), (None, 50_000)] {
        let mut world = World::new([uses("look", json!({})), says("Done.")]).with(
            Fake::reading("look", |_| async { Output::text("ä".repeat(50_000)) })
                .with_truncation(1_000_000),
        );
        world.settings.max_result_chars = limit;
        world.run("look").await;
        let seen = world.last_results().remove(0);
        assert_eq!(seen.matches('ä').count(), shown);
        let notice = "\n\n[OUTPUT TRUNCATED: Showing 40,000 of 50,000 characters from look]";
        assert_eq!(seen.ends_with(notice), limit.is_some());
        assert_eq!(
            world.notices().contains("40,000 of 50,000 characters"),
            limit.is_some()
        );
    }
}
