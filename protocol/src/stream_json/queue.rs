//! Queue of the host's unanswered prompts. The first is being answered or will be next, so an interrupt applies to it,
//! even before it has begun.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Unanswered prompts in order.
pub(crate) struct Queue {
    tickets: Mutex<VecDeque<Arc<Ticket>>>,
    /// UUIDs of all prompts so far, but for those that were withdrawn.
    known: Mutex<HashSet<String>>,
    /// Stops every run.
    stop: CancellationToken,
}

/// A prompt's place in the queue.
pub(crate) struct Ticket {
    /// UUID given by the host.
    uuid: Option<String>,
    /// Stops its run.
    pub(crate) run: CancellationToken,
    has_begun: OnceLock<()>,
    is_withdrawn: OnceLock<()>,
}

impl Queue {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            tickets: Mutex::default(),
            known: Mutex::default(),
            stop,
        }
    }

    /// Appends a prompt; returns `None` for one that is known by its UUID: the host has sent it twice.
    pub(crate) fn join(&self, uuid: Option<String>) -> Option<Arc<Ticket>> {
        let is_new = uuid
            .clone()
            .is_none_or(|uuid| self.known.lock().insert(uuid));
        if !is_new {
            return None;
        }
        let ticket = self.ticket(uuid);
        self.tickets.lock().push_back(ticket.clone());
        Some(ticket)
    }

    /// Puts a run without a prompt before all prompts, so that an interrupt applies to it.
    pub(crate) fn lead(&self) -> Arc<Ticket> {
        let ticket = self.ticket(None);
        self.tickets.lock().push_front(ticket.clone());
        ticket
    }

    fn ticket(&self, uuid: Option<String>) -> Arc<Ticket> {
        Arc::new(Ticket {
            uuid,
            run: self.stop.child_token(),
            has_begun: OnceLock::new(),
            is_withdrawn: OnceLock::new(),
        })
    }

    /// Marks the first prompt as begun; returns whether it was not withdrawn.
    pub(crate) fn begin(&self, ticket: &Ticket) -> bool {
        let _held = self.tickets.lock();
        // It begins once.
        let _ = ticket.has_begun.set(());
        ticket.is_withdrawn.get().is_none()
    }

    /// Removes the first prompt, which is answered.
    pub(crate) fn leave(&self) {
        self.tickets.lock().pop_front();
    }

    /// Returns the number of prompts behind the first.
    pub(crate) fn waiting(&self) -> usize {
        let tickets = self.tickets.lock();
        let waiting = tickets.iter().skip(1);
        waiting.filter(|it| it.is_withdrawn.get().is_none()).count()
    }

    /// Stops the run of the first prompt and optionally withdraws all others; returns the response for the host.
    pub(crate) fn interrupt(&self, cancels_others: bool) -> Value {
        let tickets = self.tickets.lock();
        if let Some(first) = tickets.front() {
            first.run.cancel();
        }
        let waiting = tickets.iter().skip(1);
        let others: Vec<_> = waiting
            .filter(|ticket| ticket.is_withdrawn.get().is_none())
            .collect();
        let named = others.iter().filter_map(|ticket| ticket.uuid.as_deref());
        let named: Vec<_> = named.collect();
        if !cancels_others {
            return json!({"still_queued": named});
        }
        for ticket in &others {
            ticket.withdraw();
            self.forget(ticket);
        }
        json!({"still_queued": [], "cancelled": named})
    }

    /// Withdraws the prompt with this UUID; returns whether it was there and had not begun.
    pub(crate) fn withdraw(&self, uuid: &str) -> bool {
        let tickets = self.tickets.lock();
        let mut waiting = tickets.iter().filter(|ticket| {
            let is_over = ticket.has_begun.get().or(ticket.is_withdrawn.get());
            is_over.is_none() && ticket.uuid.as_deref() == Some(uuid)
        });
        let found = waiting.next();
        let found = found.inspect(|ticket| ticket.withdraw());
        found.inspect(|ticket| self.forget(ticket)).is_some()
    }

    /// A prompt that was withdrawn may be sent again.
    fn forget(&self, ticket: &Ticket) {
        if let Some(uuid) = &ticket.uuid {
            self.known.lock().remove(uuid);
        }
    }
}

impl Ticket {
    fn withdraw(&self) {
        // A second time changes nothing.
        let _ = self.is_withdrawn.set(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_applies_to_the_first_prompt_even_before_it_has_begun() {
        let queue = Queue::new(CancellationToken::new());
        assert_eq!(queue.interrupt(false), json!({"still_queued": []}));
        let tickets: Vec<_> = [Some("a"), Some("b"), None, Some("c")]
            .into_iter()
            .filter_map(|uuid| queue.join(uuid.map(str::to_owned)))
            .collect();
        assert!(queue.withdraw("c") && !queue.withdraw("c") && !queue.withdraw("d"));
        assert_eq!(queue.interrupt(false), json!({"still_queued": ["b"]}));
        assert_eq!(queue.waiting(), 2);
        assert!(queue.begin(&tickets[0]) && tickets[0].run.is_cancelled());
        assert!(!queue.withdraw("a"), "it has begun");
        queue.leave();
        assert!(queue.begin(&tickets[1]) && !tickets[1].run.is_cancelled());
        let told = queue.interrupt(true);
        assert_eq!(told, json!({"still_queued": [], "cancelled": []}));
        assert!(tickets[1].run.is_cancelled());
        queue.leave();
        assert!(!queue.begin(&tickets[2]) && !queue.begin(&tickets[3]));
    }

    #[test]
    fn a_prompt_that_is_sent_twice_counts_once() {
        let queue = Queue::new(CancellationToken::new());
        let join = |uuid: &str| queue.join(Some(uuid.to_owned())).is_some();
        assert!(queue.join(None).is_some() && queue.join(None).is_some());
        assert!(join("a") && join("b") && !join("a"));
        queue.leave();
        assert!(!join("a"));
        // What was withdrawn was not answered.
        assert!(queue.withdraw("b") && join("b"));
    }
}
