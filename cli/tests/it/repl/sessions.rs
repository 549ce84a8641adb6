//! A session that other processes write to, and prompts that override run options.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn what_others_write_while_nothing_is_on_is_answered() {
    let world = World::new();
    let server = Server::new(["One.", "Two."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("first");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    seat.types("half a sen");
    let elsewhere = world.asking(&server, ["-m", "sonnet", "from elsewhere"]);
    elsewhere.run().expect(0);
    seat.sees("> from elsewhere");
    seat.sees("Two.");
    seat.sees_no_more("Esc interrupts");
    seat.types("tence");
    seat.sees("> half a sentence");
    seat.types("\x15\x04");
    assert_eq!(seat.leaves(), 0);
    let connection = crate::interrupted_again_and_again::open_sound(&world.database());
    assert_eq!(
        crate::interrupted_again_and_again::texts(&connection, "user"),
        ["first", "from elsewhere"]
    );
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn a_command_has_its_own_model_and_rules_for_its_run() {
    let world = World::new();
    let command = world.home().join(".ah/commands/mark.md");
    std::fs::create_dir_all(command.parent().unwrap()).unwrap();
    let text = "---\nmodel: haiku\nallowed-tools: Bash(touch marked)\n---\nMark it.\n";
    std::fs::write(command, text).unwrap();
    let touches = || uses("bash", json!({"command": "touch marked"}));
    let server = Server::by_history([touches(), says("Marked."), touches(), says("Again.")]);
    let asking = ["--no-sandbox", "--permission-mode", "default"];
    let ah = world.asking(&server, asking).env("AH_MODEL", "sonnet");
    let mut seat = Seat::take(ah);
    seat.types("/mark \r");
    seat.sees("Marked.");
    seat.sees_no_more("Esc interrupts");
    seat.sees("claude-sonnet");
    assert!(world.file("marked").exists());
    seat.says("mark it again");
    seat.sees("Allow?");
    seat.says("y");
    seat.sees("Again.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let models = server.requests();
    let models = models.iter().map(|request| {
        let model = request.body["model"].as_str().unwrap();
        model.split('-').nth(1).unwrap().to_owned()
    });
    assert_eq!(
        models.collect::<Vec<_>>(),
        ["haiku", "haiku", "sonnet", "sonnet"]
    );
}

#[test]
fn a_repository_has_one_place_for_its_sessions() {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    world.write("deep/down/file", "x");
    let below = world.file("deep/down");
    let server = Server::new([says("One."), says("Two.")]);
    let begun = world.asking(&server, ["-m", "sonnet", "first"]);
    begun.within(&below).run().expect(0);
    assert!(!below.join(".ah").exists());
    // From the top, and from another folder, it goes on.
    let listed = world.as_typed(["sessions"]).run().expect(0);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let named = world.as_typed(["sessions", "rename", id, "painting"]);
    named.run().expect(0);
    let further = world.asking(&server, ["-m", "sonnet", "-r", "painting", "second"]);
    further.within(world.file("deep")).run().expect(0);
    let connection = crate::interrupted_again_and_again::open_sound(&world.database());
    let texts = crate::interrupted_again_and_again::texts(&connection, "user");
    assert_eq!(texts[..2], ["first", "second"]);
    let moved = format!("Working directory: {}", world.file("deep").display());
    assert!(texts[2].ends_with(&moved), "{texts:?}");
}

#[test]
fn a_project_that_cannot_be_written_has_its_session_elsewhere() {
    if crate::sandbox::is_missing() {
        return;
    }
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    let read_only = [
        "-rm",
        "sh",
        "-c",
        "mount -o bind,ro \"$PWD\" \"$PWD\" && cd \"$PWD\" && exec \"$@\"",
        "sh",
    ];
    for (prompt, answer) in [("first", "One."), ("second", "Two.")] {
        let ah = world.asking(&server, ["-m", "sonnet", prompt]);
        let ended = ah.through("unshare", read_only).run().expect(0);
        assert!(ended.stdout.contains(answer), "{}", ended.stdout);
        let notice = "this folder cannot be written, so the session is kept in `";
        assert!(ended.stderr.contains(notice), "{}", ended.stderr);
    }
    assert!(!world.file(".ah").exists());
    assert!(world.home().join(".ah/projects").exists());
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("first"), "{told}");
}

#[test]
fn the_open_session_is_not_opened_again() {
    let world = World::new();
    let server = Server::new([says("One.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("Hi");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    seat.says(&format!("/resume {}", listed[0]["id"].as_str().unwrap()));
    seat.sees("This session is open here.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Sessions in two folders, of which the first is a repository: the answers are `One.` and `Two.`.
fn two_folders(world: &World, server: &Server) {
    world.write("a/.git/HEAD", "ref: refs/heads/main\n");
    world.write("b/file", "x");
    for (folder, prompt) in [("a", "paint the fence"), ("b", "mend the roof")] {
        let ah = world.asking(server, ["-m", "sonnet", prompt]);
        ah.within(world.file(folder)).run().expect(0);
    }
    // What the folder is now does not count.
    world.write("a/.git/HEAD", "ref: refs/heads/other\n");
}

#[test]
fn sessions_of_all_folders_are_listed() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    two_folders(&world, &server);
    let listed = world.as_typed(["sessions", "--all"]);
    let listed = listed.within(world.file("a")).run().expect(0).stdout;
    let lines: Vec<_> = listed.lines().collect();
    let folder = |name| world.file(name).display().to_string();
    assert_eq!((lines[0], lines[2]), (&*folder("b"), &*folder("a")));
    assert!(lines[1].ends_with("mend the roof"), "{listed}");
    assert!(lines[3].ends_with("(main)  paint the fence"), "{listed}");
    let own = world.as_typed(["sessions", "--json"]);
    let own = own.within(world.file("b")).run().expect(0).stdout;
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    assert_eq!(own.as_array().unwrap().len(), 1);
    let all = world.as_typed(["sessions", "--all", "--json"]).run();
    let all: serde_json::Value = serde_json::from_str(&all.expect(0).stdout).unwrap();
    assert_eq!(all[1]["folder"], json!(world.file("a")));
    assert_eq!(all[1]["branch"], "main");
    // From elsewhere, the way to it is told.
    let id = all[0]["id"].as_str().unwrap();
    let ended = world.asking(&server, ["-m", "sonnet", "-r", id, "go on"]);
    let ended = ended.within(world.file("a")).run().expect(1);
    let way = format!("hint: cd {} && ah -r {id}", folder("b"));
    assert!(ended.stderr.contains(&way), "{}", ended.stderr);
    std::fs::remove_dir_all(world.file("b")).unwrap();
    let ended = world.as_typed(["sessions", "--all"]).run().expect(0);
    assert_eq!(ended.stdout.lines().count(), 2, "{}", ended.stdout);
    let gone = "1 folder with sessions no longer exist";
    assert!(ended.stderr.contains(gone), "{}", ended.stderr);
}

#[test]
fn a_session_is_chosen_from_a_list() {
    let world = World::new();
    let server = Server::new(["One.", "Two.", "Three."].map(says));
    two_folders(&world, &server);
    let named = world.as_typed(["sessions", "rename", "0", "roofing"]);
    named.within(world.file("b")).run().expect(0);
    let more = world.asking(&server, ["-m", "sonnet", "-n", "wash the car"]);
    more.within(world.file("b")).run().expect(0);
    let ah = world.asking(&server, ["-m", "sonnet", "-r"]);
    let mut seat = Seat::of_size(ah.within(world.file("b")), 40, 20);
    seat.sees("session:\n❯ wash the car\n    now · ");
    seat.sees("\n  [roofing] mend the roof\n    now · ");
    seat.sees("2 messages\nCtrl-A all folders\n");
    seat.types("roof");
    seat.sees_no_more("wash");
    seat.types("\x01");
    seat.sees("session in any folder: roof\n❯ [roofing]");
    seat.types("\x15fence");
    seat.sees("❯ paint the fence\n    now · ");
    seat.types("\r");
    seat.sees("This session belongs to another folder.");
    assert!(seat.screen().contains("&& ah -r"), "{}", seat.screen());
    seat.sees_no_more("Esc interrupts");
    seat.says("/resume");
    seat.sees("Ctrl-A all folders\n");
    seat.types("roof\r");
    seat.sees("> mend the roof\n\nTwo.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_list_shows_the_branch_that_a_session_was_on() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    for (branch, prompt) in [("main", "paint the fence"), ("roof", "mend the roof")] {
        world.write(".git/HEAD", format!("ref: refs/heads/{branch}\n"));
        let ah = world.asking(&server, ["-m", "sonnet", "-n", prompt]);
        ah.run().expect(0);
    }
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "-r"]));
    seat.sees("❯ mend the roof\n    now · roof · ");
    seat.sees("  paint the fence\n    now · main · ");
    seat.types("\x02");
    seat.sees_no_more("paint");
    seat.sees("Ctrl-B all branches");
    seat.types("\x02");
    seat.sees("paint");
    seat.types("\x1b");
    seat.sees_no_more("paint");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Two panes in one repository are an ordinary day.
#[test]
fn a_second_terminal_begins_a_new_conversation_and_says_so() {
    let world = World::new();
    let server = Server::new([says("First."), says("Second.")]);
    let mut first = Seat::take(world.asking_as_typed(&server, ["-m", "sonnet"]));
    first.says("one");
    first.sees("First.");
    first.sees_no_more("Esc interrupts");
    let mut second = Seat::take(world.asking_as_typed(&server, ["-m", "sonnet"]));
    second.sees("is open in another terminal; this is a new one");
    second.says("two");
    second.sees("Second.");
    second.sees_no_more("Esc interrupts");
    assert!(!second.screen().contains("First."), "{}", second.screen());
    for mut seat in [first, second] {
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
    }
}

#[test]
fn a_session_of_another_day_is_continued_only_on_request() {
    let world = World::new();
    let server = Server::new([says("Long ago.")]);
    let ended = world.asking(&server, ["-m", "sonnet", "old"]).run();
    ended.expect(0);
    let last_week = std::time::SystemTime::now() - std::time::Duration::from_secs(7 * 86_400);
    let database = std::fs::File::open(world.database()).unwrap();
    database.set_modified(last_week).unwrap();
    let mut seat = Seat::take(world.asking_as_typed(&server, ["-m", "sonnet"]));
    seat.sees("more than a day old; this is a new one");
    assert!(!seat.screen().contains("Long ago."), "{}", seat.screen());
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let mut seat = Seat::take(world.asking_as_typed(&server, ["-c", "-m", "sonnet"]));
    seat.sees("Long ago.");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
