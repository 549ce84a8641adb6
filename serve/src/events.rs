//! The stream of a session's events. It holds nothing but the place that its client has come to: what comes next is read
//! from the feed when the client takes it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::json;
use ah_desk::{Growth, RunningCall, State};
use axum::response::sse::Event;
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use crate::draft::Told;
use crate::feed::{Feed, LastSeen, Unseen};
use crate::live::Live;
use crate::shown::Shown;

/// Messages that are read at once.
const PAGE: usize = 32;
/// Time between two looks at the output of calls in progress.
const BEAT: Duration = Duration::from_millis(300);

/// A client on its way through a session.
pub(crate) struct Watcher {
    feed: Arc<Feed>,
    live: Arc<Live>,
    state: watch::Receiver<State>,
    steps: watch::Receiver<u64>,
    seen: Option<LastSeen>,
    /// Pieces of the answer in progress that the client has.
    told: Told,
    /// Calls in progress, as the client knows them.
    calls: Vec<RunningCall>,
    shown: Shown,
    /// A state that comes after the messages that were there when it was.
    next_state: Option<State>,
    ready: VecDeque<Event>,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Watcher {
    /// A client that has seen the message with the id `seen`, and those before it.
    pub(crate) fn new(
        feed: Arc<Feed>,
        live: Arc<Live>,
        shown: Shown,
        seen: Option<String>,
        stop: CancellationToken,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let mut state = live.state();
        // The state now is the first event.
        state.mark_changed();
        Self {
            feed,
            state,
            steps: live.steps(),
            live,
            seen: seen.map(LastSeen::named),
            told: Told::default(),
            calls: Vec::new(),
            shown,
            next_state: None,
            ready: VecDeque::new(),
            stop,
            _permit: permit,
        }
    }

    /// Returns its events, until the server stops.
    pub(crate) fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        unfold(self, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((Ok(event), watcher))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.stop.is_cancelled() {
                return None;
            }
            if self.state.has_changed().unwrap_or(false) {
                self.next_state = Some(self.state.borrow_and_update().clone());
            }
            // Messages first: whoever learns that a run has ended has all of it.
            if self.read().await? {
                let state = self.next_state.take();
                self.ready.extend(state.map(|state| told("state", &state)));
                self.running();
            }
            if self.ready.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(BEAT), if !self.calls.is_empty() => {}
                    _ = self.state.changed() => self.state.mark_changed(),
                    _ = self.steps.changed() => {}
                    () = self.stop.cancelled() => return None,
                }
            }
        }
    }

    /// Reads the next messages; returns whether these are all that there are.
    async fn read(&mut self) -> Option<bool> {
        // A state that was looked at before is behind its step.
        let step = *self.steps.borrow_and_update();
        let unseen = match self.feed.news(self.seen.clone(), PAGE, step).await {
            Ok(unseen) => unseen,
            Err(reason) => {
                tracing::warn!("cannot read a session for a client: {reason}");
                return None;
            }
        };
        let Unseen {
            is_anew,
            is_answered,
            entries,
            is_whole,
        } = unseen;
        if is_anew {
            self.seen = None;
            self.ready.push_back(told("reset", &json!({})));
        }
        for entry in entries {
            let id = format!("{}-{}", entry.seq, entry.id);
            let event = Event::default().event("message").id(id);
            self.ready.push_back(event.data(&entry.json));
            self.seen = Some(LastSeen {
                id: entry.id.clone(),
                is_judged: entry.is_judged,
            });
            // A message takes the place of its pieces.
            self.told = Told::default();
        }
        if is_whole && !is_answered {
            self.pieces();
        }
        Some(is_whole)
    }

    /// Looks whether there is something new about the calls in progress.
    fn running(&mut self) {
        let calls = self.live.calls();
        let calls: Vec<_> = calls.iter().map(|call| self.shown.call(call)).collect();
        if calls != self.calls {
            self.ready.push_back(told("calls", &calls));
            self.calls = calls;
        }
    }

    /// Reads what is new of the answer in progress.
    fn pieces(&mut self) {
        let (is_void, pieces) = self.live.news(&mut self.told);
        let void = is_void.then_some(Growth::Void { reset: true });
        let news = void
            .into_iter()
            .chain(pieces.into_iter().map(Growth::Piece));
        self.ready.extend(news.map(|new| told("piece", &new)));
    }
}

/// Returns the id of the message that a client names as its last, as `SEQ-ID`.
pub(crate) fn last(header: &str) -> Option<String> {
    let (seq, id) = header.trim().split_once('-')?;
    let is_number = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !id.is_empty()).then(|| id.to_owned())
}

fn told(name: &str, value: &impl serde::Serialize) -> Event {
    let text = json::line(value);
    Event::default().event(name).data(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_names_its_last_message() {
        assert_eq!(last("7-01ABC"), Some("01ABC".to_owned()));
        for header in ["", "7", "7-", "-01ABC", "x-01ABC"] {
            assert_eq!(last(header), None, "{header}");
        }
    }
}
