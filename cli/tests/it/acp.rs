//! `ah acp`: the real binary, driven by the client of the official crate over pipes.

mod client;
mod goals;
mod modes;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthCapabilities, CancelNotification, ClientCapabilities, CloseSessionRequest,
    DeleteSessionRequest, FileSystemCapabilities, ForkSessionRequest, InitializeRequest,
    ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PermissionOptionKind,
    PromptRequest, ReadTextFileRequest, ReadTextFileResponse, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionId,
    SessionNotification, SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason,
    SystemPrompt, SystemPromptMode, WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::{
    Agent, Client, Error, Lines, on_receive_notification, on_receive_request,
};
use ah_provider::script::format::Turn;
use ah_testkit::mcp::McpScript;
use ah_testkit::script::{hangs, says, thinks, uses, uses_all};
use ah_testkit::server::Server;
use futures_util::{sink, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::binary::{Ah, HANG, World};

/// What an editor was told and asked.
#[derive(Clone, Default)]
struct Seen {
    told: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<Value>>>,
    /// Receives a note of each notification.
    news: Arc<tokio::sync::Notify>,
    /// Files that the editor has open and has not saved.
    open: Arc<Mutex<HashMap<PathBuf, String>>>,
    /// Files that it was given.
    given: Arc<Mutex<Vec<(PathBuf, String)>>>,
}

impl Seen {
    /// The updates so far of this kind.
    fn of(&self, kind: &str) -> Vec<Value> {
        let told = self.told.lock();
        let updates = told.iter().filter(|it| it["sessionUpdate"] == kind);
        updates.cloned().collect()
    }

    /// The text of all pieces of this kind.
    fn text(&self, kind: &str) -> String {
        let pieces = self.of(kind).into_iter();
        let texts = pieces.filter_map(|it| Some(it["content"]["text"].as_str()?.to_owned()));
        texts.collect()
    }

    /// The fields of a call as all updates have left it.
    fn call(&self, name: &str) -> Value {
        let told = self.told.lock();
        let mut calls = told.iter().filter(|it| it["name"] == name);
        let mut call = calls.next().cloned().unwrap_or_default();
        for update in told.iter() {
            if update["sessionUpdate"] == "tool_call_update"
                && update["toolCallId"] == call["toolCallId"]
            {
                for (field, value) in update.as_object().unwrap() {
                    call[field] = value.clone();
                }
            }
        }
        call
    }

    /// Waits until `is_there`.
    async fn wait(&self, is_there: impl Fn(&Self) -> bool) {
        loop {
            let news = self.news.notified();
            if is_there(self) {
                return;
            }
            news.await;
        }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().clone()
    }
}

/// Runs `ah` as an editor does, which answers each question with an option of this kind, or with none. `drive` makes its
/// requests.
fn edit(
    ah: Ah,
    answer: Option<PermissionOptionKind>,
    drive: impl AsyncFnOnce(ConnectionTo<Agent>, Seen) -> Result<(), Error>,
) -> String {
    let mut command = ah.into_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (line, lines) = mpsc::unbounded_channel();
    let reader = std::thread::spawn(move || {
        for read in BufReader::new(stdout).lines() {
            if line.send(read).is_err() {
                break;
            }
        }
    });
    let incoming = stream::unfold(lines, async |mut lines| {
        lines.recv().await.map(|line| (line, lines))
    });
    let outgoing = sink::unfold(stdin, async |mut stdin, line: String| {
        stdin.write_all(format!("{line}\n").as_bytes())?;
        Ok::<_, std::io::Error>(stdin)
    });
    let seen = Seen::default();
    let (hears, is_asked) = (seen.clone(), seen.clone());
    let (reads, takes) = (seen.clone(), seen.clone());
    let connection = Client
        .v1()
        .on_receive_notification(
            async move |told: SessionNotification, _| {
                let told = serde_json::to_value(told.update).unwrap();
                hears.told.lock().push(told);
                hears.news.notify_waiters();
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let chosen = answer.and_then(|kind| {
                    let mut options = request.options.iter();
                    options.find(|option| option.kind == kind)
                });
                let outcome = match chosen {
                    Some(option) => RequestPermissionOutcome::Selected(
                        SelectedPermissionOutcome::new(option.option_id.clone()),
                    ),
                    None => RequestPermissionOutcome::Cancelled,
                };
                let request = serde_json::to_value(request).unwrap();
                is_asked.asked.lock().push(request);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                let open = reads.open.lock().get(&request.path).cloned();
                let text = open.or_else(|| fs::read_to_string(&request.path).ok());
                responder.respond(ReadTextFileResponse::new(text.unwrap_or_default()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _| {
                let file = (request.path, request.content);
                takes.given.lock().push(file);
                responder.respond(WriteTextFileResponse::new())
            },
            on_receive_request!(),
        )
        .connect_with(
            Lines::new(Box::pin(outgoing), Box::pin(incoming)),
            async |cx: ConnectionTo<Agent>| drive(cx, seen).await,
        );
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(HANG, connection).await });
    // Its pipes are closed now, so that it ends by itself.
    let ended = child.wait_with_output().unwrap();
    reader.join().unwrap();
    let notices = String::from_utf8_lossy(&ended.stderr).into_owned();
    match done {
        Ok(Ok(())) => assert!(ended.status.success(), "{notices}"),
        other => panic!("{other:?}\n{notices}"),
    }
    notices
}

fn served(world: &World, server: &Server, more: &[&str]) -> Ah {
    let arguments = ["-m", "sonnet", "--no-sandbox"].iter().chain(more);
    world.asking_as_typed(server, arguments.copied().chain(["acp"]))
}

async fn initialized(cx: &ConnectionTo<Agent>) -> Result<Value, Error> {
    let terminal = AuthCapabilities::new().terminal(true);
    let client = ClientCapabilities::new().auth(terminal);
    let request = InitializeRequest::new(ProtocolVersion::V1).client_capabilities(client);
    let response = cx.send_request(request).block_task().await?;
    Ok(serde_json::to_value(response).unwrap())
}

/// Begins a session; returns its id and the rest of the answer.
async fn begun(cx: &ConnectionTo<Agent>, world: &World) -> Result<(SessionId, Value), Error> {
    initialized(cx).await?;
    let request = NewSessionRequest::new(world.project());
    let response = cx.send_request(request).block_task().await?;
    let id = response.session_id.clone();
    Ok((id, serde_json::to_value(response).unwrap()))
}

async fn prompted(
    cx: &ConnectionTo<Agent>,
    id: &SessionId,
    text: &str,
) -> Result<StopReason, Error> {
    let request = PromptRequest::new(id.clone(), vec![text.into()]);
    Ok(cx.send_request(request).block_task().await?.stop_reason)
}

fn edits(path: &std::path::Path) -> Turn {
    uses(
        "edit",
        json!({"path": path, "old_string": "two", "new_string": "zwei"}),
    )
}

#[test]
fn what_it_can_do_is_said_first() {
    let (world, server) = (World::new(), Server::new([says("Hello.")]));
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let told = initialized(&cx).await?;
        assert_eq!(told["protocolVersion"], 1);
        assert_eq!(told["agentInfo"]["name"], "ah");
        let can = &told["agentCapabilities"];
        assert_eq!(can["loadSession"], true);
        assert_eq!(
            can["promptCapabilities"],
            json!({"image": true, "audio": false, "embeddedContext": true})
        );
        let login = &told["authMethods"][0];
        assert_eq!(
            (&login["type"], &login["args"]),
            (&json!("terminal"), &json!(["--login"]))
        );
        Ok(())
    });
}

