//! The two output streams and the spinner, kept out of each other's way.
//!
//! An answer may arrive in thousands of small pieces. A piece after a pause is written at once; pieces that follow
//! within a few milliseconds are collected, so that a burst costs a few writes. The thread that writes them also turns
//! the spinner; it is started when it is first needed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ah_conversation::Environment;
use ah_render::Palette;
use parking_lot::{Condvar, Mutex};
use tokio_util::sync::CancellationToken;

use super::drawn::{Drawn, Size};
use super::wrap::at_words;
use crate::glyphs::Fitted;

/// Longest time that a piece of an answer waits for the next one.
const PAUSE: Duration = Duration::from_millis(10);
/// The same for an answer that is drawn: about 30 frames a second.
const DRAWN_PAUSE: Duration = Duration::from_millis(33);
/// Time after which the size of the terminal is looked at while a part of an answer stands that may still change.
const LOOK: Duration = Duration::from_millis(250);
/// Number of collected bytes that are written without waiting.
const FULL: usize = 16 * 1024;
/// Duration of a spinner frame.
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ERASE_LINE: &str = "\r\x1b[2K";

/// Standard output and standard error of a run.
pub struct Screen {
    shared: Arc<Shared>,
    ticker: Mutex<Option<JoinHandle<()>>>,
    /// Abilities of the streams.
    pub look: Look,
}

/// Abilities of the output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether standard output is a terminal.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub err_is_terminal: bool,
    /// Whether standard error takes colours.
    pub colours: bool,
    /// Whether a spinner is shown.
    pub spinner: bool,
    /// Whether answers and tool calls are laid out for a terminal; otherwise they are lines of text.
    pub drawn: bool,
    /// Size of the terminal.
    pub size: Size,
}

impl Look {
    /// Returns the abilities of the process's streams and of the terminal named in `environment`; `plain` turns off
    /// colours, animation and layout.
    pub fn of_process(plain: bool, environment: &Environment) -> Self {
        let err_is_terminal = io::stderr().is_terminal();
        let choice = anstream::AutoStream::choice(&io::stderr());
        let out_is_terminal = io::stdout().is_terminal();
        let is_dumb = matches!(environment.get("TERM"), None | Some("dumb"));
        Self {
            out_is_terminal,
            err_is_terminal,
            colours: !plain && choice != anstream::ColorChoice::Never,
            spinner: !plain && !is_dumb && err_is_terminal,
            drawn: !plain && !is_dumb && out_is_terminal && err_is_terminal,
            size: terminal_size().unwrap_or(Size {
                width: 80,
                height: 24,
            }),
        }
    }

    /// Returns the palette of answers and tool calls.
    pub fn palette(self) -> Palette {
        if self.colours {
            Palette::Ansi
        } else {
            Palette::Plain
        }
    }
}

fn terminal_size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    let size = Size {
        width: size.ws_col.into(),
        height: size.ws_row.into(),
    };
    (size.width > 0 && size.height > 0).then_some(size)
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    outlet: Outlet,
}

/// State of standard output. The run ends once it cannot be written.
#[derive(Debug, Clone, Default)]
pub struct Outlet {
    closed: CancellationToken,
    error: Arc<OnceLock<io::Error>>,
}

impl Outlet {
    /// Returns an outlet that cancels `closed` when standard output cannot be written.
    pub fn new(closed: CancellationToken) -> Self {
        Self {
            closed,
            error: Arc::default(),
        }
    }

    /// Returns the error of standard output, if it could not be written.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.get()
    }

    fn close(&self, error: io::Error) {
        // Later errors follow from the first.
        let _ = self.error.set(error);
        self.closed.cancel();
    }
}

struct State {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Part of the answer that is not written yet.
    waiting: Vec<u8>,
    /// The answer being drawn.
    drawn: Option<Drawn>,
    size: Box<dyn Fn() -> Size + Send>,
    /// Whether another part of the program draws the rest of an answer.
    is_apart: bool,
    written_at: Option<Instant>,
    /// Whether standard output is at the start of a line.
    at_line_start: bool,
    spinner: Option<Spinner>,
    is_over: bool,
}

