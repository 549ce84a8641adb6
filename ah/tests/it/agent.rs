//! Agents with a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah::conversation::{
    Access, Context, ExitReason, Input, Output, PermissionAnswer, Permissions, Tool, ToolSpec,
    ToolUse, Truncation,
};
use ah::{Agent, AgentBuilder};
use ah_testkit::script::{Scripted, says, uses};
use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Tool that counts its calls.
struct Count(ToolSpec, Arc<AtomicUsize>);

#[async_trait]
impl Tool for Count {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Unknown]
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        self.1.fetch_add(1, Ordering::Relaxed);
        Output::text("counted".to_owned())
    }
}

/// Builder of an agent whose model calls the counting tool once, and the number of calls.
fn counting() -> (AgentBuilder, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let spec = ToolSpec {
        name: "count".to_owned(),
        description: "Counts.".to_owned(),
        input_schema: Arc::new(json!({"type": "object"})),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    };
    let model = Scripted::new([uses("count", json!({})), says("Done.")]);
    let builder = Agent::builder().provider(Arc::new(model));
    (builder.tool(Count(spec, calls.clone())), calls)
}

async fn run(builder: AgentBuilder) -> ExitReason {
    let mut agent = builder.build().await.unwrap();
    let outcome = agent.run("go").await.unwrap();
    agent.close().await.unwrap();
    outcome.reason
}

#[tokio::test]
async fn all_calls_are_allowed_by_default() {
    let (builder, calls) = counting();
    assert_eq!(run(builder).await, ExitReason::EndTurn);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_limit_ends_the_run() {
    let (builder, _) = counting();
    assert_eq!(run(builder.max_turns(1)).await, ExitReason::MaxTurns);
}

#[tokio::test]
async fn a_cancelled_token_aborts_the_run() {
    let (builder, calls) = counting();
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(run(builder.stop(stop)).await, ExitReason::Aborted);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn calls_without_a_rule_are_asked_about_or_denied() {
    for (answer, count) in [(None, 0), (Some(false), 0), (Some(true), 1)] {
        let (builder, calls) = counting();
        let builder = builder.permissions(Permissions::default());
        let builder = match answer {
            None => builder,
            Some(is_allowed) => builder.ask(move |_| async move {
                if is_allowed {
                    PermissionAnswer::Allow {
                        input: None,
                        updates: Vec::new(),
                    }
                } else {
                    PermissionAnswer::Deny {
                        message: "no".to_owned(),
                        interrupt: false,
                    }
                }
            }),
        };
        assert_eq!(run(builder).await, ExitReason::EndTurn);
        assert_eq!(calls.load(Ordering::Relaxed), count, "{answer:?}");
    }
}

#[tokio::test]
async fn a_stored_conversation_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.db");
    let model = Arc::new(Scripted::new([says("One."), says("Two.")]));
    for (earlier, answer) in [(0, "One."), (2, "Two.")] {
        let builder = Agent::builder().provider(model.clone()).store_file(&file);
        let mut agent = builder.build().await.unwrap();
        assert_eq!(agent.transcript().messages().len(), earlier);
        assert_eq!(agent.run("go").await.unwrap().answer, answer);
        agent.close().await.unwrap();
    }
}
