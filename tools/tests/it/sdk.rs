//! The tools under the interface of the official Agent SDKs: names, inputs, texts and details.

use ah_conversation::{Context, Environment, Interface, Output, Tool, ToolUse};
use ah_testkit::world::SessionStore;
use ah_tools::{
    Edit, Glob, Grep, Profile, Read, Shell, TaskOutput, TaskStop, Todo, ToolDeps, Write, builtin,
};
use serde_json::{Value, json};

use crate::bash::{appears, bash_of, call, ends};
use crate::folder::{Folder, run, text};

/// Returns the absolute path of a file in the folder.
pub fn at(folder: &Folder, name: &str) -> String {
    let path = folder.workspace().cwd().join(name);
    path.to_str().unwrap().to_owned()
}

/// Returns `read`, `write` and `edit` as a session has them: the last two limited to what the first has read.
pub fn file_tools(folder: &Folder) -> (Read, Write, Edit) {
    let read = Read::new(folder.workspace(), Interface::AgentSdk);
    let write = Write::new(folder.workspace(), Interface::AgentSdk).after(&read);
    let edit = Edit::new(folder.workspace(), Interface::AgentSdk).after(&read);
    (read, write, edit)
}

fn tools(folder: &Folder) -> Vec<std::sync::Arc<dyn Tool>> {
    let deps = ToolDeps {
        workspace: folder.workspace(),
        shell: Shell::new(&Environment::default()),
        store: std::sync::Arc::new(SessionStore::in_memory(&folder.path("")).unwrap()),
        has_person: true,
        web: ah_tools::Web {
            search: Some(ah_tools::Search::Searxng(String::new())),
            ..ah_tools::Web::default()
        },
        tasks: Vec::new(),
    };
    builtin(Profile::Sdk, Interface::AgentSdk, deps)
}

