//! The commands that texts name: each can be typed, and does what is said in the state in which it is named.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ah_cli::args::{Action, KnownNames, parse};
use ah_terminal::repl::slash::{call, in_its_words};
use ah_testkit::git::git;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use regex::Regex;
use serde_json::json;

use crate::docs::{tests, words};
use crate::support::binary::{Ended, World, wait_for_file};
use crate::support::pseudo_terminal::Seat;

/// The sources below a folder, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !is_test {
            found.push(path);
        }
    }
}

/// Returns the commands that the texts of a source name, with something in the place of what is filled in.
fn commands(path: &Path) -> Vec<String> {
    let is_help = path.components().any(|part| part.as_os_str() == "args");
    let source = fs::read_to_string(path).unwrap();
    let source = source.split("#[cfg(test)]").next().unwrap();
    let is_text = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("//") || is_help && line.starts_with("///")
    };
    let text: Vec<_> = source.lines().filter(is_text).collect();
    let joined = Regex::new(r"\\\n\s*").unwrap();
    let text = text.join("\n");
    let text = joined.replace_all(&text, "");
    let named = Regex::new(r"`(ah [^`\n]+)`").unwrap();
    let filled = Regex::new(r"\{[^}]*\}").unwrap();
    let commands = named.captures_iter(&text).map(|found| found[1].to_owned());
    commands
        // All of it is filled in.
        .filter(|command| !filled.is_match(command.split(' ').nth(1).unwrap()))
        .map(|command| filled.replace_all(&command, "1").replace("\\\"", "\""))
        // The name of a phase.
        .map(|command| command.replace("ah work 1", "ah work plan"))
        .collect()
}

/// What is said of commands that take more.
const NAMED: [&str; 3] = [
    "required arguments were not provided",
    "a value is required",
    "needs a command",
];

/// Returns why a command cannot be typed as it stands.
fn fault(command: &str) -> Option<String> {
    let names = KnownNames {
        is_tool: &|_| false,
        is_session: &|word| ["ID", "1"].contains(&word),
    };
    let is_prompt = ["\"", "PROMPT", "TASK", "MESSAGE", "WORDS"];
    let is_prompt = is_prompt.iter().any(|sign| command.contains(sign));
    let command = command.split(" < ").next().unwrap();
    let command = command.replace("@N", "@1").replace(" N ", " 1 ");
    let typed = words(&command).into_iter().skip(1).map(OsString::from);
    match parse(typed.collect(), &names) {
        // It is named, and what it takes is left out.
        Err(error) if NAMED.iter().any(|words| error.message.contains(words)) => None,
        Err(error) => Some(error.to_string()),
        // What is no command would be sent to a model.
        Ok(parsed) => match parsed.action {
            Action::Run(prompt) if prompt.text.is_some() && !is_prompt => {
                Some(format!("it would be a prompt: {prompt:?}"))
            }
            _ => None,
        },
    }
}

/// Returns all commands that texts name, each with the source that has the text.
fn named() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for crate_ in fs::read_dir(&root).unwrap().flatten() {
        // These are texts for whoever works on the program.
        if !crate_.path().ends_with("xtask") {
            sources(&crate_.path().join("src"), &mut files);
        }
    }
    let of = |path: PathBuf| {
        let named = commands(&path).into_iter();
        named.map(move |command| (path.clone(), command))
    };
    files.into_iter().flat_map(of).collect()
}

