//! Counters of a worker, as Prometheus reads them. They say how much, never what: no session, no prompt, no path.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ah_conversation::{Event, EventKind};
use ah_store::fleet::{End, RunState};

/// What a worker has done since it started.
pub(super) struct Metrics {
    began: SystemTime,
    concurrency: usize,
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
    pub(super) fn new(concurrency: usize) -> Self {
        Self {
            began: SystemTime::now(),
            concurrency,
            running: AtomicU64::new(0),
            counts: Mutex::default(),
            answered: Mutex::new(Instant::now()),
        }
    }

    /// Notes that the store has answered.
    pub(super) fn answered(&self) {
        *locked(&self.answered) = Instant::now();
    }

    /// Returns the time since the store answered last.
    pub(super) fn silence(&self) -> Duration {
        locked(&self.answered).elapsed()
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
            End::Done | End::Failed(_) | End::Cancelled => end.part().state.word(),
        };
        *locked(&self.counts).ends.entry(word).or_default() += 1;
    }

    /// Counts what happens in a run.
    pub(super) fn count(&self, event: &Event) {
        let mut counts = locked(&self.counts);
        match &event.kind {
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

    /// Returns the metrics as text, with the numbers of runs in the store.
    pub(super) fn text(&self, queue: &[(RunState, u64)]) -> String {
        let mut text = Text(String::new());
        text.head("ah_worker_info", "gauge", "The program.");
        text.value(
            "ah_worker_info",
            &[("version", env!("CARGO_PKG_VERSION"))],
            1,
        );
        text.one(
            ("ah_worker_concurrency", "gauge", "Most runs at once."),
            self.concurrency,
        );
        let running = self.running.load(Ordering::Relaxed);
        text.one(("ah_worker_runs", "gauge", "Runs in progress."), running);
        text.one(
            (
                "ah_store_silence_seconds",
                "gauge",
                "Time since the store answered last.",
            ),
            self.silence().as_secs_f64(),
        );
        text.head("ah_queue_runs", "gauge", "Runs in the store by state.");
        for state in RunState::ALL {
            let count = queue.iter().find(|(of, _)| *of == state);
            let count = count.map_or(0, |(_, count)| *count);
            text.value("ah_queue_runs", &[("state", state.word())], count);
        }
        let counts = locked(&self.counts);
        let ends = "ah_worker_runs_ended_total";
        text.head(ends, "counter", "Runs that this worker has left, by how.");
        for (word, count) in &counts.ends {
            text.value(ends, &[("end", word)], count);
        }
        let tools = "ah_tool_calls_total";
        text.head(tools, "counter", "Calls of tools.");
        for (outcome, count) in ["ok", "error"].into_iter().zip(counts.tools) {
            text.value(tools, &[("outcome", outcome)], count);
        }
        text.models(&counts.models);
        drop(counts);
        text.process(self.began);
        text.0
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Text for Prometheus.
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let escaped = |text: &str| {
            text.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        };
        let labels = labels
            .iter()
            .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)));
        let labels: Vec<_> = labels.collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, (name, kind, help): (&str, &str, &str), value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.value(name, &[], value);
    }

    fn models(&mut self, models: &BTreeMap<String, OfModel>) {
        let named = || models.iter().filter(|(name, _)| !name.is_empty());
        let requests = "ah_model_requests_total";
        self.head(requests, "counter", "Requests that a model has answered.");
        for (name, used) in named() {
            self.value(requests, &[("model", name)], used.requests);
        }
        let retries = models.values().map(|used| used.retries).sum::<u64>();
        let help = "Requests that were sent again.";
        self.one(("ah_model_retries_total", "counter", help), retries);
        let tokens = "ah_model_tokens_total";
        self.head(
            tokens,
            "counter",
            "Tokens, those of the prompt cache included.",
        );
        for (name, used) in named() {
            for (kind, count) in [("input", used.input), ("output", used.output)] {
                self.value(tokens, &[("model", name), ("kind", kind)], count);
            }
        }
        let cost = "ah_model_cost_dollars_total";
        self.head(cost, "counter", "Cost in US dollars, where it is known.");
        for (name, used) in named() {
            self.value(cost, &[("model", name)], used.cost);
        }
        let seconds = "ah_model_request_seconds_total";
        self.head(seconds, "counter", "Time in which answers were waited for.");
        for (name, used) in named() {
            self.value(seconds, &[("model", name)], used.seconds);
        }
    }

    /// What client libraries say of every process, by the same names.
    fn process(&mut self, began: SystemTime) {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let help = "Start time of the process since the Unix epoch in seconds.";
        self.one(
            ("process_start_time_seconds", "gauge", help),
            began.as_secs_f64(),
        );
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident =
            resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        if let Some(resident) = resident {
            let help = "Resident memory size in bytes.";
            self.one(
                ("process_resident_memory_bytes", "gauge", help),
                resident * 1024,
            );
        }
    }
}
