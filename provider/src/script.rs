//! The scripted model: a provider that plays a scenario from a file and needs neither network nor key.
//!
//! It serves to test your own tools, skills and hooks, to demonstrate `ah` (`script:demo`), to replay recorded runs,
//! and to test `ah` itself. A scenario is YAML or JSON: a list of turns, each the answer to one request.
//!
//! ```yaml
//! turns:
//!   - text: Let me look at the tests.
//!     tool: {name: bash, input: {command: sh test.sh}}
//!   - expect: {results: [{text: FAIL, is_error: true}]}
//!     error: {status: 529, type: overloaded_error}   # a failed attempt; the next turn answers the next one
//!   - thinking: The name is not quoted.
//!     text: The name is not quoted. I know what to do.
//! ```
//!
//! All fields are in [`format`](mod@format); `docs/scripted-model.md` shows their use.
//!
//! **Which turn answers.** Within a process the turns are played one after the other, whatever the request: a turn
//! that fails is used up too, so a retry meets the next one. A process that starts with a conversation in which this
//! scenario has answered already continues after its last answer; so a killed run is resumed, and `ah -c` continued,
//! with the same file. Earlier answers are recognised by the model's name on the messages, and answers that a compaction
//! has removed from the request by the summary, which is an answer as well. `resume: false` starts at the first turn.
//!
//! Playing is deterministic: the same requests give the same events, ids included. Retries are left to
//! [`Retrying`](crate::retry::Retrying). Files are read once, and nothing is stored.

mod check;
pub mod demo;
pub mod expect;
pub mod failure;
pub mod format;
mod new_messages;
pub mod normalizer;
pub mod play;
pub mod record;
pub mod recorded;

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    CheckRun, ErrorClass, EventStream, Message, Model, Origin, Provider, ProviderError,
    ProviderExtras, Request, Role, StopReason, StreamEvent,
};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;

use self::format::{Scenario, Turn};
use self::new_messages::user_text;
use self::normalizer::Normalizer;
use self::play::{Step, TurnContext, cut_off};
use self::recorded::RecordedRequest;

const CONTEXT_WINDOW: u64 = 200_000;
const MAX_OUTPUT: u64 = 32_000;

/// Error of a scenario that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the scenario {path}")]
    Read {
        /// The file.
        path: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The content is not a valid scenario.
    #[error("the scenario {name} is not valid: {problem}")]
    Invalid {
        /// The file or the name of the scenario.
        name: String,
        /// The problem and its place.
        problem: String,
    },
}

impl ScriptError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => {
                Some("`script:demo` is built in; any other name is a path".to_owned())
            }
            Self::Invalid { .. } => {
                Some("docs/scripted-model.md lists the fields of a scenario".to_owned())
            }
        }
    }
}

/// A model that plays a scenario. Clones share the position in it.
#[derive(Debug, Clone)]
pub struct Script {
    player: Arc<Player>,
    normalizer: Arc<Normalizer>,
}

#[derive(Debug)]
struct Player {
    model: Model,
    scenario: Scenario,
    /// Indexes of the turns in the order in which they are played, with repetitions.
    order: Vec<usize>,
    /// Position in `order` of the next turn, once there was a request.
    next: Mutex<Option<usize>>,
}

impl Script {
    /// Opens the scenario in the file `path`, or the built-in one if the path is `demo`.
    pub fn open(path: &Path) -> Result<Self, ScriptError> {
        if path == Path::new(demo::NAME) {
            return Ok(Self::demo());
        }
        let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read {
            path: path.display().to_string(),
            source,
        })?;
        let invalid = |problem| ScriptError::Invalid {
            name: path.display().to_string(),
            problem,
        };
        let scenario = Scenario::parse(&text).map_err(invalid)?;
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        Self::new(&stem.to_string_lossy(), scenario)
    }

    /// Returns the built-in scenario of `ah demo`.
    pub fn demo() -> Self {
        let scenario = Scenario::parse(demo::SCENARIO).expect("a test plays the built-in scenario");
        Self::new(demo::NAME, scenario).expect("a parsed scenario was checked")
    }

    /// A model for `scenario`, called `name` unless the scenario names its model.
    pub fn new(name: &str, scenario: Scenario) -> Result<Self, ScriptError> {
        scenario.check().map_err(|problem| ScriptError::Invalid {
            name: name.to_owned(),
            problem,
        })?;
        let model = Model {
            provider: "script".to_owned(),
            name: scenario.model.clone().unwrap_or_else(|| name.to_owned()),
            context_window: scenario.context_window.unwrap_or(CONTEXT_WINDOW),
            max_output: scenario.max_output.unwrap_or(MAX_OUTPUT),
            price: scenario.price.map(format::PricePerMillion::to_price),
            long_price: None,
        };
        let player = Player {
            model,
            order: scenario.order(),
            scenario,
            next: Mutex::new(None),
        };
        Ok(Self {
            player: Arc::new(player),
            normalizer: Arc::default(),
        })
    }

    /// Returns the runs of this check that were recorded.
    pub fn checks_of(&self, command: &str) -> Vec<CheckRun> {
        let checks = self.player.scenario.checks.iter();
        let own = checks.filter(|check| check.command == command);
        own.map(|check| check.run.clone()).collect()
    }

    /// Compares requests with recorded ones in the form that `normalizer` gives them.
    #[must_use]
    pub fn comparing(self, normalizer: Normalizer) -> Self {
        Self {
            normalizer: Arc::new(normalizer),
            ..self
        }
    }
}

impl Provider for Script {
    fn model(&self) -> &Model {
        &self.player.model
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras::default()
    }

