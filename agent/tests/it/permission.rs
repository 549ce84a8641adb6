//! Whether a call happens: what the rules say, and what somebody says who is asked.

use ah_agent::SessionChange;
use ah_conversation::{
    Access, CommandLine, Destination, ExitReason, Interaction, Output, PermissionAnswer,
    PermissionMode, PermissionUpdate, Permissions,
};
use ah_testkit::script::{Turn, says, uses, uses_all};
use serde_json::json;

use crate::world::{Fake, World};

/// A tool whose calls are asked about, and which says what it was given.
fn change() -> Fake {
    let access = Access::Command(CommandLine::opaque("make"));
    Fake::touching("change", access, |input| async move {
        Output::text(format!("changed {}", input.to_value()))
    })
}

fn changes(what: &str) -> Turn {
    uses("change", json!({"what": what}))
}

fn world(turns: impl IntoIterator<Item = Turn>) -> World {
    let mut world = World::new(turns).with(change());
    world.settings.permissions = Permissions {
        mode: PermissionMode::Default,
        ..Permissions::default()
    };
    world
}

fn allow() -> PermissionAnswer {
    PermissionAnswer::Allow {
        input: None,
        updates: Vec::new(),
    }
}

fn deny(message: &str, interrupt: bool) -> PermissionAnswer {
    PermissionAnswer::Deny {
        message: message.into(),
        interrupt,
    }
}

/// Row M3: the answer decides, and what it says is what the model is told.
#[tokio::test]
async fn row_m3_the_host_is_asked_call_by_call() {
    let calls = uses_all([
        ("change", json!({"what": 1})),
        ("change", json!({"what": 2})),
        ("change", json!({"what": 3})),
    ]);
    let mut world =
        world([calls, says("Done.")]).answering([allow(), deny("not this", false), allow()]);
    let outcome = world.run("go").await;
    assert_eq!(
        world.last_results(),
        ["changed {\"what\":1}", "not this", "changed {\"what\":3}"]
    );
    // Row M4.
    let denied: Vec<_> = outcome
        .denials
        .iter()
        .map(|call| call.id.as_str())
        .collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(outcome.reason, ExitReason::EndTurn);
}

/// Port 06 f and row M3: the input that the host gives is the one that runs, after it was checked like any other.
#[tokio::test]
async fn port_06_f_the_updated_input_is_what_runs() {
    let answer = PermissionAnswer::Allow {
        input: Some(json!({"what": "other"}).into()),
        updates: Vec::new(),
    };
    let mut world = world([changes("this"), says("Done.")]).answering([answer]);
    world.run("go").await;
    assert_eq!(world.last_results(), ["changed {\"what\":\"other\"}"]);
}

/// Port 06 g: a denial with `interrupt` ends the run; the call has its answer all the same.
#[tokio::test]
async fn port_06_g_a_denial_may_end_the_run() {
    let calls = uses_all([
        ("change", json!({"what": 1})),
        ("change", json!({"what": 2})),
    ]);
    let mut world = world([calls, says("Never said.")]).answering([deny("stop", true)]);
    let outcome = world.run("go").await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    assert_eq!((world.requests().len(), world.questions().len()), (1, 1));
    assert!(
        world.last_results()[0].starts_with("stop"),
        "{:?}",
        world.last_results()
    );
}

