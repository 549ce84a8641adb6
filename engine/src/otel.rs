//! Traces for OpenTelemetry, if the standard variables name a collector: a frontend beside the real one, which turns the
//! same events and updates into spans. Nothing is sent without such a variable.
//!
//! The SDK and exporter of the OpenTelemetry project would bring Protocol Buffers and a second way to send requests, for
//! one JSON document. A collector that is slow or gone loses spans and delays nothing: spans wait in a bounded queue that a
//! thread of its own empties.

mod context;
mod export;
mod settings;
mod spans;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ah_agent::{Frontend, SessionUpdate};
use ah_config::Config;
use ah_conversation::{Event, EventKind, Host, ToolUse};

use self::export::Exporter;
use self::settings::TraceSettings;
use self::spans::Spans;

/// Variable with the span that a program belongs to, as in the header of the same name.
const TRACE_PARENT: &str = "TRACEPARENT";

/// Returns the frontend of a session, which also sends traces if the variables ask for it; `session` is the session's
/// UUID.
pub fn traced(
    frontend: Arc<dyn Frontend>,
    config: &Config,
    session: &str,
    warnings: &mut Vec<String>,
) -> Arc<dyn Frontend> {
    let environment = &config.environment;
    let settings = match TraceSettings::of(environment) {
        Ok(Some(settings)) => settings,
        Ok(None) => return frontend,
        Err(warning) => {
            warnings.push(warning);
            return frontend;
        }
    };
    let parent = environment
        .get(TRACE_PARENT)
        .and_then(context::trace_parent);
    let spans = Spans::new(session, parent, settings.has_content);
    let http = ah_http::Options::from_variables(|name| environment.get(name));
    let redacting = environment.clone();
    let redact = move |text: &str| redacting.redact(text).into_owned();
    match Exporter::start(settings, &http, redact) {
        Ok(exporter) => Arc::new(Traced {
            frontend,
            spans: Mutex::new(spans),
            exporter,
        }),
        Err(error) => {
            warnings.push(format!("no traces are sent: {error}"));
            frontend
        }
    }
}

/// A frontend whose session is traced.
struct Traced {
    frontend: Arc<dyn Frontend>,
    spans: Mutex<Spans>,
    exporter: Exporter,
}

impl Traced {
    fn spans(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the nanoseconds since the Unix epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

impl Host for Traced {
    fn inner_host(&self) -> Option<&dyn Host> {
        Some(&*self.frontend)
    }
}

impl Frontend for Traced {
    fn inner_frontend(&self) -> Option<&dyn Frontend> {
        Some(&*self.frontend)
    }

    fn show(&self, event: &Event) {
        self.exporter.send(self.spans().event(&event.kind, now()));
        if matches!(event.kind, EventKind::AgentEnd { .. }) {
            self.exporter.flush();
        }
        self.frontend.show(event);
    }

    fn notice(&self, text: &str) {
        self.frontend.notice(text);
    }

    fn update(&self, update: SessionUpdate<'_>) {
        self.exporter.send(self.spans().update(update, now()));
        self.frontend.update(update);
    }

    fn variables(&self, call: &ToolUse) -> Vec<(String, String)> {
        let mut variables = self.frontend.variables(call);
        let span = self.spans().of_call(&call.id);
        variables.extend(span.map(|span| (TRACE_PARENT.to_owned(), span.to_string())));
        variables
    }
}

/// Returns a frontend whose session is traced to this collector.
#[cfg(test)]
pub(crate) fn traced_to(frontend: Arc<dyn Frontend>, collector: &str) -> Arc<dyn Frontend> {
    let variable = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
    let variables = [variable].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = ah_conversation::Environment::new(variables, "/".into());
    let settings = TraceSettings::of(&environment).expect("it is right");
    let settings = settings.expect("there is a collector");
    let http = ah_http::Options::from_variables(|_| None);
    Arc::new(Traced {
        frontend,
        spans: Mutex::new(Spans::new("session", None, false)),
        exporter: Exporter::start(settings, &http, str::to_owned).expect("it starts"),
    })
}
