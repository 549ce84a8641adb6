//! Messages queued by other processes.

use ah_conversation::{MailKind, Origin};
use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn steering_is_read_before_the_next_call_and_never_between_a_call_and_its_result() {
    let world = World::new([uses("look", json!({})), says("As you wish.")]);
    let tool = world.steering_tool("look", "rather the other one");
    let mut world = world.with(tool);
    world.run("look").await;
    insta::assert_snapshot!(world.request(1), @"
        user: look
        assistant: [tool_use look {}] (tool_use)
        user: [tool_result look ok: seen]
        user: [STEERING] rather the other one
        ");
    assert!(
        world
            .events()
            .contains("steering_received rather the other one")
    );
}

#[tokio::test]
async fn follow_ups_run_in_order_after_the_answer() {
    let mut world = World::new([says("One."), says("Two and three.")]);
    world.send(MailKind::FollowUp, "second").await;
    world.send(MailKind::FollowUp, "third").await;
    let outcome = world.run("first").await;
    assert_eq!(outcome.answer, "Two and three.");
    assert_eq!(
        world.request(1),
        "user: first\nassistant: One. (end_turn)\nuser: second\nuser: third"
    );
}

#[tokio::test]
async fn steering_that_arrives_with_the_last_answer_continues_the_run() {
    let mut world = World::new([says("One."), says("Another one."), says("Three.")]);
    world.send(MailKind::FollowUp, "the third").await;
    world.steer_late("rather another");
    world.run("first").await;
    assert_eq!(
        world.request(2),
        "user: first\nassistant: One. (end_turn)\nuser: [STEERING] rather another\n\
         assistant: Another one. (end_turn)\nuser: the third"
    );
}

#[tokio::test]
async fn queued_messages_are_delivered_once_even_across_a_restart() {
    let mut world = World::new([says("One.")]);
    world.send(MailKind::Steer, "be brief").await;
    world.run("first").await;
    let mut world = world.resumed([says("Two.")]);
    world.run("second").await;
    let steered = |message: &&ah_conversation::Message| message.origin == Origin::Steering;
    let messages = world.messages().await;
    assert_eq!(
        messages
            .iter()
            .map(|message| &**message)
            .filter(steered)
            .count(),
        1
    );
    assert_eq!(world.request(0).matches("[STEERING] be brief").count(), 1);
}
