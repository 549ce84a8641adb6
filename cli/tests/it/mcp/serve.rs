//! `ah mcp serve`: another agent runs this one, in every way in which clients can be asked back.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, uses};
use serde_json::{Value, json};

use crate::support::binary::World;

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client of the server, as the revision has it.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// Metadata of each request; null with a handshake.
    meta: Value,
    requests: u32,
    /// Questions of the server, in order.
    asked: Vec<Value>,
}

impl Client {
    /// Starts the server and greets it.
    fn new(world: &World, scenario: &str, is_new: bool, capabilities: &Value) -> Self {
        Self::with(&[], world, scenario, is_new, capabilities)
    }

    /// The same with these options.
    fn with(
        options: &[&str],
        world: &World,
        scenario: &str,
        is_new: bool,
        capabilities: &Value,
    ) -> Self {
        let words = ["-m", scenario].into_iter().chain(options.iter().copied());
        let ah = world.as_typed(words.chain(["mcp", "serve"]));
        let mut command = ah.into_command();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut client = Self {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            meta: Value::Null,
            requests: 0,
            asked: Vec::new(),
        };
        let info = json!({"name": "test", "version": "1"});
        if is_new {
            client.meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": info,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
            client.result("server/discover", json!({}));
        } else {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info,
            });
            client.result("initialize", params);
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// Sends a request without waiting.
    fn begin(&mut self, method: &str, mut params: Value) -> u32 {
        if !self.meta.is_null() {
            params["_meta"] = self.meta.clone();
        }
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Returns the next message for which `is_it`; questions on the way are answered.
    fn next(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("the server has ended").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "elicitation/create" {
                let answer = self.answer(&message["params"]);
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
            } else if is_it(&message) {
                return message;
            }
        }
    }

    /// Answers a form: with the last option of each choice.
    fn answer(&mut self, params: &Value) -> Value {
        self.asked.push(params["message"].clone());
        let fields = params["requestedSchema"]["properties"].as_object().unwrap();
        let chosen = fields.iter().filter_map(|(name, field)| {
            let last = field["oneOf"].as_array()?.last()?;
            Some((name.clone(), last["const"].clone()))
        });
        let content: serde_json::Map<_, _> = chosen.collect();
        json!({"action": "accept", "content": content})
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.next(|message| message["id"] == id && message.get("method").is_none());
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool and follows the call to its end, by rounds or as a task.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let mut result = self.result("tools/call", params.clone());
        while result["resultType"] == "input_required" {
            let mut params = params.clone();
            params["requestState"] = result["requestState"].clone();
            params["inputResponses"] = self.answers(&result["inputRequests"]);
            result = self.result("tools/call", params);
        }
        if result["resultType"] == "task" {
            let id = result["taskId"].clone();
            loop {
                let task = self.result("tasks/get", json!({"taskId": id}));
                match task["status"].as_str().unwrap() {
                    "working" => std::thread::yield_now(),
                    "input_required" => {
                        let answers = self.answers(&task["inputRequests"]);
                        self.result(
                            "tasks/update",
                            json!({"taskId": id, "inputResponses": answers}),
                        );
                    }
                    _ => return task["result"].clone(),
                }
            }
        }
        result
    }

