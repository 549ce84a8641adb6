//! A run on ports of one's own, without settings, permissions or files.

use std::sync::Arc;

use ah_agent::hooks::Hooks;
use ah_agent::{
    Frontend, Ports, RunOutcome, Session, SessionSettings, Stop, ToolConcurrency, Toolbox,
};
use ah_conversation::{
    ContentBlock, Event, Host, Limits, PermissionMode, PermissionUpdate, Permissions, Provider,
    Rulebook, Sampling, Store, StoreError, Thinking, Tool,
};
use ah_store::SystemClock;

/// Runs `prompt` with `provider` and `tools` on the conversation in `store`, which goes on where it stopped; every event is
/// given to `on_event` as it happens. All calls are allowed: the tools are the caller's own. Dropping the future ends
/// the run as a crash would: the next one goes on.
///
/// # Errors
///
/// Where the conversation cannot be kept. Everything else is told by the [`RunOutcome`].
pub async fn run_agent(
    store: Arc<dyn Store>,
    provider: Arc<dyn Provider>,
    tools: Vec<Arc<dyn Tool>>,
    system: impl Into<String>,
    prompt: impl Into<String>,
    on_event: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<RunOutcome, StoreError> {
    let model = provider.model().clone();
    let ports = Ports {
        summarizer: provider.clone(),
        provider,
        store,
        clock: Arc::new(SystemClock::default()),
        frontend: Arc::new(Callback(on_event)),
        rules: Arc::new(Forgotten),
        hooks: Hooks::default(),
    };
    let settings = SessionSettings {
        system: Arc::new([system.into()]),
        limits: Limits {
            context_window: model.context_window,
            reserved_output: model.max_output,
            ..Limits::default()
        },
        timeout_ms: None,
        permissions: Permissions {
            mode: PermissionMode::BypassPermissions,
            ..Permissions::default()
        },
        concurrency: ToolConcurrency::Auto,
        max_messages: None,
        max_result_chars: None,
        must_produce: None,
        answer_form: None,
        thinking: Thinking::default(),
        sampling: Sampling::default(),
    };
    let mut session = Session::open(ports, Toolbox::new(tools), settings).await?;
    let prompt = vec![ContentBlock::text(prompt.into())];
    let stop = Stop::abort(tokio_util::sync::CancellationToken::new());
    let outcome = session.run(prompt, &stop).await?;
    session.close("other").await?;
    Ok(outcome)
}

/// Shows events to a closure.
struct Callback<F>(F);

impl<F: Fn(&Event) + Send + Sync> Host for Callback<F> {}

impl<F: Fn(&Event) + Send + Sync> Frontend for Callback<F> {
    fn show(&self, event: &Event) {
        (self.0)(event);
    }

    fn notice(&self, text: &str) {
        tracing::info!("{text}");
    }
}

/// Keeps no rules.
struct Forgotten;

impl Rulebook for Forgotten {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Err("rules are not kept here".to_owned())
    }
}
