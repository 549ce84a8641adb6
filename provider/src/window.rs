//! The context window of a model whose server decides about it: a program on the user's own machine, or a gateway with a
//! model that no catalogue knows. The server is asked before the first request, since nobody else can say; a refusal names
//! the window as well, also when the program was started anew with another one. What was learned counts at once, and is kept
//! for later sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ah_conversation::{
    ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras, Request, StreamEvent,
};
use futures_util::{StreamExt, stream};

use crate::abilities::{LearnedTemplate, shows_no_tools};
use crate::catalog::ModelEntry;
use crate::fact::{Fact, KeepFact};
use crate::limit::window_in;
use crate::listing::WindowSource;

/// Longest time that the answer about a window is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// A model whose window is learned.
pub(crate) struct Windowed(Arc<Asked>);

/// What is known of a window, and where more is asked for.
struct Asked {
    inner: Arc<dyn Provider>,
    /// Where the window is asked for; `None` if only refusals say it.
    source: Option<WindowSource>,
    /// What the catalogue says of the model.
    entry: ModelEntry,
    /// Most output in one answer that the user has set.
    wanted_output: Option<u64>,
    keep: KeepFact,
    learned: Lesson,
    template: LearnedTemplate,
    /// Whether a request was made, and one was answered.
    is_asked: AtomicBool,
    is_answered: AtomicBool,
    /// Whether the server can tell how far it has read a request.
    tells_progress: AtomicBool,
}

/// The windows that were learned, the newest last. All are held, because a model is lent.
#[derive(Default)]
struct Lesson {
    model: Option<Model>,
    next: OnceLock<Box<Lesson>>,
}

impl Windowed {
    /// A model that is asked through `inner`, for at most `wanted_output` tokens. `entry` is what is known of it.
    pub(crate) fn new(
        inner: Arc<dyn Provider>,
        source: Option<WindowSource>,
        entry: ModelEntry,
        wanted_output: Option<u64>,
        (keep, template): (KeepFact, LearnedTemplate),
    ) -> Self {
        Self(Arc::new(Asked {
            inner,
            source,
            entry,
            wanted_output,
            keep,
            learned: Lesson::default(),
            template,
            is_asked: AtomicBool::default(),
            is_answered: AtomicBool::default(),
            tells_progress: AtomicBool::default(),
        }))
    }
}

impl Provider for Windowed {
    fn model(&self) -> &Model {
        self.0.newest().unwrap_or_else(|| self.0.inner.model())
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.0.inner.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let asked = self.0.clone();
        let events = async move {
            let is_first = !asked.is_asked.load(Ordering::SeqCst);
            let request = asked.ready(request).await;
            let notice = asked.notice(&request).filter(|_| is_first);
            let notice = notice.map(|notice| Ok(StreamEvent::LeftOut { notice }));
            let events = stream::iter(notice).chain(asked.inner.stream(request));
            events.then(move |event| {
                let asked = asked.clone();
                async move {
                    asked.note(&event).await;
                    event
                }
            })
        };
        Box::pin(stream::once(events).flatten())
    }
}

impl Asked {
    /// Asks for the window before the first request, which then asks for no more output than there is room for.
    async fn ready(&self, request: Request) -> Request {
        let is_first = !self.is_asked.swap(true, Ordering::SeqCst);
        if is_first {
            self.look().await;
        }
        let most = self.newest().filter(|_| is_first);
        let most = most.map_or(u64::MAX, |model| model.max_output);
        Request {
            max_output: request.max_output.min(most),
            tells_progress: self.tells_progress.load(Ordering::SeqCst),
            ..request
        }
    }

    /// Learns from an event: the window that a refusal names, and that of a model which is loaded by its first answer.
    async fn note(&self, event: &Result<StreamEvent, ProviderError>) {
        match event {
            Err(error) if error.class == ErrorClass::ContextTooLong => {
                match (&self.source, window_in(&error.message)) {
                    // A program on the user's machine knows its window.
                    (Some(_), Some(window)) => self.learn(window),
                    (Some(_), None) => self.look().await,
                    // Others may speak of something else, which is decided there.
                    (None, _) => self.learn(self.inner.model().context_window),
                }
            }
            Ok(StreamEvent::Ended) if !self.is_answered.swap(true, Ordering::SeqCst) => {
                self.look().await;
            }
            _ => {}
        }
    }

    async fn look(&self) {
        let Some(source) = self.source.clone() else {
            return;
        };
        let Ok(said) = tokio::time::timeout(PATIENCE, source.ask()).await else {
            return;
        };
        self.tells_progress
            .fetch_or(said.tells_progress, Ordering::SeqCst);
        if let Some(template) = said.template {
            let _ = self.template.set(template);
        }
        if let Some(window) = said.window {
            self.learn(window);
        }
    }

    /// What the user is told before the first answer.
    fn notice(&self, request: &Request) -> Option<String> {
        let shows_none = self.template.get()?.tools == Some(false);
        let has_tools = request.all_tools().len() > 0;
        (shows_none && has_tools).then(|| shows_no_tools(&self.inner.model().name))
    }

    fn newest(&self) -> Option<&Model> {
        self.learned.last().model.as_ref()
    }

    /// Learns that the model has this window.
    fn learn(&self, window: u64) {
        let known = self.newest().map(|model| model.context_window);
        if known.unwrap_or(self.entry.context_window) == window {
            return;
        }
        let model = self.inner.model();
        (self.keep)(&model.provider, &model.name, Fact::Window(window));
        let entry = ModelEntry {
            context_window: window,
            ..self.entry.clone()
        };
        let wanted = self.wanted_output;
        self.learned.add(Model {
            context_window: window,
            max_output: wanted.map_or_else(|| entry.usual_output(), |it| entry.at_most(it)),
            ..model.clone()
        });
    }
}

impl Lesson {
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    fn add(&self, model: Model) {
        let mut lesson = Box::new(Self {
            model: Some(model),
            next: OnceLock::new(),
        });
        // Another request may learn meanwhile.
        while let Err(again) = self.last().next.set(lesson) {
            lesson = again;
        }
    }
}