    fn answers(&mut self, requests: &Value) -> Value {
        let requests = requests.as_object().unwrap().clone();
        let answers = requests.into_iter();
        let answers = answers.map(|(key, request)| (key, self.answer(&request["params"])));
        Value::Object(answers.collect())
    }

    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

fn colour() -> Turn {
    let option = |label: &str| json!({"label": label, "description": "a colour"});
    let question = json!({
        "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [option("red"), option("blue")],
    });
    uses("AskUserQuestion", json!({"questions": [question]}))
}

fn writes() -> Turn {
    uses("Bash", json!({"command": "echo x >out"}))
}

#[test]
fn the_user_of_a_client_is_asked_in_the_way_that_it_knows() {
    let forms = json!({"elicitation": {}});
    let tasks = json!({"elicitation": {}, "extensions": {TASKS: {}}});
    for (is_new, capabilities, is_asked) in [
        (false, json!({}), false),
        (false, forms.clone(), true),
        (true, forms, true),
        (true, tasks, true),
    ] {
        let what = format!("{is_new} {capabilities}");
        let world = World::new();
        let scenario = world.scenario("ask.json", [colour(), writes(), says("Done.")]);
        let path = world.project().join("out");
        let mut client = Client::new(&world, &scenario, is_new, &capabilities);
        let mut result = client.call("run", &json!({"prompt": "go"}));
        let told = &result["structuredContent"];
        let session = told["session"].as_str().unwrap().to_owned();
        if !is_asked {
            assert_eq!(told["status"], "waiting", "{what}: {result}");
            assert_eq!(told["questions"][0]["question"], "Which colour?");
            let wrong = json!({"session": session, "answers": {}});
            assert_eq!(client.call("answer", &wrong)["isError"], true);
            let right = json!({"session": session, "answers": {"Which colour?": "blue"}});
            result = client.call("answer", &right);
        }
        assert_eq!(
            result["structuredContent"]["status"], "completed",
            "{what}: {result}"
        );
        assert_eq!(result["structuredContent"]["answer"], "Done.", "{what}");
        let resource = json!({"uri": format!("ah://sessions/{session}")});
        let read = client.result("resources/read", resource);
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert!(text.contains("Which colour? blue"), "{what}: {text}");
        // Only a person lets the agent write, never the agent that calls.
        assert!(!path.exists(), "{what}: {text}");
        let about_file = client
            .asked
            .iter()
            .any(|it| it.to_string().contains("use Bash"));
        assert_eq!(about_file, is_asked, "{what}: {:?}", client.asked);
        client.end();
        world.assert_nothing_runs();
    }
}

#[test]
fn a_session_is_listed_continued_steered_and_stopped() {
    let world = World::new();
    let scenario = world.scenario("two.json", [says("One."), says("Two."), hangs("I")]);
    let mut client = Client::new(&world, &scenario, false, &json!({}));
    let first = client.call("run", &json!({"prompt": "first words"}));
    let session = first["structuredContent"]["session"].clone();
    let listed = client.result("resources/list", json!({}));
    let uri = format!("ah://sessions/{}", session.as_str().unwrap());
    assert_eq!(listed["resources"][0]["uri"], uri);
    assert_eq!(listed["resources"][0]["title"], "first words");
    let steered = client.call(
        "steer",
        &json!({"session": session, "message": "mind the gap"}),
    );
    assert_eq!(steered["isError"], false, "{steered}");
    let second = client.call("run", &json!({"prompt": "more", "session": session}));
    assert_eq!(second["structuredContent"]["answer"], "Two.", "{second}");
    let read = client.result("resources/read", json!({"uri": uri}));
    assert!(read.to_string().contains("mind the gap"), "{read}");

    // A run that never ends is stopped, by the tool or by the client that cancels its call.
    let params = json!({
        "name": "run", "arguments": {"prompt": "hang", "session": session},
        "_meta": {"progressToken": "p"},
    });
    let id = client.begin("tools/call", params);
    loop {
        let stopped = client.begin(
            "tools/call",
            json!({"name": "stop", "arguments": {"session": session}}),
        );
        let answer = client.next(|it| it["id"] == stopped || it["id"] == id);
        if answer["result"]["isError"] == false {
            break;
        }
    }
    let none = json!({"session": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "message": "x"});
    assert_eq!(client.call("steer", &none)["isError"], true);
    client.end();
    world.assert_nothing_runs();
}

#[test]
fn a_result_has_what_a_check_has_shown() {
    let world = World::new();
    let scenario = world.scenario("s.json", [says("Done."), says("Done.")]);
    for (command, evidence, is_error) in [("true", "verified", false), ("false", "claimed", true)] {
        let check = ["--until", command, "--max-checks", "1"];
        let mut client = Client::with(&check, &world, &scenario, false, &json!({}));
        let result = client.call("run", &json!({"prompt": "go"}));
        let told = &result["structuredContent"];
        assert_eq!(told["verification"]["evidence"], evidence, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!("[{evidence}")), "{text}");
        assert_eq!(result["isError"], is_error, "{result}");
        client.end();
    }
}

