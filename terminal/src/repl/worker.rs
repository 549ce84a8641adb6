//! Owns the session and does the tasks of the terminal, one after the other. During a run, tasks that concern it are
//! done at once (`side_tasks.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::{Leaving, RunOutcome, Session, SessionChange, Stop};
use ah_conversation::{
    Clock as _, ContentBlock, ExitReason, Image, MailKind, Mailbox as _, MessageId, StoreError,
    Verification,
};
use ah_ids::SystemClock;
use ah_render::{Line, Style};
use ah_store::{SessionStore, Tree};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use super::early::EarlyConnection;
use super::effect::{About, Task};
use super::facts::Facts;
use super::input::{self, Ending, Input};
use super::lent::Lent;
use super::picker::Subject;
use super::recall::{self, Layout};
use super::session_factory::SessionFactory;
use super::side_question::{self, Asking};
use super::side_tasks::{SideTasks, run_beside};
use super::terminal::Terminal;
use super::{HandOver, choices, intro, proposals, report, slash};
use ah_config::login::Kept;
use ah_config::{Error, extensions};
use ah_engine::Opened;
use ah_engine::assemble::recorded_check::RecordedTo;
use ah_engine::prompt::expand::expand;
use ah_engine::prompt::instructions::system_prompt;
use ah_engine::prompt::mentions::said;
use ah_engine::prompt::served;
use ah_engine::sessions::folders::{elsewhere, give_up, note_place, way_to};
use ah_engine::sessions::place::{sessions, transcript};
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};

use crate::tell_notices;

/// Longest time after which an idle session looks for messages queued by other processes, though nothing tells of any.
const LOOK: Duration = Duration::from_secs(60);

/// How a conversation has ended.
pub struct Worked {
    /// Whether it was interrupted while idle.
    pub is_interrupted: bool,
    /// The id of the session, if it is kept.
    pub session: Option<String>,
    /// What a process in the background continues.
    pub left: Option<HandOver>,
}

/// Owns the session and does the tasks of the terminal.
pub struct SessionWorker {
    factory: SessionFactory,
    session: Session,
    store: Arc<SessionStore>,
    /// The file that the session is recorded to.
    recorded_to: RecordedTo,
    tasks: UnboundedReceiver<Task>,
    /// Tasks that came during another one.
    later: VecDeque<Task>,
    /// Texts for the model, sent with the next prompt.
    shared: Vec<String>,
    /// The session's name, or the words it began with.
    title: Option<String>,
    /// What the check of the last run has shown.
    checked: Option<Verification>,
    /// Looks for a better one than these words.
    titling: JoinSet<Result<Asked, String>>,
    /// Side questions that are not answered yet.
    asking: Asking,
    /// What logins had kept before the last one.
    kept: Kept,
    /// Version of the servers whose prompts the terminal knows.
    served: u64,
    /// The connection for the next prompt.
    early: EarlyConnection,
    /// What is left to a process in the background, which ends this worker.
    left: Option<HandOver>,
    stop: CancellationToken,
}

impl SessionWorker {
    /// Returns the worker of an open session. Cancelling `stop` ends it.
    pub fn new(
        factory: SessionFactory,
        opened: Opened,
        tasks: UnboundedReceiver<Task>,
        stop: CancellationToken,
    ) -> Self {
        let Opened {
            session,
            store,
            recorded_to,
            ..
        } = opened;
        Self {
            factory,
            session,
            store,
            recorded_to,
            tasks,
            later: VecDeque::new(),
            shared: Vec::new(),
            title: None,
            checked: None,
            titling: JoinSet::new(),
            asking: Asking::default(),
            kept: Kept::default(),
            served: 0,
            early: EarlyConnection::default(),
            left: None,
            stop,
        }
    }

