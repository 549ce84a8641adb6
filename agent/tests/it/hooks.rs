//! Payloads and order of hook calls, and the effect of their answers.

mod deferred;

use std::pin::pin;
use std::sync::Arc;

use ah_agent::hooks::{Hook, HookAnswer, HookEvent, HookFailure, HookReply, Matcher, OnFailure};
use ah_conversation::{
    Access, CommandLine, ExitReason, Output, PermissionAnswer, PermissionMode, Rule, ToolUseId,
    Usage,
};
use ah_testkit::script::{Turn, says, uses, uses_all};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::world::{Fake, World};

type Replies = Box<dyn Fn(&Value) -> HookReply + Send + Sync>;

/// A hook that records its payloads and gives the answer of the test.
struct Recorder {
    event: HookEvent,
    matcher: Matcher,
    payloads: Arc<Mutex<Vec<Value>>>,
    say: Replies,
}

#[async_trait]
impl Hook for Recorder {
    fn event(&self) -> HookEvent {
        self.event
    }

    fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    fn name(&self) -> &str {
        "recorder"
    }

    fn kind(&self) -> &'static str {
        "hook"
    }

    fn condition(&self) -> Option<&Rule> {
        None
    }

    fn on_failure(&self) -> Option<OnFailure> {
        None
    }

    async fn ask(&self, input: &Value, _: Option<&ToolUseId>) -> HookAnswer {
        self.payloads.lock().push(input.clone());
        (self.say)(input).into()
    }
}

/// Recorded payloads of all hooks of a world.
#[derive(Clone, Default)]
struct RecordedPayloads(Arc<Mutex<Vec<Value>>>);

impl RecordedPayloads {
    fn hook(
        &self,
        event: HookEvent,
        say: impl Fn(&Value) -> HookReply + Send + Sync + 'static,
    ) -> Arc<dyn Hook> {
        Arc::new(Recorder {
            event,
            matcher: Matcher::default(),
            payloads: self.0.clone(),
            say: Box::new(say),
        })
    }

    /// Returns a hook without an opinion for each event.
    fn all(&self) -> Vec<Arc<dyn Hook>> {
        let silent = |event| self.hook(event, |_| HookReply::Nothing);
        HookEvent::ALL.into_iter().map(silent).collect()
    }