#[test]
fn a_prompt_is_answered_in_pieces() {
    let world = World::new();
    let server = Server::new([thinks("Let me see.", "Hello there.")]);
    edit(served(&world, &server, &[]), None, async |cx, seen| {
        let (id, session) = begun(&cx, &world).await?;
        assert_eq!(session["modes"]["currentModeId"], "default");
        let options = session["configOptions"].as_array().unwrap();
        let ids: Vec<_> = options
            .iter()
            .map(|it| it["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["mode", "model", "busy"]);
        assert_eq!(options[1]["currentValue"], "sonnet");
        assert_eq!(prompted(&cx, &id, "Say hello").await?, StopReason::EndTurn);
        assert_eq!(seen.text("agent_message_chunk"), "Hello there.");
        // Before it, as this editor knows no notices, that commands are not confined.
        let thought = seen.text("agent_thought_chunk");
        assert_eq!(thought.lines().last(), Some("Let me see."), "{thought}");
        assert_eq!(seen.of("session_info_update")[0]["title"], "Say hello");
        assert_eq!(seen.of("available_commands_update").len(), 1);
        assert_eq!(seen.of("usage_update").len(), 1);
        Ok(())
    });
    assert!(server.refusals().is_empty(), "{:?}", server.refusals());
}

#[test]
fn the_last_message_says_what_a_check_has_shown() {
    for (command, expected) in [
        ("true", "verified: `true` passed"),
        ("false", "claimed, but `false` did not pass: exit 1"),
    ] {
        let (world, server) = (World::new(), Server::new([says("Done.")]));
        let check = ["--until", command, "--max-checks", "1"];
        edit(served(&world, &server, &check), None, async |cx, seen| {
            let (id, _) = begun(&cx, &world).await?;
            assert_eq!(prompted(&cx, &id, "Go").await?, StopReason::EndTurn);
            let said = seen.text("agent_message_chunk");
            assert!(said.contains(expected), "{said}");
            // Told again, it is a record.
            cx.send_request(CloseSessionRequest::new(id.clone()))
                .block_task()
                .await?;
            seen.told.lock().clear();
            let load = LoadSessionRequest::new(id, world.project());
            cx.send_request(load).block_task().await?;
            let said = seen.text("agent_message_chunk");
            assert!(said.contains(expected), "{said}");
            assert!(said.ends_with("(as recorded; not checked again)"), "{said}");
            Ok(())
        });
    }
}

#[test]
fn an_edit_is_asked_about_and_shown_as_a_diff() {
    let world = World::new();
    let path = world.write("a.txt", "one\ntwo\nthree\n");
    let turns = [
        uses("read", json!({"path": path})),
        edits(&path),
        says("Done."),
    ];
    let server = Server::new(turns);
    let allow = Some(PermissionOptionKind::AllowOnce);
    edit(served(&world, &server, &[]), allow, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        assert_eq!(prompted(&cx, &id, "Translate").await?, StopReason::EndTurn);
        let asked = seen.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        let call = &asked[0]["toolCall"];
        assert_eq!(call["kind"], "edit");
        assert_eq!(
            call["content"],
            json!([{"type": "diff", "path": path, "oldText": "two", "newText": "zwei"}])
        );
        let call = seen.call("read");
        assert_eq!(
            (&call["kind"], &call["status"]),
            (&json!("read"), &json!("completed"))
        );
        assert_eq!(call["title"], "read a.txt");
        assert_eq!(call["locations"], json!([{"path": path}]));
        let call = seen.call("edit");
        assert_eq!(
            (&call["kind"], &call["status"]),
            (&json!("edit"), &json!("completed"))
        );
        assert_eq!(
            call["content"],
            json!([{
                "type": "diff",
                "path": path,
                "oldText": "one\ntwo\nthree\n",
                "newText": "one\nzwei\nthree\n",
            }])
        );
        Ok(())
    });
    assert_eq!(world.text("a.txt"), "one\nzwei\nthree\n");
}

/// Initializes as an editor that gives and takes files.
async fn initialized_with_files(cx: &ConnectionTo<Agent>) -> Result<(), Error> {
    let files = FileSystemCapabilities::new();
    let files = files.read_text_file(true).write_text_file(true);
    let client = ClientCapabilities::new().fs(files);
    let request = InitializeRequest::new(ProtocolVersion::V1).client_capabilities(client);
    cx.send_request(request).block_task().await?;
    Ok(())
}

#[test]
fn a_call_works_on_what_the_editor_shows_and_undo_gives_that_back() {
    let world = World::new();
    let path = world.write("a.txt", "saved\n");
    let server = Server::new([
        uses("read", json!({"path": path})),
        edits(&path),
        says("Done."),
    ]);
    let allowed = Some(PermissionOptionKind::AllowOnce);
    edit(served(&world, &server, &[]), allowed, async |cx, seen| {
        initialized_with_files(&cx).await?;
        let request = NewSessionRequest::new(world.project());
        let id = cx.send_request(request).block_task().await?.session_id;
        let open = "not saved\ntwo\n".to_owned();
        seen.open.lock().insert(path.clone(), open);
        prompted(&cx, &id, "Edit it").await?;
        let changed = "not saved\nzwei\n".to_owned();
        assert_eq!(fs::read_to_string(&path).unwrap(), changed);
        assert_eq!(*seen.given.lock(), [(path.clone(), changed)]);
        Ok(())
    });
    let requests = server.requests();
    let read = requests[1].body["messages"].to_string();
    assert!(read.contains("not saved"), "{read}");
    world.as_typed(["undo"]).run().expect(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "not saved\ntwo\n");
}

#[test]
fn what_the_editor_has_open_goes_around_no_rule() {
    let world = World::new();
    let path = world.write("secret.txt", "saved\n");
    let rules = ["--disallowed-tools", "read(./secret.txt)"];
    let server = Server::new([uses("read", json!({"path": path})), says("No.")]);
    edit(served(&world, &server, &rules), None, async |cx, seen| {
        initialized_with_files(&cx).await?;
        let request = NewSessionRequest::new(world.project());
        let id = cx.send_request(request).block_task().await?.session_id;
        let open = "not saved\n".to_owned();
        seen.open.lock().insert(path.clone(), open);
        prompted(&cx, &id, "Read it").await?;
        assert_eq!(seen.call("read")["status"], "failed");
        Ok(())
    });
    let said = server.requests()[1].body["messages"].to_string();
    assert!(!said.contains("saved"), "{said}");
}

#[test]
fn a_session_is_copied_and_removed() {
    let world = World::new();
    let server = Server::new([says("Hello."), says("In the copy.")]);
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        prompted(&cx, &id, "Say hello").await?;
        let request = ForkSessionRequest::new(id.clone(), world.project());
        let copy = cx.send_request(request).block_task().await?.session_id;
        assert_ne!(copy, id);
        assert_eq!(prompted(&cx, &copy, "Go on").await?, StopReason::EndTurn);
        let request = DeleteSessionRequest::new(copy.clone());
        cx.send_request(request.clone()).block_task().await?;
        assert!(cx.send_request(request).block_task().await.is_err());
        let listed = ListSessionsRequest::new().cwd(world.project());
        let listed = cx.send_request(listed).block_task().await?.sessions;
        let ids: Vec<_> = listed.into_iter().map(|it| it.session_id).collect();
        assert_eq!(ids, [id]);
        Ok(())
    });
    let said = server.requests()[1].body["messages"].to_string();
    assert!(said.contains("Say hello"), "{said}");
}