    /// Does tasks until the terminal quits.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored.
    pub async fn work(mut self) -> Result<Worked, Error> {
        self.begin().await?;
        if self.factory.link.is_drawn && self.session.transcript().last().is_some() {
            self.tell_past().await?;
        }
        if self.tasks.is_empty() {
            self.early.open(&*self.session.provider());
        }
        let mut is_interrupted = false;
        while let Some(task) = self.next().await {
            match task {
                Task::Quit => break,
                Task::Interrupt if !self.factory.link.is_drawn => {
                    is_interrupted = true;
                    break;
                }
                Task::Prompt(text) => self.prompt(&text, Vec::new()).await?,
                Task::Show(text, images) => self.prompt(&text, images).await?,
                Task::TakeMail => self.take_mail().await?,
                Task::Goal(typed) => self.goal(&typed).await?,
                Task::Aside(question) => self.aside(question).await?,
                Task::Compact(wanted) => self.compact(&wanted).await?,
                Task::Shell(command, is_shared) => self.shell(&command, is_shared).await?,
                Task::List(
                    subject @ (Subject::Session
                    | Subject::SessionAnywhere
                    | Subject::Message
                    | Subject::Prompt),
                ) => {
                    let listed = self.list(subject).await;
                    if listed.is_err() {
                        self.tell(Input::Unlisted);
                    }
                    self.tell_failure(listed);
                }
                Task::Report(about) => {
                    let reported = self.report(about);
                    self.tell_failure(reported);
                }
                Task::Export(path) => {
                    let exported = self.export(&path).await;
                    self.tell_failure(exported);
                }
                Task::Changes => {
                    let changes = self.changes().await;
                    self.tell_failure(changes);
                }
                Task::Rewind(direction) => self.rewind(direction).await?,
                Task::Resume(wanted) => self.open(SessionChoice::Find(wanted), false).await?,
                Task::New => self.open(SessionChoice::New, false).await?,
                Task::Fork => {
                    let own = SessionChoice::File(self.store.path().to_owned());
                    self.open(own, true).await?;
                }
                small @ (Task::Own(_)
                | Task::LogIn(_)
                | Task::LoggedIn
                | Task::Rule(..)
                | Task::AddDirectory(_)
                | Task::StatusLine(_)
                | Task::Effort(_)
                | Task::Rename(_)
                | Task::Copy) => self.small(small).await?,
                Task::GoTo(message) => self.go_to(message).await?,
                Task::HandOver(prompt) => {
                    self.hand_over(Some(prompt), &Lent::default(), Vec::new());
                }
                immediate => self.side_tasks(None).perform(immediate).await?,
            }
            self.tell(Input::Done);
            if self.left.is_some() {
                break;
            }
        }
        self.close(is_interrupted).await
    }

    async fn next(&mut self) -> Option<Task> {
        while let Some(task) = self.later.pop_front() {
            if task != Task::Expect {
                return Some(task);
            }
        }
        let is_drawn = self.factory.link.is_drawn;
        loop {
            let servers = self.session.tools().servers().cloned();
            tokio::select! {
                () = self.stop.cancelled() => return None,
                task = self.tasks.recv() => match task {
                    Some(Task::Expect) => self.early.open(&*self.session.provider()),
                    task => return task,
                },
                () = self.store.wait_for_mail(LOOK), if is_drawn => self.look_for_mail().await,
                () = proposals::changed(servers, self.served), if is_drawn => self.tell_prompts(),
                Some(Ok(titled)) = self.titling.join_next() => {
                    let taken = self.take_title(titled).await;
                    self.tell_failure(taken);
                }
            }
        }
    }

    /// Tells the terminal that another process has queued a message. The terminal knows its own messages, and whether
    /// the session is idle.
    async fn look_for_mail(&self) {
        for kind in [MailKind::Steer, MailKind::FollowUp] {
            // If the queue cannot be read, the next write reports it.
            if self
                .store
                .mail(kind)
                .await
                .is_ok_and(|mail| !mail.is_empty())
            {
                return self.tell(Input::Mail);
            }
        }
    }

