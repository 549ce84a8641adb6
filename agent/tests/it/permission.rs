//! Permission of calls: decisions of the rules and answers of the host.

use ah_agent::SessionChange;
use ah_conversation::{
    Access, CommandLine, Destination, ExitReason, Interaction, Output, PermissionAnswer,
    PermissionMode, PermissionUpdate, Permissions,
};
use ah_testkit::script::{Turn, says, uses, uses_all};
use serde_json::json;

use crate::world::{Fake, World};

/// A tool whose calls need approval, and which returns its input.
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

/// The answer decides, and its message is the result that the model sees.
#[tokio::test]
async fn the_host_is_asked_about_each_call() {
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
    let denied: Vec<_> = outcome
        .denials
        .iter()
        .map(|call| call.id.as_str())
        .collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(outcome.reason, ExitReason::EndTurn);
}

/// The input from the host is validated like any other, and then runs.
#[tokio::test]
async fn the_updated_input_runs() {
    let answer = PermissionAnswer::Allow {
        input: Some(json!({"what": "other"}).into()),
        updates: Vec::new(),
    };
    let mut world = world([changes("this"), says("Done.")]).answering([answer]);
    world.run("go").await;
    assert_eq!(world.last_results(), ["changed {\"what\":\"other\"}"]);
}

/// A denial with `interrupt` ends the run; the call still gets its result.
#[tokio::test]
async fn a_denial_may_end_the_run() {
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

/// A suggestion that is accepted avoids further questions, and is saved where it says.
#[tokio::test]
async fn an_accepted_suggestion_avoids_further_questions() {
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

/// The host can set mode `bypassPermissions` only if it was enabled at the start, and it is not saved.
#[tokio::test]
async fn an_answer_cannot_enable_bypass_permissions() {
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

/// If nobody can be asked, calls that need approval are denied; in `dontAsk` nobody is asked.
#[tokio::test]
async fn unanswered_requests_are_denied() {
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

/// A call that asks the user to choose, and returns the answer.
fn asking(asking: Interaction) -> Fake {
    Fake::touching("ask", Access::Ask(asking), |input| async move {
        Output::text(input.to_value().to_string())
    })
}

/// The user answers through the input; no mode or rule answers for them.
#[tokio::test]
async fn user_input_is_returned_in_the_calls_input() {
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
    insta::assert_snapshot!(alone.last_results()[0], @"Nobody can be asked here, so ask has no answer. Continue as you think best, and say what you assumed.");
}

/// An approved plan ends mode `plan`, already for later calls of the same answer; a refused one does not.
#[tokio::test]
async fn an_approved_plan_ends_mode_plan() {
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

/// If a host sets mode `plan` during a session, the approval restores the mode before it, as it does if the model or
/// a permission update has set it.
#[tokio::test]
async fn an_approved_plan_restores_the_mode_before_the_hosts_plan_mode() {
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