    /// Returns the recorded payloads, one event per line, without the common fields.
    fn lines(&self) -> String {
        let payloads = self.0.lock();
        let line = |input: &Value| {
            let mut input = input.clone();
            let object = input.as_object_mut().unwrap();
            let event = object.remove("hook_event_name").unwrap();
            for common in [
                "session_id",
                "transcript_path",
                "cwd",
                "permission_mode",
                "duration_ms",
            ] {
                object.remove(common);
            }
            format!("{} {input}", event.as_str().unwrap())
        };
        payloads.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn object(value: &Value) -> HookReply {
    HookReply::Object(value.as_object().unwrap().clone())
}

fn pre(decision: &str, more: &Value) -> HookReply {
    let mut specific =
        json!({"permissionDecision": decision, "permissionDecisionReason": "rule 7"});
    for (key, value) in more.as_object().unwrap() {
        specific[key] = value.clone();
    }
    object(&json!({"hookSpecificOutput": specific}))
}

fn change() -> Fake {
    let access = Access::Command(CommandLine::opaque("make"));
    Fake::touching("change", access, |input| async move {
        match input.get("fails") {
            Some(_) => Output::error("it broke"),
            None => Output::text(format!("changed {}", input.to_value())),
        }
    })
}

fn changes(what: &str) -> Turn {
    uses("change", json!({"what": what}))
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> World {
    let mut world = World::new(turns).with(change());
    world.settings.permissions.mode = PermissionMode::Default;
    world
}

fn allow() -> PermissionAnswer {
    PermissionAnswer::Allow {
        input: None,
        updates: Vec::new(),
    }
}

/// Records a run in which one call succeeds, one fails, one is denied by a hook, and one by the host.
#[tokio::test]
async fn hooks_are_called_in_order() {
    let payloads = RecordedPayloads::default();
    let calls = uses_all([
        ("change", json!({"what": 1})),
        ("change", json!({"fails": 2})),
        ("change", json!({"what": "denied"})),
        ("change", json!({"what": 4})),
    ]);
    let deny = |input: &Value| match input["tool_input"]["what"].as_str() {
        Some(_) => pre("deny", &json!({})),
        None => HookReply::Nothing,
    };
    let mut hooks = payloads.all();
    hooks.retain(|hook| hook.event() != HookEvent::PreToolUse);
    hooks.push(payloads.hook(HookEvent::PreToolUse, deny));
    let mut world = asking([calls, says("Done.")])
        .with_hooks(hooks)
        .answering([allow(), allow()]);
    let outcome = world.run("go").await;
    assert_eq!(outcome.denials.len(), 2);
    insta::assert_snapshot!(payloads.lines(), @r#"
        SessionStart {"source":"startup","model":"test"}
        UserPromptSubmit {"prompt":"go"}
        PreToolUse {"tool_input":{"what":1},"tool_name":"change","tool_use_id":"toolu_00000000000000000000000001_0"}
        PermissionRequest {"tool_use_id":"toolu_00000000000000000000000001_0","tool_input":{"what":1},"tool_name":"change","permission_suggestions":[{"type":"addRules","rules":[{"toolName":"change","ruleContent":"make"}],"behavior":"allow","destination":"localSettings"}]}
        Notification {"message":"permission to use change is needed","notification_type":"permission_prompt"}
        PostToolUse {"tool_response":{"output":"changed {\"what\":1}"},"tool_use_id":"toolu_00000000000000000000000001_0","tool_input":{"what":1},"tool_name":"change"}
        PreToolUse {"tool_input":{"fails":2},"tool_name":"change","tool_use_id":"toolu_00000000000000000000000001_1"}
        PermissionRequest {"tool_use_id":"toolu_00000000000000000000000001_1","tool_input":{"fails":2},"tool_name":"change","permission_suggestions":[{"type":"addRules","rules":[{"toolName":"change","ruleContent":"make"}],"behavior":"allow","destination":"localSettings"}]}
        Notification {"message":"permission to use change is needed","notification_type":"permission_prompt"}
        PostToolUseFailure {"error":"it broke","tool_name":"change","tool_use_id":"toolu_00000000000000000000000001_1","tool_input":{"fails":2},"is_interrupt":false}
        PreToolUse {"tool_input":{"what":"denied"},"tool_name":"change","tool_use_id":"toolu_00000000000000000000000001_2"}
        PreToolUse {"tool_input":{"what":4},"tool_name":"change","tool_use_id":"toolu_00000000000000000000000001_3"}
        PermissionRequest {"tool_use_id":"toolu_00000000000000000000000001_3","tool_input":{"what":4},"tool_name":"change","permission_suggestions":[{"type":"addRules","rules":[{"toolName":"change","ruleContent":"make"}],"behavior":"allow","destination":"localSettings"}]}
        Notification {"message":"permission to use change is needed","notification_type":"permission_prompt"}
        PostToolBatch {"tool_calls":[{"tool_name":"change","tool_input":{"what":1},"tool_use_id":"toolu_00000000000000000000000001_0","tool_response":"changed {\"what\":1}"},{"tool_name":"change","tool_input":{"fails":2},"tool_use_id":"toolu_00000000000000000000000001_1","tool_response":"it broke"},{"tool_name":"change","tool_input":{"what":"denied"},"tool_use_id":"toolu_00000000000000000000000001_2","tool_response":"PreToolUse:change hook error: rule 7"},{"tool_name":"change","tool_input":{"what":4},"tool_use_id":"toolu_00000000000000000000000001_3","tool_response":"Permission to use change was denied: it needs to be allowed, and nobody can be asked."}]}
        Stop {"last_assistant_message":"Done.","stop_hook_active":false,"background_tasks":[]}
        SessionEnd {"reason":"other"}
        "#);
}

/// A guard names the tool; a model that spells its name otherwise does not pass it by.
#[tokio::test]
async fn hooks_are_told_the_own_name_of_a_tool() {
    let payloads = RecordedPayloads::default();
    let guard = Recorder {
        event: HookEvent::PreToolUse,
        matcher: Matcher::new(Some("^Change$")).unwrap(),
        payloads: payloads.0.clone(),
        say: Box::new(|_| pre("deny", &json!({}))),
    };
    let tool = Fake::touching("Change", Access::Unknown, |_| async {
        Output::text("changed")
    });
    let calls = ["Change", "CHANGE", "change"].map(|name| (name, json!({})));
    let mut world = World::new([uses_all(calls), says("Done.")])
        .with(tool)
        .with_hooks([Arc::new(guard) as Arc<dyn Hook>]);
    let outcome = world.run("go").await;
    assert_eq!(outcome.denials.len(), 3);
    let payloads = payloads.0.lock();
    let names: Vec<_> = payloads.iter().map(|told| &told["tool_name"]).collect();
    assert_eq!(names, ["Change"; 3]);
}

/// A call that was running at the interrupt has failed, and its hook gets the reason.
#[tokio::test]
async fn hooks_are_called_for_interrupted_calls() {
    let payloads = RecordedPayloads::default();
    let lasting = Fake::touching("lasts", Access::Unknown, |_| async move {
        std::future::pending::<Output>().await
    });
    let calls = uses_all([("lasts", json!({"what": 1})), ("lasts", json!({"what": 2}))]);
    let mut world = World::new([calls])
        .with(lasting)
        .with_hooks([payloads.hook(HookEvent::PostToolUseFailure, |_| HookReply::Nothing)]);
    let outcome = world.run_until_event("go", "tool_call_start").await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    insta::assert_snapshot!(payloads.lines(), @r#"PostToolUseFailure {"error":"the run was interrupted during the call","tool_use_id":"toolu_00000000000000000000000001_0","tool_input":{"what":1},"tool_name":"lasts","is_interrupt":true}"#);
}

/// Hooks get the details of a tool's output instead of its text.
#[tokio::test]
async fn hooks_get_the_details_of_a_result() {
    let payloads = RecordedPayloads::default();
    let tells = Fake::touching("tells", Access::Unknown, |_| async move {
        Output::text("for the model").with_details(json!({"stdout": "for programs"}))
    });
    let mut world = World::new([uses("tells", json!({})), says("Done.")])
        .with(tells)
        .with_hooks([payloads.hook(HookEvent::PostToolUse, |_| HookReply::Nothing)]);
    world.run("go").await;
    let payloads = payloads.0.lock();
    assert_eq!(
        payloads[0]["tool_response"],
        json!({"stdout": "for programs"})
    );
}

/// A hook's decision about a call counts, but a denied call stays denied.
#[tokio::test]
async fn a_hook_decides_about_a_call() {
    let changed = json!({"updatedInput": {"what": "other"}});
    for (decision, more, denied, questions, expected) in [
        (
            "deny",
            json!({}),
            false,
            0,
            "PreToolUse:change hook error: rule 7",
        ),
        ("allow", json!({}), false, 0, "changed {\"what\":\"this\"}"),
        ("allow", changed, false, 0, "changed {\"what\":\"other\"}"),
        ("ask", json!({}), false, 1, "changed {\"what\":\"this\"}"),
        (
            "allow",
            json!({}),
            true,
            0,
            "Permission to use change was denied by the rule `change`.",
        ),
    ] {
        let payloads = RecordedPayloads::default();
        let say = move |_: &Value| pre(decision, &more);
        let mut world = asking([changes("this"), says("Done.")])
            .with_hooks([payloads.hook(HookEvent::PreToolUse, say)])
            .answering([allow()]);
        if denied {
            world.settings.permissions.deny = vec!["change".parse().unwrap()];
        }
        world.run("go").await;
        assert_eq!(world.last_results(), [expected], "{decision}");
        assert_eq!(world.questions().len(), questions, "{decision}");
    }
}

/// If a hook decides, the host is not asked.
#[tokio::test]
async fn a_hook_answers_instead_of_the_host() {
    for (decision, expected, reason) in [
        (
            json!({"behavior": "allow", "updatedInput": {"what": 3}}),
            "changed {\"what\":3}",
            ExitReason::EndTurn,
        ),
        (
            json!({"behavior": "deny", "message": "not now"}),
            "not now",
            ExitReason::EndTurn,
        ),
        (
            json!({"behavior": "deny", "message": "stop", "interrupt": true}),
            "stop",
            ExitReason::Interrupted,
        ),
    ] {
        let payloads = RecordedPayloads::default();
        let say = move |_: &Value| object(&json!({"hookSpecificOutput": {"decision": decision}}));
        let mut world = asking([changes("this"), says("Done.")])
            .with_hooks([payloads.hook(HookEvent::PermissionRequest, say)]);
        let outcome = world.run("go").await;
        assert_eq!(world.last_results(), [expected]);
        assert_eq!((world.questions().len(), outcome.reason), (0, reason));
    }
}

/// Context from hooks is part of the next request.
#[tokio::test]
async fn context_from_hooks_reaches_the_next_request() {
    let payloads = RecordedPayloads::default();
    let adds = |event: HookEvent| {
        let text = format!("from {}", event.as_str());
        payloads.hook(event, move |_| {
            object(&json!({"hookSpecificOutput": {"additionalContext": text}}))
        })
    };
    let mut world = World::new([changes("this"), says("Done.")])
        .with(change())
        .with_hooks([
            adds(HookEvent::SessionStart),
            adds(HookEvent::UserPromptSubmit),
            adds(HookEvent::PreToolUse),
            adds(HookEvent::PostToolUse),
            payloads.hook(HookEvent::PostToolUse, |_| {
                HookReply::Block("look again".into())
            }),
        ]);
    world.run("go").await;
    insta::assert_snapshot!(world.request(1), @r#"
        user: go [HOOK] from SessionStart
        from UserPromptSubmit
        assistant: [tool_use change {"what":"this"}] (tool_use)
        user: [tool_result change ok: changed {"what":"this"}] [HOOK] from PreToolUse
        from PostToolUse
        look again
        "#);
}

/// A hook may continue a run, and can tell that it did; the number of times is limited.
#[tokio::test]
async fn a_stop_hook_continues_a_run_a_limited_number_of_times() {
    let once = |input: &Value| {
        if input["stop_hook_active"] == true {
            HookReply::Nothing
        } else {
            HookReply::Block("also test it".into())
        }
    };
    let payloads = RecordedPayloads::default();
    let mut world = World::new([says("First."), says("Second.")])
        .with_hooks([payloads.hook(HookEvent::Stop, once)]);
    let outcome = world.run("go").await;
    assert_eq!((outcome.answer.as_str(), outcome.turns), ("Second.", 2));
    assert!(world.request(1).contains("[STOP HOOK] also test it"));

    let payloads = RecordedPayloads::default();
    let answers = (0..12).map(|at| says(&format!("Answer {at}.")));
    let mut world = World::new(answers)
        .with_hooks([payloads.hook(HookEvent::Stop, |_| HookReply::Block("again".into()))]);
    let outcome = world.run("go").await;
    assert_eq!((outcome.turns, outcome.reason), (9, ExitReason::EndTurn));
    insta::assert_snapshot!(world.notices(), @"a Stop hook continued the run 8 times, which is the limit; it ends now");
}

/// `continue: false` stops further hooks and the run.
#[tokio::test]
async fn a_hook_may_end_the_run() {
    for event in [HookEvent::PreToolUse, HookEvent::PostToolUse] {
        let payloads = RecordedPayloads::default();
        let ends = |_: &Value| object(&json!({"continue": false, "stopReason": "enough"}));
        let mut world = World::new([changes("this"), says("Never said.")])
            .with(change())
            .with_hooks([
                payloads.hook(event, ends),
                payloads.hook(event, |_| HookReply::Nothing),
            ]);
        let outcome = world.run("go").await;
        assert_eq!(outcome.reason, ExitReason::EndTurn);
        assert_eq!((world.requests().len(), payloads.0.lock().len()), (1, 1));
        assert_eq!(world.notices(), "a hook ended the run: enough");
    }
}

/// A failed hook that has nothing to refuse is reported and has no influence.
#[tokio::test]
async fn a_failing_hook_does_not_end_a_run() {
    let payloads = RecordedPayloads::default();
    let fails = |event| payloads.hook(event, |_| HookReply::no_answer("it crashed"));
    let others = HookEvent::ALL.into_iter().filter(|event| !event.guards());
    let mut world = World::new([changes("this"), says("Done.")])
        .with(change())
        .with_hooks(others.map(fails));
    let outcome = world.run("go").await;
    assert_eq!(
        (outcome.answer.as_str(), outcome.reason),
        ("Done.", ExitReason::EndTurn)
    );
    assert!(
        world
            .notices()
            .contains("the PostToolUse hook `recorder` failed: it crashed")
    );
}

/// Without the answer of a hook before a tool, the host decides; without a host, the call is denied.
#[tokio::test]
async fn a_guard_that_fails_has_not_allowed_the_call() {
    for answers in [vec![allow()], vec![]] {
        let payloads = RecordedPayloads::default();
        let crashes = |_: &Value| HookReply::no_answer("it crashed");
        let mut world = World::new([changes("this"), says("Done.")])
            .with(change())
            .with_hooks([payloads.hook(HookEvent::PreToolUse, crashes)])
            .answering(answers.clone());
        let outcome = world.run("go").await;
        assert_eq!(world.questions().len(), 1);
        assert_eq!(outcome.denials.len(), 1 - answers.len());
        assert_eq!(
            world.notices(),
            "the PreToolUse hook `recorder` failed: it crashed"
        );
    }
}

/// Where nobody can answer any more, the first call that needs it ends the run.
#[tokio::test]
async fn a_guard_that_is_gone_ends_the_run() {
    let payloads = RecordedPayloads::default();
    let gone = |_: &Value| HookReply::Failed(HookFailure::Over("the host is gone".into()));
    let mut world = World::new([changes("this"), says("Never said.")])
        .with(change())
        .with_hooks([payloads.hook(HookEvent::PreToolUse, gone)])
        .answering([allow()]);
    let outcome = world.run("go").await;
    assert_eq!(outcome.reason, ExitReason::Error);
    assert_eq!(
        outcome.failure.unwrap().to_string(),
        "the hook `recorder` cannot be asked: the host is gone"
    );
    assert_eq!((world.requests().len(), outcome.denials.len()), (1, 1));
    assert!(world.questions().is_empty());
}

/// A hook before a tool whose decision cannot be read has not allowed the call.
#[tokio::test]
async fn a_misspelt_decision_allows_nothing() {
    let payloads = RecordedPayloads::default();
    let misspelt = |_: &Value| pre("Deny", &json!({}));
    let mut world = World::new([changes("this"), says("Done.")])
        .with(change())
        .with_hooks([payloads.hook(HookEvent::PreToolUse, misspelt)])
        .answering([allow()]);
    world.run("go").await;
    assert_eq!(world.questions().len(), 1);
    assert_eq!(
        world.notices(),
        "the PreToolUse hook `recorder` failed: its `permissionDecision` is \"Deny\"; expected `allow`, `deny`, `ask`, `defer`"
    );
}

/// A prompt that a hook refuses is neither sent nor stored.
#[tokio::test]
async fn a_refused_prompt_is_not_sent() {
    let payloads = RecordedPayloads::default();
    let refuses = |_: &Value| object(&json!({"decision": "block", "reason": "no secrets"}));
    let mut world = World::new([says("Never said.")])
        .with_hooks([payloads.hook(HookEvent::UserPromptSubmit, refuses)]);
    let outcome = world.run("my key is x").await;
    assert_eq!(
        (
            world.requests().len(),
            world.messages().await.len(),
            outcome.turns
        ),
        (0, 0, 0)
    );
    insta::assert_snapshot!(outcome.answer, @"
    UserPromptSubmit operation blocked by hook:
    no secrets

    Original prompt: my key is x
    ");
}

/// Hooks are called before a summary, with context for it, and after it.
#[tokio::test]
async fn hooks_are_called_before_and_after_a_summary() {
    let payloads = RecordedPayloads::default();
    let wants =
        |_: &Value| object(&json!({"hookSpecificOutput": {"additionalContext": "keep the names"}}));
    let at = |tokens, text: &str| Turn {
        usage: Some(Usage {
            input_tokens: tokens,
            ..Usage::default()
        }),
        ..says(text)
    };
    let turns = [
        at(1_000, "One."),
        at(160_001, "Two."),
        says("What happened."),
        at(2_000, "Three."),
    ];
    let begins = |input: &Value| match input["source"].as_str() {
        Some("compact") => HookReply::Text("read the plan again".into()),
        _ => HookReply::Nothing,
    };
    let mut world = World::new(turns).with_hooks([
        payloads.hook(HookEvent::PreCompact, wants),
        payloads.hook(HookEvent::PostCompact, |_| HookReply::Nothing),
        payloads.hook(HookEvent::SessionStart, begins),
    ]);
    for prompt in ["first", "second", "third"] {
        world.run(prompt).await;
    }
    insta::assert_snapshot!(payloads.lines(), @r#"
        SessionStart {"source":"startup","model":"test"}
        SessionStart {"source":"resume","model":"test"}
        SessionStart {"source":"resume","model":"test"}
        PreCompact {"trigger":"auto","custom_instructions":null}
        PostCompact {"trigger":"auto","compact_summary":"What happened."}
        SessionStart {"source":"compact"}
        "#);
    let asked = world.request(2);
    assert!(
        asked.contains("Instructions for the summary: keep the names"),
        "{asked}"
    );
    let after = world.request(3);
    assert!(after.contains("[HOOK] read the plan again"), "{after}");
}

/// An interrupt does not wait for a slow hook.
#[tokio::test]
async fn an_interrupt_does_not_wait_for_a_hook() {
    struct Slow(Matcher);
    #[async_trait]
    impl Hook for Slow {
        fn event(&self) -> HookEvent {
            HookEvent::PreToolUse
        }
        fn matcher(&self) -> &Matcher {
            &self.0
        }
        fn name(&self) -> &str {
            "slow"
        }
        fn kind(&self) -> &'static str {
            "hook"
        }
        fn condition(&self) -> Option<&Rule> {
            None
        }
        fn on_failure(&self) -> Option<OnFailure> {
            None
        }
        async fn ask(&self, _: &Value, _: Option<&ToolUseId>) -> HookAnswer {
            pin!(std::future::pending::<HookAnswer>()).await
        }
    }
    let mut world = World::new([changes("this"), says("Never said.")])
        .with(change())
        .with_hooks([Arc::new(Slow(Matcher::default())) as Arc<dyn Hook>]);
    world.settings.timeout_ms = Some(1);
    let outcome = world.run("go").await;
    assert_eq!(outcome.reason, ExitReason::Timeout);
}