#[test]
fn a_refused_edit_does_not_happen() {
    for answer in [
        Some(PermissionOptionKind::RejectOnce),
        Some(PermissionOptionKind::RejectAlways),
        None,
    ] {
        let world = World::new();
        let path = world.write("a.txt", "two\n");
        let turns = [
            uses("read", json!({"path": path})),
            edits(&path),
            says("Fine."),
        ];
        let server = Server::new(turns);
        edit(served(&world, &server, &[]), answer, async |cx, seen| {
            let (id, _) = begun(&cx, &world).await?;
            assert_eq!(prompted(&cx, &id, "Translate").await?, StopReason::EndTurn);
            assert_eq!(seen.asked().len(), 1);
            assert_eq!(seen.call("edit")["status"], "failed");
            Ok(())
        });
        assert_eq!(world.text("a.txt"), "two\n", "{answer:?}");
    }
}

#[test]
fn an_answer_for_always_is_asked_for_once() {
    let world = World::new();
    let run = || uses("bash", json!({"command": "touch a"}));
    let server = Server::new([run(), run(), says("Done.")]);
    let always = Some(PermissionOptionKind::AllowAlways);
    edit(served(&world, &server, &[]), always, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        prompted(&cx, &id, "Go").await?;
        let asked = seen.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0]["toolCall"]["title"], "touch a");
        assert_eq!(asked[0]["toolCall"]["kind"], "execute");
        let names: Vec<_> = { asked[0]["options"].as_array().unwrap().iter() }
            .map(|option| option["name"].as_str().unwrap().to_owned())
            .collect();
        assert!(names[1].starts_with("Always allow bash(touch"), "{names:?}");
        Ok(())
    });
    assert!(world.file("a").exists());
}

