//! The conversation within tmux, as tmux is by default: the scrollback is whole and has no copy of what was drawn below it.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::scrollback::{SIZES, assert_whole, sixty_lines};
use crate::support::binary::{ASKS_UNCONFINED, Ah, HANG, World};

/// A server of tmux with one window, which ends with it.
struct Tmux(String);

impl Tmux {
    /// Starts a program in a window of this size; `None` where there is no tmux.
    fn start(world: &World, ah: Ah, columns: u16, lines: u16) -> Option<Self> {
        let tmux = Self(world.home().join("tmux").display().to_string());
        let command = ah.into_command();
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let mut script = String::from("#!/bin/sh\n");
        for (name, value) in command.get_envs() {
            // Its terminal is that of tmux.
            let (name, value) = (name.to_string_lossy(), value.map(|it| it.to_string_lossy()));
            if let (Some(value), false) = (value, name == "TERM") {
                script.push_str(&format!("export {name}={}\n", quoted(&value)));
            }
        }
        let folder = command.get_current_dir().unwrap().display().to_string();
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        script.push_str(&format!(
            "cd {}\nexec {}\n",
            quoted(&folder),
            words.join(" ")
        ));
        let path = world.home().join("start.sh");
        fs::write(&path, script).unwrap();
        let size = (columns.to_string(), lines.to_string());
        let program = format!("sh {}", path.display());
        let started = tmux.try_run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &size.0,
            "-y",
            &size.1,
            &program,
        ]);
        started.map(|_| tmux)
    }

    fn try_run(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new("tmux");
        command.args(["-S", &self.0]).args(words).env_remove("TMUX");
        let output = command.output().ok()?;
        assert!(output.status.success(), "{words:?}: {output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    fn run(&self, words: &[&str]) -> String {
        self.try_run(words).unwrap()
    }

    fn types(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Everything from the beginning of the scrollback on.
    fn all(&self) -> String {
        self.run(&["capture-pane", "-p", "-S", "-"])
    }

    #[track_caller]
    fn waits(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let since = Instant::now();
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if is_so(&screen) {
                return;
            }
            assert!(
                since.elapsed() < HANG,
                "waited for {what} in vain:\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    fn sees(&self, text: &str) {
        self.waits(text, |screen| screen.contains(text));
    }

    /// Waits until nothing works; a narrow screen has no room for more than the spinner.
    #[track_caller]
    fn rests(&self) {
        let is_sign = |c| ('\u{2800}'..='\u{28ff}').contains(&c);
        self.waits("it rests", |screen| !screen.contains(is_sign));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let server = Command::new("tmux")
            .args(["-S", &self.0, "kill-server"])
            .output();
        drop(server);
    }
}

#[test]
fn nothing_is_lost_or_repeated_within_tmux() {
    for (columns, lines) in SIZES {
        let world = World::new();
        let (all, _server, ah) = sixty_lines(&world);
        let Some(tmux) = Tmux::start(&world, ah, columns, lines) else {
            eprintln!("left out: the conversation within tmux, since there is none");
            return;
        };
        tmux.sees(">");
        tmux.types(&["count", "Enter"]);
        tmux.sees("line 40");
        tmux.rests();
        tmux.types(&["C-l"]);
        tmux.waits("an empty screen", |screen| !screen.contains("line 40"));
        tmux.types(&["/cost", "Enter"]);
        // On the smallest screen the command itself has scrolled away by then.
        tmux.sees("$0.0000");
        tmux.types(&["more", "Enter"]);
        tmux.sees("Allow?");
        let size = ((columns + 20).to_string(), (lines + 6).to_string());
        tmux.run(&["resize-window", "-x", &size.0, "-y", &size.1]);
        tmux.sees("touch a");
        tmux.types(&["C-l"]);
        tmux.sees("Allow?");
        tmux.types(&["y", "Enter"]);
        tmux.sees("line 60");
        tmux.rests();
        let seen = tmux.all();
        let once = ["> count", "> /cost", "> more", "→ yes, once"];
        assert_whole(&seen, &all, &once, (columns, lines));
        for gone in ["Allow?", "interrupts", "❯"] {
            assert!(!seen.contains(gone), "{gone} at {columns}x{lines}:\n{seen}");
        }
        // Two Escs, of which tmux makes one sequence.
        tmux.types(&["Escape", "Escape"]);
        tmux.sees("edit:");
    }
}

/// A question as high as the screen is drawn at its top, where tmux takes erasing all below for a clear and keeps a copy of it.
#[test]
fn a_resize_and_a_cleared_screen_leave_nothing_of_what_was_drawn() {
    let world = World::new();
    let content: String = (1..=30).map(|n| format!("row {n}\n")).collect();
    let write = uses("write", json!({"path": "long.txt", "content": content}));
    let server = Server::new([write, says("Done.")]);
    let Some(tmux) = Tmux::start(&world, world.asking(&server, ASKS_UNCONFINED), 80, 24) else {
        eprintln!("left out: a resize within tmux, since there is none");
        return;
    };
    tmux.sees(">");
    tmux.types(&["write", "Enter"]);
    tmux.sees("Allow?");
    for (columns, lines) in [("60", "16"), ("40", "20"), ("80", "14"), ("80", "24")] {
        tmux.run(&["resize-window", "-x", columns, "-y", lines]);
        let lines: usize = lines.parse().unwrap();
        tmux.waits("the question in the new size", |screen| {
            let rows: Vec<_> = screen.trim_end().lines().collect();
            let is_low = rows.len() + 1 >= lines;
            let is_drawn = rows.last().is_some_and(|row| row.starts_with("ask before"));
            is_low && is_drawn && screen.matches("write: long.txt").count() == 1
        });
    }
    tmux.types(&["n", "Enter"]);
    tmux.sees("Done.");
    tmux.rests();
    tmux.types(&["C-l"]);
    tmux.waits("an empty screen", |screen| !screen.contains("Done."));
    tmux.types(&["/cost", "Enter"]);
    tmux.sees("$0.0000");
    let seen = tmux.all();
    for (drawn, expected) in [("Allow?", 0), ("yes, once", 0), ("ask before", 1)] {
        assert_eq!(seen.matches(drawn).count(), expected, "{drawn}:\n{seen}");
    }
    assert!(!seen.trim_end().contains("\n\n\n"), "{seen}");
}
