//! Lines to the host, written by a separate thread. A host that reads slowly makes the run wait but not the program: it
//! can still be interrupted, and memory stays bounded.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use std::{io, thread};

use ah_conversation::json;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Bytes that may wait to be written before the run waits.
const MOST_WAITING: usize = 256 << 10;
/// Longest line that the official hosts accept: 1 MiB in characters.
const LONGEST: usize = 1 << 20;
/// Room for the rest of the line around a value.
const AROUND: usize = 16 << 10;
/// Lengths to which texts and lists are cut in a line that is too long, tried in order until it fits.
const LEFT: [usize; 6] = [64 << 10, 16 << 10, 4 << 10, 1 << 10, 256, 64];

/// Writes lines in the order in which they are sent.
pub(crate) struct Lines {
    sender: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    state: Arc<WriterState>,
    is_done: Mutex<mpsc::Receiver<()>>,
}

struct WriterState {
    waiting: AtomicUsize,
    written: Notify,
    closed: CancellationToken,
    fault: OnceLock<io::Error>,
}

impl Lines {
    /// Starts writing to `output`; `closed` is cancelled after a write error.
    pub(crate) fn new(output: Box<dyn Write + Send>, closed: CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel::<Vec<u8>>();
        let (done, is_done) = mpsc::channel::<()>();
        let state = Arc::new(WriterState {
            waiting: AtomicUsize::new(0),
            written: Notify::new(),
            closed,
            fault: OnceLock::new(),
        });
        let of_thread = state.clone();
        thread::spawn(move || {
            write_all(output, &receiver, &of_thread);
            drop(done);
        });
        Self {
            sender: Mutex::new(Some(sender)),
            state,
            is_done: Mutex::new(is_done),
        }
    }

    /// Sends an object as one line.
    pub(crate) fn send(&self, mut value: Value) {
        let mut line = bytes(&value);
        if line.len() > LONGEST {
            shorten(&mut value);
            line = bytes(&value);
        }
        let sender = self.sender.lock();
        if let Some(sender) = &*sender {
            self.state.waiting.fetch_add(line.len(), Ordering::Relaxed);
            // The thread only ends early after a write error.
            let _ = sender.send(line);
        }
    }

    /// Waits until not too much is waiting to be written.
    pub(crate) async fn ready(&self) {
        loop {
            let written = self.state.written.notified();
            let is_ready = self.state.waiting.load(Ordering::Relaxed) <= MOST_WAITING;
            if is_ready || self.state.fault.get().is_some() {
                return;
            }
            written.await;
        }
    }

    /// Returns the write error, if there was one.
    pub(crate) fn fault(&self) -> Option<String> {
        self.state.fault.get().map(ToString::to_string)
    }

    /// Sends nothing more, and waits until all is written: without limit, or for `patience`.
    pub(crate) fn finish(&self, patience: Option<Duration>) {
        let mut sender = self.sender.lock();
        *sender = None;
        let is_done = self.is_done.lock();
        // Nothing is sent on it; it is dropped when the thread ends.
        let _ = match patience {
            Some(patience) => is_done.recv_timeout(patience).is_ok(),
            None => is_done.recv().is_ok(),
        };
    }
}

fn write_all(
    mut output: Box<dyn Write + Send>,
    lines: &mpsc::Receiver<Vec<u8>>,
    state: &WriterState,
) {
    for line in lines {
        let written = output.write_all(&line).and_then(|()| output.flush());
        state.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        if let Err(error) = written {
            let _ = state.fault.set(error);
            state.closed.cancel();
            state.written.notify_waiters();
            return;
        }
        state.written.notify_waiters();
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    let mut line = json::line(value).into_bytes();
    line.push(b'\n');
    line
}

/// Shortens a message to fit into a line: first the tool's structured result, which is there twice, then long texts.
fn shorten(value: &mut Value) {
    if let Some(details) = value.get_mut("tool_use_result") {
        *details = Value::Null;
    }
    fit(value);
}

/// Cuts texts and lists in a value so that it fits into a line.
pub(crate) fn fit(value: &mut Value) {
    if !is_too_long(value) {
        return;
    }
    let whole = value.clone();
    for left in LEFT {
        *value = whole.clone();
        cut(value, left);
        if !is_too_long(value) {
            return;
        }
    }
}

fn cut(value: &mut Value, left: usize) {
    match value {
        Value::String(text) if text.len() > left => {
            let end = text.floor_char_boundary(left);
            let left_out = text.len() - end;
            *value = json!(format!("{}\n[{left_out} bytes left out]", &text[..end]));
        }
        Value::Array(values) => {
            values.truncate(left);
            values.iter_mut().for_each(|value| cut(value, left));
        }
        Value::Object(fields) => fields.values_mut().for_each(|value| cut(value, left)),
        _ => {}
    }
}

/// Whether a value is too long for a line.
pub(crate) fn is_too_long(value: &Value) -> bool {
    bytes(value).len() > LONGEST - AROUND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_is_too_long_for_the_hosts_is_cut() {
        let written = Written::default();
        let lines = Lines::new(Box::new(written.clone()), CancellationToken::new());
        let long = "é".repeat(LONGEST);
        lines.send(json!({"type": "user", "said": long, "tool_use_result": {"again": long}}));
        lines.send(json!({"type": "user", "said": "short"}));
        lines.finish(None);
        let written = written.0.lock();
        let texts: Vec<_> = written.split(|byte| *byte == b'\n').collect();
        assert!(texts[0].len() < LONGEST);
        let cut: Value = serde_json::from_slice(texts[0]).unwrap();
        assert!(cut["said"].as_str().unwrap().ends_with("bytes left out]"));
        assert_eq!(cut["tool_use_result"], Value::Null);
        assert_eq!(texts[1], br#"{"type":"user","said":"short"}"#);
    }

    #[test]
    fn many_texts_are_cut_until_they_fit() {
        let blocks: Vec<_> = (0..100)
            .map(|_| json!({"text": "x".repeat(60_000)}))
            .collect();
        let mut value = json!({"type": "user", "message": {"content": blocks}});
        shorten(&mut value);
        let blocks = value["message"]["content"].as_array().unwrap();
        assert!(
            bytes(&value).len() <= LONGEST && blocks.len() == 100,
            "{}",
            blocks.len()
        );
    }

    #[test]
    fn a_closed_output_cancels_its_token_and_does_not_block() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let closed = CancellationToken::new();
        let lines = Lines::new(Box::new(Closed), closed.clone());
        lines.send(json!({}));
        lines.finish(None);
        assert!(closed.is_cancelled());
        assert!(lines.fault().is_some());
    }
}
