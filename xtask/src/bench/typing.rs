//! Somebody who types while an answer is drawn, and looks how soon each character stands on the screen.
//!
//! No two of the characters are alike, and none of them is in an answer. So the first time that one comes is when it is
//! drawn, whatever else the program sends.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

/// So quickly does nobody type.
const EVERY: Duration = Duration::from_millis(23);
/// Only a hang takes so long.
const HANG: Duration = Duration::from_secs(60);
/// The first of the characters.
const FIRST: u32 = 0x4E00;
/// What the program sends once it reads keys, at the beginning of each picture, and once the answer is whole.
const READY: &[u8] = b"\x1b[?2004h";
const PICTURE: &[u8] = b"\x1b[?2026h";
const WHOLE: &[u8] = b" total)";
/// Leaves, whatever goes on and is typed.
const LEAVE: &[u8] = b"\x03\x03\x03";

/// What somebody saw who typed.
pub struct Typed {
    /// How long each character took to the screen.
    pub delays: Vec<Duration>,
    /// How many pictures there were, and in which time.
    pub pictures: usize,
    pub time: Duration,
}

/// Asks, types until the answer is whole, and leaves.
pub fn type_along(terminal: &File) -> Result<Typed> {
    let mut screen = Screen::look_at(terminal)?;
    let typed = ask_and_type(terminal, &mut screen);
    { terminal }.write_all(LEAVE)?;
    let until = Instant::now() + HANG;
    while screen.look_until(until) {}
    typed
}

fn ask_and_type(mut hands: &File, screen: &mut Screen) -> Result<Typed> {
    screen.wait_for(READY)?;
    hands.write_all(b"go\r")?;
    screen.wait_for(b"go")?;
    let (begun, before) = (Instant::now(), screen.count(PICTURE));
    let mut delays = Vec::new();
    while screen.count(WHOLE) == 0 {
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
        "the answer was whole before anything was typed"
    );
    Ok(Typed {
        delays,
        pictures: screen.count(PICTURE) - before,
        time: begun.elapsed(),
    })
}

/// All that a program has sent to its terminal.
struct Screen {
    coming: Receiver<(Instant, Vec<u8>)>,
    bytes: Vec<u8>,
    /// When the last of them came.
    last: Instant,
}

impl Screen {
    fn look_at(terminal: &File) -> Result<Self> {
        let (sender, coming) = channel();
        let mut terminal = terminal.try_clone()?;
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            // The end of a terminal is told as an error.
            while let Ok(count) = terminal.read(&mut buffer)
                && count > 0
                && sender
                    .send((Instant::now(), buffer[..count].to_vec()))
                    .is_ok()
            {}
        });
        Ok(Self {
            coming,
            bytes: Vec::new(),
            last: Instant::now(),
        })
    }

    /// Takes what comes next; `false` where nothing does until `when`, or ever.
    fn look_until(&mut self, when: Instant) -> bool {
        let wait = when.saturating_duration_since(Instant::now());
        match self.coming.recv_timeout(wait) {
            Ok((came, bytes)) => {
                self.bytes.extend(bytes);
                self.last = came;
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    /// Waits for something that was not there before; gives when it came.
    fn wait_for(&mut self, mark: &[u8]) -> Result<Instant> {
        let mut from = self.bytes.len();
        let until = Instant::now() + HANG;
        while self.look_until(until) {
            if count(&self.bytes[from..], mark) > 0 {
                return Ok(self.last);
            }
            // It may come in two pieces.
            from = from.max(self.bytes.len().saturating_sub(mark.len()));
        }
        bail!("{:?} never came", String::from_utf8_lossy(mark))
    }

    fn count(&self, mark: &[u8]) -> usize {
        count(&self.bytes, mark)
    }
}

fn count(bytes: &[u8], mark: &[u8]) -> usize {
    let pieces = bytes.windows(mark.len());
    pieces.filter(|piece| *piece == mark).count()
}
