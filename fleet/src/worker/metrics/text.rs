//! The counters as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ah_store::fleet::RunState;

use super::{Metrics, OfModel};

/// What is said of a worker beside its counters.
pub(in crate::worker) struct Worker {
    pub began: SystemTime,
    /// Maximum number of runs at once.
    pub concurrency: usize,
}

impl Metrics {
    /// Returns the time since the store answered last.
    pub(in crate::worker) fn silence(&self) -> Duration {
        self.answered.lock().elapsed()
    }

    /// Returns the metrics as text, with the numbers of runs in the store.
    pub(in crate::worker) fn text(&self, worker: &Worker, queue: &[(RunState, u64)]) -> String {
        let mut text = Text(String::new());
        text.head("ah_worker_info", "gauge", "The program.");
        text.value(
            "ah_worker_info",
            &[("version", env!("CARGO_PKG_VERSION"))],
            1,
        );
        text.one(
            (
                "ah_worker_concurrency",
                "gauge",
                "Maximum number of runs at once.",
            ),
            worker.concurrency,
        );
        let running = self.running.load(Ordering::Relaxed);
        text.one(("ah_worker_runs", "gauge", "Runs in progress."), running);
        text.one(
            (
                "ah_store_silence_seconds",
                "gauge",
                "Time since the last answer of the store.",
            ),
            self.silence().as_secs_f64(),
        );
        text.head("ah_queue_runs", "gauge", "Runs in the store by state.");
        for state in RunState::ALL {
            let count = queue.iter().find(|(of, _)| *of == state);
            let count = count.map_or(0, |(_, count)| *count);
            text.value("ah_queue_runs", &[("state", state.word())], count);
        }
        let counts = self.counts.lock();
        let ends = "ah_worker_runs_ended_total";
        text.head(
            ends,
            "counter",
            "Runs that have ended on this worker, by outcome.",
        );
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
        text.process(worker.began);
        text.0
    }
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
        let help = "Requests that were retried.";
        self.one(("ah_model_retries_total", "counter", help), retries);
        let tokens = "ah_model_tokens_total";
        self.head(
            tokens,
            "counter",
            "Tokens, including those of the prompt cache.",
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
        self.head(seconds, "counter", "Time spent waiting for answers.");
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
