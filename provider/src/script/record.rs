//! Records runs as scenarios: a provider that wraps another one and writes its requests and answers to a file.
//!
//! The file is a complete scenario after each turn: it is written to a temporary file and renamed before the end of the
//! answer is passed on. Requests are written in the readable form of `normalizer.rs`, answers unchanged but for secrets,
//! without their timing and pieces. An answer that was dropped ends with `hang: true`.

mod answer;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ah_conversation::{
    CheckRun, ErrorClass, EventStream, Model, Price, Provider, ProviderError, ProviderExtras,
    Request, RetryNotice, StreamEvent,
};
use futures_core::Stream;
use parking_lot::Mutex;

use self::answer::RecordedAnswer;
use super::failure::{Class, Failure};
use super::format::{PricePerMillion, RecordedCheck, Scenario, Turn};
use super::normalizer::Normalizer;
use super::recorded::RecordedRequest;

/// A file that a run is recorded to. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<File>>);

#[derive(Debug)]
struct File {
    path: PathBuf,
    normalizer: Normalizer,
    /// What comes before the checks and the turns.
    head: String,
    checks: Vec<RecordedCheck>,
    /// The turns so far.
    text: String,
    /// Latest system prompt and tools in the file.
    system: Option<String>,
    tools: Option<String>,
}

/// The checks as a part of a scenario.
#[derive(serde::Serialize)]
struct Checks<'a> {
    checks: &'a [RecordedCheck],
}

impl Recording {
    /// Creates or replaces the file `path` for a recording of `model`.
    pub fn create(path: &Path, model: &Model, normalizer: Normalizer) -> io::Result<Self> {
        let scenario = Scenario {
            model: Some(model.name.clone()),
            context_window: Some(model.context_window),
            max_output: Some(model.max_output),
            price: model.price.map(per_million),
            strict: true,
            ..Scenario::default()
        };
        let head = yaml(&scenario)?.replace("turns: []\n", "");
        let mut file = File {
            path: path.to_owned(),
            normalizer,
            head,
            checks: Vec::new(),
            text: String::new(),
            system: None,
            tools: None,
        };
        file.save()?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Wraps `inner` to record its requests and answers.
    pub fn of(&self, inner: Arc<dyn Provider>) -> Recorder {
        Recorder {
            inner,
            recording: self.clone(),
        }
    }

    /// Adds a run of the check, without the values of secrets and the folder of its output.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add_check(&self, command: &str, run: &CheckRun) -> io::Result<()> {
        let mut file = self.0.lock();
        let redact = file.normalizer.redact.clone();
        let mut run = run.clone();
        run.why = redact(&run.why);
        let name = run.output.as_deref().and_then(Path::file_name);
        run.output = name.map(PathBuf::from);
        for changed in &mut run.changed {
            changed.diff = changed.diff.as_deref().map(|diff| redact(diff));
        }
        file.checks.push(RecordedCheck {
            command: redact(command),
            run,
        });
        file.save()
    }

    fn add(&self, turn: Turn) -> Result<(), ProviderError> {
        let mut file = self.0.lock();
        file.add(turn).map_err(|error| {
            ProviderError::new(
                ErrorClass::Script,
                format!(
                    "cannot write the recording {}: {error}",
                    file.path.display()
                ),
            )
        })
    }

    fn normalizer(&self) -> Normalizer {
        self.0.lock().normalizer.clone()
    }
}

impl File {
    fn add(&mut self, mut turn: Turn) -> io::Result<()> {
        if let Some(request) = &mut turn.request {
            keep_if_new(&mut self.system, &mut request.system);
            keep_if_new(&mut self.tools, &mut request.tools);
        }
        self.text.push_str(&yaml(&[turn])?);
        self.save()
    }

    /// Writes the file completely under a temporary name, then renames it.
    fn save(&mut self) -> io::Result<()> {
        let mut temporary = self.path.clone().into_os_string();
        temporary.push(".part");
        // The conversation is the user's alone. A file that is left from before may be readable by others.
        let _ = fs::remove_file(&temporary);
        let mut options = fs::File::options();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        let checks = match self.checks.is_empty() {
            true => String::new(),
            false => yaml(&Checks {
                checks: &self.checks,
            })?,
        };
        let parts = [&self.head, &checks, "turns:\n", &self.text];
        file.write_all(parts.concat().as_bytes())?;
        fs::rename(&temporary, &self.path)
    }
}

