//! Agents with a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ah::event::{ExitReason, RunOutcome, Usage};
use ah::permission::PermissionMode;
use ah::schemars::{self, JsonSchema};
use ah::tool::{Output, Tool, tool};
use ah::{Agent, Decision, HookCallback, HookEvent, Options};
use ah_provider::script::format::Turn;
use ah_testkit::script::{Scripted, hangs, says, uses};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[derive(Deserialize, JsonSchema)]
struct Step {
    /// What is added.
    by: usize,
}

/// A tool that counts, and the sum.
fn count() -> (impl Tool, Arc<AtomicUsize>) {
    let sum = Arc::new(AtomicUsize::new(0));
    let all = sum.clone();
    let run = move |step: Step| {
        all.fetch_add(step.by, Ordering::Relaxed);
        async { Output::text("counted") }
    };
    (tool("count", "Counts.", run), sum)
}

/// Options of an agent whose model calls the counting tool once, and the sum.
fn counting() -> (Options, Arc<AtomicUsize>) {
    let (count, sum) = count();
    let options = scripted([uses("count", json!({"by": 1})), says("Done.")]);
    (options.tool(count), sum)
}

fn scripted(turns: impl IntoIterator<Item = Turn>) -> Options {
    Options::new().provider(Arc::new(Scripted::new(turns)))
}

async fn run(options: Options) -> RunOutcome {
    let mut agent = Agent::with(options).open().await.unwrap();
    let outcome = agent.run("go").await.unwrap();
    agent.close().await.unwrap();
    outcome
}

#[tokio::test]
async fn limits_end_the_run() {
    let usage = Usage {
        input_tokens: 300,
        ..Usage::default()
    };
    let costly = Turn {
        usage: Some(usage),
        ..uses("count", json!({"by": 1}))
    };
    let (turns, _) = counting();
    let cases = [
        (turns.max_turns(1), ExitReason::MaxTurns),
        (
            scripted([costly, says("Never.")])
                .tool(count().0)
                .max_tokens(250),
            ExitReason::BudgetExceeded,
        ),
        (
            scripted([hangs("So far")]).timeout(Duration::from_millis(1)),
            ExitReason::Timeout,
        ),
    ];
    for (options, reason) in cases {
        assert_eq!(run(options).await.reason, reason);
    }
}

#[tokio::test]
async fn a_cancelled_token_aborts_the_run() {
    let (options, sum) = counting();
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(run(options.abort(stop)).await.reason, ExitReason::Aborted);
    assert_eq!(sum.load(Ordering::Relaxed), 0);
}

/// Without anybody to ask, calls of own tools are allowed; with a callback it is asked, unless a rule or the mode decides.
#[tokio::test]
async fn who_decides_about_a_call_of_an_own_tool() {
    let allow = |_| async { Decision::Allow };
    let deny = |_| async { Decision::deny("no") };
    let all = PermissionMode::BypassPermissions;
    type Change = Box<dyn Fn(Options) -> Options>;
    let cases: [(&str, Change, usize); 8] = [
        ("nobody", Box::new(|it| it), 1),
        ("a callback", Box::new(move |it| it.can_use_tool(allow)), 1),
        ("a strict one", Box::new(move |it| it.can_use_tool(deny)), 0),
        (
            "a rule first",
            Box::new(move |it| it.allow("count").can_use_tool(deny)),
            1,
        ),
        (
            "a mode first",
            Box::new(move |it| it.permission_mode(all).can_use_tool(deny)),
            1,
        ),
        (
            "a rule that asks",
            Box::new(move |it| it.permission_mode(all).ask("count").can_use_tool(deny)),
            0,
        ),
        ("nobody to ask", Box::new(|it| it.ask("count")), 0),
        ("a rule that denies", Box::new(|it| it.deny("count")), 0),
    ];
    for (case, change, expected) in cases {
        let (options, sum) = counting();
        let outcome = run(change(options)).await;
        assert_eq!(outcome.reason, ExitReason::EndTurn, "{case}");
        assert_eq!(sum.load(Ordering::Relaxed), expected, "{case}");
        assert_eq!(outcome.denials.len(), 1 - expected, "{case}");
    }
}

/// The tools of a query, by the same names and rules.
#[tokio::test]
async fn built_in_tools_work_in_the_folder_of_the_options() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note"), "milk").unwrap();
    let turns = [
        uses("Read", json!({"file_path": folder.path().join("note")})),
        uses(
            "Write",
            json!({"file_path": folder.path().join("new"), "content": "x"}),
        ),
        says("Done."),
    ];
    let options = scripted(turns).cwd(folder.path()).tools(["Read", "Write"]);
    let mut agent = Agent::with(options).open().await.unwrap();
    let outcome = agent.run("go").await.unwrap();
    let results = agent.messages().iter().flat_map(|it| it.tool_results());
    let texts: Vec<_> = results.map(|result| result.text()).collect();
    assert!(texts[0].contains("milk"), "{texts:?}");
    let denied: Vec<_> = outcome.denials.iter().map(|call| &*call.name).collect();
    assert_eq!(denied, ["Write"], "nobody can be asked");
    assert!(!folder.path().join("new").exists());
}

#[tokio::test]
async fn a_hook_of_an_agent_may_deny_a_call() {
    let (options, sum) = counting();
    let hook = HookCallback::new(HookEvent::PreToolUse, |input| async move {
        assert_eq!(input.payload["tool_name"], "count");
        json!({"decision": "block", "reason": "not today"})
    });
    assert_eq!(run(options.hook(hook)).await.reason, ExitReason::EndTurn);
    assert_eq!(sum.load(Ordering::Relaxed), 0);
}

/// What the schema does not allow never reaches the tool.
#[tokio::test]
async fn a_call_with_wrong_arguments_is_answered_by_an_error() {
    let (count, sum) = count();
    let turns = [uses("count", json!({"by": "one"})), says("Done.")];
    let mut agent = Agent::with(scripted(turns).tool(count))
        .open()
        .await
        .unwrap();
    agent.run("go").await.unwrap();
    let results = agent.messages().iter().flat_map(|it| it.tool_results());
    let texts: Vec<_> = results.map(|result| result.text()).collect();
    assert!(texts[0].contains("`by`"), "{texts:?}");
    assert_eq!(sum.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_stored_conversation_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.db");
    let options = scripted([says("One."), says("Two.")]);
    for (earlier, answer) in [(0, "One."), (2, "Two.")] {
        let builder = Agent::with(options.clone()).store_file(&file);
        let mut agent = builder.open().await.unwrap();
        assert_eq!(agent.messages().len(), earlier);
        assert!(agent.resume().await.unwrap().is_none(), "nothing is left");
        assert_eq!(agent.run("go").await.unwrap().answer, answer);
        agent.close().await.unwrap();
    }
}

/// A run that a limit has ended continues from its prompt.
#[tokio::test]
async fn an_unfinished_run_goes_on_without_a_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.db");
    let (options, sum) = counting();
    for (limit, reason) in [(1, ExitReason::MaxTurns), (2, ExitReason::EndTurn)] {
        let builder = Agent::with(options.clone().max_turns(limit)).store_file(&file);
        let mut agent = builder.open().await.unwrap();
        let outcome = match agent.resume().await.unwrap() {
            Some(unfinished) => unfinished,
            None => agent.run("go").await.unwrap(),
        };
        assert_eq!(outcome.reason, reason);
        let prompts = agent.messages().iter().filter(|it| it.text() == "go");
        assert_eq!(prompts.count(), 1);
        agent.close().await.unwrap();
    }
    assert_eq!(sum.load(Ordering::Relaxed), 1);
}