#[test]
fn a_question_of_the_model_is_answered_by_an_option() {
    let world = World::new();
    let question = json!({"questions": [{
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": false,
        "options": [
            {"label": "blue", "description": "as the sky"},
            {"label": "red", "description": "as a rose"},
        ],
    }]});
    let server = Server::new([uses("ask_user_question", question), says("Blue, then.")]);
    let first = Some(PermissionOptionKind::AllowOnce);
    edit(served(&world, &server, &[]), first, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        assert_eq!(prompted(&cx, &id, "Paint").await?, StopReason::EndTurn);
        let asked = seen.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0]["toolCall"]["title"], "Which colour?");
        assert_eq!(asked[0]["options"][0]["name"], "blue: as the sky");
        Ok(())
    });
    let requests = server.requests();
    let last = requests.last().unwrap().body["messages"].to_string();
    assert!(
        last.contains("Which colour?") && last.contains("blue"),
        "{last}"
    );
}

#[test]
fn an_approved_plan_ends_the_mode() {
    let world = World::new();
    let path = world.write("a.txt", "two\n");
    let turns = [
        uses("read", json!({"path": path})),
        uses("exit_plan_mode", json!({"plan": "Translate it."})),
        edits(&path),
        says("Done."),
    ];
    let server = Server::new(turns);
    let plan = ["--permission-mode", "plan"];
    let accepts = Some(PermissionOptionKind::AllowAlways);
    edit(served(&world, &server, &plan), accepts, async |cx, seen| {
        let (id, session) = begun(&cx, &world).await?;
        assert_eq!(session["modes"]["currentModeId"], "plan");
        assert_eq!(prompted(&cx, &id, "Plan").await?, StopReason::EndTurn);
        let asked = seen.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        let call = &asked[0]["toolCall"];
        assert_eq!(call["kind"], "switch_mode");
        assert_eq!(call["content"][0]["content"]["text"], "Translate it.");
        let modes = seen.of("current_mode_update");
        assert_eq!(modes[0]["currentModeId"], "acceptEdits");
        Ok(())
    });
    assert_eq!(world.text("a.txt"), "zwei\n");
}

