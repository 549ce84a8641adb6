//! Lists and questions that a person reads at a glance.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::stable;
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// Each is a name and what it is for, in a row of the terminal.
#[test]
fn tools_skills_and_subagents_are_a_row_each() {
    let world = World::new();
    let long = "Reviews a change against the rules of this project, and says what is wrong with it, where, and why.";
    world.write(
        ".claude/agents/reviewer.md",
        format!("---\nname: reviewer\ndescription: {long}\n---\nReview.\n"),
    );
    world.write(
        ".claude/skills/tea/SKILL.md",
        "---\nname: tea\ndescription: Makes tea. Use it when somebody is thirsty, and never otherwise.\n---\nBoil.\n",
    );
    let server = Server::new([says("Never said.")]);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet", "--trust"]), 80, 40);
    let mut lists = String::new();
    for (command, seen) in [
        ("/agents", "reviewer"),
        ("/skills", "Makes tea"),
        ("/tools", "Runs a shell command"),
    ] {
        seat.types("\x0c");
        seat.says(command);
        seat.sees(&format!("> {command}"));
        seat.sees(seen);
        let screen = stable(&seat.screen());
        lists.push_str(screen.split("────").next().unwrap());
    }
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    for internal in ["phase of", "Do not ask", "Use it when"] {
        assert!(!lists.contains(internal), "{internal}: {lists}");
    }
    insta::assert_snapshot!(lists, @"
> /agents

  Explore          Finds things in code, read-only
  general-purpose  Has all tools
  Plan             Plans a change, read-only, as steps and files
  reviewer         Reviews a change against the rules of this project, and says…

> /skills

  ah-skills  Write a skill or slash command for ah
  ah-tools   Write a tool for ah
  pr         Open or finish a pull request
  tea        Makes tea

> /tools

  read               Reads a file as numbered lines
  write              Writes a whole file and makes its folders
  edit               Replaces text in a file
  bash               Runs a shell command in the working directory; if it…
  grep               Searches files for a regular expression, as ripgrep does…
  glob               Finds files by name (`*.{ts,tsx}`, `src/**/test_*.py`)…
  todo               Replaces your task list, which the person sees
  result             Shows lines of the whole output of an earlier call
  web_fetch          Reads a web page and answers `prompt` from it
  ask_user_question  Asks the person to decide what only they can: what they…
  enter_plan_mode    Asks the person to let you plan first, for work that is…
  exit_plan_mode     Asks the person to approve `plan`, in mode `plan`
  skill              Loads the instructions of a skill that the system prompt…
  agent              Hands a task to a subagent, which knows only `prompt`…
");
}

/// A change is asked about as it is shown once it is made, with the numbers of the file.
#[test]
fn the_question_about_an_edit_has_the_numbers_of_the_file() {
    let world = World::new();
    let lines: String = (1..=40).map(|line| format!("line {line}\n")).collect();
    world.write("numbers.txt", &lines);
    world.write("numbers.py", "def f():\n    return 1\n");
    let server = Server::new([
        uses("read", json!({"path": "numbers.txt"})),
        uses(
            "edit",
            json!({"path": "numbers.txt", "old_string": "line 30", "new_string": "line thirty"}),
        ),
        uses("read", json!({"path": "numbers.py"})),
        uses(
            "write",
            json!({"path": "numbers.py", "content": "def f():\n    return 2\n"}),
        ),
        says("Done."),
    ]);
    let options = [
        "-m",
        "sonnet",
        "--no-sandbox",
        "--permission-mode",
        "default",
    ];
    let mut seat = Seat::of_size(world.asking(&server, options), 80, 40);
    seat.says("edit");
    seat.sees("Allow?");
    insta::assert_snapshot!(stable(&seat.screen()), @"
> edit

✓ read numbers.txt (0.0s)

⠋ waiting for your answer 0s · Esc interrupts

edit: numbers.txt
  27   line 27
  28   line 28
  29   line 29
  30 - line 30
  30 + line thirty
  31   line 31
  32   line 32
  33   line 33
  y           yes, once
  s           yes, for this session: accept edits
  n [reason]  no; the reason is sent to the model
Allow?
ask before each action · claude-sonnet-4-5-20250929
");
    seat.says("y");
    seat.sees("write: numbers.py");
    seat.sees("Allow?");
    seat.says("y");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    insta::assert_snapshot!(stable(&seat.screen()), @"
> edit

✓ read numbers.txt (0.0s)

edit: numbers.txt
  27   line 27
  28   line 28
  29   line 29
  30 - line 30
  30 + line thirty
  31   line 31
  32   line 32
  33   line 33
→ yes, once

✓ edit numbers.txt +1 -1 (0.0s)
✓ read numbers.py (0.0s)

write: numbers.py
  1   def f():
  2 -     return 1
  2 +     return 2
→ yes, once

✓ write numbers.py +1 -1 (0.0s)

Done.

────────────────────────────────────────────────────────────────────────────────
>
ask before each action · claude-sonnet-4-5-20250929 · 0% of 200.0k
");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert!(world.text("numbers.txt").contains("line thirty"));
}

/// What git ignores is told below what a person works on, and counted.
#[test]
fn files_that_git_ignores_come_last() {
    let world = World::new();
    world.write(".gitignore", "*.pyc\n");
    let write = |path: &str| uses("write", json!({"path": path, "content": "x\n"}));
    let server = Server::by_history([
        write("a.pyc"),
        write("b.pyc"),
        write("own.py"),
        says("Done."),
    ]);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), 80, 40);
    seat.says("do it");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x0c");
    seat.says("/diff");
    seat.sees("git ignores");
    seat.says("/undo");
    seat.sees("Continue? (y/n)\n");
    insta::assert_snapshot!(stable(&seat.screen()), @"
> /diff

own.py (+1 -0)
1 + x
2 files that git ignores: a.pyc, b.pyc

> /undo

⠋ waiting for your answer 0s · Esc interrupts

undo: 3 files would change
  remove own.py (+0 -1)
  2 files that git ignores:
  remove a.pyc (+0 -1)
  remove b.pyc (+0 -1)
  y  yes
  n  no
Continue? (y/n)
bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
");
    seat.says("n");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