    fn stream(&self, request: Request) -> EventStream {
        let Self { player, normalizer } = self.clone();
        let answer = async move { stream::iter(player.answer(&request, &normalizer)) };
        Box::pin(stream::once(answer).flatten().filter_map(perform))
    }
}

/// Performs a step: waits, or returns its event or error.
async fn perform(step: Step) -> Option<Result<StreamEvent, ProviderError>> {
    match step {
        Step::Wait(time) => {
            tokio::time::sleep(time).await;
            None
        }
        Step::Event(event) => Some(Ok(event)),
        Step::Fail(error) => Some(Err(error)),
        Step::Cut => Some(Err(cut_off())),
        Step::Hang => std::future::pending().await,
    }
}

impl Player {
    /// Takes the next turn and returns its steps as the answer to `request`.
    fn answer(&self, request: &Request, normalizer: &Normalizer) -> Vec<Step> {
        let at = self.take(request);
        let mut steps = vec![Step::Event(StreamEvent::Sent {
            payload_bytes: 0,
            held_bytes: None,
        })];
        match self.turn_for(at, request, normalizer) {
            Ok(turn) => {
                let context = TurnContext::new(request, at + 1, !self.scenario.strict);
                steps.extend(turn.steps(&context, self.scenario.chunk_delay_ms));
            }
            Err(error) => steps.push(Step::Fail(error)),
        }
        steps
    }

    /// The turn at position `at`, if the request meets its expectations.
    fn turn_for(
        &self,
        at: usize,
        request: &Request,
        normalizer: &Normalizer,
    ) -> Result<&Turn, ProviderError> {
        let index = *self.order.get(at).ok_or_else(|| self.ended(request))?;
        let turn = &self.scenario.turns[index];
        let mut problems = turn
            .expect
            .as_ref()
            .map(|expect| expect.unmet(request))
            .unwrap_or_default();
        if self.scenario.strict
            && let Some(expected) = self.recorded(index)
        {
            problems.extend(expected.difference(&normalizer.request(request)));
        }
        if problems.is_empty() {
            Ok(turn)
        } else {
            Err(self.refuse(at, problems.join("\n").trim_end()))
        }
    }

    /// The complete recorded request of the turn at `index`. Parts that did not change are recorded with an earlier turn.
    fn recorded(&self, index: usize) -> Option<RecordedRequest> {
        let messages = self.scenario.turns[index]
            .request
            .as_ref()?
            .messages
            .clone();
        let earlier = || {
            let turns = self.scenario.turns[..=index].iter().rev();
            turns.filter_map(|turn| turn.request.as_ref())
        };
        Some(RecordedRequest {
            system: earlier().find_map(|request| request.system.clone()),
            tools: earlier().find_map(|request| request.tools.clone()),
            messages,
        })
    }

    fn take(&self, request: &Request) -> usize {
        let mut next = self.next.lock();
        let at = next.unwrap_or_else(|| self.position(request));
        *next = Some(at + 1);
        at
    }

    /// The position in `order` after the last answer that `request` holds.
    fn position(&self, request: &Request) -> usize {
        if !self.scenario.resume {
            return 0;
        }
        let mut messages = request.messages.iter();
        let first = messages.find(|message| !new_messages::is_update(message));
        let summary = first.filter(|message| message.is_summary());
        let start = summary.map_or(0, |summary| self.after_summary(summary));
        let is_own = |message: &&Arc<Message>| {
            message.role == Role::Assistant
                && message.was_written_by(&self.model.provider, &self.model.name)
                && summary.is_none_or(|summary| message.seq > summary.seq)
        };
        let answers = request.messages.iter().filter(is_own);
        answers.fold(start, |at, answer| self.after_answer(at, answer))
    }

    /// The position after the turn, at `at` or later, that gave `answer`.
    fn after_answer(&self, at: usize, answer: &Message) -> usize {
        let was_cut = answer.stop_reason() == Some(&StopReason::Interrupted);
        let gave = |place: &usize| {
            let turn = &self.scenario.turns[*place];
            turn.answers() || (was_cut && turn.error.is_none())
        };
        let from = at.min(self.order.len());
        self.order[from..]
            .iter()
            .position(gave)
            .map_or(self.order.len(), |found| from + found + 1)
    }

    /// The position after the turn whose text became `summary`.
    fn after_summary(&self, summary: &Message) -> usize {
        debug_assert!(
            matches!(summary.origin, Origin::Summary { .. }),
            "only called for summaries"
        );
        let text = summary.text();
        let wrote = |place: &usize| {
            let words = self.scenario.turns[*place].text.as_ref();
            words.is_some_and(|words| text.contains(words.whole().trim()))
        };
        self.order.iter().rposition(wrote).map_or(0, |at| at + 1)
    }

    fn ended(&self, request: &Request) -> ProviderError {
        let text = user_text(request);
        let prompt = text
            .lines()
            .next()
            .map_or_else(String::new, |line| format!(": {line}"));
        ProviderError {
            hint: Some("add a turn to the scenario, or start a new session".to_owned()),
            ..ProviderError::new(
                ErrorClass::Script,
                format!(
                    "the scenario `{}` ends with turn {}, but there was another request{prompt}",
                    self.model.name,
                    self.order.len()
                ),
            )
        }
    }

    fn refuse(&self, at: usize, problems: &str) -> ProviderError {
        let message = format!(
            "the request is not what turn {} of the scenario `{}` expects: {problems}",
            at + 1,
            self.model.name
        );
        let hint = self.scenario.strict.then(|| {
            "if the change is intended, record again with `--record`, or remove `strict` from the scenario".to_owned()
        });
        ProviderError {
            hint,
            ..ProviderError::new(ErrorClass::Script, message)
        }
    }
}