    /// Tells the terminal which prompts the servers offer, if that may have changed.
    fn tell_prompts(&mut self) {
        let Some(servers) = self.session.tools().servers() else {
            return;
        };
        let version = servers.version();
        if std::mem::replace(&mut self.served, version) != version {
            self.tell(proposals::news(&**servers));
        }
    }

    fn tell(&self, input: Input) {
        // If the terminal has gone, the program ends.
        let _ = self.factory.link.inputs.send(input);
    }

    /// Tells the terminal which session is open.
    fn introduce(&self) {
        let settings = self.session.settings();
        self.tell(Input::Opened(Box::new(input::Opened {
            session: self.store.id().to_string(),
            model: self.session.model().clone(),
            title: self.title.clone(),
            mode: settings.permissions.mode,
            may_bypass: settings.permissions.may_bypass,
            context: self.session.transcript().context_tokens(),
            messages: self.session.transcript().count(),
            place: intro::short_place(&self.factory.opening.config.environment),
            is_sandboxed: settings.permissions.confined,
            is_bound: self.is_bound(),
            cost: self.factory.link.totals().cost.usd(),
            check: self.known().map(Box::new),
            facts: self.facts().map(Box::new),
        })));
    }

    /// Returns the facts for the user's status line, if one is configured.
    fn facts(&self) -> Option<Facts> {
        let config = &self.factory.opening.config;
        config.conversation.status_line.as_ref()?;
        Some(Facts {
            session_id: self.store.uuid().to_owned(),
            transcript_path: transcript(&self.store, config),
            cwd: config.environment.cwd().to_owned(),
            project: config.project_root.clone(),
            added: config
                .directories
                .iter()
                .map(|folder| folder.value.clone())
                .collect(),
            totals: self.factory.link.totals(),
        })
    }

    async fn prompt(&mut self, text: &str, images: Vec<Image>) -> Result<(), Error> {
        self.begin_title(text);
        let factory = &self.factory;
        // A branch may have been checked out since.
        note_place(&self.store, factory.opening.config.environment.cwd());
        let servers = self.session.tools().servers().cloned();
        let expanded = match served::expand(text, servers.as_ref()).await {
            Ok(Some(served)) => Ok(served),
            Ok(None) => {
                let hooks = self.session.line_hooks();
                let hooks = || hooks.clone();
                let (skills, config) = (&factory.opening.skills, &factory.opening.config);
                expand(text, None, skills, config, &factory.opening.probe, &hooks).await
            }
            Err(error) => Err(error),
        };
        let (ending, lent) = match expanded {
            Ok(expanded) => {
                let resources =
                    served::resources(&expanded, servers.as_ref(), &factory.opening.config).await;
                expanded
                    .warnings
                    .iter()
                    .for_each(|warning| crate::warn(warning));
                match said(&expanded, "", images, &factory.opening.config) {
                    Ok(said) => {
                        self.tell_read(&said.read);
                        let notes = self.shared.iter().map(ContentBlock::text);
                        let blocks = notes.chain(resources).chain(said.blocks).collect();
                        self.run_with(&expanded, blocks).await?
                    }
                    Err(error) => (failed(error), Lent::default()),
                }
            }
            Err(error) => (failed(error), Lent::default()),
        };
        self.run_ended(ending, &lent).await;
        Ok(())
    }

    /// Says which files went along with a prompt.
    fn tell_read(&self, read: &[String]) {
        let palette = self.factory.link.palette();
        let row = |line: &String| Line::of(&format!("  {line}"), Style::DIM).paint(palette) + "\n";
        let rows: String = read.iter().map(row).collect();
        if !rows.is_empty() {
            self.tell(Input::Written(format!("{rows}\n")));
        }
    }

    async fn take_mail(&mut self) -> Result<(), Error> {
        let ran = self.run(async |session, stop| session.run_mail(stop).await);
        let ending = ran.await?;
        self.run_ended(ending, &Lent::default()).await;
        Ok(())
    }

