//! Sends spans to the collector from a thread of its own. Whatever the collector does, the session does not notice.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::settings::TraceSettings;
use super::spans::Span;
use super::wire;

/// Spans that wait for the thread; more are dropped.
const QUEUE: usize = 2048;
/// Spans in a request.
const BATCH: usize = 512;
/// Time that a span waits for others.
const DELAY: Duration = Duration::from_secs(5);
/// Time at the end of a session for what is left.
const GRACE: Duration = Duration::from_secs(1);

enum Order {
    Span(Box<Span>),
    /// Send what there is.
    Flush,
}

/// The queue to the thread. Dropping it sends what is left, for up to [`GRACE`].
pub(crate) struct Exporter {
    /// `None` once it is being dropped.
    queue: Option<SyncSender<Order>>,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl Exporter {
    /// Starts the thread. `redact` replaces secrets in all that is sent.
    ///
    /// # Errors
    ///
    /// If the settings of the network are not valid, or the thread cannot be started.
    pub fn start(
        settings: TraceSettings,
        http: &ah_http::Options,
        redact: impl Fn(&str) -> String + Send + 'static,
    ) -> Result<Self, String> {
        let client =
            ah_http::client(http, &settings.endpoint).map_err(|error| error.to_string())?;
        let (queue, orders) = sync_channel(QUEUE);
        let (ending, ended) = sync_channel::<()>(0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error: io::Error| error.to_string())?;
        let post = move |spans: &[Span]| {
            let document = wire::document(&settings.resource, spans, &redact);
            let mut request = client
                .post(&settings.endpoint)
                .header("content-type", "application/json")
                .timeout(settings.timeout)
                .body(document.to_string());
            for (name, value) in &settings.headers {
                request = request.header(name, value);
            }
            match runtime.block_on(async { request.send().await }) {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => tracing::debug!("the collector answers {}", answer.status()),
                Err(error) => tracing::debug!("spans are lost: {}", error.without_url()),
            }
        };
        thread::Builder::new()
            .name("otel".to_owned())
            .spawn(move || {
                run(&orders, post);
                drop(ending);
            })
            .map_err(|error| error.to_string())?;
        Ok(Self {
            queue: Some(queue),
            ended: Mutex::new(ended),
        })
    }

    /// Queues spans; those that find no room are lost.
    pub fn send(&self, spans: Vec<Span>) {
        for span in spans {
            self.order(Order::Span(Box::new(span)));
        }
    }

    /// Has all queued spans sent now.
    pub fn flush(&self) {
        self.order(Order::Flush);
    }

    fn order(&self, order: Order) {
        if let Some(queue) = &self.queue {
            // Neither a full queue nor a thread that has ended concerns the session.
            let _ = queue.try_send(order);
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.queue = None;
        let _ = self.ended.get_mut().recv_timeout(GRACE);
    }
}

fn run(orders: &Receiver<Order>, post: impl Fn(&[Span])) {
    let mut spans: Vec<Span> = Vec::new();
    let mut due = None;
    loop {
        let order = match due {
            Some(due) => {
                orders.recv_timeout(Instant::saturating_duration_since(&due, Instant::now()))
            }
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let is_last = matches!(order, Err(RecvTimeoutError::Disconnected));
        if let Ok(Order::Span(span)) = order {
            spans.push(*span);
            due.get_or_insert_with(|| Instant::now() + DELAY);
            if spans.len() < BATCH {
                continue;
            }
        }
        if !spans.is_empty() {
            post(&spans);
        }
        spans.clear();
        due = None;
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::spans::Spans;

    #[test]
    fn spans_are_sent_in_batches_and_all_at_the_end() {
        let (queue, orders) = sync_channel(QUEUE);
        let (posted, counts) = channel();
        let thread = thread::spawn(move || {
            run(&orders, move |spans| posted.send(spans.len()).unwrap());
        });
        let span = Spans::example();
        for _ in 0..BATCH + 1 {
            queue.send(Order::Span(Box::new(span.clone()))).unwrap();
        }
        queue.send(Order::Flush).unwrap();
        queue.send(Order::Span(Box::new(span))).unwrap();
        drop(queue);
        thread.join().unwrap();
        assert_eq!(counts.iter().collect::<Vec<_>>(), [BATCH, 1, 1]);
    }
}
