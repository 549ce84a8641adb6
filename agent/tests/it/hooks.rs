//! What hooks are told, in which order, and what their word does.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use ah_agent::hooks::{Hook, HookAnswer, HookEvent, HookReply, Matcher};
use ah_conversation::{
    Access, CommandLine, ExitReason, Output, PermissionAnswer, PermissionMode, ToolUseId, Usage,
};
use ah_testkit::script::{Turn, says, uses, uses_all};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::world::{Fake, World};

type Replies = Box<dyn Fn(&Value) -> HookReply + Send + Sync>;

/// A hook that keeps what it is told and says what a test wants.
struct Recorder {
    event: HookEvent,
    matcher: Matcher,
    told: Arc<Mutex<Vec<Value>>>,
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

    async fn ask(&self, input: &Value, _: Option<&ToolUseId>) -> HookAnswer {
        self.told.lock().unwrap().push(input.clone());
        (self.say)(input).into()
    }
}

/// What all hooks of a world were told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Value>>>);

impl Told {
    fn hook(
        &self,
        event: HookEvent,
        say: impl Fn(&Value) -> HookReply + Send + Sync + 'static,
    ) -> Arc<dyn Hook> {
        Arc::new(Recorder {
            event,
            matcher: Matcher::default(),
            told: self.0.clone(),
            say: Box::new(say),
        })
    }

    /// One for each event, without a word.
    fn all(&self) -> Vec<Arc<dyn Hook>> {
        let silent = |event| self.hook(event, |_| HookReply::Nothing);
        HookEvent::ALL.into_iter().map(silent).collect()
    }