#[test]
fn the_editor_brings_its_own_servers() {
    let world = World::new();
    let greeter = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello");
    let mut config = greeter.config();
    config["name"] = json!("s");
    config["env"] = json!([]);
    let server = Server::new([uses("mcp__s__greet", json!({})), says("Done.")]);
    let allow = Some(PermissionOptionKind::AllowOnce);
    edit(served(&world, &server, &[]), allow, async |cx, seen| {
        initialized(&cx).await?;
        let servers = vec![serde_json::from_value(config).unwrap()];
        let request = NewSessionRequest::new(world.project()).mcp_servers(servers);
        let id = cx.send_request(request).block_task().await?.session_id;
        assert_eq!(prompted(&cx, &id, "Greet").await?, StopReason::EndTurn);
        let call = seen.call("mcp__s__greet");
        assert_eq!(call["status"], "completed");
        assert_eq!(call["content"][0]["content"]["text"], "hello");
        Ok(())
    });
}

/// Servers of an editor lie anywhere, so they run outside the sandbox, and each call is asked about. The editor learns
/// why one does not start.
#[test]
fn an_editors_server_may_lie_outside_the_project() {
    let (world, elsewhere) = (World::new(), World::new());
    let greeter = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello");
    let script = elsewhere.write("server.sh", greeter.as_program());
    let config = |name: &str, script: &Path| json!({"name": name, "command": "sh", "args": [script], "env": []});
    let servers = [config("s", &script), config("gone", Path::new("/no/such"))];
    let server = Server::new([uses("mcp__s__greet", json!({})), says("Done.")]);
    let ah = world.asking_as_typed(&server, ["-m", "sonnet", "acp"]);
    let allow = Some(PermissionOptionKind::AllowOnce);
    edit(ah, allow, async |cx, seen| {
        initialized(&cx).await?;
        let servers = servers.map(|config| serde_json::from_value(config).unwrap());
        let request = NewSessionRequest::new(world.project()).mcp_servers(servers.to_vec());
        let id = cx.send_request(request).block_task().await?.session_id;
        assert_eq!(prompted(&cx, &id, "Greet").await?, StopReason::EndTurn);
        let call = seen.call("mcp__s__greet");
        assert_eq!(call["content"][0]["content"]["text"], "hello");
        assert_eq!(seen.asked.lock().len(), 1);
        let reason = "the MCP server `gone` failed: ";
        seen.wait(|seen| seen.text("agent_thought_chunk").contains(reason))
            .await;
        Ok(())
    });
}