/// Port 06 c: what is suggested, once it is sent back, keeps the question from coming again, and is kept where it says.
#[tokio::test]
async fn port_06_c_a_suggestion_that_is_taken_stops_the_questions() {
    let first = {
        let mut world = world([changes("this"), says("Done.")]);
        world.run("go").await;
        world.questions().remove(0)
    };
    let updates: Vec<PermissionUpdate> = first.inquiry.suggestions;
    let answer = PermissionAnswer::Allow {
        input: None,
        updates,
    };
    let mut world = world([changes("this"), changes("that"), says("Done.")]).answering([answer]);
    world.run("go").await;
    assert_eq!(world.questions().len(), 1);
    insta::assert_snapshot!(world.saved().join("\n"), @r#"{"type":"addRules","rules":[{"toolName":"change","ruleContent":"make"}],"behavior":"allow","destination":"localSettings"}"#);
}

/// Port 06 h: who answers can choose the mode that allows everything only where it was agreed to, and it is not kept.
#[tokio::test]
async fn port_06_h_an_answer_does_not_bring_the_mode_that_allows_everything() {
    for (may_bypass, questions, saved) in [(false, 2, 0), (true, 1, 1)] {
        let update = PermissionUpdate::SetMode {
            mode: PermissionMode::BypassPermissions,
            destination: Destination::LocalSettings,
        };
        let answer = PermissionAnswer::Allow {
            input: None,
            updates: vec![update],
        };
        let mut world =
            world([changes("this"), changes("that"), says("Done.")]).answering([answer, allow()]);
        world.settings.permissions.may_bypass = may_bypass;
        world.run("go").await;
        assert_eq!(world.questions().len(), questions, "{may_bypass}");
        assert_eq!(world.saved().len(), saved, "{may_bypass}");
    }
}

/// Port 06 k: without anybody to ask, what is asked is denied; in `dontAsk` nobody is asked.
#[tokio::test]
async fn port_06_k_what_nobody_answers_is_denied() {
    for (mode, asked) in [(PermissionMode::Default, 1), (PermissionMode::DontAsk, 0)] {
        let mut world = world([changes("this"), says("Done.")]);
        world.settings.permissions.mode = mode;
        let outcome = world.run("go").await;
        assert_eq!(world.questions().len(), asked, "{mode:?}");
        assert_eq!(
            (outcome.denials.len(), outcome.reason),
            (1, ExitReason::EndTurn)
        );
    }
}

/// A call that asks the person to choose, and says what was answered.
fn asking(asking: Interaction) -> Fake {
    Fake::touching("ask", Access::Ask(asking), |input| async move {
        Output::text(input.to_value().to_string())
    })
}

/// Whoever is asked answers in the input; no mode and no rule does in their place.
#[tokio::test]
async fn what_a_person_is_asked_is_answered_by_the_input() {
    let answer = || PermissionAnswer::Allow {
        input: Some(json!({"answers": {"Which?": "This."}}).into()),
        updates: Vec::new(),
    };
    for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
        let asks = uses("ask", json!({}));
        let choices = Interaction::Choices(Vec::new());
        let mut world = World::new([asks, says("Done.")])
            .with(asking(choices))
            .answering([answer()]);
        world.settings.permissions = Permissions {
            mode,
            allow: vec!["ask".parse().unwrap()],
            ..Permissions::default()
        };
        world.run("go").await;
        assert_eq!(world.questions().len(), 1, "{mode:?}");
        assert_eq!(
            world.last_results(),
            ["{\"answers\":{\"Which?\":\"This.\"}}"]
        );
    }
    let mut alone = World::new([uses("ask", json!({})), says("Done.")])
        .with(asking(Interaction::Choices(Vec::new())));
    alone.run("go").await;
    insta::assert_snapshot!(alone.last_results()[0], @"Nobody can be asked here, so ask has no answer. Go on as you think best, and say what you assumed.");
}

/// Row T8: an approved plan ends mode `plan`, for what follows in the same answer already; a refused one does not.
#[tokio::test]
async fn row_t8_an_approved_plan_ends_the_planning() {
    let to = |mode| PermissionUpdate::SetMode {
        mode,
        destination: Destination::Session,
    };
    let input = Some(json!({"plan": "Another."}).into());
    for (answer, asked, expected) in [
        (allow(), 2, ["{}", "changed {}"]),
        (
            PermissionAnswer::Allow {
                input,
                updates: vec![to(PermissionMode::BypassPermissions)],
            },
            1,
            ["{\"plan\":\"Another.\"}", "changed {}"],
        ),
        (
            deny("Not yet.", false),
            1,
            [
                "Not yet.",
                "Permission to use change was denied: mode `plan` does not allow this call.",
            ],
        ),
    ] {
        let calls = uses_all([("ask", json!({})), ("change", json!({}))]);
        let mut world = world([calls, says("Done.")])
            .with(asking(Interaction::Plan(None)))
            .answering([answer, allow()]);
        world.settings.permissions.mode = PermissionMode::Plan;
        world.settings.permissions.may_bypass = true;
        world.run("go").await;
        assert_eq!(world.last_results(), expected);
        assert_eq!(world.questions().len(), asked);
    }
}

/// Where a host chooses mode `plan` during a session, the mode before it comes back with the approval, as it does where
/// the model or a rule's change has chosen it.
#[tokio::test]
async fn a_plan_that_the_host_asked_for_leads_back_to_the_mode_before() {
    let mut world = world([says("Done.")]);
    world.settings.permissions.mode = PermissionMode::AcceptEdits;
    let mut session = world.open().await.unwrap();
    session
        .controls()
        .request(SessionChange::Mode(PermissionMode::Plan));
    session.take_changes();
    let mut permissions = session.settings().permissions.clone();
    assert_eq!(permissions.mode, PermissionMode::Plan);
    permissions.agree(&Interaction::Plan(None));
    assert_eq!(permissions.mode, PermissionMode::AcceptEdits);
}