    async fn compact(&mut self, wanted: &str) -> Result<(), Error> {
        if self.session.transcript().last().is_none() {
            crate::note("there is nothing to summarise yet");
            self.tell(Input::Ended(Ending::Well));
            return Ok(());
        }
        let wanted = Some(wanted).filter(|wanted| !wanted.is_empty());
        let ending = self
            .run(async |session, stop| session.compact_all(wanted, stop).await.map(Some))
            .await?;
        self.run_ended(ending, &Lent::default()).await;
        Ok(())
    }

    fn tell_failure(&self, done: Result<(), Error>) {
        if let Err(error) = done {
            slash::tell_failure(&error.message, error.hint.as_deref());
        }
    }

    async fn list(&self, subject: Subject) -> Result<(), Error> {
        let config = &self.factory.opening.config;
        let picker = match subject {
            Subject::History | Subject::Model | Subject::All | Subject::Output | Subject::Task => {
                return Ok(());
            }
            Subject::Session | Subject::SessionAnywhere => {
                choices::sessions(config, subject, SystemClock::default().now())?
            }
            Subject::Message => {
                let read = |tree: &Tree| Ok::<_, StoreError>((tree.heads()?, tree.current()?));
                let (heads, current) = self.store.read(read).await?;
                choices::messages(&heads, current.as_ref())
            }
            Subject::Prompt => {
                let read = |tree: &Tree| match tree.current()? {
                    Some(current) => tree.ancestry(&current),
                    None => Ok(Vec::new()),
                };
                choices::prompts(&self.store.read(read).await?)
            }
        };
        self.tell(Input::Pick(picker));
        Ok(())
    }

    fn report(&mut self, about: About) -> Result<(), Error> {
        // A model that was chosen a moment ago counts.
        self.session.take_changes();
        let factory = &self.factory;
        if about == About::Status {
            let (id, status) = (self.store.id().to_string(), factory.opening.probe.status());
            let text = intro::status(&self.session, &id, status, &factory.opening.config);
            self.tell(Input::Written(text));
            return Ok(());
        }
        let (prompt, _) = system_prompt(
            &factory.opening.config,
            self.session.tools().specs(),
            &factory.opening.skills,
            &factory.opening.probe.status().summary(),
        )?;
        let spent = factory.link.totals();
        let columns = match factory.link.is_drawn {
            true => Terminal::size().0,
            false => factory.link.size.width,
        };
        let text = match about {
            About::Hooks => report::hooks(&factory.opening.config.hooks),
            About::Agents => {
                report::agents(&extensions::agents(&factory.opening.config)?.0, columns)
            }
            About::Permissions => {
                let confined = factory.opening.probe.status().summary();
                report::permissions(
                    &self.session,
                    &confined,
                    &factory.opening.config.environment,
                )
            }
            about => report::text(
                about,
                &self.session,
                &prompt,
                &factory.opening.skills,
                &spent,
                columns,
            ),
        };
        self.tell(Input::Written(text));
        Ok(())
    }

    /// Opens another session. If that fails, the current one stays.
    async fn open(&mut self, choice: SessionChoice, fork: bool) -> Result<(), Error> {
        if let SessionChoice::Find(wanted) = &choice
            && let Some(why) = self.not_here(wanted)
        {
            crate::note(&why);
            self.tell(Input::Ended(Ending::Well));
            return Ok(());
        }
        let plan = SessionPlan {
            choice,
            fork,
            ..SessionPlan::default()
        };
        let ending = match self.factory.open(&plan, None).await {
            Ok(Opened {
                session,
                store,
                recorded_to,
                ..
            }) => {
                let model = self.session.provider();
                let former = std::mem::replace(&mut self.session, session);
                self.titling = JoinSet::new();
                self.recorded_to = recorded_to;
                side_question::give_up(&self.asking).await;
                let kept = std::mem::replace(&mut self.store, store);
                let is_empty = former.transcript().last().is_none();
                former.close("other").await?;
                if is_empty {
                    give_up(kept, &self.factory.opening.config).await;
                }
                if fork {
                    // The one that was chosen here, also where the command line names another.
                    let controls = self.session.controls();
                    controls.request(SessionChange::Model(model));
                    self.session.take_changes();
                }
                self.begin().await?;
                match self.factory.link.is_drawn {
                    _ if fork => crate::note(&format!(
                        "continuing in a copy: session {}",
                        self.store.id()
                    )),
                    true => self.tell_past().await?,
                    false => self.recall(),
                }
                Ending::Well
            }
            Err(error) => Ending::Failed(error.message, error.hint),
        };
        self.tell(Input::Ended(ending));
        Ok(())
    }

