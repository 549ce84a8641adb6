//! Lines from a host of the Agent SDKs.

use std::io::{self, Cursor, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ah_conversation::{Clock, MessageId, Time};
use ah_desk::Refusal;
use ah_protocol::stream_json::{Source, Streams, Wanted, serve};
use ah_protocol::{Engaged, Engine, Introduction, Setting};
use ah_transcript::Ids;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

/// Serving ends for any input, and every line of output is an object of the protocol. Sessions are refused here, with at
/// most one `result`.
pub fn run(bytes: &[u8]) {
    let written = Written::default();
    let streams = Streams {
        source: Source::Lines(Box::new(Cursor::new(bytes.to_vec()))),
        output: Box::new(written.clone()),
    };
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("creating a runtime without I/O");
    let stop = CancellationToken::new();
    let ids = Arc::new(Counted::default());
    runtime.block_on(serve(
        streams,
        Arc::new(Refusing),
        ids,
        Wanted::default(),
        &stop,
    ));

    let written = written.0.lock();
    let mut results = 0;
    for line in written.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            continue;
        }
        let line: Value = serde_json::from_slice(line).expect("each line is JSON");
        assert!(line["type"].is_string(), "{line}");
        results += usize::from(line["type"] == "result");
    }
    assert!(results <= 1, "{results} sessions were refused");
}

/// Refuses every session.
struct Refusing;

#[async_trait]
impl Engine for Refusing {
    fn introduction(&self) -> Introduction {
        Introduction::default()
    }

    async fn open(&self, _: Setting<'_>) -> Result<Engaged, Refusal> {
        Err(Refusal::failed("no session is opened here"))
    }
}

/// Numbered ids, and a clock that stands still.
#[derive(Default)]
struct Counted(AtomicU64);

impl Clock for Counted {
    fn now(&self) -> Time {
        Time(0)
    }

    fn message_id(&self) -> MessageId {
        MessageId::from(self.0.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

impl Ids for Counted {
    fn fresh(&self) -> String {
        self.of(&self.message_id())
    }

    fn of(&self, message: &MessageId) -> String {
        message.to_string()
    }
}

/// Bytes written so far.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock();
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