#[test]
fn every_command_that_a_text_names_can_be_typed() {
    let named = named();
    assert!(named.len() > 80, "{}", named.len());
    let mut faults = Vec::new();
    for (path, command) in named {
        let fault = fault(&command);
        faults.extend(fault.map(|fault| format!("{}: {command}: {fault}", path.display())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs the command that stands behind these words, as a shell would in the project.
fn typed(world: &World, text: &str, behind: &str) -> Ended {
    let at = text
        .find(behind)
        .unwrap_or_else(|| panic!("no `{behind}`: {text}"));
    let rest = &text[at + behind.len()..];
    let line = rest.split(['`', '\n', ',', ';']).next().unwrap().trim();
    let words = words(line);
    assert_eq!(words.first().map(String::as_str), Some("ah"), "{line}");
    let server = Server::new([says("Here I am.")]);
    let words = words.iter().skip(1).map(String::as_str);
    world.asking_as_typed(&server, words).run()
}

/// What is printed at the end, in errors and as hints, leads where it says.
#[test]
fn a_named_command_does_what_is_said_in_that_state() {
    let world = World::new();
    let ran = |turns: Vec<_>, words: &[&str]| {
        let server = Server::new(turns);
        let words = ["-m", "sonnet"].iter().chain(words).copied();
        world.asking(&server, words).run()
    };
    // No session yet.
    let none = world.as_typed(["tree"]).run();
    let begun = none.stderr.replace("TASK", "Do it.");
    let ended = typed(&world, &begun, "start one with `").expect(0);
    assert!(ended.stdout.contains("Here I am."), "{}", ended.stdout);
    ran(vec![says("The first one.")], &["-n", "First."]).expect(0);
    let edit = uses("write", json!({"path": "a.txt", "content": "a\n"}));
    ran(vec![edit, says("The second one.")], &["-n", "Second."]).expect(0);
    // An undo names what reverses it.
    let undone = world.as_typed(["undo"]).run().expect(0);
    assert!(!world.file("a.txt").exists());
    typed(&world, &undone.stdout, "changed; `").expect(0);
    assert_eq!(world.text("a.txt"), "a\n");
    // What looks like a subcommand and is none.
    let refused = world.as_typed(["undo", "the", "last", "edit"]).run();
    assert_ne!(refused.code, Some(0));
    let ended = typed(&world, &refused.stderr, "as a prompt: ").expect(0);
    assert!(ended.stdout.contains("Here I am."), "{}", ended.stdout);
    // A message that is not there.
    let missing = world.as_typed(["show", "99"]).run();
    let ended = typed(&world, &missing.stderr, "hint: `").expect(0);
    assert!(ended.stdout.contains("Second."), "{}", ended.stdout);
    // A session that nobody runs.
    let idle = world.as_typed(["attach"]).run();
    assert!(idle.stderr.contains("ah -d PROMPT"), "{}", idle.stderr);
    let id = newest(&world);
    let idle = world.as_typed(["attach", &id]).run().expect(0);
    let ended = typed(&world, &idle.stderr, "not running; `").expect(0);
    assert!(ended.stdout.contains("Second."), "{}", ended.stdout);
}

/// The commands that errors and empty lists name, each run where it is printed: what it is printed by, the words before it, what
/// is filled in, and what it prints.
type Way = (
    &'static [&'static str],
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

fn lead_on(world: &World, ways: &[Way]) {
    for (words, behind, filled, said) in ways {
        let ended = world.as_typed(words.iter().copied()).run();
        let mut text = ended.stdout + &ended.stderr;
        for (name, value) in *filled {
            text = text.replace(name, value);
        }
        let ended = typed(world, &text, behind).expect(0);
        // That a list is empty is no output.
        let shown = ended.stdout + &ended.stderr;
        assert!(
            !said.is_empty() && shown.contains(said),
            "{words:?}: {shown}"
        );
    }
}

#[test]
fn the_way_on_from_an_empty_list_leads_on() {
    let world = World::new();
    let git = |words: &[&str]| git(&world.project(), words);
    git(&["init", "--quiet"]);
    world.write("a.txt", "a\n");
    git(&["add", "."]);
    git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-qm",
        "one",
    ]);
    let shop = r#"{"name": "shop", "owner": {"name": "Ada"}, "plugins": [{"name": "tent", "source": "./tent"}]}"#;
    world.write("shop/.claude-plugin/marketplace.json", shop);
    lead_on(
        &world,
        &[
            (
                &["plugin", "marketplace", "remove", "x"],
                "hint: `",
                &[],
                "no marketplaces yet",
            ),
            (
                &["plugin", "marketplace", "list"],
                "yet; `",
                &[("SOURCE", "./shop")],
                "shop",
            ),
            (&["plugin", "list"], "no plugins yet; `", &[], "tent@shop"),
            (&["plugin", "remove", "x"], "hint: `", &[], "no plugins yet"),
            (
                &["worktree"],
                "yet; `",
                &[("NAME", "one Go.")],
                "Here I am.",
            ),
            // That one is gone again, as nothing was changed in it.
            (
                &["worktree", "remove", "x"],
                "hint: `",
                &[],
                "no worktrees yet",
            ),
            // The id of its session.
            (&["fleet"], "queued; `", &[("TASK", "\"Do it.\"")], "01"),
            (
                &["fleet", "schedules"],
                "scheduled; `",
                &[("TIMES TASK", "\"0 6 * * *\" \"Later.\"")],
                "schedule 1",
            ),
            (&["steer", "x", "hi"], "hint: `", &[], "Do it."),
        ],
    );
}

#[test]
fn the_way_on_from_an_error_leads_on() {
    let world = World::new();
    let server = Server::new([says("The only one.")]);
    world
        .asking(&server, ["-m", "sonnet", "First."])
        .run()
        .expect(0);
    lead_on(
        &world,
        &[
            (&["sessions", "rm", "x"], "hint: `", &[], "First."),
            (&["attach", "x"], "hint: `", &[], "First."),
            (&["restore", "77"], "hint: `", &[], "The only one."),
            (
                &["restore", "77"],
                "its messages, `",
                &[("@N", "@0")],
                "continues from @0",
            ),
            (&["checkout", "66"], "hint: `", &[], "First."),
            (&["diff", "88", "99"], "hint: `", &[], "First."),
            (&["--bogus"], "hint: `", &[], "Usage: ah"),
            (&["undo", "--bogus"], "hint: `", &[], "--dry-run"),
            (&["mcp"], "hint: `", &[], "add"),
            (&["treee"], "did you mean `", &[], "First."),
            (&["treee"], "as a prompt: ", &[], "Here I am."),
        ],
    );
}

/// The id of the newest session.
fn newest(world: &World) -> String {
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let mut ids: Vec<_> = { listed.as_array().unwrap().iter() }
        .map(|session| session["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids.pop().unwrap()
}

/// While another terminal has the session open: each way out of the error is one.
#[test]
fn every_way_out_of_a_busy_session_is_one() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let server = Server::new([waits, says("And this."), says("All is done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "-n"]));
    seat.says("Wait.");
    wait_for_file(&world.file("begun"));
    let id = newest(&world);
    let busy = world
        .asking_as_typed(&server, ["-r", &id, "@1", "More."])
        .run();
    assert_ne!(busy.code, Some(0));
    let hint = busy.stderr.replace("MESSAGE", "\"And this?\"");
    let queued = typed(&world, &hint, "queue a message with `").expect(0);
    assert_eq!(queued.stdout, "");
    for way in ["start a new one with `", "continue in a copy with `"] {
        let hint = hint.replacen("`,", " Hello`,", 2);
        let hint = hint.replace("--fork-session`", "--fork-session Hello`");
        let ended = typed(&world, &hint, way).expect(0);
        assert!(ended.stdout.contains("Here I am."), "{}", ended.stdout);
    }
    world.write("go", "");
    seat.sees("> And this?");
    seat.sees("All is done.");
    seat.types("\x04");
    seat.sees("Resume: ");
    // The goodbye names the session of this terminal first, unless another was used since.
    let screen = seat.screen();
    assert_eq!(seat.leaves(), 0);
    let goodbye = screen.replace(&format!("ah -r {id}"), &format!("ah -r {id} scan"));
    let ended = typed(&world, &goodbye, ", or ").expect(0);
    assert!(ended.stdout.contains("And this?"), "{}", ended.stdout);
}

/// The beginnings of commands that texts name, each with the test that runs it; the longest one that fits counts.
const RUN_BY: &[(&str, &str)] = &[
    (
        "ah \"",
        "named_commands::a_named_command_does_what_is_said_in_that_state",
    ),
    (
        "ah -c",
        "repl::sessions::a_session_of_another_day_is_continued_only_on_request",
    ),
    (
        "ah -c --fork-session",
        "named_commands::every_way_out_of_a_busy_session_is_one",
    ),
    (
        "ah -c show",
        "repl::live::what_an_interrupted_command_has_written_is_kept_and_told",
    ),
    (
        "ah -d",
        "background::a_run_goes_on_without_its_terminal_and_is_seen_and_steered_from_another",
    ),
    (
        "ah -h",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah -n",
        "named_commands::every_way_out_of_a_busy_session_is_one",
    ),
    ("ah -r", "repl::sessions::a_session_is_chosen_from_a_list"),
    (
        "ah -r 1",
        "named_commands::a_named_command_does_what_is_said_in_that_state",
    ),
    (
        "ah -r ID",
        "repl::true_words::a_renamed_session_is_opened_by_the_line_that_is_shown",
    ),
    (
        "ah -w",
        "worktrees::a_worktree_with_changes_is_kept_and_removed_on_request",
    ),
    (
        "ah --add-dir",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah --followup",
        "named_commands::every_way_out_of_a_busy_session_is_one",
    ),
    (
        "ah --help",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah --permission-mode",
        "permissions::a_denied_command_does_not_run_in_any_mode",
    ),
    (
        "ah --version",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    ("ah answer", "fleet::a_question_is_answered_from_elsewhere"),
    (
        "ah attach",
        "repl::to_background::a_run_goes_to_the_background_by_a_key_and_is_watched_there",
    ),
    ("ah auth", "models::the_state_of_the_key_is_told_to_editors"),
    (
        "ah bench",
        "bench::tasks_are_judged_by_their_checks_and_replayed_without_a_model",
    ),
    (
        "ah checkout",
        "tree::a_session_can_be_changed_and_goes_on_from_there",
    ),
    (
        "ah demo",
        "named_commands::a_prompt_without_a_key_names_two_ways_that_lead_on",
    ),
    (
        "ah doctor",
        "settings::the_doctor_lists_what_is_wrong_and_goes_on",
    ),
    (
        "ah embed",
        "embed::b2_a_folder_goes_in_and_comes_out_and_is_replaced",
    ),
    (
        "ah enqueue",
        "fleet::a_worker_runs_what_is_queued_and_mail_wakes_it_again",
    ),
    (
        "ah enqueue --",
        "fleet::commands::only_work_and_benches_are_queued_as_commands",
    ),
    ("ah enqueue --cron", "fleet::a_schedule_is_listed_and_ended"),
    (
        "ah fleet",
        "fleet::a_failed_run_says_why_and_one_that_waits_can_be_cancelled",
    ),
    (
        "ah fleet limit",
        "fleet::workers_share_the_limits_of_requests",
    ),
    (
        "ah import",
        "import_export::sessions_of_this_folder_are_found_taken_once_and_continued",
    ),
    (
        "ah interrupt",
        "fleet::a_running_session_is_interrupted_and_goes_on_when_it_is_steered",
    ),
    (
        "ah login",
        "named_commands::a_prompt_without_a_key_names_two_ways_that_lead_on",
    ),
    ("ah login <", "repl::login::a_key_is_read_from_a_pipe"),
    (
        "ah login NAME",
        "repl::login::a_vendor_is_named_and_asked_for_its_models",
    ),
    (
        "ah logout",
        "repl::login::a_logout_leaves_the_key_of_the_environment",
    ),
    (
        "ah mcp add",
        "mcp::added::a_server_is_added_to_the_file_of_a_scope_and_tried",
    ),
    (
        "ah mcp get",
        "mcp::installed::what_a_server_reaches_is_listed",
    ),
    (
        "ah mcp login",
        "mcp::sign_in::a_user_signs_in_looks_and_signs_out",
    ),
    (
        "ah mcp remove",
        "mcp::added::a_server_of_a_project_is_removed_without_trust",
    ),
    (
        "ah mcp test",
        "mcp::sign_in::a_user_signs_in_looks_and_signs_out",
    ),
    (
        "ah models",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah models --refresh",
        "models::the_lists_of_servers_are_kept_in_the_users_folder",
    ),
    (
        "ah move",
        "fleet::files::a_session_goes_into_a_file_and_comes_out_of_it",
    ),
    (
        "ah plugin",
        "marketplaces::what_a_plugin_brings_is_shown_and_runs_after_a_yes",
    ),
    (
        "ah plugin list",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah plugin marketplace list",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah plugin update",
        "marketplaces::a_plugin_stays_at_its_commit_until_it_is_updated",
    ),
    (
        "ah prompt",
        "extensions::the_prompt_is_printed_with_the_source_of_every_part",
    ),
    ("ah sandbox", "sandbox::each_guarantee_is_tried_and_told"),
    (
        "ah scan",
        "named_commands::what_is_named_and_takes_nothing_more_answers",
    ),
    (
        "ah serve",
        "serve::a_session_is_begun_followed_and_continued",
    ),
    (
        "ah sessions",
        "sessions::sessions_are_listed_named_and_removed",
    ),
    (
        "ah shim",
        "shim::the_program_of_a_wheel_is_replaced_and_put_back",
    ),
    (
        "ah tree",
        "tree::a_session_can_be_looked_at_from_every_side",
    ),
    (
        "ah undo",
        "undo::what_tools_changed_is_taken_back_and_brought_forth",
    ),
    (
        "ah work",
        "work::an_issue_becomes_a_branch_and_a_pull_request",
    ),
    (
        "ah work init",
        "work::setup::init_proposes_what_the_project_says_of_itself",
    ),
    ("ah work plan", "work::phases_one_by_one_do_nothing_twice"),
    (
        "ah work reset",
        "work::shipped::a_change_stays_only_if_the_number_gets_smaller",
    ),
    (
        "ah work run",
        "work::shipped::a_change_stays_only_if_the_number_gets_smaller",
    ),
    (
        "ah work start",
        "work::shipped::a_change_stays_only_if_the_number_gets_smaller",
    ),
    (
        "ah worker",
        "fleet::a_worker_runs_what_is_queued_and_mail_wakes_it_again",
    ),
    (
        "ah worker --commands",
        "fleet::commands::a_command_is_run_by_a_worker_that_says_so",
    ),
    (
        "ah worktree",
        "worktrees::a_worktree_with_changes_is_kept_and_removed_on_request",
    ),
];

/// A text that names a command for which there is no test fails here.
#[test]
fn every_command_that_a_text_names_is_run_by_a_test() {
    let tests = tests();
    let begins = |command: &str, beginning: &str| {
        let rest = command.strip_prefix(beginning);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(' ') || beginning.ends_with('"')
        })
    };
    let mut faults = Vec::new();
    for (path, command) in named() {
        let row = { RUN_BY.iter() }
            .filter(|(beginning, _)| begins(&command, beginning))
            .max_by_key(|(beginning, _)| beginning.len());
        match row {
            Some((_, test)) if tests.iter().any(|it| it == test) => {}
            Some((_, test)) => faults.push(format!("there is no test `{test}`")),
            None => faults.push(format!("{}: `{command}` is run by no test", path.display())),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// In a folder with a session, as after a run.
#[test]
fn what_is_named_and_takes_nothing_more_answers() {
    let world = World::new();
    let server = Server::new([says("Here I am.")]);
    world
        .asking(&server, ["-m", "sonnet", "Where?"])
        .run()
        .expect(0);
    let other = world.home().join("other");
    fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap().to_owned();
    git(&world.project(), &["init", "--quiet"]);
    let shop = r#"{"name": "shop", "owner": {"name": "Ada"}, "plugins": [{"name": "tent", "source": "./tent"}]}"#;
    world.write("shop/.claude-plugin/marketplace.json", shop);
    let add = ["plugin", "marketplace", "add", "./shop"];
    world.as_typed(add).run().expect(0);
    for (words, said) in [
        (&["-h"][..], "Examples:"),
        (&["--help"], "Usage: ah"),
        (&["--version"], "ah 0.1.0"),
        (&["--add-dir", &other, "tree"], "Where?"),
        (&["scan"], "Where?"),
        (&["models"], "sonnet"),
        (&["models", "--json"], "claude-sonnet"),
        (&["plugin", "list"], "no plugins yet"),
        (&["plugin", "list", "--available"], "tent@shop"),
        (&["plugin", "marketplace", "list"], "shop"),
        (&["worktree"], "no worktrees yet"),
    ] {
        let ended = world.as_typed(words.iter().copied()).run().expect(0);
        // That a list is empty is no output.
        let shown = ended.stdout + &ended.stderr;
        assert!(
            !said.is_empty() && shown.contains(said),
            "{words:?}: {shown}"
        );
    }
}

/// The demo needs no key, and the login asks for one.
#[test]
fn a_prompt_without_a_key_names_two_ways_that_lead_on() {
    let world = World::new();
    for words in [&["what does this project do?"][..], &["-d", "look around"]] {
        let refused = world.as_typed(words.iter().copied()).run();
        assert_ne!(refused.code, Some(0));
        for way in ["`ah login`", "`ah demo`"] {
            assert!(refused.stderr.contains(way), "{}", refused.stderr);
        }
    }
    let demo = world.as_typed(["demo"]).run().expect(0);
    assert!(
        demo.stdout.contains("Both checks pass now."),
        "{}",
        demo.stdout
    );
    let mut seat = Seat::of_size(world.as_typed(["login"]), 80, 40);
    seat.sees("Choose a model provider");
    seat.types("\x1b");
    seat.leaves();
}

/// The sources of texts that are read in a conversation.
const OF_A_CONVERSATION: [&str; 10] = [
    "agent",
    "config",
    "conversation",
    "engine",
    "mcp",
    "provider",
    "store",
    "terminal/src/repl",
    "terminal/src/print",
    "tools",
];

/// The beginnings of what these texts name although it is no command of the conversation, and why.
const FOR_A_SHELL: &[(&str, &str)] = &[
    (
        "ah --add-dir",
        "for the next start: a sandbox is not changed",
    ),
    ("ah --followup", "for a session that another terminal has"),
    ("ah -c --fork-session", "the same"),
    (
        "ah -c show",
        "for a pager; the text says that it is for a shell",
    ),
    ("ah -r", "the goodbye, and `/status`"),
    ("ah -w", "before a conversation begins"),
    ("ah attach", "the goodbye, and the list of keys"),
    ("ah mcp", "servers are set up at a terminal of their own"),
    ("ah models", "files of the user's own"),
    ("ah plugin", "plugins are approved before a conversation"),
    ("ah prompt", "before a conversation begins"),
    ("ah sandbox", "the same"),
    ("ah scan", "the same"),
    ("ah worktree", "the same"),
    ("--chat-template-file", "an option of llama-server"),
    ("--allow-host", "for the next start"),
    ("--db", "the same"),
    ("--fork-session", "before a conversation begins"),
    ("--max-budget-usd", "the same"),
    ("--no-sandbox", "for the next start"),
    ("--no-session-persistence", "before a conversation begins"),
    ("--record", "the same"),
    ("--resume-session-at", "the same"),
    ("--seal", "the same"),
    ("--session-id", "the same"),
    ("--setting-sources", "the same"),
    ("--store", "workers have no conversation"),
    ("--unveil", "for the next start"),
    ("--until", "behind `/goal`"),
];

/// What a text names in a conversation is a command there, or can only be one of a shell.
#[test]
fn what_a_conversation_names_are_its_own_commands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in OF_A_CONVERSATION {
        sources(&root.join(folder), &mut files);
    }
    // It says what the words of a shell are in a conversation.
    files.retain(|path| !path.ends_with("repl/slash.rs"));
    let joined = Regex::new(r"\\\n\s*").unwrap();
    let named = Regex::new(r"`((?:ah |--[a-z])[^`\n]+)`").unwrap();
    let slash = Regex::new(r"`/([a-z][a-z-]*)(?: [^`\n]*)?`").unwrap();
    let mut faults = Vec::new();
    let mut used = std::collections::BTreeSet::new();
    for path in files {
        let source = fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        let is_text = |line: &&str| !line.trim_start().starts_with("//");
        let text: Vec<_> = source.lines().filter(is_text).collect();
        for line in joined.replace_all(&text.join("\n"), "").lines() {
            let line = in_its_words(line);
            for found in named.captures_iter(&line) {
                let row = FOR_A_SHELL
                    .iter()
                    .find(|(name, _)| found[1].starts_with(name));
                match row {
                    Some((name, _)) => drop(used.insert(*name)),
                    // All of it is filled in.
                    None if found[1].starts_with("ah {") => {}
                    None => faults.push(format!("{}: {}", path.display(), &found[1])),
                }
            }
            for found in slash.captures_iter(&line) {
                let is_own = call(&format!("/{}", &found[1])).is_some();
                // It is a file.
                if !is_own && &found[1] != "init" {
                    faults.push(format!("{}: no /{}", path.display(), &found[1]));
                }
            }
        }
    }
    for (name, _) in FOR_A_SHELL {
        if !used.contains(name) {
            faults.push(format!("no text names `{name}`"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