/// Each tool has exactly the arguments of the SDK's tool, in a valid schema.
#[test]
fn every_tool_has_its_schema() {
    let folder = Folder::new();
    let shown = tools(&folder).into_iter().map(|tool| {
        let spec = tool.spec();
        let schema = &*spec.input_schema;
        assert_eq!(schema["type"], "object", "{}", spec.name);
        assert!(!spec.description.contains("{{"), "{}", spec.name);
        assert_eq!(ah_schema::check(schema), Ok(()), "{}", spec.name);
        let text = serde_json::to_string(schema).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *schema);
        let required = schema["required"].as_array().unwrap();
        let names: Vec<_> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(|name| {
                let mark = if required.contains(&json!(name)) {
                    "*"
                } else {
                    ""
                };
                format!("{name}{mark}")
            })
            .collect();
        format!("{}: {}", spec.name, names.join(" "))
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @"
    Read: file_path* offset limit pages
    Write: file_path* content*
    Edit: file_path* old_string* new_string* replace_all
    Bash: command* timeout description run_in_background
    TaskOutput: task_id* block timeout
    TaskStop: task_id*
    Grep: pattern* path glob type output_mode -A -B -C -n -i -o multiline head_limit offset
    Glob: pattern* path
    NotebookEdit: notebook_path* cell_id new_source* cell_type edit_mode
    TodoWrite: todos*
    result: tool_use_id* offset limit
    WebFetch: url* prompt* offset
    WebSearch: query* allowed_domains blocked_domains
    AskUserQuestion: questions* answers
    EnterPlanMode: 
    ExitPlanMode: plan allowedPrompts
    ");
}

#[tokio::test]
async fn a_timeout_over_the_limit_is_refused_and_one_below_is_kept() {
    let folder = Folder::new();
    let tool = bash_of(&folder, Interface::AgentSdk);
    let run = async |input: Value| call(&tool, &folder, "call", input).await;
    let refused = run(json!({"command": "touch ran", "timeout": 600_001})).await;
    assert!(
        refused.is_error && text(&refused).contains("600000"),
        "{refused:?}"
    );
    assert!(!folder.path("ran").exists());
    let ended = run(json!({"command": "echo a; sleep 1000", "timeout": 1000})).await;
    assert_eq!(
        text(&ended),
        "error: Exit code 124\n[timed out after 1000 ms]\na"
    );
    assert_eq!(ended.details.unwrap()["interrupted"], true);
}

#[test]
fn edit_takes_one_match_or_all() {
    for (content, old, all, expected) in [
        ("a b c", "x", false, "error: old_string is not in"),
        ("a b c", "x", true, "error: old_string is not in"),
        ("a b c", "b", false, "a X c"),
        ("a b c", "b", true, "a X c"),
        ("b b b", "b", false, "error: old_string is 3 times in"),
        ("b b b", "b", true, "X X X"),
        (
            "b",
            "X",
            true,
            "error: old_string and new_string are the same",
        ),
    ] {
        let folder = Folder::with(&[("f", content)]);
        let (read, _, edit) = file_tools(&folder);
        let path = at(&folder, "f");
        run(&read, json!({ "file_path": path }));
        let output = run(
            &edit,
            json!({"file_path": path, "old_string": old, "new_string": "X", "replace_all": all}),
        );
        let told = if output.is_error {
            text(&output)
        } else {
            folder.get("f")
        };
        assert!(told.starts_with(expected), "{content} {old} {all}: {told}");
    }
}

#[test]
fn relative_paths_are_refused_and_touch_nothing() {
    let folder = Folder::with(&[("f", "text\n")]);
    let (read, write, edit) = file_tools(&folder);
    let cases: [(&dyn Tool, Value); 3] = [
        (&read, json!({"file_path": "f"})),
        (&write, json!({"file_path": "f", "content": "x"})),
        (
            &edit,
            json!({"file_path": "f", "old_string": "t", "new_string": "x"}),
        ),
    ];
    for (tool, input) in cases {
        assert_eq!(
            tool.access(&input.clone().into()),
            [],
            "{}",
            tool.spec().name
        );
        let path = at(&folder, "f");
        assert_eq!(
            text(&run(tool, input)),
            format!("error: `f` is a relative path, and it has to be absolute: `{path}`?")
        );
    }
    assert_eq!(folder.get("f"), "text\n");
}

#[tokio::test]
async fn a_command_in_the_background_is_named_asked_and_stopped() {
    let folder = Folder::new();
    let bash = bash_of(&folder, Interface::AgentSdk);
    let (output, stop) = {
        let tasks = Vec::from_iter(bash.extras().tasks);
        (TaskOutput::new(tasks.clone()), TaskStop::new(tasks))
    };
    let ask = async |tool: &dyn Tool, input: Value| call(tool, &folder, "ask", input).await;
    let line = "echo one; touch first; until [ -e go ]; do sleep 0.01; done; echo two; exit 3";
    let started = call(
        &bash,
        &folder,
        "task",
        json!({"command": line, "run_in_background": true}),
    )
    .await;
    let details = started.details.unwrap();
    assert_eq!(details["backgroundTaskId"], "task");
    appears(&folder, "first").await;
    let mut seen = String::new();
    while !seen.contains("one") {
        seen = text(&ask(&output, json!({"task_id": "task", "block": false})).await);
    }
    assert_eq!(seen, "one\n[still running]");

    folder.put("go", "");
    let ended = ask(&output, json!({"task_id": "task", "timeout": 20_000})).await;
    assert_eq!(text(&ended), "two\n[ended, exit code: 3]");
    insta::assert_snapshot!(ended.details.unwrap(), @r#"{"retrieval_status":"success","task":{"task_id":"task","task_type":"local_bash","status":"failed","description":"echo one; touch first; until [ -e go ]; do sleep 0.01; done; echo two; exit 3","output":"two\n","exitCode":3}}"#);

    let line = "echo $$ >pid.new; mv pid.new pid; exec sleep 1000";
    call(
        &bash,
        &folder,
        "other",
        json!({"command": line, "run_in_background": true}),
    )
    .await;
    appears(&folder, "pid").await;
    // Under its old name it does not wait.
    let old = ToolUse {
        id: "old".into(),
        name: "BashOutput".into(),
        input: json!({"task_id": "other"}).into(),
    };
    let context = Context::new(folder.path("out/old"));
    assert!(text(&output.run(&old, &context).await).ends_with("[still running]"));
    let stopped = ask(&stop, json!({"task_id": "other"})).await;
    assert_eq!(text(&stopped), format!("stopped task other: {line}"));
    insta::assert_snapshot!(stopped.details.unwrap(), @r#"{"message":"stopped task other: echo $$ >pid.new; mv pid.new pid; exec sleep 1000","task_id":"other","task_type":"local_bash","command":"echo $$ >pid.new; mv pid.new pid; exec sleep 1000"}"#);
    ends(folder.get("pid").trim()).await;
    let again = ask(&stop, json!({"task_id": "other"})).await;
    assert_eq!(text(&again), format!("stopped task other: {line}"));
    let nobody = ask(&stop, json!({"task_id": "nobody"})).await;
    assert!(nobody.is_error && text(&nobody).contains("there is no task nobody"));
}

#[tokio::test]
async fn a_command_gives_its_output_without_the_last_line_end_and_its_failure_first() {
    let folder = Folder::new();
    let tool = bash_of(&folder, Interface::AgentSdk);
    for (command, expected, silent) in [
        ("echo out; echo err >&2", "out\nerr", false),
        ("true", "(no output)", false),
        ("mkdir -p a/b && cd a", "(no output)", true),
        ("echo oops >&2; exit 3", "error: Exit code 3\noops", false),
        ("exit 3", "error: Exit code 3", false),
        ("printf half; false", "error: Exit code 1\nhalf", false),
        (
            "echo exit code: 1; exit 1",
            "error: Exit code 1\nexit code: 1",
            false,
        ),
        (
            "kill -9 $$",
            "error: Exit code 137\n[killed by signal 9]",
            false,
        ),
    ] {
        let output = call(&tool, &folder, "call", json!({ "command": command })).await;
        assert_eq!(text(&output), expected, "{command}");
        let details = output.details.unwrap();
        assert_eq!(details["noOutputExpected"], silent, "{command}");
        assert_eq!(details["stderr"], "", "{command}");
    }
    let output = call(&tool, &folder, "call", json!({ "command": "echo hi" })).await;
    insta::assert_snapshot!(output.details.unwrap(), @r#"{"stdout":"hi","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false,"exit_code":0}"#);
    // A long output is truncated, with the path of the file that has all of it.
    let output = call(&tool, &folder, "long", json!({ "command": "seq 100000" })).await;
    let details = output.details.unwrap();
    assert_eq!(details["stdout"].as_str().unwrap().len(), 30_000);
    assert_eq!(
        details["persistedOutputPath"],
        json!(folder.path("out/long"))
    );
    assert_eq!(details["persistedOutputSize"], 588_895);
}

#[test]
fn details_of_a_read_have_the_content() {
    let folder = Folder::new();
    let (read, ..) = file_tools(&folder);
    for (content, more, expected) in [
        ("abc\n", json!({}), "abc\n|2|1|2"),
        ("one\ntwo\n", json!({}), "one\ntwo\n|3|1|3"),
        ("one\ntwo", json!({}), "one\ntwo|2|1|2"),
        ("", json!({}), "|1|1|1"),
        (
            "1\n2\n3\n4\n",
            json!({"offset": 2, "limit": 2}),
            "2\n3|2|2|5",
        ),
        ("1\n2\n3\n4", json!({"offset": 2, "limit": 2}), "2\n3|2|2|4"),
        ("1\n2\n3\n4", json!({"offset": 4}), "4|1|4|4"),
        ("1\r\n2\r\n", json!({}), "1\n2\n|3|1|3"),
    ] {
        folder.put("f", content);
        let path = at(&folder, "f");
        let mut input = more;
        input["file_path"] = json!(path);
        let details = run(&read, input.clone()).details.unwrap();
        assert_eq!(
            (&details["type"], &details["file"]["filePath"]),
            (&json!("text"), &json!(path))
        );
        let file = &details["file"];
        let told = format!(
            "{}|{}|{}|{}",
            file["content"].as_str().unwrap(),
            file["numLines"],
            file["startLine"],
            file["totalLines"]
        );
        assert_eq!(told, expected, "{content:?} {input}");
    }
}

#[test]
fn a_file_that_has_changed_since_it_was_read_is_not_changed() {
    let folder = Folder::with(&[("f", "one\n"), ("g", "one\n")]);
    let (read, write, edit) = file_tools(&folder);
    let (f, new) = (at(&folder, "f"), at(&folder, "new"));
    let writing = |path: &str| text(&run(&write, json!({"file_path": path, "content": "two\n"})));
    let editing = |path: &str, old: &str, new: &str| {
        let input = json!({"file_path": path, "old_string": old, "new_string": new});
        text(&run(&edit, input))
    };
    let unread = format!("error: `{f}` has not been read yet: read it before you change it");
    assert_eq!(writing(&f), unread);
    assert_eq!(editing(&f, "one", "two"), unread);
    // A failed read does not count.
    run(&read, json!({"file_path": f, "offset": 9}));
    assert_eq!(editing(&f, "one", "two"), unread);
    run(&read, json!({"file_path": f, "limit": 1}));
    assert_eq!(editing(&f, "one", "two"), "- one\n+ two");
    // The tool knows what it has written itself.
    assert_eq!(editing(&f, "two", "three"), "- two\n+ three");
    assert_eq!(writing(&f), format!("updated {f} (1 line)"));
    folder.put("f", "somebody else's\n");
    let changed = format!("error: `{f}` has been changed since you read it: read it again");
    assert_eq!(editing(&f, "else", "x"), changed);
    assert_eq!(writing(&f), changed);
    assert_eq!(folder.get("f"), "somebody else's\n");
    // A new file can be created without reading it, and edited at once.
    assert_eq!(writing(&new), format!("created {new} (1 line)"));
    assert_eq!(editing(&new, "two", "2"), "- two\n+ 2");
    // Without `read`, nothing needs to be read first.
    drop(read);
    let g = at(&folder, "g");
    assert_eq!(editing(&g, "one", "1"), "- one\n+ 1");
}

#[test]
fn details_of_searches_list_the_matches() {
    let folder = Folder::with(&[
        ("a.rs", "fn one\nfn two\n"),
        ("b.rs", "fn three\n"),
        ("c.md", ""),
    ]);
    let grep = Grep::new(folder.workspace(), Interface::AgentSdk);
    let details = |output: Output| output.details.unwrap().to_string();
    let grepped = |input: Value| details(run(&grep, input));
    insta::assert_snapshot!(
        [
            grepped(json!({"pattern": "fn"})),
            grepped(json!({"pattern": "fn", "output_mode": "count"})),
            grepped(json!({"pattern": "fn", "output_mode": "content", "head_limit": 1, "offset": 1})),
            grepped(json!({"pattern": "absent"})),
        ]
        .join("\n"),
        @r#"
        {"mode":"files_with_matches","filenames":["a.rs","b.rs"],"numFiles":2}
        {"mode":"count","filenames":[],"numFiles":2,"content":"a.rs:2\nb.rs:1","numMatches":3}
        {"mode":"content","filenames":[],"numFiles":0,"content":"a.rs:2:fn two","numLines":1,"appliedLimit":1,"appliedOffset":1}
        {"mode":"files_with_matches","filenames":[],"numFiles":0}
        "#
    );
    let glob = Glob::new(folder.workspace(), Interface::AgentSdk);
    let output = run(&glob, json!({"pattern": "*.rs"}));
    let (a, b) = (at(&folder, "a.rs"), at(&folder, "b.rs"));
    assert_eq!(text(&output), format!("{a}\n{b}"));
    let mut told = output.details.unwrap();
    assert!(told["durationMs"].take().is_u64());
    assert_eq!(
        told,
        json!({
            "durationMs": null, "numFiles": 2, "filenames": [a, b], "truncated": false, "totalMatches": 2,
            "countIsComplete": true,
        })
    );
}

#[tokio::test]
async fn details_of_a_list_have_its_old_and_its_new_state() {
    let call = ToolUse {
        id: "call".into(),
        name: "TodoWrite".into(),
        input: json!({"todos": [
            {"content": "Read the code", "status": "completed", "activeForm": "Reading the code"},
            {"content": "Run the tests", "status": "in_progress", "activeForm": "Running the tests"},
            {"content": "Write it down", "status": "pending", "activeForm": "Writing it down"},
        ]})
        .into(),
    };
    let former = json!([{"content": "Read the code", "status": "pending", "activeForm": "Reading the code"}]);
    let context = Context {
        former: Some(json!({ "oldTodos": [], "newTodos": former })),
        ..Context::new(std::path::PathBuf::new())
    };
    let output = Todo::new(Interface::AgentSdk).run(&call, &context).await;
    insta::assert_snapshot!(text(&output), @"
    [x] Read the code
    [>] Running the tests
    [ ] Write it down
    ");
    let mut details = output.details.unwrap();
    assert_eq!(details["oldTodos"].take(), former);
    assert_eq!(details["newTodos"].take(), call.input.to_value()["todos"]);
    let empty = ToolUse {
        input: json!({"todos": []}).into(),
        ..call
    };
    let output = Todo::new(Interface::AgentSdk)
        .run(&empty, &Context::new(std::path::PathBuf::new()))
        .await;
    assert_eq!(text(&output), "the list is empty");
    assert_eq!(
        output.details,
        Some(json!({ "oldTodos": [], "newTodos": [] }))
    );
}
