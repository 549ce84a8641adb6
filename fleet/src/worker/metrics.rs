//! Counters of a worker. They say how much, never what: no session, no prompt, no path.

mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ah_conversation::EventKind;
use ah_store::fleet::End;
use parking_lot::Mutex;

pub(super) use text::Worker;

/// What a worker has done since it started.
pub(super) struct Metrics {
    running: AtomicU64,
    counts: Mutex<Counts>,
    /// When the store answered last.
    answered: Mutex<Instant>,
}

#[derive(Default)]
struct Counts {
    ends: BTreeMap<&'static str, u64>,
    models: BTreeMap<String, OfModel>,
    tools: [u64; 2],
}

/// What was used of a model.
#[derive(Default)]
struct OfModel {
    requests: u64,
    retries: u64,
    input: u64,
    output: u64,
    cost: f64,
    seconds: f64,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            running: AtomicU64::new(0),
            counts: Mutex::default(),
            answered: Mutex::new(Instant::now()),
        }
    }

    /// Notes that the store has answered.
    pub(super) fn answered(&self) {
        *self.answered.lock() = Instant::now();
    }

    /// Notes the number of runs in progress.
    pub(super) fn running(&self, count: usize) {
        self.running.store(count as u64, Ordering::Relaxed);
    }

    /// Counts the end of a run's part.
    pub(super) fn ended(&self, end: &End) {
        let word = match end {
            End::HandedOn(_) | End::Spent => "handed_on",
            End::Again(..) => "retried",
            End::Done(_) | End::Failed(_) | End::Cancelled => end.part().state.word(),
        };
        *self.counts.lock().ends.entry(word).or_default() += 1;
    }

    /// Counts what happens in a run.
    pub(super) fn count(&self, event: &EventKind) {
        let mut counts = self.counts.lock();
        match event {
            EventKind::ApiCallEnd {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                api_latency_ms,
                model,
                cost_usd,
                ..
            } => {
                let used = counts.models.entry(model.clone()).or_default();
                used.requests += 1;
                used.input += input_tokens + cache_creation_input_tokens + cache_read_input_tokens;
                used.output += output_tokens;
                used.cost += cost_usd.unwrap_or_default();
                used.seconds += Duration::from_millis(*api_latency_ms).as_secs_f64();
            }
            EventKind::Retry { .. } => counts.models.entry(String::new()).or_default().retries += 1,
            EventKind::ToolCallEnd { is_error, .. } => counts.tools[usize::from(*is_error)] += 1,
            _ => {}
        }
    }
}