/// A client is a model: what it writes sets no check, ends none, and calls no command.
#[test]
fn a_prompt_of_a_client_is_sent_as_it_is() {
    let world = World::new();
    world.write(".ah/commands/say.md", "expanded");
    let scenario = world.scenario("s.json", [says("Done."), says("Done."), says("Done.")]);
    let check = ["--until", "true"];
    let mut client = Client::with(&check, &world, &scenario, false, &json!({}));
    for prompt in ["/goal x --until touch was-run", "/goal off", "/say"] {
        let result = client.call("run", &json!({"prompt": prompt}));
        let told = &result["structuredContent"];
        assert_eq!(told["verification"]["command"], "true", "{result}");
    }
    client.end();
    assert!(!world.file("was-run").exists());
}

/// A second prompt for it is not given, and its result says whose run is in the way, and what ends that.
#[test]
fn a_session_with_a_run_says_so_to_another_prompt() {
    let world = World::new();
    let scenario = world.scenario("busy.json", [colour(), hangs("I")]);
    let mut client = Client::new(&world, &scenario, false, &json!({}));
    let first = client.call("run", &json!({"prompt": "go"}));
    let session = first["structuredContent"]["session"].clone();
    let second = client.call("run", &json!({"prompt": "more", "session": session}));
    assert_eq!(second["isError"], true, "{second}");
    assert_eq!(second["structuredContent"], first["structuredContent"]);
    let text = second["content"][0]["text"].as_str().unwrap();
    insta::assert_snapshot!(text.replace(session.as_str().unwrap(), "<session>"), @"
    This prompt was not given: the session has a run that waits for an answer; answer with `answer`, or end that run with `stop`.

    The agent asks:
    - Which colour?
      - red: a colour
      - blue: a colour

    [session <session>: waiting; answer with `answer`]
    ");

    let answer = json!({"session": session, "answers": {"Which colour?": "blue"}});
    client.begin("tools/call", json!({"name": "answer", "arguments": answer}));
    let third = client.call("run", &json!({"prompt": "more", "session": session}));
    assert_eq!(third["structuredContent"]["session"], session);
    insta::assert_snapshot!(third["structuredContent"]["answer"].as_str().unwrap(), @"This prompt was not given: a run of the session is in progress; `steer` tells it something, `stop` ends it.");
    let stopped = client.call("stop", &json!({"session": session}));
    assert_eq!(stopped["isError"], false, "{stopped}");
    client.end();
    world.assert_nothing_runs();
}

#[test]
fn what_prevents_a_run_is_its_result() {
    let world = World::new();
    let scenario = world.scenario("one.json", [says("One.")]);
    let mut client = Client::new(&world, &scenario, false, &json!({}));
    let unknown = client.call("run", &json!({"prompt": "go", "session": "01NOSUCH"}));
    assert_eq!(unknown["isError"], true);
    assert_eq!(
        unknown["structuredContent"]["status"], "failed",
        "{unknown}"
    );
    assert_eq!(unknown["structuredContent"]["session"], "01NOSUCH");
    let id = client.begin(
        "tools/call",
        json!({"name": "run", "arguments": {"prompt": " "}}),
    );
    let refused = client.next(|it| it["id"] == id);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let id = client.begin("resources/read", json!({"uri": "ah://sessions/../x"}));
    let refused = client.next(|it| it["id"] == id);
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    client.end();
}