#[test]
fn an_editor_gives_a_system_prompt() {
    for (mode, is_ours) in [
        (SystemPromptMode::Append, true),
        (SystemPromptMode::Override, false),
    ] {
        let world = World::new();
        let server = Server::new([says("Done.")]);
        edit(served(&world, &server, &[]), None, async |cx, _| {
            let able = initialized(&cx).await?;
            let able = &able["agentCapabilities"]["sessionCapabilities"]["systemPrompt"];
            assert_eq!(*able, json!({"mode": {"override": {}}}));
            let given = SystemPrompt::new(vec!["You are a pirate.".into()]).mode(mode);
            let request = NewSessionRequest::new(world.project()).system_prompt(given);
            let id = cx.send_request(request).block_task().await?.session_id;
            assert_eq!(prompted(&cx, &id, "Who?").await?, StopReason::EndTurn);
            Ok(())
        });
        let told = server.requests()[0].body["system"].to_string();
        assert!(told.contains("You are a pirate."), "{told}");
        assert_eq!(told.contains("You are `ah`"), is_ours, "{told}");
    }
}

#[test]
fn a_run_is_cancelled_and_the_session_goes_on() {
    let world = World::new();
    let server = Server::new([hangs("So far"), says("Again.")]);
    edit(served(&world, &server, &[]), None, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        let first = PromptRequest::new(id.clone(), vec!["Go".into()]);
        let first = cx.send_request(first);
        let waits = PromptRequest::new(id.clone(), vec!["And then".into()]);
        let waits = cx.send_request(waits);
        seen.wait(|seen| seen.text("agent_message_chunk") == "So far")
            .await;
        cx.send_notification(CancelNotification::new(id.clone()))?;
        assert_eq!(first.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(waits.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(prompted(&cx, &id, "Go on").await?, StopReason::EndTurn);
        assert_eq!(seen.text("agent_message_chunk"), "So farAgain.");
        Ok(())
    });
}

#[test]
fn a_mode_holds_from_the_next_call_on() {
    let world = World::new();
    let path = world.write("a.txt", "two\n");
    let turns = [
        uses("read", json!({"path": path})),
        edits(&path),
        says("Done."),
    ];
    let server = Server::new(turns);
    edit(served(&world, &server, &[]), None, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        let bypass = SetSessionModeRequest::new(id.clone(), "bypassPermissions");
        assert!(cx.send_request(bypass).block_task().await.is_err());
        let accept = SetSessionModeRequest::new(id.clone(), "acceptEdits");
        cx.send_request(accept).block_task().await?;
        seen.wait(|seen| seen.of("current_mode_update").len() == 1)
            .await;
        assert_eq!(prompted(&cx, &id, "Translate").await?, StopReason::EndTurn);
        assert!(seen.asked().is_empty());
        Ok(())
    });
    assert_eq!(world.text("a.txt"), "zwei\n");
}

