//! The mode that an editor shows is the mode that holds, also in the sandbox and in the next process; and sessions without a
//! prompt are there like others.

use agent_client_protocol::v1::schema::SetSessionModeRequest;

use super::*;

fn sandboxed(world: &World, server: &Server) -> Ah {
    world.asking_as_typed(server, ["-m", "sonnet", "acp"])
}

fn writes(path: &Path) -> Turn {
    uses("write", json!({"path": path, "content": "new"}))
}

#[test]
fn who_chooses_to_be_asked_is_asked_in_the_sandbox() {
    let world = World::new();
    let (first, second) = (
        world.project().join("first"),
        world.project().join("second"),
    );
    let turns = [writes(&first), says("1"), writes(&second), says("2")];
    let server = Server::new(turns);
    let mut kept = None;
    let once = Some(PermissionOptionKind::AllowOnce);
    edit(sandboxed(&world, &server), once, async |cx, seen| {
        let (id, session) = begun(&cx, &world).await?;
        assert_eq!(session["modes"]["currentModeId"], "sandboxed");
        prompted(&cx, &id, "One").await?;
        assert_eq!(seen.asked().len(), 0);
        let ask = SetSessionModeRequest::new(id.clone(), "default");
        cx.send_request(ask).block_task().await?;
        prompted(&cx, &id, "Two").await?;
        assert_eq!(seen.asked().len(), 1);
        kept = Some(id);
        Ok(())
    });
    assert!(first.exists() && second.exists());
    edit(sandboxed(&world, &server), once, async |cx, _| {
        initialized(&cx).await?;
        let load = LoadSessionRequest::new(kept.unwrap(), world.project());
        let loaded = cx.send_request(load).block_task().await?;
        let loaded = serde_json::to_value(loaded).unwrap();
        assert_eq!(loaded["modes"]["currentModeId"], "default");
        Ok(())
    });
}

/// What a session says of itself may come from somebody else.
#[test]
fn a_kept_mode_allows_no_more_than_the_settings() {
    let (world, server) = (World::new(), Server::new([says("Hello.")]));
    let mut kept = None;
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        let free = SetSessionModeRequest::new(id.clone(), "acceptEdits");
        cx.send_request(free).block_task().await?;
        kept = Some(id);
        Ok(())
    });
    edit(served(&world, &server, &[]), None, async |cx, _| {
        initialized(&cx).await?;
        let load = LoadSessionRequest::new(kept.unwrap(), world.project());
        let loaded = cx.send_request(load).block_task().await?;
        let loaded = serde_json::to_value(loaded).unwrap();
        assert_eq!(loaded["modes"]["currentModeId"], "default");
        Ok(())
    });
}

#[test]
fn a_session_without_a_prompt_is_loaded() {
    let (world, server) = (World::new(), Server::new([says("Hello.")]));
    let mut kept = None;
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        let load = LoadSessionRequest::new(id.clone(), world.project());
        cx.send_request(load).block_task().await?;
        kept = Some(id);
        Ok(())
    });
    let id = kept.unwrap();
    edit(served(&world, &server, &[]), None, async |cx, _| {
        initialized(&cx).await?;
        let load = LoadSessionRequest::new(id.clone(), world.project());
        cx.send_request(load).block_task().await?;
        assert_eq!(prompted(&cx, &id, "Hi").await?, StopReason::EndTurn);
        Ok(())
    });
}

/// It is there for the editor alone: nothing is continued with it, no list has it, and it is cleaned up.
#[test]
fn an_unused_session_is_nobody_elses() {
    let server = Server::new([says("First."), says("Hello.")]);
    let world = World::new();
    world.asking(&server, ["The first"]).run().expect(0);
    edit(served(&world, &server, &[]), None, async |cx, _| {
        begun(&cx, &world).await?;
        let list = ListSessionsRequest::new().cwd(world.project());
        let list = cx.send_request(list).block_task().await?;
        assert_eq!(list.sessions.len(), 1);
        Ok(())
    });
    assert_eq!(world.databases().len(), 2);
    world.asking(&server, ["-c", "And now?"]).run().expect(0);
    assert!(server.requests()[1].body.to_string().contains("The first"));
    world.ah(["gc"]).run().expect(0);
    assert_eq!(world.databases().len(), 1);
}

#[test]
fn what_cannot_be_loaded_harms_no_open_session() {
    let (world, server) = (World::new(), Server::new([says("Hello.")]));
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        let unknown = LoadSessionRequest::new("no-such-session", world.project());
        let refused = cx.send_request(unknown).block_task().await.unwrap_err();
        assert_eq!(i32::from(refused.code), -32002, "{refused:?}");
        let nowhere = LoadSessionRequest::new(id.clone(), "/no/such/folder");
        cx.send_request(nowhere).block_task().await.unwrap_err();
        assert_eq!(prompted(&cx, &id, "Hi").await?, StopReason::EndTurn);
        Ok(())
    });
}