/// Clears `value` if it equals the one that was written last.
fn keep_if_new(last: &mut Option<String>, value: &mut Option<String>) {
    if *last == *value {
        *value = None;
    } else {
        last.clone_from(value);
    }
}

fn yaml(value: &impl serde::Serialize) -> io::Result<String> {
    let options = serde_saphyr::ser_options! {
        // Long lines are easier to compare than folded ones.
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options).map_err(io::Error::other)
}

fn per_million(price: Price) -> PricePerMillion {
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact to 2⁵³ pico-dollars per token"
    )]
    let dollars = |pico: u64| pico as f64 / 1e6;
    PricePerMillion {
        input: dollars(price.input),
        output: dollars(price.output),
        cache_read: dollars(price.cache_read),
        cache_write: dollars(price.cache_write),
        cache_write_1h: dollars(price.cache_write_1h),
    }
}

/// A provider whose requests and answers are recorded.
pub struct Recorder {
    inner: Arc<dyn Provider>,
    recording: Recording,
}

impl Provider for Recorder {
    fn model(&self) -> &Model {
        self.inner.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.inner.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let normalizer = self.recording.normalizer();
        Box::pin(RecordingStream {
            request: normalizer.request(&request),
            normalizer,
            recording: self.recording.clone(),
            stream: self.inner.stream(request),
            was_polled: false,
            answer: None,
        })
    }
}

/// An answer that is recorded while it passes through.
struct RecordingStream {
    stream: EventStream,
    recording: Recording,
    normalizer: Normalizer,
    request: RecordedRequest,
    /// Whether the stream was polled: one that is never polled sends nothing.
    was_polled: bool,
    /// The current attempt so far; `None` before it starts and after it was written.
    answer: Option<RecordedAnswer>,
}

impl Stream for RecordingStream {
    type Item = Result<StreamEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.was_polled, true) {
            self.answer = Some(RecordedAnswer::default());
        }
        let item = std::task::ready!(self.stream.as_mut().poll_next(context));
        let written = match &item {
            Some(Ok(event)) => self.record(event),
            Some(Err(error)) => self.write(AttemptEnd::Failed(failure(error))),
            None => self.write(AttemptEnd::Cut),
        };
        Poll::Ready(match written {
            Ok(()) => item,
            Err(error) => Some(Err(error)),
        })
    }
}

impl Drop for RecordingStream {
    fn drop(&mut self) {
        // An error cannot be reported here; the file stays as it was after the previous turn.
        let _ = self.write(AttemptEnd::Hung);
    }
}

/// End of an attempt.
enum AttemptEnd {
    Whole,
    Failed(Failure),
    Cut,
    Hung,
}

impl RecordingStream {
    fn record(&mut self, event: &StreamEvent) -> Result<(), ProviderError> {
        let Some(answer) = &mut self.answer else {
            return Ok(());
        };
        answer.add(event);
        match event {
            StreamEvent::Retry(notice) => {
                self.write(AttemptEnd::Failed(failure_before_retry(notice)))?;
                self.answer = Some(RecordedAnswer::default());
            }
            StreamEvent::Ended => self.write(AttemptEnd::Whole)?,
            _ => {}
        }
        Ok(())
    }

    /// Writes the current attempt, once.
    fn write(&mut self, ending: AttemptEnd) -> Result<(), ProviderError> {
        let Some(answer) = self.answer.take() else {
            return Ok(());
        };
        let mut turn = answer.into_turn(&self.normalizer);
        turn.request = Some(self.request.clone());
        match ending {
            AttemptEnd::Whole => {}
            AttemptEnd::Failed(mut failure) => {
                failure.message = failure
                    .message
                    .map(|message| (self.normalizer.redact)(&message));
                if turn.parts().is_empty() {
                    turn.error = Some(failure);
                } else {
                    turn.stream_error = Some(failure);
                }
            }
            AttemptEnd::Cut => turn.cut = true,
            AttemptEnd::Hung => turn.hang = true,
        }
        if !turn.answers() {
            turn.stop_reason = None;
            turn.usage = None;
        }
        self.recording.add(turn)
    }
}

fn failure(error: &ProviderError) -> Failure {
    Failure {
        status: error.status,
        kind: None,
        class: Some(Class(error.class)),
        message: Some(error.message.clone()),
        retry_after: error.retry_after.map(|wait| wait.as_secs_f64()),
    }
}

fn failure_before_retry(notice: &RetryNotice) -> Failure {
    Failure {
        status: notice.status,
        message: Some(notice.error.clone()),
        ..Failure::default()
    }
}