    /// Returns why a session cannot be opened in the place of this one: it is this, or of another folder.
    fn not_here(&self, wanted: &str) -> Option<String> {
        let config = &self.factory.opening.config;
        match sessions(config).find(wanted) {
            Ok(found) => (found.database() == self.store.path())
                .then(|| "This session is open here.".to_owned()),
            Err(_) => elsewhere(wanted, config).map(|head| {
                let way = way_to(&head, &config.environment);
                format!("This session belongs to another folder. To open it:\n  {way}")
            }),
        }
    }

    /// Prints the last messages of the open session.
    fn recall(&self) {
        let layout = match &self.factory.link {
            link if link.is_drawn => Layout::Drawn(Terminal::size().0, link.palette()),
            _ => Layout::Plain,
        };
        let id = self.store.id().to_string();
        let text = recall::text(&id, self.session.transcript().messages(), layout);
        self.tell(Input::Written(text));
    }

    /// Continues from an earlier message, on a new branch. What the user has said goes back into the input, to be said in other
    /// words: the branch begins before it.
    async fn go_to(&mut self, message: String) -> Result<(), Error> {
        let id = MessageId::from(message.as_str());
        let wanted = id.clone();
        let said = self.store.read(move |tree| tree.message(&wanted)).await?;
        let said = said.filter(choices::is_prompt);
        if let Some(said) = &said {
            self.tell(Input::Typed(said.said().trim().to_owned()));
        }
        let from = match said {
            Some(said) => match said.parent {
                Some(before) => before,
                // Nothing is before the first one.
                None => return self.open(SessionChoice::New, false).await,
            },
            None => id,
        };
        self.store.checkout(from).await?;
        self.session.reload().await?;
        self.begin().await?;
        self.recall();
        self.tell(Input::Ended(Ending::Well));
        Ok(())
    }

    /// Runs the session until it is done or stopped, and does meanwhile the tasks that concern the run.
    async fn run(
        &mut self,
        work: impl AsyncFnOnce(&mut Session, &Stop) -> Result<Option<RunOutcome>, StoreError>,
    ) -> Result<Ending, Error> {
        let (token, leaving) = (self.stop.child_token(), Leaving::default());
        let stop = Stop::interrupt(token.clone()).leaving(leaving.clone());
        let mut side_tasks = SideTasks {
            leaving: leaving.clone(),
            ..self.side_tasks(Some(token.clone()))
        };
        let run = work(&mut self.session, &stop);
        let outcome = run_beside(run, &mut self.tasks, &mut self.later, &mut side_tasks).await?;
        tell_notices(&self.store).await;
        let Some(outcome) = outcome? else {
            return Ok(Ending::Well);
        };
        self.checked.clone_from(&outcome.verification);
        Ok(match (&outcome.failure, &outcome.reason) {
            (Some(failure), _) => Ending::Failed(failure.to_string(), failure.hint()),
            (None, ExitReason::Interrupted) if leaving.is_asked() && !token.is_cancelled() => {
                Ending::Left
            }
            (None, ExitReason::Interrupted) => Ending::Interrupted,
            (None, _) => Ending::Well,
        })
    }
}

mod beside;
mod close;
mod export;
mod goal;
mod hand_over;
mod lending;
mod past;
mod small;
mod titling;

fn failed(error: Error) -> Ending {
    Ending::Failed(error.message, error.hint)
}