#[test]
fn a_model_is_an_option_of_the_session() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        prompted(&cx, &id, "Go").await?;
        let set =
            |value: &'static str| SetSessionConfigOptionRequest::new(id.clone(), "model", value);
        let response = cx.send_request(set("opus")).block_task().await?;
        let options = serde_json::to_value(response).unwrap();
        assert_eq!(options["configOptions"][1]["currentValue"], "opus");
        prompted(&cx, &id, "Go on").await?;
        Ok(())
    });
    let models = server.requests().into_iter();
    let models: Vec<_> = models
        .map(|it| it.body["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(models, ["claude-sonnet-4-5-20250929", "claude-opus-4-6"]);
}

#[test]
fn a_task_list_is_a_plan() {
    let world = World::new();
    let todo = |content: &str, status: &str| json!({"content": content, "status": status, "activeForm": content});
    let list = json!({"todos": [todo("read", "completed"), todo("write", "in_progress")]});
    let server = Server::new([uses("todo", list), says("Done.")]);
    edit(served(&world, &server, &[]), None, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        prompted(&cx, &id, "Plan").await?;
        let plans = seen.of("plan");
        assert_eq!(plans.len(), 1, "{:?}", seen.told);
        assert_eq!(plans[0]["entries"][1]["content"], "write");
        assert_eq!(plans[0]["entries"][1]["status"], "in_progress");
        Ok(())
    });
}

#[test]
fn a_session_is_listed_and_loaded_by_another_process() {
    let world = World::new();
    let path = world.write("a.txt", "two\n");
    let read = uses_all([("read", json!({"path": path}))]);
    let server = Server::new([read, says("It says two."), says("As before.")]);
    let mut first = None;
    edit(served(&world, &server, &[]), None, async |cx, _| {
        let (id, _) = begun(&cx, &world).await?;
        prompted(&cx, &id, "What is in a.txt?").await?;
        first = Some(id);
        Ok(())
    });
    let id = first.unwrap();
    edit(served(&world, &server, &[]), None, async |cx, seen| {
        initialized(&cx).await?;
        let list = ListSessionsRequest::new().cwd(world.project());
        let list = cx.send_request(list).block_task().await?;
        let [listed] = list.sessions.as_slice() else {
            panic!("{list:?}")
        };
        assert_eq!(listed.session_id, id);
        assert_eq!(listed.title.as_deref(), Some("What is in a.txt?"));
        for _ in 0..2 {
            seen.told.lock().clear();
            let load = LoadSessionRequest::new(id.clone(), world.project());
            cx.send_request(load).block_task().await?;
            assert_eq!(seen.text("user_message_chunk"), "What is in a.txt?");
            assert_eq!(seen.text("agent_message_chunk"), "It says two.");
            assert_eq!(seen.call("read")["status"], "completed");
        }
        assert_eq!(prompted(&cx, &id, "And now?").await?, StopReason::EndTurn);
        cx.send_request(CloseSessionRequest::new(id.clone()))
            .block_task()
            .await?;
        let closed = prompted(&cx, &id, "Still there?").await.unwrap_err();
        assert_eq!(closed.message, format!("there is no open session `{id}`"));
        Ok(())
    });
    assert!(server.refusals().is_empty(), "{:?}", server.refusals());
}

#[test]
fn without_a_key_the_editor_is_told_to_log_in() {
    let world = World::new();
    let ah = world.as_typed(["-m", "sonnet", "--no-sandbox", "acp"]);
    edit(ah, None, async |cx, _| {
        let error = begun(&cx, &world).await.unwrap_err();
        assert_eq!(error.code.value(), -32000, "{error}");
        Ok(())
    });
}

#[test]
fn senseless_requests_are_errors_and_nothing_else() {
    let (world, server) = (World::new(), Server::new([says("Still here.")]));
    edit(served(&world, &server, &[]), None, async |cx, seen| {
        let nowhere = SessionId::new("nowhere");
        assert!(prompted(&cx, &nowhere, "Hello").await.is_err());
        cx.send_notification(CancelNotification::new(nowhere.clone()))?;
        let (id, _) = begun(&cx, &world).await?;
        for folder in ["relative", "/no/such/folder"] {
            let request = NewSessionRequest::new(folder);
            assert!(
                cx.send_request(request).block_task().await.is_err(),
                "{folder}"
            );
        }
        for wanted in ["../../etc/passwd", "", "01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            let request = LoadSessionRequest::new(wanted, world.project());
            assert!(
                cx.send_request(request).block_task().await.is_err(),
                "{wanted}"
            );
        }
        let empty = PromptRequest::new(id.clone(), Vec::new());
        assert!(cx.send_request(empty).block_task().await.is_err());
        let mode = SetSessionModeRequest::new(id.clone(), "\u{1b}[31m");
        assert!(cx.send_request(mode).block_task().await.is_err());
        let option = SetSessionConfigOptionRequest::new(id.clone(), "model", "no-such-model");
        assert!(cx.send_request(option).block_task().await.is_err());
        let list = ListSessionsRequest::new().cursor("elsewhere".to_owned());
        assert!(cx.send_request(list).block_task().await.is_err());
        assert_eq!(prompted(&cx, &id, "Hello").await?, StopReason::EndTurn);
        assert_eq!(seen.text("agent_message_chunk"), "Still here.");
        Ok(())
    });
}