struct Spinner {
    label: String,
    since: Instant,
    drawn: Option<Instant>,
}

impl Screen {
    /// Returns the streams of the process. `outlet` is notified when standard output cannot be written.
    pub fn of_process(look: Look, outlet: Outlet) -> Self {
        let out: Box<dyn Write + Send> = match look.out_is_terminal {
            true => Box::new(Fitted::new(Unbuffered)),
            false => Box::new(Unbuffered),
        };
        let err = Box::new(Fitted::new(io::stderr()));
        let screen = Self::new(out, err, look, outlet);
        screen.shared.state.lock().size = Box::new(move || terminal_size().unwrap_or(look.size));
        screen
    }

    /// Returns streams to another part of the program, which owns the terminal and draws the rest of an answer.
    pub fn apart(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, look: Look) -> Self {
        let screen = Self::new(out, err, look, Outlet::default());
        let mut state = screen.shared.state.lock();
        state.size = Box::new(move || terminal_size().unwrap_or(look.size));
        state.is_apart = true;
        drop(state);
        screen
    }

    /// Returns a screen on any two streams.
    pub fn new(
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        look: Look,
        outlet: Outlet,
    ) -> Self {
        let state = State {
            out,
            err,
            waiting: Vec::new(),
            drawn: None,
            size: Box::new(move || look.size),
            is_apart: false,
            written_at: None,
            at_line_start: true,
            spinner: None,
            is_over: false,
        };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            outlet,
        };
        Self {
            shared: Arc::new(shared),
            ticker: Mutex::default(),
            look,
        }
    }

    /// Adds to standard output.
    pub fn answer(&self, bytes: &[u8]) {
        let Some(last) = bytes.last() else {
            return;
        };
        let mut state = self.shared.state.lock();
        state.hide_spinner();
        state.spinner = None;
        state.at_line_start = *last == b'\n';
        state.waiting.extend_from_slice(bytes);
        let now = Instant::now();
        let is_due = state
            .written_at
            .is_none_or(|at| now.duration_since(at) >= PAUSE);
        if is_due || state.waiting.len() >= FULL {
            state.write_waiting(&self.shared.outlet, now);
        } else if state.waiting.len() == bytes.len() {
            drop(state);
            self.wake();
        }
    }

    /// Adds to an answer that is drawn on standard output.
    pub fn draw(&self, piece: &str) {
        let mut state = self.shared.state.lock();
        state.hide_spinner();
        state.spinner = None;
        let mut drawn = match state.drawn.take() {
            Some(drawn) => drawn,
            None => Drawn::new((state.size)(), self.look.palette()).apart(state.is_apart),
        };
        let is_first = drawn.feed(piece);
        state.drawn = Some(drawn);
        let now = Instant::now();
        let written_at = *state.written_at.get_or_insert(now);
        if now.duration_since(written_at) >= DRAWN_PAUSE {
            state.take_frame();
            state.write_waiting(&self.shared.outlet, now);
        } else if is_first {
            drop(state);
            self.wake();
        }
    }

    /// Ends the answer being drawn.
    pub fn end_drawing(&self) {
        let mut state = self.shared.state.lock();
        let size = (state.size)();
        if let Some(mut drawn) = state.drawn.take() {
            let rest = drawn.finish(size);
            state.waiting.extend_from_slice(rest.as_bytes());
            state.write_waiting(&self.shared.outlet, Instant::now());
        }
    }

    /// Ends the line on standard output, if one is begun.
    pub fn end_line(&self) {
        let is_begun = !self.shared.state.lock().at_line_start;
        if is_begun {
            self.answer(b"\n");
        }
    }

    /// Writes whole lines to standard error, after all that came before.
    pub fn note(&self, lines: &str) {
        let mut state = self.shared.state.lock();
        state.lift();
        state.write_waiting(&self.shared.outlet, Instant::now());
        state.hide_spinner();
        let shares_line =
            self.look.out_is_terminal && self.look.err_is_terminal && !state.at_line_start;
        let start = if shares_line { "\n" } else { "" };
        let is_wrapped = self.look.err_is_terminal && !state.is_apart;
        let columns = if is_wrapped { (state.size)().width } else { 0 };
        let lines = at_words(lines, columns);
        // A closed standard error is ignored.
        let _ = write!(state.err, "{start}{lines}");
        let _ = state.err.flush();
        if shares_line {
            state.at_line_start = true;
        }
    }

    /// Shows a spinner with a label.
    pub fn spin(&self, label: impl Into<String>) {
        if !self.look.spinner {
            return;
        }
        let mut state = self.shared.state.lock();
        state.write_waiting(&self.shared.outlet, Instant::now());
        let label = label.into();
        if state
            .spinner
            .as_ref()
            .is_none_or(|spinner| spinner.label != label)
        {
            state.hide_spinner();
            state.spinner = Some(Spinner {
                label,
                since: Instant::now(),
                drawn: None,
            });
        }
        drop(state);
        self.wake();
    }

    /// Changes the label of the spinner.
    pub fn relabel(&self, label: impl Into<String>) {
        if let Some(spinner) = &mut self.shared.state.lock().spinner {
            spinner.label = label.into();
        }
    }

    /// Removes the spinner.
    pub fn rest(&self) {
        let mut state = self.shared.state.lock();
        state.hide_spinner();
        state.spinner = None;
    }

    /// Writes all that was collected.
    pub fn flush(&self) {
        self.shared
            .state
            .lock()
            .write_waiting(&self.shared.outlet, Instant::now());
    }

    fn wake(&self) {
        let mut ticker = self.ticker.lock();
        if ticker.is_none() {
            let shared = self.shared.clone();
            let width = self.look.size.width;
            let thread = std::thread::Builder::new().name("screen".to_owned());
            // Without the thread there is no spinner, and the answer is written at its end.
            *ticker = thread.spawn(move || shared.tick(width)).ok();
        }
        self.shared.changed.notify_one();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.is_over = true;
            state.hide_spinner();
            state.spinner = None;
            state.write_waiting(&self.shared.outlet, Instant::now());
        }
        self.shared.changed.notify_one();
        let ticker = self.ticker.get_mut();
        if let Some(thread) = ticker.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Writes collected output when it is due and turns the spinner, until the screen is dropped.
    fn tick(&self, width: usize) {
        let mut state = self.state.lock();
        while !state.is_over {
            let now = Instant::now();
            if state.answer_due().is_some_and(|due| due <= now) || state.is_out_of_shape() {
                state.take_frame();
                state.write_waiting(&self.outlet, now);
            }
            if state.spinner_due(now).is_some_and(|due| due <= now) {
                state.draw_spinner(now, width);
            }
            let look = state.drawn.as_ref().is_some_and(Drawn::stands);
            let look = look.then(|| now + LOOK);
            let due = [state.answer_due(), state.spinner_due(now), look]
                .into_iter()
                .flatten()
                .min();
            match due {
                Some(due) => {
                    self.changed.wait_until(&mut state, due);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

impl State {
    /// Erases the rest of the answer being drawn, so that something else can be written.
    fn lift(&mut self) {
        let size = (self.size)();
        if let Some(drawn) = &mut self.drawn {
            let lifted = drawn.lift(size);
            self.waiting.extend_from_slice(lifted.as_bytes());
        }
    }

    /// Adds the next frame of the answer being drawn to the collected output.
    fn take_frame(&mut self) {
        let size = (self.size)();
        if let Some(drawn) = &mut self.drawn {
            let frame = drawn.frame(size);
            self.waiting.extend_from_slice(frame.as_bytes());
        }
    }

    /// Returns whether the terminal has got another width since the last frame.
    fn is_out_of_shape(&self) -> bool {
        let drawn = self.drawn.as_ref();
        drawn.is_some_and(|drawn| drawn.is_out_of_shape((self.size)()))
    }

    fn write_waiting(&mut self, outlet: &Outlet, now: Instant) {
        if self.waiting.is_empty() {
            return;
        }
        let result = self
            .out
            .write_all(&self.waiting)
            .and_then(|()| self.out.flush());
        if let Err(error) = result {
            outlet.close(error);
        }
        self.waiting.clear();
        self.written_at = Some(now);
    }

    fn answer_due(&self) -> Option<Instant> {
        let written_at = self.written_at?;
        match &self.drawn {
            Some(drawn) => drawn.has_changed().then_some(written_at + DRAWN_PAUSE),
            None => (!self.waiting.is_empty()).then_some(written_at + PAUSE),
        }
    }

    fn spinner_due(&self, now: Instant) -> Option<Instant> {
        let spinner = self.spinner.as_ref()?;
        Some(spinner.drawn.map_or(now, |drawn| drawn + FRAME))
    }

    fn draw_spinner(&mut self, now: Instant, width: usize) {
        let Some(spinner) = &mut self.spinner else {
            return;
        };
        spinner.drawn = Some(now);
        let elapsed = now.duration_since(spinner.since);
        let turns = usize::try_from(elapsed.as_millis() / FRAME.as_millis()).unwrap_or(0);
        let frame = FRAMES[turns % FRAMES.len()];
        let label = super::tool_block::cut(&spinner.label, width.saturating_sub(10));
        let seconds = elapsed.as_secs();
        let _ = write!(
            self.err,
            "{ERASE_LINE}\x1b[2m{frame} {label} {seconds}s\x1b[0m"
        );
        let _ = self.err.flush();
    }

    fn hide_spinner(&mut self) {
        if let Some(spinner) = &mut self.spinner
            && spinner.drawn.take().is_some()
        {
            let _ = write!(self.err, "{ERASE_LINE}");
            let _ = self.err.flush();
        }
    }
}

/// Standard output without the buffer that the standard library puts before it.
struct Unbuffered;

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(io::stdout(), bytes) {
            // The pipe is non-blocking and its reader slow: wait for it.
            Err(rustix::io::Errno::AGAIN) => {
                std::thread::sleep(Duration::from_millis(1));
                Err(io::ErrorKind::Interrupted.into())
            }
            result => result.map_err(io::Error::from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream whose reader has gone.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const PLAIN: Look = Look {
        out_is_terminal: false,
        err_is_terminal: false,
        colours: false,
        spinner: false,
        drawn: false,
        size: Size {
            width: 80,
            height: 24,
        },
    };

    #[test]
    fn a_burst_arrives_whole_without_anyone_flushing() {
        let (reader, writer) = io::pipe().unwrap();
        let outlet = Outlet::default();
        let screen = Screen::new(
            Box::new(writer),
            Box::new(io::sink()),
            PLAIN,
            outlet.clone(),
        );
        screen.answer(b"one ");
        screen.answer(b"two ");
        screen.answer(b"three\n");
        // Read while the screen exists: the screen itself has written the collected output.
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(reader), &mut line).unwrap();
        assert_eq!(line, "one two three\n");
        drop(screen);
        assert!(outlet.error().is_none());
    }

    #[test]
    fn a_reader_that_went_away_is_noticed() {
        let outlet = Outlet::default();
        let screen = Screen::new(
            Box::new(Closed),
            Box::new(io::sink()),
            PLAIN,
            outlet.clone(),
        );
        screen.answer(b"text");
        assert!(outlet.closed.is_cancelled());
        assert_eq!(outlet.error().unwrap().kind(), io::ErrorKind::BrokenPipe);
    }
}
