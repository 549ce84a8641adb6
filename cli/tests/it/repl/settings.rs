//! Settings of the conversation: key bindings, status line and notifications.

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ah, World};
use crate::support::pseudo_terminal::Seat;

use super::waits_for;

/// The program with these user settings.
fn with(world: &World, server: &Server, settings: &Value, more: &[&str]) -> Ah {
    let settings = world
        .write("settings", settings.to_string())
        .display()
        .to_string();
    let arguments = ["-m", "sonnet", "--settings", &settings];
    world.asking(server, arguments.iter().chain(more).copied())
}

#[test]
fn lines_are_edited_as_in_vi_where_that_is_wanted() {
    let world = World::new();
    let server = Server::new([says("Heard.")]);
    let ah = with(&world, &server, &json!({"editorMode": "vim"}), &[]);
    let mut seat = Seat::take(ah);
    seat.types("one two three");
    seat.sees("> one two three");
    // Back to the first word to change it, then a line below.
    seat.types("\x1b0cw1\x1bosecond");
    seat.sees("> 1 two three\n  second");
    seat.types("\x1bk0wdw");
    seat.sees("> 1 three\n  second");
    seat.types("\r");
    seat.sees("Heard.");
    seat.sees_no_more("Esc interrupts");
    let body = server.requests().remove(0).body;
    let said = crate::interrupted_again_and_again::blocks(&body)
        .pop()
        .unwrap()
        .1["text"]
        .clone();
    assert_eq!(said, "1 three\nsecond");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_line_at_the_bottom_is_a_command_of_the_users() {
    let world = World::new();
    let usage = Usage {
        input_tokens: 20_000,
        output_tokens: 300,
        cache_read_input_tokens: 5_000,
        ..Usage::default()
    };
    let server = Server::new([Turn {
        usage: Some(usage),
        ..says("Heard.")
    }]);
    let script = world.write(
        "line",
        "cat > new; mv new told; printf '\\033[1mmine\\033[0m \\033[2J'; grep -o 'total_output_tokens\":[0-9]*' told\n",
    );
    let line = format!("sh {}", script.display());
    let line = json!({"statusLine": {"type": "command", "command": line, "padding": 2}});
    let mut seat = Seat::take(with(&world, &server, &line, &[]));
    seat.sees("  mine ␛[2Jtotal_output_tokens\":0");
    seat.says("Hi");
    seat.sees("Heard.");
    seat.sees_no_more("Esc interrupts");
    seat.sees_no_more("tokens\":0");
    let mut told: Value = serde_json::from_str(&world.text("told")).unwrap();
    for (place, name) in [
        ("", "session_id"),
        ("", "transcript_path"),
        ("", "version"),
        ("/cost", "total_duration_ms"),
        ("/cost", "total_api_duration_ms"),
    ] {
        let value = &mut told.pointer_mut(place).unwrap()[name];
        assert!(!value.is_null(), "{name}");
        *value = json!("some");
    }
    let cwd = world.project().canonicalize().unwrap();
    let told = told.to_string().replace(cwd.to_str().unwrap(), "CWD");
    let told: Value = serde_json::from_str(&told).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&told).unwrap(), @r#"
    {
      "hook_event_name": "Status",
      "session_id": "some",
      "transcript_path": "some",
      "cwd": "CWD",
      "permission_mode": "bypassPermissions",
      "version": "some",
      "model": {
        "id": "claude-sonnet-4-5-20250929",
        "display_name": "claude-sonnet-4-5-20250929"
      },
      "workspace": {
        "current_dir": "CWD",
        "project_dir": "CWD",
        "added_dirs": []
      },
      "output_style": {
        "name": "default"
      },
      "cost": {
        "total_cost_usd": 0.066,
        "total_duration_ms": "some",
        "total_api_duration_ms": "some",
        "total_lines_added": 0,
        "total_lines_removed": 0
      },
      "context_window": {
        "total_input_tokens": 25000,
        "total_output_tokens": 300,
        "context_window_size": 200000,
        "used_percentage": 12,
        "remaining_percentage": 88,
        "current_usage": {
          "input_tokens": 20000,
          "output_tokens": 300,
          "cache_creation_input_tokens": 0,
          "cache_read_input_tokens": 5000
        }
      },
      "exceeds_200k_tokens": false
    }
    "#);
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn what_a_session_has_used_counts_after_a_summary() {
    let world = World::new();
    let used = |turn: Turn| Turn {
        usage: Some(Usage {
            input_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        }),
        ..turn
    };
    let calls = (0..12).map(|at| uses("bash", json!({"command": format!("echo {at}")})));
    let said = ["Worked.", "In short."].map(says);
    let server = Server::new(calls.chain(said).map(used));
    let script = world.write("line", "grep -o 'total_output_tokens\":[0-9]*'\n");
    let line =
        json!({"statusLine": {"type": "command", "command": format!("sh {}", script.display())}});
    let mut seat = Seat::take(with(&world, &server, &line, &[]));
    seat.says("Hi");
    seat.sees("Worked.");
    seat.sees("tokens\":130");
    seat.sees_no_more("Esc interrupts");
    seat.says("/compact");
    // The run's first answers have left the view and the memory.
    seat.sees("tokens\":140");
    seat.sees_no_more("Esc interrupts");
    seat.says("/cost");
    seat.sees("140 out");
    seat.sees("tokens\":140");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn a_status_line_that_hangs_keeps_nobody_from_typing() {
    let world = World::new();
    let server = Server::new([says("Heard.")]);
    let line = json!({"statusLine": {"type": "command", "command": "sleep 1000"}});
    let mut seat = Seat::take(with(&world, &server, &line, &[]));
    seat.says("Hi");
    seat.sees("Heard.");
    seat.sees_no_more("Esc interrupts");
    seat.types("more");
    seat.sees("> more");
    seat.types("\x15\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn who_is_away_is_told_that_the_agent_waits_or_has_finished() {
    let world = World::new();
    let turns = [
        waits_for("go"),
        ah_testkit::script::uses("bash", json!({"command": "touch asked"})),
        says("Done."),
        says("Again."),
    ];
    let server = Server::by_history(turns);
    let notify = json!({
        "notify": {"channel": "osc777", "command": "cat >> told; echo >> told"},
        "permissions": {
            "allow": ["bash(until:*)", "bash(do:*)", "bash(done:*)", "bash(echo:*)", "bash(sleep:*)", "bash(test:*)"],
        },
    });
    let asking = ["--no-sandbox", "--permission-mode", "default"];
    let mut seat = Seat::take(with(&world, &server, &notify, &asking));
    seat.says("begin");
    seat.sees("until test");
    // The terminal reports loss of focus, and then focus.
    seat.types("\x1b[O");
    world.write("go", "");
    seat.sees("touch asked");
    let rings = |seat: &Seat| {
        let bytes = String::from_utf8_lossy(&seat.bytes()).into_owned();
        let pattern = regex::Regex::new("\x1b]777;([^\x07]*)\x07").unwrap();
        let rings = pattern
            .captures_iter(&bytes)
            .map(|found| found[1].to_owned());
        rings.collect::<Vec<_>>()
    };
    seat.wait_until("it rings", |bytes, _| bytes.contains(&7));
    assert_eq!(
        rings(&seat),
        ["notify;ah;is waiting for you in project: bash: touch asked"]
    );
    seat.sees("Allow?");
    seat.types("y\r");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    seat.wait_until("it rings again", |bytes, _| {
        bytes.iter().filter(|byte| **byte == 7).count() == 2
    });
    assert!(
        rings(&seat)[1].starts_with("notify;ah;has finished in project after"),
        "{:?}",
        rings(&seat)
    );
    seat.types("\x1b[I");
    seat.says("again");
    seat.sees("Again.");
    seat.sees_no_more("Esc interrupts");
    assert_eq!(rings(&seat).len(), 2);
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let told = world.text("told");
    let told: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!(told["notification_type"], "permission_prompt");
    assert_eq!(told["hook_event_name"], "Notification");
}
