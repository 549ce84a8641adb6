//! The connection for the next prompt, opened while it is typed.

use ah_conversation::Provider;
use tokio::task::JoinHandle;

/// The connection that was opened last.
#[derive(Default)]
pub struct EarlyConnection(Option<JoinHandle<()>>);

impl EarlyConnection {
    /// Opens one to the server of `model`, unless one is being opened: a server that does not answer gets only one.
    pub fn open(&mut self, model: &dyn Provider) {
        if self.0.as_ref().is_some_and(|last| !last.is_finished()) {
            return;
        }
        let early = model.extras().early;
        self.0 = early
            .and_then(|early| early.connect_early())
            .map(tokio::spawn);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ah_conversation::{Connecting, ConnectsEarly, EventStream, Model, ProviderExtras, Request};
    use tokio::sync::Notify;

    use super::*;

    /// A server whose connections are open once it is told so.
    struct Slow {
        model: Model,
        asked: AtomicUsize,
        opens: Arc<Notify>,
    }

    impl Provider for Slow {
        fn model(&self) -> &Model {
            &self.model
        }

        fn stream(&self, _request: Request) -> EventStream {
            unreachable!("nothing is asked")
        }

        fn extras(&self) -> ProviderExtras<'_> {
            ProviderExtras {
                early: Some(self),
                ..ProviderExtras::default()
            }
        }
    }

    impl ConnectsEarly for Slow {
        fn connect_early(&self) -> Option<Connecting> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let opens = self.opens.clone();
            Some(Box::pin(async move { opens.notified().await }))
        }
    }

    #[tokio::test]
    async fn one_connection_is_opened_at_a_time() {
        let server = Slow {
            model: Model::new("anthropic", "m", 1_000, 100),
            asked: AtomicUsize::new(0),
            opens: Arc::default(),
        };
        let mut early = EarlyConnection::default();
        for _ in 0..5 {
            early.open(&server);
        }
        assert_eq!(server.asked.load(Ordering::Relaxed), 1);
        server.opens.notify_one();
        early.0.as_mut().unwrap().await.unwrap();
        early.open(&server);
        assert_eq!(server.asked.load(Ordering::Relaxed), 2);
    }
}
