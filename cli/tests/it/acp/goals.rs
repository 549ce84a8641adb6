//! `/goal` in an editor: the engine says when the work is done.

use agent_client_protocol::v1::schema::StopReason;
use ah_testkit::script::says;
use ah_testkit::server::Server;
use parking_lot::Mutex;

use super::{begun, edit, prompted, served};
use crate::support::binary::World;
use crate::until::recorded::goals_are_replayed;
use crate::until::{ADD, CHECK, bash, world};

#[test]
fn a_goal_is_offered_and_worked_for_until_its_check_passes() {
    let world = world();
    let mend = bash("sed -i 's/-/+/' add.sh");
    let server = Server::new([
        says("It is done."),
        mend,
        says("Now it is."),
        says("Hello."),
    ]);
    let free = ["--dangerously-skip-permissions"];
    edit(served(&world, &server, &free), None, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        seen.wait(|seen| !seen.of("available_commands_update").is_empty())
            .await;
        let offered = &seen.of("available_commands_update")[0]["availableCommands"];
        let goal = offered.as_array().unwrap().iter();
        let goal: Vec<_> = goal.filter(|command| command["name"] == "goal").collect();
        assert_eq!(goal.len(), 1, "{offered}");
        assert_eq!(goal[0]["input"]["hint"], "[off] [WORDS] [--until COMMAND]");
        let said = || seen.text("agent_message_chunk");
        assert_eq!(prompted(&cx, &id, "/goal").await?, StopReason::EndTurn);
        assert!(said().contains("There is no goal"), "{}", said());
        let words = "/goal mend add --until sh tests/add.sh";
        assert_eq!(prompted(&cx, &id, words).await?, StopReason::EndTurn);
        assert!(
            said().contains("verified: `sh tests/add.sh` passed"),
            "{}",
            said()
        );
        // It holds for later prompts, until it is ended.
        world.write("add.sh", ADD.replace('-', "+") + "# later\n");
        assert_eq!(prompted(&cx, &id, "/goal off").await?, StopReason::EndTurn);
        let before = said().matches("verified").count();
        assert_eq!(prompted(&cx, &id, "Hello").await?, StopReason::EndTurn);
        assert!(said().ends_with("Hello."), "{}", said());
        assert_eq!(said().matches("verified").count(), before);
        Ok(())
    });
    // The model is told of the check, and reads why it did not pass.
    let requests = server.requests();
    let bodies: Vec<_> = { requests.iter() }
        .map(|request| request.body.to_string())
        .collect();
    assert!(bodies[0].contains("When you end your turn, `sh tests/add.sh` is run"));
    assert!(!bodies[0].contains("/goal"), "{}", bodies[0]);
    assert!(bodies[1].contains("add 2 3 is -1, not 5"), "{}", bodies[1]);
}

#[test]
fn goals_of_an_editor_are_replayed() {
    goals_are_replayed(|world, is_replayed, options| {
        let words = ["--dangerously-skip-permissions"].iter().chain(options);
        let said = Mutex::new(String::new());
        let ah = world.as_typed(words.copied().chain(["acp"]));
        edit(ah, None, async |cx, seen| {
            let (id, _) = begun(&cx, world).await?;
            let goal = format!("/goal mend add --until {CHECK}");
            for prompt in [&goal, "/goal off", &goal] {
                prompted(&cx, &id, prompt).await?;
            }
            *said.lock() = seen.text("agent_message_chunk");
            Ok(())
        });
        let said = said.into_inner();
        assert_eq!(
            said.matches("verified: `sh tests/add.sh` passed").count(),
            2,
            "{said}"
        );
        let records = said.matches("as recorded; not checked again").count();
        assert_eq!(records, if is_replayed { 2 } else { 0 }, "{said}");
        said
    });
}

/// What the project has is named, and not run before the user has typed it.
#[test]
fn a_goal_without_a_command_names_what_the_project_has() {
    let world = World::new();
    world.write("Makefile", "test:\n\ttouch was-run\n");
    let server = Server::new([says("?")]);
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        let refused = prompted(&cx, &id, "/goal mend it").await.unwrap_err();
        let told = format!("{refused:?}");
        assert!(told.contains("a goal needs a check"), "{told}");
        assert!(
            told.contains("this project has `make test` (Makefile)"),
            "{told}"
        );
        Ok(())
    });
    assert!(!world.file("was-run").exists());
    assert_eq!(server.requests().len(), 0);
}