    /// What was told, an event in a line, without what all are told.
    fn lines(&self) -> String {
        let told = self.0.lock().unwrap();
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
        told.iter().map(line).collect::<Vec<_>>().join("\n")
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

/// Port 03 k, port 07 a and k, row H1: what a recorder hears of a run in which a call succeeds, one fails, one is denied
/// by a hook, and one by the host.
#[tokio::test]
async fn box_11_hooks_are_told_in_order() {
    let told = Told::default();
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
    let mut hooks = told.all();
    hooks.retain(|hook| hook.event() != HookEvent::PreToolUse);
    hooks.push(told.hook(HookEvent::PreToolUse, deny));
    let mut world = asking([calls, says("Done.")])
        .with_hooks(hooks)
        .answering([allow(), allow()]);
    let outcome = world.run("go").await;
    assert_eq!(outcome.denials.len(), 2);
    insta::assert_snapshot!(told.lines(), @r#"
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
        Stop {"last_assistant_message":"Done.","stop_hook_active":false,"background_tasks":[]}
        SessionEnd {"reason":"other"}
        "#);
}

/// A call that was at work when the run was interrupted has failed, and its hook knows why.
#[tokio::test]
async fn hooks_are_told_which_calls_an_interrupt_has_stopped() {
    let told = Told::default();
    let lasting = Fake::touching("lasts", Access::Unknown, |_| async move {
        std::future::pending::<Output>().await
    });
    let calls = uses_all([("lasts", json!({"what": 1})), ("lasts", json!({"what": 2}))]);
    let mut world = World::new([calls])
        .with(lasting)
        .with_hooks([told.hook(HookEvent::PostToolUseFailure, |_| HookReply::Nothing)]);
    let outcome = world.run_until_event("go", "tool_call_start").await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    insta::assert_snapshot!(told.lines(), @r#"PostToolUseFailure {"error":"the run was stopped while the call was at work","tool_use_id":"toolu_00000000000000000000000001_0","tool_input":{"what":1},"tool_name":"lasts","is_interrupt":true}"#);
}

/// What a tool says of its output for programs is what hooks are told, and nothing else.
#[tokio::test]
async fn hooks_are_told_the_details_of_a_result() {
    let told = Told::default();
    let tells = Fake::touching("tells", Access::Unknown, |_| async move {
        Output::text("for the model").with_details(json!({"stdout": "for programs"}))
    });
    let mut world = World::new([uses("tells", json!({})), says("Done.")])
        .with(tells)
        .with_hooks([told.hook(HookEvent::PostToolUse, |_| HookReply::Nothing)]);
    world.run("go").await;
    let told = told.0.lock().unwrap();
    assert_eq!(told[0]["tool_response"], json!({"stdout": "for programs"}));
}

/// Port 07 f and row H2: what a hook says of a call counts, and what is denied stays so.
#[tokio::test]
async fn port_07_f_a_hook_has_a_say_in_a_call() {
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
        ("defer", json!({}), false, 1, "changed {\"what\":\"this\"}"),
        (
            "allow",
            json!({}),
            true,
            0,
            "Permission to use change was denied by the rule `change`.",
        ),
    ] {
        let told = Told::default();
        let say = move |_: &Value| pre(decision, &more);
        let mut world = asking([changes("this"), says("Done.")])
            .with_hooks([told.hook(HookEvent::PreToolUse, say)])
            .answering([allow()]);
        if denied {
            world.settings.permissions.deny = vec!["change".parse().unwrap()];
        }
        world.run("go").await;
        assert_eq!(world.last_results(), [expected], "{decision}");
        assert_eq!(world.questions().len(), questions, "{decision}");
    }
}

/// Port 06 e: a hook that settles a question keeps it from the host.
#[tokio::test]
async fn port_06_e_a_hook_answers_in_the_place_of_the_host() {
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
        let told = Told::default();
        let say = move |_: &Value| object(&json!({"hookSpecificOutput": {"decision": decision}}));
        let mut world = asking([changes("this"), says("Done.")])
            .with_hooks([told.hook(HookEvent::PermissionRequest, say)]);
        let outcome = world.run("go").await;
        assert_eq!(world.last_results(), [expected]);
        assert_eq!((world.questions().len(), outcome.reason), (0, reason));
    }
}

/// Port 07 h and row H3: what hooks add reaches the next request.
#[tokio::test]
async fn port_07_h_context_reaches_the_next_request() {
    let told = Told::default();
    let adds = |event: HookEvent| {
        let text = format!("from {}", event.as_str());
        told.hook(event, move |_| {
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
            told.hook(HookEvent::PostToolUse, |_| {
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

/// Port 07 g and row H3: a hook may keep a run going, and knows when it has; but not for ever.
#[tokio::test]
async fn port_07_g_a_stop_hook_keeps_a_run_going_but_not_for_ever() {
    let once = |input: &Value| match input["stop_hook_active"] == true {
        true => HookReply::Nothing,
        false => HookReply::Block("also test it".into()),
    };
    let told = Told::default();
    let mut world = World::new([says("First."), says("Second.")])
        .with_hooks([told.hook(HookEvent::Stop, once)]);
    let outcome = world.run("go").await;
    assert_eq!((outcome.answer.as_str(), outcome.turns), ("Second.", 2));
    assert!(world.request(1).contains("[STOP HOOK] also test it"));

    let told = Told::default();
    let answers = (0..12).map(|at| says(&format!("Answer {at}.")));
    let mut world = World::new(answers)
        .with_hooks([told.hook(HookEvent::Stop, |_| HookReply::Block("again".into()))]);
    let outcome = world.run("go").await;
    assert_eq!((outcome.turns, outcome.reason), (9, ExitReason::EndTurn));
    insta::assert_snapshot!(world.notices(), @"a Stop hook has kept the run going 8 times; now it ends");
}

/// Port 07 e: `continue: false` stops further hooks and the run.
#[tokio::test]
async fn port_07_e_a_hook_may_end_the_run() {
    for event in [HookEvent::PreToolUse, HookEvent::PostToolUse] {
        let told = Told::default();
        let ends = |_: &Value| object(&json!({"continue": false, "stopReason": "enough"}));
        let mut world = World::new([changes("this"), says("Never said.")])
            .with(change())
            .with_hooks([
                told.hook(event, ends),
                told.hook(event, |_| HookReply::Nothing),
            ]);
        let outcome = world.run("go").await;
        assert_eq!(outcome.reason, ExitReason::EndTurn);
        assert_eq!(
            (world.requests().len(), told.0.lock().unwrap().len()),
            (1, 1)
        );
        assert_eq!(world.notices(), "a hook ends the run: enough");
    }
}

/// Port 07 i: a hook that fails is told of and has no say.
#[tokio::test]
async fn port_07_i_a_failing_hook_does_not_end_a_run() {
    let told = Told::default();
    let fails = |event| told.hook(event, |_| HookReply::Failed("it crashed".into()));
    let mut world = World::new([changes("this"), says("Done.")])
        .with(change())
        .with_hooks(HookEvent::ALL.map(fails));
    let outcome = world.run("go").await;
    assert_eq!(
        (outcome.answer.as_str(), outcome.reason),
        ("Done.", ExitReason::EndTurn)
    );
    assert!(
        world
            .notices()
            .contains("the PreToolUse hook `recorder` failed: it crashed")
    );
}

/// A prompt that a hook refuses reaches nobody and is not kept.
#[tokio::test]
async fn a_prompt_that_is_refused_is_not_sent() {
    let told = Told::default();
    let refuses = |_: &Value| object(&json!({"decision": "block", "reason": "no secrets"}));
    let mut world = World::new([says("Never said.")])
        .with_hooks([told.hook(HookEvent::UserPromptSubmit, refuses)]);
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

/// Port 09 d: hooks are told before a summary, which may heed what they say, and when the conversation begins anew.
#[tokio::test]
async fn port_09_d_hooks_stand_around_a_summary() {
    let told = Told::default();
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
        told.hook(HookEvent::PreCompact, wants),
        told.hook(HookEvent::SessionStart, begins),
    ]);
    for prompt in ["first", "second", "third"] {
        world.run(prompt).await;
    }
    insta::assert_snapshot!(told.lines(), @r#"
        SessionStart {"source":"startup","model":"test"}
        SessionStart {"source":"resume","model":"test"}
        SessionStart {"source":"resume","model":"test"}
        PreCompact {"trigger":"auto","custom_instructions":null}
        SessionStart {"source":"compact"}
        "#);
    let asked = world.request(2);
    assert!(
        asked.contains("What the summary is to heed: keep the names"),
        "{asked}"
    );
    let after = world.request(3);
    assert!(after.contains("[HOOK] read the plan again"), "{after}");
}

/// An interrupt is not held up by a hook that takes its time.
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