#[test]
fn broken_lines_are_answered_by_errors() {
    let (world, server) = (World::new(), Server::new([says("Hello.")]));
    let mut ah = served(&world, &server, &[]).with_silent_stdin().start();
    let request = |id: u32, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    ah.say(&request(1, "initialize", json!({"protocolVersion": 1})));
    ah.wait_for_output("agentInfo");
    let deep = "[".repeat(100_000);
    for line in ["no json", "[]", "\"x\"", "{}", &deep] {
        ah.say(line);
    }
    ah.say(&request(2, "session/new", json!({"cwd": 7})));
    ah.say(&request(3, "no/such", json!({})));
    ah.say(&request(
        4,
        "session/prompt",
        json!({"sessionId": [], "prompt": "x"}),
    ));
    ah.wait_for_output("\"id\":4");
    ah.say_no_more();
    let ended = ah.wait().expect(0).without_panic();
    for line in ended.stdout.lines().skip(1) {
        let message: Value = serde_json::from_str(line).unwrap();
        assert!(message.get("error").is_some(), "{line}");
    }
    assert!(ended.stdout.lines().count() >= 7, "{}", ended.stdout);
}

#[test]
fn prompts_of_servers_are_commands() {
    let world = World::new();
    let server = Server::new([says("Here it is.")]);
    let prompts = json!({"prompts": [{"name": "plan", "arguments": [{"name": "city"}]}]});
    let message = json!({"role": "user", "content": {"type": "text", "text": "Plan a trip."}});
    let guide = McpScript::new()
        .initialize(&json!({"capabilities": {"prompts": {}}}))
        .on("prompts/list", &format!("answer '{prompts}'"))
        .on(
            "prompts/get",
            &format!("answer '{}'", json!({"messages": [message]})),
        );
    let config = json!({"mcpServers": {"s": guide.config()}}).to_string();
    let ah = served(&world, &server, &["--mcp-config", &config]);
    edit(ah, None, async |cx, seen| {
        let (id, _) = begun(&cx, &world).await?;
        let told = |seen: &Seen| seen.of("available_commands_update");
        seen.wait(|seen| told(seen).len() == 2).await;
        let commands = told(&seen).pop().unwrap()["availableCommands"].to_string();
        assert!(commands.contains("\"s:plan\""), "{commands}");
        assert_eq!(
            prompted(&cx, &id, "/s:plan Rome").await?,
            StopReason::EndTurn
        );
        Ok(())
    });
    let request = server.requests().remove(0).body.to_string();
    assert!(request.contains("Plan a trip."), "{request}");
}

#[test]
fn only_known_requests_are_answered_and_none_before_the_editor_has_said_what_it_is() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let mut command = served(&world, &server, &[]).into_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut code = |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(stdin, "{request}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        answer["error"]["code"].as_i64()
    };
    assert_eq!(code("session/list", json!({})), Some(-32600));
    let introduction = json!({"protocolVersion": 1});
    assert_eq!(code("initialize", introduction), None);
    for (method, params, expected) in [
        ("session/nonsense", json!({}), Some(-32601)),
        ("_theirs/own", json!({}), Some(-32601)),
        ("session/prompt", json!({"sessionId": 1}), Some(-32602)),
        ("session/list", json!({}), None),
    ] {
        assert_eq!(code(method, params), expected, "{method}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}
