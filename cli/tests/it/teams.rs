//! Teams: agents beside each other that write to each other and share a list of tasks.

use ah_testkit::script::{Turn, hangs, says, uses};
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::binary::{Ah, World};

const TEAMS: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

fn teammate(name: &str, model: &str, prompt: &str) -> Turn {
    uses(
        "agent",
        json!({"description": name, "name": name, "prompt": prompt, "model": model}),
    )
}

fn task(subject: &str) -> Turn {
    uses(
        "task_create",
        json!({"subject": subject, "description": "all of it"}),
    )
}

fn update(id: &str, more: &Value) -> Turn {
    let mut input = json!({"taskId": id});
    input
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    uses("task_update", input)
}

fn status(id: &str, status: &str) -> Turn {
    update(id, &json!({ "status": status }))
}

fn writes(to: &str, message: &str) -> Turn {
    uses("send_message", json!({"to": to, "message": message}))
}

/// Waits until the hooks were told this.
fn until_told(words: &str) -> Turn {
    let command = format!("until grep -qs '{words}' told.jsonl; do sleep 0.05; done");
    uses("bash", json!({ "command": command }))
}

/// A lead that has said all it has to say, and waits; it is asked once for each report.
fn patient(turns: impl IntoIterator<Item = Turn>) -> Vec<Turn> {
    let waiting = (0..8).map(|_| says("We are at it."));
    turns.into_iter().chain(waiting).collect()
}

/// A run of a session with a team, whose hooks are told all in `told.jsonl`.
fn team(world: &World, lead: &str, hook: &str) -> Ah {
    let command = format!("(cat; echo) >> told.jsonl; {hook}");
    let hooks = json!([{"hooks": [{"type": "command", "command": command}]}]);
    let hooks = json!({"hooks": {
        "TaskCreated": hooks, "TaskCompleted": hooks, "TeammateIdle": hooks,
    }});
    let arguments = ["-m", lead, "--settings", &hooks.to_string()];
    world.ah(arguments).env(TEAMS, "1")
}

/// Texts of the messages of the agent that was asked `prompt` first, results included.
fn conversation(world: &World, prompt: &str) -> Vec<String> {
    texts(
        world,
        "agent_id = (SELECT agent_id FROM messages JOIN content_blocks ON message_id = messages.id WHERE content = ?)",
        prompt,
    )
}

/// Texts of the messages of the lead.
fn of_lead(world: &World) -> String {
    texts(world, "agent_id IS NULL AND ? = ''", "").join("\n")
}

fn texts(world: &World, condition: &str, parameter: &str) -> Vec<String> {
    let database = Connection::open(world.database()).unwrap();
    let sql = format!(
        "SELECT coalesce(content, CAST(tool_output AS TEXT)) FROM content_blocks JOIN messages ON message_id = messages.id
         WHERE coalesce(content, tool_output) IS NOT NULL AND {condition} ORDER BY content_blocks.id"
    );
    let mut statement = database.prepare(&sql).unwrap();
    let texts = statement.query_map([parameter], |row| row.get(0)).unwrap();
    texts.collect::<Result<_, _>>().unwrap()
}

fn told(world: &World, event: &str) -> Vec<Value> {
    let lines = world.text("told.jsonl");
    let all = lines.lines().filter(|line| !line.is_empty());
    let all = all.map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|told| told["hook_event_name"] == event)
        .collect()
}

#[test]
fn teammates_share_tasks_write_to_each_other_and_are_there_in_the_next_process() {
    let world = World::new();
    let alice = world.scenario(
        "alice",
        [
            status("1", "in_progress"),
            // The other one has nothing to do before.
            until_told("\"teammate_name\":\"bob\""),
            status("1", "completed"),
            writes("bob", "The first one is done."),
            says("I did the first one."),
        ],
    );
    let bob = world.scenario(
        "bob",
        [
            status("2", "in_progress"),
            says("I have to wait."),
            status("2", "in_progress"),
            writes("team-lead", "I begin now."),
            status("2", "completed"),
            says("I did the second one."),
            says("You are welcome."),
        ],
    );
    let lead = world.scenario(
        "lead",
        patient([
            task("The first"),
            task("The second"),
            update("2", &json!({"addBlockedBy": ["1"]})),
            teammate("alice", &alice, "Alice, work."),
            teammate("bob", &bob, "Bob, work."),
        ]),
    );
    let ended = team(&world, &lead, "")
        .argument("-n")
        .argument("go")
        .run()
        .expect(0);
    assert!(ended.stdout.contains("We are at it."), "{}", ended.stdout);

    let of_bob = conversation(&world, "Bob, work.");
    assert!(
        of_bob[1].starts_with("You are `bob` in a team led by `team-lead`."),
        "{of_bob:?}"
    );
    let heard = of_bob
        .iter()
        .filter(|text| text.contains("[from alice] The first one is done."));
    assert_eq!(heard.count(), 1, "{of_bob:?}");
    assert_eq!(told(&world, "TaskCreated").len(), 2);
    let completed = told(&world, "TaskCompleted");
    let who: Vec<_> = completed
        .iter()
        .map(|told| told["teammate_name"].as_str().unwrap())
        .collect();
    assert_eq!(who, ["alice", "bob"]);
    assert_eq!(completed[1]["task_subject"], "The second");

    let again = world.scenario(
        "again",
        patient([uses("task_list", json!({})), writes("bob", "Thank you.")]),
    );
    let ended = team(&world, &again, "")
        .argument("-c")
        .argument("on")
        .run()
        .expect(0);
    let said = ended.stderr + &ended.stdout;
    assert!(!said.contains("error"), "{said}");
    let of_bob = conversation(&world, "Bob, work.");
    let end = of_bob.iter().rev().take(2).rev();
    assert_eq!(
        end.collect::<Vec<_>>(),
        ["[from team-lead] Thank you.", "You are welcome."]
    );
    let main = of_lead(&world);
    for line in [
        "#1 [completed] The first (alice)",
        "#2 [completed] The second (bob)",
        "[from bob] I begin now.",
    ] {
        assert!(main.contains(line), "{line}: {main}");
    }
}

