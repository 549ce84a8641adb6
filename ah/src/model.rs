//! Models of a program's own: implementations of [`Provider`].
//!
//! A model that is named ([`Options::model`](crate::Options::model)) retries by itself what is worth it: overload, too many
//! requests, errors of the server and broken connections. A model of one's own decides for itself: an error that its stream ends
//! with ends the run. [`retrying`] gives it the retries of the named ones.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use ah::event::EventKind;
//! use ah::model::{
//!     BlockStart, Delta, ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras,
//!     Request, StopReason, StreamEvent, Usage, retrying,
//! };
//! use ah::{Agent, Options};
//!
//! /// A model that repeats what it hears, and is overloaded at first.
//! struct Echo {
//!     model: Model,
//!     is_ready: AtomicBool,
//! }
//!
//! impl Provider for Echo {
//!     fn model(&self) -> &Model {
//!         &self.model
//!     }
//!
//!     fn extras(&self) -> ProviderExtras<'_> {
//!         ProviderExtras::default()
//!     }
//!
//!     fn stream(&self, request: Request) -> EventStream {
//!         if !self.is_ready.swap(true, Ordering::Relaxed) {
//!             let mut error = ProviderError::new(ErrorClass::Overloaded, "not yet");
//!             error.retry_after = Some(std::time::Duration::ZERO);
//!             return Box::pin(futures_util::stream::iter([Err(error)]));
//!         }
//!         let heard = request.messages.last().map(|message| message.text());
//!         let events = [
//!             StreamEvent::Started { id: "1".to_owned(), usage: Usage::default() },
//!             StreamEvent::BlockStarted { index: 0, block: BlockStart::Text(String::new()) },
//!             StreamEvent::Delta { index: 0, delta: Delta::Text(heard.unwrap_or_default()) },
//!             StreamEvent::BlockStopped { index: 0 },
//!             StreamEvent::Stopping { stop_reason: StopReason::EndTurn, usage: Usage::default() },
//!             StreamEvent::Ended,
//!         ];
//!         Box::pin(futures_util::stream::iter(events.map(Ok)))
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // Served by `mine`, called `echo`; tokens of the window, and of one answer.
//! let model = Model::new("mine", "echo", 100_000, 1_000);
//! let echo = Echo { model, is_ready: AtomicBool::new(false) };
//! let options = Options::new().provider(retrying(echo));
//! let retries = Arc::new(AtomicBool::new(false));
//! let seen = retries.clone();
//! let mut agent = Agent::with(options)
//!     .on_event(move |event| {
//!         if let EventKind::Retry { .. } = event.kind {
//!             seen.store(true, Ordering::Relaxed);
//!         }
//!     })
//!     .open()
//!     .await?;
//! assert_eq!(agent.run("Hello").await?.answer, "Hello");
//! assert!(retries.load(Ordering::Relaxed));
//! # Ok::<(), ah::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use ah_conversation::Clock as _;
use ah_ids::SystemClock;
use ah_provider::retry::{Policy, Retrying};

pub use ah_conversation::{
    BlockStart, CallReason, ContentBlock, Continuity, Cost, Delta, Effort, ErrorClass, EventStream,
    Findings, Image, Input, Message, Model, Origin, Price, Provider, ProviderError, ProviderExtras,
    Request, Response, ResultBlock, RetryNotice, Role, Sampling, SearchesWeb, Searching,
    StopReason, StreamEvent, Thinking, ToolResult, ToolSpec, ToolUse, ToolUseId, UnseenUse, Usage,
    WebSearch,
};

/// Retries the requests of `model` as those of named models are: three times, after a second, two and four, or the delay that
/// the error asks for. Each retry is an event.
pub fn retrying(model: impl Provider + 'static) -> Arc<dyn Provider> {
    let seed = SystemClock::default().now().0.unsigned_abs();
    Arc::new(Retrying::new(model, Policy::default(), seed))
}
