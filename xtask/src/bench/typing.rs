//! Latency of typing while an answer is drawn: types characters and measures when each appears on the screen.
//!
//! All characters differ and none is part of an answer, so a character's first occurrence in the output is the moment
//! when it is drawn.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

/// Time between two characters, faster than anybody types.
const EVERY: Duration = Duration::from_millis(23);
/// Time in which a program that has nothing to do is watched.
const STILL: Duration = Duration::from_secs(1);
/// Time after which the program counts as hung.
const HANG: Duration = Duration::from_secs(60);
/// First character typed; the others follow it in Unicode.
const FIRST: u32 = 0x4E00;
/// Output of the program once it reads keys, at the start of each frame, and once the answer is complete: the title of the
/// terminal has no sign of work any more.
const READY: &[u8] = b"\x1b[?2004h";
const FRAME: &[u8] = b"\x1b[?2026h";
const COMPLETE: &[u8] = b"\x1b]0;go - ah";
/// Keys that exit the program in any state.
const EXIT: &[u8] = b"\x03\x03\x03";

/// Measurements of one answer.
pub struct Typed {
    /// Time from the start until keys are read.
    pub ready: Duration,
    /// Number of frames drawn in a second in which nothing happens.
    pub idle: usize,
    /// Time from each key press to the character's appearance.
    pub delays: Vec<Duration>,
    /// Number of frames drawn.
    pub frames: usize,
    /// Time in which they were drawn.
    pub time: Duration,
}

/// Sends a prompt, types until the answer is complete, and exits.
pub fn type_along(terminal: &File) -> Result<Typed> {
    let mut screen = Screen::look_at(terminal)?;
    let typed = ask_and_type(terminal, &mut screen);
    (&mut &*terminal).write_all(EXIT)?;
    let until = Instant::now() + HANG;
    while screen.look_until(until) {}
    typed
}

fn ask_and_type(mut hands: &File, screen: &mut Screen) -> Result<Typed> {
    let started = screen.started;
    let ready = screen.wait_for(READY)?.saturating_duration_since(started);
    // What belongs to the start comes first.
    let still = Instant::now() + STILL;
    while screen.look_until(still) {}
    let before = screen.count(FRAME);
    let still = Instant::now() + STILL;
    while screen.look_until(still) {}
    let idle = screen.count(FRAME) - before;
    hands.write_all(b"go\r")?;
    screen.wait_for(b"go")?;
    let (begun, before) = (Instant::now(), screen.count(FRAME));
    let mut delays = Vec::new();
    while screen.count(COMPLETE) == 0 {
        let next = Instant::now() + EVERY;
        let number = FIRST + u32::try_from(delays.len())?;
        let character = char::from_u32(number).unwrap_or_default().to_string();
        let pressed = Instant::now();
        hands.write_all(character.as_bytes())?;
        let shown = screen.wait_for(character.as_bytes())?;
        delays.push(shown.saturating_duration_since(pressed));
        while screen.look_until(next) {}
    }
    ensure!(
        !delays.is_empty(),
        "the answer was complete before anything was typed"
    );
    Ok(Typed {
        ready,
        idle,
        delays,
        frames: screen.count(FRAME) - before,
        time: begun.elapsed(),
    })
}

/// Output that a program has sent to its terminal.
struct Screen {
    incoming: Receiver<(Instant, Vec<u8>)>,
    bytes: Vec<u8>,
    /// Time at which it was first looked at.
    started: Instant,
    /// Time at which the last bytes came.
    last: Instant,
}

impl Screen {
    fn look_at(terminal: &File) -> Result<Self> {
        let (sender, incoming) = channel();
        let mut terminal = terminal.try_clone()?;
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            // The end of a terminal is reported as an error.
            while let Ok(count) = terminal.read(&mut buffer)
                && count > 0
                && sender
                    .send((Instant::now(), buffer[..count].to_vec()))
                    .is_ok()
            {}
        });
        Ok(Self {
            incoming,
            bytes: Vec::new(),
            started: Instant::now(),
            last: Instant::now(),
        })
    }

    /// Receives the next bytes; `false` if none come until `when`.
    fn look_until(&mut self, when: Instant) -> bool {
        let wait = when.saturating_duration_since(Instant::now());
        match self.incoming.recv_timeout(wait) {
            Ok((came, bytes)) => {
                self.bytes.extend(bytes);
                self.last = came;
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    /// Waits for a new occurrence of `mark`; returns when it came.
    fn wait_for(&mut self, mark: &[u8]) -> Result<Instant> {
        let mut from = self.bytes.len();
        let until = Instant::now() + HANG;
        while self.look_until(until) {
            if count(&self.bytes[from..], mark) > 0 {
                return Ok(self.last);
            }
            // It may be split over two reads.
            from = from.max(self.bytes.len().saturating_sub(mark.len()));
        }
        bail!(
            "the program did not print {:?}",
            String::from_utf8_lossy(mark)
        )
    }

    fn count(&self, mark: &[u8]) -> usize {
        count(&self.bytes, mark)
    }
}

fn count(bytes: &[u8], mark: &[u8]) -> usize {
    let pieces = bytes.windows(mark.len());
    pieces.filter(|piece| *piece == mark).count()
}
