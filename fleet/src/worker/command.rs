//! A run that is a command line of this program, such as `ah work` or a task of `ah bench`: a process of its own, which
//! knows how to go on after it was cut off.
//!
//! Its output is the answer of the run's session. The lease of the session is held meanwhile, so no two workers run it.

use std::path::{Path, PathBuf};

use ah_config::Error;
use ah_conversation::{
    Clock as _, ContentBlock, Environment, MailKind, Mailbox as _, Message, MessageId, Origin,
    Record, Role, Store as _, StoreError,
};
use ah_ids::SystemClock;
use ah_process::{Command, CommandOutcome, Ending, Keep};
use ah_store::SessionStore;
use ah_store::fleet::Run;

/// The commands that a worker runs.
pub const COMMANDS: [&str; 2] = ["work", "bench"];
/// Exit code of a command that may succeed later, as in `sysexits.h`.
const TRY_AGAIN: i32 = 75;
/// Exit code of a command that was interrupted.
const INTERRUPTED: i32 = 130;
/// Most of the output that is kept, in bytes: its end.
const KEPT: usize = 16 * 1024;
/// Largest file with the output of a command that is running, in bytes.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Variable that says that a worker has started this process, or one above it.
const WORKER: &str = "AH_WORKER";

/// How a command ended.
pub(super) enum CommandEnd {
    /// Well.
    Done,
    /// By somebody's wish.
    Cancelled,
    /// It says so itself, so another attempt would end alike. The last line of its output.
    Failed(String),
    /// It was cut off, or says that it may succeed later.
    CutOff(String),
}

/// Makes this process end with the one that started it, if that is a worker or a command of one: a worker that was killed
/// has no other way to end them. Elsewhere than on Linux they go on to their end.
pub fn end_with_worker() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(WORKER).is_some() {
        use rustix::process::{Signal, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
            tracing::warn!("this process will outlive a worker that is killed: {error}");
        }
    }
}

/// Runs the command of `run`, and stores its output as the answer. Dropping the future stops it.
///
/// # Errors
///
/// If it is none that a worker runs, or cannot be started.
pub(super) async fn perform(
    run: &Run,
    environment: &Environment,
    store: &SessionStore,
) -> Result<CommandEnd, Error> {
    if !run
        .command
        .first()
        .is_some_and(|word| COMMANDS.contains(&word.as_str()))
    {
        return Err(Error::usage(format!(
            "`{}` is not a command for a worker",
            run.command.join(" ")
        )));
    }
    let mut conversation = Conversation {
        store,
        clock: SystemClock::default(),
    };
    conversation.take_mail().await?;
    let program = std::env::current_exe()
        .map_err(|error| Error::failure(format!("cannot find this program: {error}")))?;
    let log = tempfile::NamedTempFile::new()
        .map_err(|error| Error::failure(format!("cannot make a file for its output: {error}")))?;
    let outcome = command(program, run, environment, log.path()).run().await;
    let outcome = outcome.map_err(|error| Error::failure(error.to_string()))?;
    let text = outcome.output.text();
    let said = environment.redact(tail(&text)).into_owned();
    conversation.answer(&said).await?;
    Ok(end(&outcome, &said))
}

fn command(program: PathBuf, run: &Run, environment: &Environment, log: &Path) -> Command {
    let variables = environment.all().chain([(WORKER, "1")]);
    Command {
        program,
        arguments: run.command.iter().map(Into::into).collect(),
        cwd: run.folder.clone(),
        environment: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        stdin: Vec::new(),
        deadline: None,
        keep: Keep::new(log.to_owned(), LONGEST),
        sandbox: None,
        bounds: None,
        note: |_| None,
    }
}

fn end(outcome: &CommandOutcome, said: &str) -> CommandEnd {
    let mut lines = said.lines().rev().filter(|line| !line.trim().is_empty());
    // Behind an error there may be a hint.
    let error = lines.clone().find(|line| line.starts_with("error: "));
    let told = error.or_else(|| lines.next());
    let reason = |otherwise: String| told.map_or(otherwise, str::to_owned);
    match outcome.ending {
        Ending::Exited(0) => CommandEnd::Done,
        Ending::Exited(INTERRUPTED) | Ending::Stopped => CommandEnd::Cancelled,
        Ending::Exited(TRY_AGAIN) => CommandEnd::CutOff(reason("it may succeed later".to_owned())),
        Ending::Exited(code) => {
            CommandEnd::Failed(reason(format!("it ended with exit code {code}")))
        }
        Ending::Killed(_) | Ending::TimedOut(_) => {
            CommandEnd::CutOff(format!("it ended with exit code {}", outcome.ending.code()))
        }
    }
}

/// Returns the end of a text, in whole lines if it is longer than is kept.
fn tail(text: &str) -> &str {
    let from = text.floor_char_boundary(text.len().saturating_sub(KEPT));
    match text[from..].split_once('\n') {
        Some((_, whole)) if from > 0 => whole,
        _ => &text[from..],
    }
}

/// What is said in the session of a command.
struct Conversation<'a> {
    store: &'a SessionStore,
    clock: SystemClock,
}

impl Conversation<'_> {
    /// Reads what was queued, of which the first message says what the command is.
    async fn take_mail(&mut self) -> Result<(), StoreError> {
        for kind in [MailKind::FollowUp, MailKind::Steer] {
            for mail in self.store.mail(kind).await? {
                self.say(mail.id, Role::User, Origin::Prompt, &mail.content)
                    .await?;
            }
        }
        Ok(())
    }

    async fn answer(&mut self, text: &str) -> Result<(), StoreError> {
        let text = text.trim_end();
        let text = if text.is_empty() { "(no output)" } else { text };
        self.say(
            self.clock.message_id(),
            Role::Assistant,
            Origin::Model,
            text,
        )
        .await
    }

    async fn say(
        &mut self,
        id: MessageId,
        role: Role,
        origin: Origin,
        text: &str,
    ) -> Result<(), StoreError> {
        let transcript = self.store.load().await?;
        let last = transcript.last().map(|last| &**last);
        let stamp = (id, self.clock.now());
        let content = vec![ContentBlock::text(text)];
        let message = Message::behind(last, stamp, role, origin, content);
        self.store
            .append(vec![Record::Message(message.into())])
            .await
    }
}
