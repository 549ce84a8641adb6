//! Traces for OpenTelemetry, if the standard variables name a collector: a watcher beside the others, which turns the
//! same updates into spans. Nothing is sent without such a variable. A program hands [`watcher`] to the engine, which asks it
//! for each session.
//!
//! The SDK and exporter of the OpenTelemetry project would bring Protocol Buffers and a second way to send requests, for
//! one JSON document. A collector that is slow or gone loses spans and delays nothing: spans wait in a bounded queue that a
//! thread of its own empties.

mod context;
mod export;
mod settings;
mod spans;
mod wire;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ah_agent::{CallVariables, Ready, SessionUpdate, SessionWatcher, Watcher};
use ah_conversation::{Environment, EventKind};
use parking_lot::Mutex;

use self::context::SpanContext;
use self::export::Exporter;
use self::settings::TraceSettings;
use self::spans::Spans;

/// Variable with the span that a program belongs to, as in the header of the same name.
const TRACE_PARENT: &str = "TRACEPARENT";

/// Returns a watcher who sends the traces of the session with the UUID `session`, with variables that make the programs of its
/// calls part of the trace; `None` if the variables of `environment` ask for none.
///
/// # Errors
///
/// If traces are asked for in a form that is not supported, or cannot be sent. The text is a warning for the user: the
/// session continues without.
pub fn watcher(environment: &Environment, session: &str) -> Result<Option<SessionWatcher>, String> {
    let Some(traced) = Traced::of(environment, session)? else {
        return Ok(None);
    };
    let traced = Arc::new(traced);
    Ok(Some(SessionWatcher {
        variables: traced.clone().variables(),
        watcher: traced,
    }))
}

/// A watcher who traces a session.
struct Traced {
    spans: Mutex<Spans>,
    exporter: Exporter,
}

impl Traced {
    /// Returns the watcher that the variables ask for; the text of an error is a warning.
    fn of(environment: &Environment, session: &str) -> Result<Option<Self>, String> {
        let Some(settings) = TraceSettings::of(environment)? else {
            return Ok(None);
        };
        let parent = environment
            .get(TRACE_PARENT)
            .and_then(context::trace_parent);
        let spans = Spans::new(session, parent, settings.has_content);
        let http = ah_http::Options::from_variables(|name| environment.get(name));
        let redacting = environment.clone();
        let redact = move |text: &str| redacting.redact(text).into_owned();
        let exporter = Exporter::start(settings, &http, redact)
            .map_err(|error| format!("no traces are sent: {error}"))?;
        Ok(Some(Self {
            spans: Mutex::new(spans),
            exporter,
        }))
    }

    /// Returns the variables of calls: the span of the call.
    fn variables(self: Arc<Self>) -> CallVariables {
        Arc::new(move |call| {
            let span = self.spans.lock().of_call(call);
            let variable = |span: SpanContext| (TRACE_PARENT.to_owned(), span.to_string());
            span.map(variable).into_iter().collect()
        })
    }
}

/// Returns the nanoseconds since the Unix epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

impl Watcher for Traced {
    fn update(&self, update: SessionUpdate<'_>) {
        let SessionUpdate::Happened(event) = update else {
            return self.exporter.send(self.spans.lock().update(update, now()));
        };
        self.exporter.send(self.spans.lock().event(event, now()));
        if matches!(event, EventKind::AgentEnd { .. }) {
            self.exporter.flush();
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}
