//! Commands that show or change a session with branches.

use std::sync::Arc;

use ah_conversation::{Message, Usage};
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, thinks, uses, uses_all};
use ah_testkit::show;
use serde_json::{Value, json};

use crate::support::binary::World;
use crate::support::shown::{shown, steady};

/// A session with two branches, each with tool calls.
fn branched() -> World {
    let world = World::new();
    world.write("notes", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    let costs = |turn| Turn {
        usage: Some(Usage {
            input_tokens: 1_000,
            output_tokens: 50,
            cache_read_input_tokens: 3_000,
            ..Usage::default()
        }),
        ..turn
    };
    let reads = Turn {
        text: Some("I read the notes.".into()),
        ..uses("read", json!({"path": "notes"}))
    };
    let counts = uses_all([
        ("bash", json!({"command": "wc -l <notes; exit 4"})),
        ("grep", json!({"pattern": "f", "path": "notes"})),
    ]);
    let thinks = thinks("Seven lines.\nSo be it.", "There are seven notes.");
    let first = world.scenario("first", [reads, thinks].map(costs));
    let second = world.scenario(
        "second",
        [counts, says("Seven, counted otherwise.")].map(costs),
    );
    let ah = |model: &str, arguments: &[&str]| {
        let common = ["-m", model, "--permission-mode", "bypassPermissions"];
        let arguments = common.into_iter().chain(arguments.iter().copied());
        world.ah(arguments).run().expect(0);
    };
    ah(
        &first,
        &["How many notes are there? Count them, please, and be careful."],
    );
    ah(&second, &["@2", "Count again."]);
    world
}

fn run(world: &World, line: &str) -> String {
    format!(
        "$ ah {line}\n{}\n",
        shown(world, &world.ah(line.split(' ')).run())
    )
}

fn pages<'a>(world: &World, lines: impl IntoIterator<Item = &'a str>) -> String {
    lines
        .into_iter()
        .map(|line| run(world, line))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_session_can_be_looked_at_from_every_side() {
    let world = branched();
    insta::assert_snapshot!(pages(&world, ["scan", "tree", "branches", "diff @3 @3"]), @"
$ ah scan
stdout:
    0 U How many notes are there? Count them, please, and be careful...
    1 A I read the notes.
        → read notes
    3 U Count again.
    4 A
        → bash wc -l <notes; exit 4
        → grep f
>   6 A Seven, counted otherwise.
exit code 0

$ ah tree
stdout:
* @0 U How many notes are there? Count them, please, and be careful...
* @1 A I read the notes.
* @2 U ← results
├─  @3 A There are seven notes.
└─* @3 U Count again.
  * @4 A → bash wc -l <notes; exit 4, grep f
  * @5 U ← results
  > @6 A Seven, counted otherwise.
exit code 0

$ ah branches
stdout:
> @6 A depth:7 Seven, counted otherwise.
  @3 A depth:4 There are seven notes.
exit code 0

$ ah diff @3 @3
stdout:
= @2 U ← results
< @3 A There are seven notes.
> @3 U Count again.
exit code 0
");
    insta::assert_snapshot!(pages(&world, ["show", "show 2", "show @3", "show 4", "show 2 --output", "show 3 --output"]), @"
$ ah show
stdout:
--- assistant @6 ---
Seven, counted otherwise.
exit code 0

$ ah show 2
stdout:
--- user @2 ---
← 1	one
  2	two
  3	three
  4	four
  5	five
  ... (2 more lines)
exit code 0

$ ah show @3
stdout:
--- user @3 ---
Count again.
exit code 0

$ ah show 4
stdout:
--- assistant @4 ---
→ bash wc -l <notes; exit 4
→ grep f
exit code 0

$ ah show 2 --output
stdout:
1	one
2	two
3	three
4	four
5	five
6	six
7	seven
exit code 0

$ ah show 3 --output
stderr:
error: message @3 has no tool calls
hint: `ah scan` lists the messages
exit code 1
");
    insta::assert_snapshot!(run(&world, "usage"), @"
$ ah usage
stdout:
         MODEL          INPUT  CACHED  WRITTEN  OUTPUT  HITS  COST
      1  script/first    4.0k    3.0k        0      50   75%  unknown
      2  script/first    4.0k    3.0k        0      50   75%  unknown
      3  script/second   4.0k    3.0k        0      50   75%  unknown
      4  script/second   4.0k    3.0k        0      50   75%  unknown
2 calls  script/first    8.0k    6.0k        0     100   75%  unknown
2 calls  script/second   8.0k    6.0k        0     100   75%  unknown
4 calls  total          16.0k   12.0k        0     200   75%  unknown
call 3 missed the prompt cache: the model changed
exit code 0
");
    insta::assert_snapshot!(run(&world, "export"), @r#"
$ ah export
stdout:
# Session <id>

## @0 user

How many notes are there? Count them, please, and be careful.

## @1 assistant (first)

I read the notes.

**read**

```json
{
  "path": "notes"
}
```

## @2 user

*result of read*

```
1	one
2	two
3	three
4	four
5	five
6	six
7	seven
```

## @3 user

Count again.

## @4 assistant (second)

**bash**

```json
{
  "command": "wc -l <notes; exit 4"
}
```

**grep**

```json
{
  "pattern": "f",
  "path": "notes"
}
```

## @5 user

*error of bash*

```
7
exit code: 4
```

*result of grep*

```
notes
```

## @6 assistant (second)

Seven, counted otherwise.
exit code 0
"#);
}

#[test]
fn whoever_wants_json_gets_json() {
    let world = branched();
    let lines = [
        "sessions --json",
        "scan --json",
        "show 1 --json",
        "tree --json",
        "branches --json",
        "diff 3 3 --json",
        "usage --json",
        "gc --json",
        "doctor --json",
        "models --json",
        "tools --json",
        "config show --json",
    ];
    let keys = lines.map(|line| {
        let ended = world.ah(line.split(' ')).run().without_panic();
        let value: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (list, first) = match &value {
            Value::Array(items) => ("list of ", &items[0]),
            value => ("", value),
        };
        let keys: Vec<_> = first
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        format!("{line}: {list}{}\n", keys.join(" "))
    });
    insta::assert_snapshot!(keys.concat(), @"
sessions --json: list of id uuid name created_at last_written state messages tokens first_text folder branch is_known path problem
scan --json: list of id parent agent_id seq role origin created_at stop_reason preview tool_uses
show 1 --json: id parent seq role origin created_at content response
tree --json: current messages
branches --json: list of id parent agent_id seq role origin created_at stop_reason preview tool_uses depth current
diff 3 3 --json: fork left right
usage --json: api_calls usage input_tokens total_tokens cost_usd unpriced_calls models calls cache_saved_usd kept_warm held
gc --json: sessions files bytes undo
doctor --json: version ok checks
models --json: list of name aliases context_window max_output efforts price long_price origin
tools --json: list of name description input_schema layer path overrides
config show --json: list of key value origin
");
}

#[test]
fn an_export_as_lines_is_the_messages() {
    let world = branched();
    let ended = world.ah(["export", "--format", "jsonl"]).run().expect(0);
    let message = |line| Arc::new(serde_json::from_str::<Message>(line).unwrap());
    let messages: Vec<_> = ended.stdout.lines().map(message).collect();
    insta::assert_snapshot!(show::messages(&messages), @r#"
user: How many notes are there? Count them, please, and be careful.
assistant: I read the notes. [tool_use read {"path":"notes"}] (tool_use)
user: [tool_result read ok: 1	one
2	two
3	three
4	four
5	five
6	six
7	seven]
user: Count again.
assistant: [tool_use bash {"command":"wc -l <notes; exit 4"}] [tool_use grep {"pattern":"f","path":"notes"}] (tool_use)
user: [tool_result bash error: 7
exit code: 4] [tool_result grep ok: notes]
assistant: Seven, counted otherwise. (end_turn)
"#);
}

#[test]
fn a_session_can_be_changed_and_goes_on_from_there() {
    let world = branched();
    insta::assert_snapshot!(pages(&world, ["checkout @3", "scan", "branches"]), @"
$ ah checkout @3
stdout:
the next prompt continues from @3
exit code 0

$ ah scan
stdout:
    0 U How many notes are there? Count them, please, and be careful...
    1 A I read the notes.
        → read notes
>   3 U Count again.
exit code 0

$ ah branches
stdout:
  @6 A depth:7 Seven, counted otherwise.
  @3 A depth:4 There are seven notes.
exit code 0
");
    world.scenario("t", [says("Onwards.")]);
    world
        .ah(["-m", "script:t.json", "And then?"])
        .run()
        .expect(0);
    insta::assert_snapshot!(pages(&world, ["tree", "rmm 4", "branch rm @2", "tree"]), @"
$ ah tree
stdout:
* @0 U How many notes are there? Count them, please, and be careful...
* @1 A I read the notes.
* @2 U ← results
├─  @3 A There are seven notes.
└─* @3 U Count again.
  ├─  @4 A → bash wc -l <notes; exit 4, grep f
  │   @5 U ← results
  │   @6 A Seven, counted otherwise.
  └─* @4 U And then?
    * @5 U [UPDATE] This has changed since you were last told: Sandbox:...
    > @6 A Onwards.
exit code 0

$ ah rmm 4
stdout:
deleted 1 message
exit code 0

$ ah branch rm @2
stdout:
deleted 8 messages
exit code 0

$ ah tree
stdout:
* @0 U How many notes are there? Count them, please, and be careful...
> @1 A I read the notes.
exit code 0
");
}

#[test]
fn what_is_not_there_is_told_with_1_and_what_makes_no_sense_with_2() {
    let world = branched();
    let missing = [
        "show 77",
        "checkout @77",
        "branch rm 77",
        "rmm 1 77",
        "diff 1 77",
        "diff 0 0",
    ];
    insta::assert_snapshot!(pages(&world, missing), @"
$ ah show 77
stderr:
error: message not found: @77
hint: `ah tree` shows all messages
exit code 1

$ ah checkout @77
stderr:
error: message not found: @77
hint: `ah tree` shows all messages
exit code 1

$ ah branch rm 77
stderr:
error: message not found: @77
hint: `ah tree` shows all messages
exit code 1

$ ah rmm 1 77
stderr:
error: message not found: @77
hint: `ah tree` shows all messages
exit code 1

$ ah diff 1 77
stderr:
error: message not found: @77
hint: `ah tree` shows all messages
exit code 1

$ ah diff 0 0
stdout:
no differences: both are on one branch
exit code 0
");
    let senseless = [
        "show x",
        "checkout",
        "branch",
        "branch mv 1",
        "rmm",
        "diff 1",
        "export --format pdf",
        "show 1 2",
    ];
    insta::assert_snapshot!(pages(&world, senseless), @"
$ ah show x
stderr:
error: invalid value `x` for `[N]`: expected the number of a message, as `ah scan` lists them
hint: to send it as a prompt: ah -- show x
exit code 2

$ ah checkout
stderr:
error: the following required arguments were not provided: <@N>
hint: `ah checkout --help` shows its options
exit code 2

$ ah branch
stderr:
error: `ah branch` needs a command
hint: `ah branch --help` lists them
exit code 2

$ ah branch mv 1
stderr:
error: unrecognized subcommand `mv`
hint: `ah branch --help` lists its commands; to send it as a prompt: ah -- branch mv 1
exit code 2

$ ah rmm
stderr:
error: the following required arguments were not provided: <N>...
hint: `ah rmm --help` shows its options
exit code 2

$ ah diff 1
stderr:
error: the following required arguments were not provided: <@B>
hint: `ah diff --help` shows its options
exit code 2

$ ah export --format pdf
stderr:
error: invalid value `pdf` for `--format <FORMAT>` [possible values: md, jsonl, html, claude, atif]
hint: `ah export --help` shows its options
exit code 2

$ ah show 1 2
stderr:
error: unexpected `2`
hint: to send it as a prompt: ah -- show 1 2
exit code 2
");
    assert!(run(&world, "tree").contains("@5"), "nothing was removed");
    let empty = World::new();
    let lines = [
        "scan",
        "show",
        "tree",
        "usage",
        "export",
        "checkout 1",
        "--steer x",
        "--db none.db tree",
        "--name x tree",
        "-S x tree",
    ];
    insta::assert_snapshot!(steady(&empty, &pages(&empty, lines)), @r#"
$ ah scan
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah show
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah tree
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah usage
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah export
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah checkout 1
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah --steer x
stderr:
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah --db none.db tree
stderr:
error: no session in `<project>/none.db`
exit code 1

$ ah --name x tree
stderr:
error: no session is named `x`
hint: `ah sessions` lists them
exit code 1

$ ah -S x tree
stderr:
error: cannot choose a session in `<project>/.ah`: no session is named `x`
hint: `ah sessions` lists them
exit code 1
"#);
}
