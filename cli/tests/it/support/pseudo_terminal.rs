//! A user at a pseudo-terminal: types, and sees what the binary draws. Tests wait for the screen's content, never for
//! a time.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};
use vt100::Parser;

use crate::support::binary::{Ah, HANG, open_terminal, spawn};

/// A pseudo-terminal with the running binary, which is killed on drop.
pub struct Seat {
    person: File,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    child: Child,
}

struct Seen {
    parser: Parser,
    /// All output so far.
    bytes: Vec<u8>,
    is_over: bool,
}

impl Seen {
    /// Whether no synchronised update is incomplete.
    fn is_whole(&self) -> bool {
        let last = |mark: &[u8]| {
            self.bytes
                .windows(mark.len())
                .rposition(|piece| piece == mark)
        };
        last(b"\x1b[?2026h") <= last(b"\x1b[?2026l")
    }
}

impl Seat {
    /// Starts `ah` at a terminal of 80 columns and 24 lines.
    pub fn take(ah: Ah) -> Self {
        Self::of_size(ah, 80, 24)
    }

    /// Starts `ah` at a terminal of this size.
    pub fn of_size(ah: Ah, columns: u16, lines: u16) -> Self {
        let seat = Self::seeing(ah, columns, lines);
        seat.wait_until("it is ready", |bytes, _| {
            bytes.windows(8).any(|piece| piece == b"\x1b[?2004h") || bytes.contains(&b'>')
        });
        seat
    }

    /// Starts `ah` at a terminal of this size, where it may ask for something at once.
    pub fn seeing(ah: Ah, columns: u16, lines: u16) -> Self {
        let (person, side) = open_terminal();
        tcsetwinsize(&person, size(columns, lines)).unwrap();
        // It must be the controlling terminal of a session of its own, or nobody would get SIGWINCH.
        let mut command = ah.through("setsid", ["--ctty"]).into_command();
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm-256color");
        }
        command
            .stdin(side.try_clone().unwrap())
            .stdout(side.try_clone().unwrap())
            .stderr(side);
        let child = spawn(&mut command);
        // It holds the other side.
        drop(command);
        let seen = Arc::new((
            Mutex::new(Seen {
                parser: Parser::new(many(lines), many(columns), 10_000),
                bytes: Vec::new(),
                is_over: false,
            }),
            Condvar::new(),
        ));
        let (mut eyes, seeing) = (person.try_clone().unwrap(), seen.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let count = eyes.read(&mut buffer).unwrap_or(0);
                let mut seen = seeing.0.lock();
                seen.parser.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
                seen.is_over = count == 0;
                seeing.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Self {
            person,
            seen,
            child,
        }
    }

    /// Types these bytes.
    pub fn types(&mut self, keys: impl AsRef<[u8]>) {
        self.person.write_all(keys.as_ref()).unwrap();
    }

    /// Types a line and Enter.
    pub fn says(&mut self, line: &str) {
        self.types(format!("{line}\r"));
    }

    /// Pastes a text.
    pub fn pastes(&mut self, text: &str) {
        self.types(format!("\x1b[200~{text}\x1b[201~"));
    }

    /// Resizes the terminal.
    pub fn resizes(&mut self, columns: u16, lines: u16) {
        let mut seen = self.seen.0.lock();
        seen.parser
            .screen_mut()
            .set_size(many(lines), many(columns));
        drop(seen);
        tcsetwinsize(&self.person, size(columns, lines)).unwrap();
    }

    /// The screen without trailing empty lines.
    pub fn screen(&self) -> String {
        shown(&self.seen.0.lock().parser)
    }

    /// All lines from the beginning of the scrollback to the end of the screen.
    pub fn scrollback(&self) -> String {
        let mut seen = self.seen.0.lock();
        let (lines, _) = seen.parser.screen().size();
        let screen = seen.parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let mut all = Vec::new();
        let mut above = screen.scrollback();
        while above > 0 {
            screen.set_scrollback(above);
            let page: Vec<_> = screen.contents().lines().map(str::to_owned).collect();
            let fresh = above.min(usize::from(lines.get()));
            all.extend(page.into_iter().take(fresh));
            above -= fresh;
        }
        screen.set_scrollback(0);
        all.extend(screen.contents().lines().map(str::to_owned));
        all.join("\n")
    }

    /// All bytes written.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.0.lock().bytes.clone()
    }

    /// Waits until the screen shows `text`.
    #[track_caller]
    pub fn sees(&self, text: &str) {
        self.wait_until(text, |_, screen| screen.contains(text));
    }

    /// Waits until the screen no longer shows `text`.
    #[track_caller]
    pub fn sees_no_more(&self, text: &str) {
        self.wait_until(text, |_, screen| !screen.contains(text));
    }

    /// Waits until `is_so` holds for the bytes written and the screen.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&[u8], &str) -> bool) {
        let since = Instant::now();
        let mut seen = self.seen.0.lock();
        while !(seen.is_whole() && is_so(&seen.bytes, &shown(&seen.parser))) {
            let left = HANG.saturating_sub(since.elapsed());
            assert!(
                !seen.is_over && !left.is_zero(),
                "waited for {what:?} in vain:\n{}",
                shown(&seen.parser)
            );
            self.seen.1.wait_for(&mut seen, left);
        }
    }

    /// Waits for the end of the program and returns its exit code.
    #[track_caller]
    pub fn leaves(mut self) -> i32 {
        let since = Instant::now();
        // The terminal ends with it.
        let mut seen = self.seen.0.lock();
        while !seen.is_over {
            let left = HANG.saturating_sub(since.elapsed());
            assert!(!left.is_zero(), "it hangs:\n{}", shown(&seen.parser));
            self.seen.1.wait_for(&mut seen, left);
        }
        assert_tame(&seen.bytes);
        drop(seen);
        let status = self.child.wait().unwrap();
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Fails if the output erases the scrollback, clears the screen or queries the terminal, or if a synchronised update or the
/// alternate screen is not ended.
#[track_caller]
fn assert_tame(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for forbidden in ["\x1b[2J", "\x1b[3J", "\x1b[6n", "\x1bc"] {
        assert!(!text.contains(forbidden), "{forbidden:?}");
    }
    for (mode, what) in [
        ("\x1b[?2026", "an update"),
        ("\x1b[?1049", "another screen"),
    ] {
        let mut is_open = false;
        for (at, _) in text.match_indices(mode) {
            let begins = text[at + mode.len()..].starts_with('h');
            assert_ne!(begins, is_open, "{what} within itself, or the end of none");
            is_open = begins;
        }
        assert!(!is_open, "{what} that does not end");
    }
}

fn many(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

fn shown(parser: &Parser) -> String {
    let contents = parser.screen().contents();
    let lines: Vec<_> = contents.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
