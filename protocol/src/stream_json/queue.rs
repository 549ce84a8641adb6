//! Queue of the host's unanswered prompts. The first is being answered or will be next, so an interrupt applies to it,
//! even before it has begun.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Unanswered prompts in order.
pub(crate) struct Queue {
    tickets: Mutex<VecDeque<Arc<Ticket>>>,
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
            stop,
        }
    }

    /// Appends a prompt.
    pub(crate) fn join(&self, uuid: Option<String>) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket {
            uuid,
            run: self.stop.child_token(),
            has_begun: OnceLock::new(),
            is_withdrawn: OnceLock::new(),
        });
        self.lock().push_back(ticket.clone());
        ticket
    }

    /// Marks the first prompt as begun; returns whether it was not withdrawn.
    pub(crate) fn begin(&self, ticket: &Ticket) -> bool {
        let _held = self.lock();
        // It begins once.
        let _ = ticket.has_begun.set(());
        ticket.is_withdrawn.get().is_none()
    }

    /// Removes the first prompt, which is answered.
    pub(crate) fn leave(&self) {
        self.lock().pop_front();
    }

    /// Returns the number of prompts behind the first.
    pub(crate) fn waiting(&self) -> usize {
        let tickets = self.lock();
        let waiting = tickets.iter().skip(1);
        waiting.filter(|it| it.is_withdrawn.get().is_none()).count()
    }

    /// Stops the run of the first prompt and optionally withdraws all others; returns the response for the host.
    pub(crate) fn interrupt(&self, cancels_others: bool) -> Value {
        let tickets = self.lock();
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
        others.iter().for_each(|ticket| ticket.withdraw());
        json!({"still_queued": [], "cancelled": named})
    }

    /// Withdraws the prompt with this UUID; returns whether it was there and had not begun.
    pub(crate) fn withdraw(&self, uuid: &str) -> bool {
        let tickets = self.lock();
        let mut waiting = tickets.iter().filter(|ticket| {
            let is_over = ticket.has_begun.get().or(ticket.is_withdrawn.get());
            is_over.is_none() && ticket.uuid.as_deref() == Some(uuid)
        });
        let found = waiting.next();
        found.inspect(|ticket| ticket.withdraw()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Ticket>>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
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
            .map(|uuid| queue.join(uuid.map(str::to_owned)))
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
}