#[test]
fn a_hook_keeps_a_task_open_and_a_teammate_at_work() {
    let world = World::new();
    let hook = "if [ -e ready ]; then exit 0; fi; echo not-yet >&2; exit 2";
    let alice = world.scenario(
        "alice",
        [
            status("1", "completed"),
            says("I am done."),
            uses("bash", json!({"command": "touch ready"})),
            status("1", "completed"),
            says("Now I am done."),
        ],
    );
    let lead = world.scenario(
        "lead",
        patient([
            uses("bash", json!({"command": "touch ready"})),
            task("The first"),
            uses("bash", json!({"command": "rm ready"})),
            task("The second"),
            teammate("alice", &alice, "Alice, work."),
        ]),
    );
    team(&world, &lead, hook)
        .argument("-n")
        .argument("go")
        .run()
        .expect(0);
    let of_alice = conversation(&world, "Alice, work.").join("\n");
    assert!(of_alice.contains("[TEAMMATE HOOK] not-yet"), "{of_alice}");
    assert!(of_alice.contains("Now I am done."), "{of_alice}");
    let main = of_lead(&world);
    assert!(main.contains("a hook refused the task: not-yet"), "{main}");
    assert_eq!(told(&world, "TaskCreated").len(), 2);
    assert_eq!(told(&world, "TeammateIdle").len(), 2);
}

/// What was written to somebody who was killed before reading it is read when the session goes on, once.
#[test]
fn a_message_outlives_its_recipient() {
    let world = World::new();
    let alice = world.scenario("alice", [hangs("I think")]);
    let lead = world.scenario(
        "lead",
        patient([
            teammate("alice", &alice, "Alice, work."),
            writes("alice", "Are you there?"),
            uses("bash", json!({"command": "echo yes > written"})),
        ]),
    );
    let running = team(&world, &lead, "")
        .argument("-n")
        .argument("go")
        .start();
    crate::support::binary::wait_for_file(&world.file("written"));
    running.signal(Signal::KILL);
    running.kill();
    world.scenario("alice", [says("I heard you.")]);
    let again = world.scenario("again", patient([writes("alice", "And now?")]));
    team(&world, &again, "")
        .argument("-c")
        .argument("on")
        .run()
        .expect(0);
    let of_alice = conversation(&world, "Alice, work.");
    for text in ["Are you there?", "And now?"] {
        let heard = of_alice.iter().filter(|said| said.contains(text)).count();
        assert_eq!(heard, 1, "{text}: {of_alice:?}");
    }
}

#[test]
fn a_teammate_that_agrees_leaves_and_its_name_is_free() {
    let world = World::new();
    let leaves = [
        uses(
            "send_message",
            json!({"to": "team-lead", "message": {"type": "shutdown_response", "approve": true}}),
        ),
        says("Goodbye."),
    ];
    let (first, second) = (
        world.scenario("first", leaves),
        world.scenario("second", [says("Hello.")]),
    );
    let lead = world.scenario("lead", patient([teammate("alice", &first, "Leave.")]));
    team(&world, &lead, "")
        .argument("-n")
        .argument("go")
        .run()
        .expect(0);
    let again = patient([
        writes("alice", "Still there?"),
        teammate("alice", &second, "Come."),
    ]);
    let again = world.scenario("again", again);
    team(&world, &again, "")
        .argument("-c")
        .argument("on")
        .run()
        .expect(0);
    let main = of_lead(&world);
    assert!(
        main.contains("there is nobody called `alice` to write to; there are: none"),
        "{main}"
    );
    assert!(main.contains("Hello."), "{main}");
}

#[test]
fn without_the_variable_there_is_no_team() {
    let world = World::new();
    let model = world.scenario("lead", [task("The first"), says("There are none.")]);
    world.ah(["-n", "-m", &model, "go"]).run().expect(0);
    let main = of_lead(&world);
    assert!(
        main.contains("task_create") && !main.contains("created task"),
        "{main}"
    );
}
