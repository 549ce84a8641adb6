//! The terminal during the conversation: in raw mode, reporting pastes and focus, and restored at the end.

use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use ah_conversation::Environment;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode, size};
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::input::Input;
use super::painter::LEAVE_PAGE;
use crate::signals;

/// Turns on bracketed paste, focus reports, and distinct codes for keys where the terminal supports them.
const ENTER: &str = "\x1b[?2004h\x1b[?1004h\x1b[>1u";
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
/// Time to wait for further bytes of a key. Crossterm polls in a loop meanwhile, at each key.
const MOMENT: Duration = Duration::from_micros(100);
/// Time after which crossterm is polled once more: it may have read keys already and not report them if [`MOMENT`] was
/// over before it began.
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
const LEAVE: &str = "\x1b[<u\x1b[?1004l\x1b[?2004l\x1b[?7h\x1b[?25h";

/// The terminal in raw mode, until this value is dropped.
pub struct Terminal {
    gate: Arc<Gate>,
}

impl Terminal {
    /// Sets the terminal up and sends its keys to `inputs` from now on.
    ///
    /// # Errors
    ///
    /// If it cannot be set up.
    pub fn take(inputs: Sender<Input>) -> io::Result<Self> {
        let (wake, waker) = rustix::pipe::pipe().map_err(io::Error::from)?;
        let gate = Arc::new(Gate {
            state: Mutex::new(State::Open),
            changed: Condvar::new(),
            waker,
        });
        // A line that was ended before the terminal could tell Enter from Ctrl-J.
        let is_early = waiting() > 0;
        enter()?;
        let reading = gate.clone();
        let thread = std::thread::Builder::new().name("keys".to_owned());
        thread.spawn(move || reading.read_keys(&wake, &inputs, is_early))?;
        Ok(Self { gate })
    }

    /// Restores the terminal while `borrow` runs; no key is read meanwhile, and a Ctrl-C is for what runs there. It returns
    /// whether one has ended that.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be set up again.
    pub fn lend<T>(&self, borrow: impl FnOnce() -> (T, bool)) -> io::Result<T> {
        self.release();
        signals::lend();
        let (result, was_interrupted) = borrow();
        let retaken = self.retake();
        signals::take_back(was_interrupted);
        retaken.map(|()| result)
    }

    /// Restores the terminal; no key is read until [`Terminal::retake`].
    pub fn release(&self) {
        self.gate.close();
        leave();
    }

    /// Takes the terminal again.
    ///
    /// # Errors
    ///
    /// If it cannot be set up again.
    pub fn retake(&self) -> io::Result<()> {
        enter()?;
        self.gate.open();
        Ok(())
    }

    /// Returns the columns and lines.
    pub fn size() -> (usize, usize) {
        match size() {
            Ok((columns, lines)) if columns > 0 && lines > 0 => (columns.into(), lines.into()),
            _ => (80, 24),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.gate.end();
        leave();
    }
}

/// Returns whether the terminal wraps its lines again when it becomes narrower, as most do. Those that do not are
/// recognised by their environment variables.
pub fn reflows(environment: &Environment) -> bool {
    let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let is_console = matches!(environment.get("TERM"), Some("linux" | "vt100" | "vt220"));
    is_set("TMUX") || !(is_console || is_set("XTERM_VERSION") || is_set("STY"))
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    let mut out = io::stdout();
    out.write_all(ENTER.as_bytes())?;
    out.flush()
}

/// Whether the alternate screen is shown: a signal ends the program from another thread than the one that draws.
static IS_ON_PAGE: AtomicBool = AtomicBool::new(false);

/// What else gives the terminal back as it was: its title, and the mark of progress.
static OWED: Mutex<String> = Mutex::new(String::new());

/// Notes what else gives the terminal back as it was.
pub fn owe(sequences: String) {
    *OWED.lock() = sequences;
}

/// Notes whether the alternate screen is shown.
pub fn set_page(is_shown: bool) {
    IS_ON_PAGE.store(is_shown, Ordering::Relaxed);
}

/// Restores the terminal. A failure cannot be reported.
pub fn leave() {
    let mut out = io::stdout();
    if IS_ON_PAGE.swap(false, Ordering::Relaxed) {
        let _ = out.write_all(LEAVE_PAGE.as_bytes());
    }
    let _ = out.write_all(LEAVE.as_bytes());
    let _ = out.write_all(std::mem::take(&mut *OWED.lock()).as_bytes());
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// Controls whether keys are read.
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the reader.
    waker: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The reader is asked to stop.
    Closing,
    /// The reader has stopped.
    Closed,
    Over,
}

impl Gate {
    fn set(&self, state: State) {
        *self.state.lock() = state;
        // A full pipe wakes the reader as well.
        let _ = rustix::io::write(&self.waker, &[0]);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.set(State::Closing);
        let is_closing = |state: &mut State| *state == State::Closing;
        self.changed.wait_while(&mut self.state.lock(), is_closing);
    }

    fn open(&self) {
        self.set(State::Open);
    }

    fn end(&self) {
        self.set(State::Over);
    }

    /// Sends keys until the end. While the gate is closed, unread keys are left to the other program.
    /// `is_early` says whether the first of them were typed before the terminal was taken.
    fn read_keys(&self, wake: &OwnedFd, inputs: &Sender<Input>, mut is_early: bool) {
        let stdin = io::stdin();
        let mut patience = None;
        loop {
            let mut ready = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::new(wake, PollFlags::IN),
            ];
            let waited = rustix::event::poll(&mut ready, patience.as_ref());
            patience = (!ready[0].revents().is_empty()).then_some(AGAIN);
            if waited.is_ok() && !ready[1].revents().is_empty() {
                let _ = rustix::io::read(wake.as_fd(), &mut [0; 64]);
            }
            if !self.may_read() {
                return;
            }
            let has_gone = waited.is_ok() && ready[0].revents().contains(PollFlags::HUP);
            match drain(inputs, std::mem::take(&mut is_early)) {
                Ok(true) if !has_gone => {}
                // The terminal or the receiver has gone.
                Ok(_) | Err(_) => {
                    let _ = inputs.send(Input::Gone);
                    return;
                }
            }
        }
    }

    /// Waits while the gate is closed; returns `false` at the end.
    fn may_read(&self) -> bool {
        let mut state = self.state.lock();
        if *state == State::Closing {
            *state = State::Closed;
            self.changed.notify_all();
        }
        let is_closed = |state: &mut State| *state == State::Closed;
        self.changed.wait_while(&mut state, is_closed);
        *state != State::Over
    }
}

/// Returns how many bytes were typed and not read yet.
fn waiting() -> u64 {
    rustix::io::ioctl_fionread(io::stdin()).unwrap_or(0)
}

/// Sends the keys typed so far; returns `false` if the receiver has gone. Before the terminal was taken, Enter was Ctrl-J.
fn drain(inputs: &Sender<Input>, is_early: bool) -> io::Result<bool> {
    // Crossterm makes one Esc of two that come together, and together tmux sends those that follow within half a second.
    let mut escapes = waiting();
    while poll(MOMENT)? {
        let event = match read()? {
            Event::Resize(..) => continue,
            Event::Key(key) if is_early && key == KeyEvent::new(KeyCode::Char('j'), CONTROL) => {
                Event::Key(KeyCode::Enter.into())
            }
            event => event,
        };
        let is_double = escapes == 2 && event == Event::Key(KeyCode::Esc.into());
        escapes = 0;
        if is_double && inputs.send(Input::Key(event.clone())).is_err() {
            return Ok(false);
        }
        if inputs.send(Input::Key(event)).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
