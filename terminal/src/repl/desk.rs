//! The side that works: has the session, runs what the terminal asks for, one after the other, and takes meanwhile what
//! concerns the run that is on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::skills::Skills;
use ah_agent::{Frontend, RunOutcome, Session, SessionChange, Stop};
use ah_conversation::{
    Clock as _, ContentBlock, ExitReason, Image, MailKind, MessageId, Models, Provider, Rule,
    Store as _, StoreError,
};
use ah_store::{SessionStore, SystemClock, Tree};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::app::{self, About, Ending, Input, Task};
use super::aside::{Aside, beside};
use super::frontend::Link;
use super::picker::Subject;
use super::recall::{self, Form};
use super::status::Facts;
use super::terminal::Terminal;
use super::{bang, choices, rewind, tell};
use crate::undo::Way;
use ah::assemble::{self, HostExtensions, SessionInputs};
use ah::expand::{Expanded, expand};
use ah::instructions::system_prompt;
use ah::place::sessions;
use ah::plan::{SessionChoice, SessionPlan};
use ah::warn::Warn;
use ah::{Opened, open};
use ah_config::Config;

use ah::confinement::SandboxProbe;
use ah::pictures;
use ah_config::Error;

use crate::document;
use crate::print::asks;
use crate::print::text::View;
use crate::tell_notices;

/// How often mail of others is looked for while nothing is on.
const LOOK: Duration = Duration::from_secs(1);

/// What sessions are made from.
pub struct Workshop {
    /// What holds.
    pub config: Config,
    /// Where commands run.
    pub probe: SandboxProbe,
    /// All skills.
    pub skills: Arc<Skills>,
    /// The models that can be asked.
    pub models: Arc<dyn Models>,
    /// Is told what the user should know of models connected later.
    pub warn: Warn,
    /// The way to the terminal.
    pub link: Link,
}

impl Workshop {
    /// Opens the session that `plan` chooses.
    ///
    /// # Errors
    ///
    /// Where it cannot be opened, or the model cannot be asked.
    pub async fn open(&self, plan: &SessionPlan, fork_at: Option<u32>) -> Result<Opened, Error> {
        let asks = asks(&self.config);
        let inputs = SessionInputs {
            skills: &self.skills,
            active: None,
            sandbox: self.probe.status(),
            has_person: asks.is_some(),
            host: None,
            hooks: Vec::new(),
            extensions: HostExtensions::default(),
            warn: self.warn.clone(),
        };
        let frontend = |session| -> Arc<dyn Frontend> {
            Arc::new(self.link.frontend(View::of(session, &self.config, asks)))
        };
        let opened = open(plan, &self.config, fork_at, inputs, frontend).await?;
        opened
            .warnings
            .iter()
            .for_each(|warning| crate::warn(warning));
        tell_notices(&opened.store).await;
        Ok(opened)
    }
}

/// The side that works.
pub struct Desk {
    workshop: Workshop,
    session: Session,
    store: Arc<SessionStore>,
    tasks: UnboundedReceiver<Task>,
    /// What was asked for while something else was on.
    later: VecDeque<Task>,
    /// What the model is told with the next prompt.
    shared: Vec<String>,
    stop: CancellationToken,
}

impl Desk {
    /// Takes up work. Cancelling `stop` ends it.
    pub fn new(
        workshop: Workshop,
        opened: Opened,
        tasks: UnboundedReceiver<Task>,
        stop: CancellationToken,
    ) -> Self {
        let Opened { session, store, .. } = opened;
        Self {
            workshop,
            session,
            store,
            tasks,
            later: VecDeque::new(),
            shared: Vec::new(),
            stop,
        }
    }

    /// Does what the terminal asks for, until it wants no more; gives whether somebody has stopped it while nothing was
    /// on.
    ///
    /// # Errors
    ///
    /// Where the conversation cannot be kept.
    pub async fn work(mut self) -> Result<bool, Error> {
        self.introduce();
        if self.workshop.link.is_drawn && self.session.transcript().last().is_some() {
            self.tell_what_was_said();
            self.tell(Input::Written("\n".to_owned()));
        }
        let mut is_interrupted = false;
        while let Some(task) = self.next().await {
            match task {
                Task::Quit => break,
                Task::Interrupt if !self.workshop.link.is_drawn => {
                    is_interrupted = true;
                    break;
                }
                Task::Prompt(text) => self.prompt(&text, Vec::new()).await?,
                Task::Show(text, images) => self.prompt(&text, images).await?,
                Task::TakeMail => self.take_mail().await?,
                Task::Compact(wanted) => self.compact(&wanted).await?,
                Task::Shell(command, is_told) => self.shell(&command, is_told).await?,
                Task::List(subject) => {
                    let listed = self.list(subject).await;
                    self.tell_failure(listed);
                }
                Task::Tell(about) => {
                    let told = self.told(about);
                    self.tell_failure(told);
                }
                Task::Export(path) => {
                    let exported = self.export(&path).await;
                    self.tell_failure(exported);
                }
                Task::Changes => {
                    let told = self.changes().await;
                    self.tell_failure(told);
                }
                Task::Rewind(way) => self.rewind(way).await?,
                Task::Resume(wanted) => self.open(SessionChoice::Find(wanted), false).await?,
                Task::New => self.open(SessionChoice::New, false).await?,
                Task::Fork => {
                    let own = SessionChoice::File(self.store.path().to_owned());
                    self.open(own, true).await?;
                }
                Task::GoTo(message) => self.go_to(message).await?,
                aside => self.aside(None).take(aside).await?,
            }
            self.tell(Input::Done);
        }
        let Self {
            workshop,
            session,
            store,
            ..
        } = self;
        let is_empty = session.transcript().last().is_none();
        session.close("other").await?;
        tell_notices(&store).await;
        if is_empty {
            discard(store, &workshop.config);
        }
        Ok(is_interrupted)
    }

    async fn next(&mut self) -> Option<Task> {
        if let Some(task) = self.later.pop_front() {
            return Some(task);
        }
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                task = self.tasks.recv() => return task,
                () = tokio::time::sleep(LOOK), if self.workshop.link.is_drawn => {
                    self.look_for_mail().await;
                }
            }
        }
    }

    /// Tells the terminal that others have written. It knows what was written here, and whether something is on.
    async fn look_for_mail(&self) {
        for kind in [MailKind::Steer, MailKind::FollowUp] {
            // Where it cannot be read, whoever writes next is told.
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

    fn tell(&self, input: Input) {
        // Where the terminal has gone, there is nobody to tell.
        let _ = self.workshop.link.inputs.send(input);
    }

    /// Tells the terminal which session is open.
    fn introduce(&self) {
        let settings = self.session.settings();
        self.tell(Input::Opened(Box::new(app::Opened {
            session: self.store.id().to_string(),
            model: self.session.model().clone(),
            mode: settings.permissions.mode,
            may_bypass: settings.permissions.may_bypass,
            context: self.session.transcript().context_tokens(),
            messages: self.session.transcript().messages().len(),
            facts: self.facts().map(Box::new),
        })));
    }

    /// What the user's status line is told of the session, where there is one.
    fn facts(&self) -> Option<Facts> {
        let config = &self.workshop.config;
        config.conversation.status_line.as_ref()?;
        let mut facts = Facts {
            session_id: self.store.uuid().to_owned(),
            transcript_path: assemble::transcript(&self.store, config),
            cwd: config.environment.cwd().to_owned(),
            project: config.project_root.clone(),
            added: { config.directories.iter() }
                .map(|folder| folder.value.clone())
                .collect(),
            ..Facts::default()
        };
        let messages = self.session.transcript().messages().iter();
        facts.sums.count(messages.map(|message| &**message));
        Some(facts)
    }

    async fn prompt(&mut self, text: &str, images: Vec<Image>) -> Result<(), Error> {
        let workshop = &self.workshop;
        let expanded = expand(
            text,
            None,
            &workshop.skills,
            &workshop.config,
            &workshop.probe,
        )
        .await;
        let ending = match expanded {
            Ok(expanded) => {
                expanded
                    .warnings
                    .iter()
                    .for_each(|warning| crate::warn(warning));
                let mut text = self.shared.concat();
                text.push_str(&expanded.text);
                let blocks = pictures::blocks(text, images, &workshop.config.environment);
                match blocks.map_err(Error::failure) {
                    Ok(blocks) => self.run_with(&expanded, blocks).await?,
                    Err(error) => Ending::Failed(error.message, error.hint),
                }
            }
            Err(error) => Ending::Failed(error.message, error.hint),
        };
        self.introduce();
        self.tell(Input::Ended(ending));
        Ok(())
    }

    async fn take_mail(&mut self) -> Result<(), Error> {
        let ran = self.run(async |session, stop| session.run_mail(stop).await);
        let ending = ran.await?;
        self.introduce();
        self.tell(Input::Ended(ending));
        Ok(())
    }

    async fn compact(&mut self, wanted: &str) -> Result<(), Error> {
        let wanted = Some(wanted).filter(|wanted| !wanted.is_empty());
        let ending = self
            .run(async |session, stop| session.compact_all(wanted, stop).await.map(Some))
            .await?;
        self.introduce();
        self.tell(Input::Ended(ending));
        Ok(())
    }

    /// Runs a prompt under what it says of its run.
    async fn run_with(
        &mut self,
        expanded: &Expanded,
        blocks: Vec<ContentBlock>,
    ) -> Result<Ending, Error> {
        let lent = match self.lend(expanded) {
            Ok(lent) => lent,
            Err(error) => return Ok(Ending::Failed(error.message, error.hint)),
        };
        self.shared.clear();
        let run = self.run(async |session, stop| session.run(blocks, stop).await.map(Some));
        let ending = run.await;
        self.take_back(lent);
        ending
    }

    /// Has a prompt's own model answer, and allows what it says, for its run: a command may say so.
    fn lend(&mut self, expanded: &Expanded) -> Result<Lent, Error> {
        let Workshop { config, models, .. } = &self.workshop;
        let (applied, warnings) = expanded.applied_to(config);
        warnings.iter().for_each(|warning| crate::warn(warning));
        let mut lent = Lent::default();
        if applied.model != config.model {
            let own = models
                .connect(Some(&applied.model.value))
                .map_err(|error| Error::failure(error.to_string()))?;
            self.tell(Input::Model(own.model().clone()));
            lent.model = Some((own.clone(), self.session.provider()));
            self.session.controls().request(SessionChange::Model(own));
        }
        lent.rules = self.session.grant(applied.permissions().allow);
        Ok(lent)
    }

    /// What held before holds again, unless another model was chosen meanwhile.
    fn take_back(&mut self, lent: Lent) {
        self.session.take_changes();
        self.session.revoke(&lent.rules);
        if let Some((own, former)) = lent.model
            && Arc::ptr_eq(&self.session.provider(), &own)
        {
            self.session
                .controls()
                .request(SessionChange::Model(former));
            self.session.take_changes();
        }
    }

    /// Runs a command of the user's own, which may do what they may. What the model is told of it goes with the next
    /// prompt.
    async fn shell(&mut self, command: &str, is_told: bool) -> Result<(), Error> {
        let stop = self.stop.child_token();
        let aside = self.aside(Some(stop.clone()));
        let ran = bang::run(command, &self.workshop.config, &stop);
        let ran = beside(ran, &mut self.tasks, &mut self.later, &aside).await?;
        let ending = match ran {
            Ok(output) => {
                self.tell(Input::Written(format!(
                    "{}\n",
                    crate::print::neutralise(&output).trim_end()
                )));
                if is_told {
                    self.shared.push(bang::told(command, &output));
                }
                Ending::Well
            }
            Err(fault) => Ending::Failed(fault, None),
        };
        self.tell(Input::Ended(ending));
        Ok(())
    }

    async fn changes(&self) -> Result<(), Error> {
        let Workshop { config, link, .. } = &self.workshop;
        let text = rewind::changes(&self.session.files(), config, link).await?;
        self.tell(Input::Written(text));
        Ok(())
    }

    /// Gives files back as they were. The model, which may have read them since, is told with the next prompt.
    async fn rewind(&mut self, way: Way) -> Result<(), Error> {
        let stop = self.stop.child_token();
        let aside = self.aside(Some(stop.clone()));
        let files = self.session.files();
        let Workshop { config, link, .. } = &self.workshop;
        let went = async {
            tokio::select! {
                () = stop.cancelled() => Ok(None),
                went = rewind::go(&files, way, config, link) => went,
            }
        };
        let ending = match beside(went, &mut self.tasks, &mut self.later, &aside).await? {
            Ok(told) => {
                self.shared.extend(told);
                Ending::Well
            }
            Err(error) => Ending::Failed(error.message, error.hint),
        };
        self.tell(Input::Ended(ending));
        Ok(())
    }

    fn tell_failure(&self, done: Result<(), Error>) {
        if let Err(error) = done {
            crate::warn(&error.message);
        }
    }

    async fn list(&self, subject: Subject) -> Result<(), Error> {
        let config = &self.workshop.config;
        let picker = match subject {
            Subject::History => return Ok(()),
            Subject::Session => choices::sessions(config, SystemClock::default().now())?,
            Subject::Message => choices::messages(&self.store.read(Tree::heads).await?),
            Subject::Model => choices::models(config)?,
        };
        self.tell(Input::Pick(picker));
        Ok(())
    }

    fn told(&self, about: About) -> Result<(), Error> {
        let workshop = &self.workshop;
        let (prompt, _) = system_prompt(
            &workshop.config,
            self.session.tools().specs(),
            &workshop.skills,
        )?;
        let text = tell::text(about, &self.session, &prompt, &workshop.skills);
        self.tell(Input::Written(text));
        Ok(())
    }

    async fn export(&self, path: &str) -> Result<(), Error> {
        let id = self.store.id().to_string();
        let name = match path {
            "" => format!("session-{id}.md"),
            path => path.to_owned(),
        };
        let path = self.workshop.config.environment.cwd().join(name);
        let page = self
            .store
            .read(move |tree| {
                let current = tree.current()?;
                let messages = current.map(|current| tree.branch(&current)).transpose()?;
                let name = tree.name()?.unwrap_or_else(|| format!("Session {id}"));
                Ok(document::markdown(&name, &messages.unwrap_or_default()))
            })
            .await?;
        let page = self.workshop.config.environment.redact(&page).into_owned();
        let shown = path.display();
        let mut file = std::fs::File::create_new(&path)
            .map_err(|error| Error::failure(format!("cannot write `{shown}`: {error}")))?;
        std::io::Write::write_all(&mut file, page.as_bytes())
            .map_err(|error| Error::failure(format!("cannot write `{shown}`: {error}")))?;
        crate::note(&format!("written to `{shown}`"));
        Ok(())
    }

    /// Goes on in another session. Where it cannot be opened, the present one stays.
    async fn open(&mut self, choice: SessionChoice, fork: bool) -> Result<(), Error> {
        let plan = SessionPlan {
            choice,
            fork,
            ..SessionPlan::default()
        };
        let ending = match self.workshop.open(&plan, None).await {
            Ok(Opened { session, store, .. }) => {
                let former = std::mem::replace(&mut self.session, session);
                let kept = std::mem::replace(&mut self.store, store);
                let is_empty = former.transcript().last().is_none();
                former.close("other").await?;
                if is_empty {
                    discard(kept, &self.workshop.config);
                }
                self.introduce();
                self.tell_what_was_said();
                Ending::Well
            }
            Err(error) => Ending::Failed(error.message, error.hint),
        };
        self.tell(Input::Ended(ending));
        Ok(())
    }

    /// Tells what was said last in the session that is open now.
    fn tell_what_was_said(&self) {
        let form = match &self.workshop.link {
            link if link.is_drawn => Form::Drawn(Terminal::size().0, link.palette()),
            _ => Form::Plain,
        };
        let id = self.store.id().to_string();
        let text = recall::text(&id, self.session.transcript().messages(), form);
        self.tell(Input::Written(text));
    }

    /// Goes on from an earlier message, on a branch of its own.
    async fn go_to(&mut self, message: String) -> Result<(), Error> {
        self.store
            .checkout(MessageId::from(message.as_str()))
            .await?;
        self.session.reload().await?;
        self.introduce();
        self.tell_what_was_said();
        self.tell(Input::Ended(Ending::Well));
        Ok(())
    }

    /// Has the session do something that can be stopped, and takes up meanwhile what concerns it.
    async fn run(
        &mut self,
        work: impl AsyncFnOnce(&mut Session, &Stop) -> Result<Option<RunOutcome>, StoreError>,
    ) -> Result<Ending, Error> {
        self.session.take_changes();
        let token = self.stop.child_token();
        let stop = Stop::interrupt(token.clone());
        let aside = self.aside(Some(token));
        let run = work(&mut self.session, &stop);
        let outcome = beside(run, &mut self.tasks, &mut self.later, &aside).await?;
        tell_notices(&self.store).await;
        let Some(outcome) = outcome? else {
            return Ok(Ending::Well);
        };
        Ok(match (&outcome.failure, &outcome.reason) {
            (Some(failure), _) => Ending::Failed(failure.to_string(), failure.hint()),
            (None, ExitReason::Interrupted) => Ending::Interrupted,
            (None, _) => Ending::Well,
        })
    }

    /// What is done beside a run, which `run` stops.
    fn aside(&self, run: Option<CancellationToken>) -> Aside {
        Aside {
            store: self.store.clone(),
            controls: self.session.controls(),
            config: self.workshop.config.clone(),
            inputs: self.workshop.link.inputs.clone(),
            models: self.workshop.models.clone(),
            run,
        }
    }
}

/// What holds for the run of one prompt.
#[derive(Default)]
struct Lent {
    /// The model that answers, and the one that did.
    model: Option<(Arc<dyn Provider>, Arc<dyn Provider>)>,
    /// Calls that are allowed.
    rules: Vec<Rule>,
}

/// A session to which nobody has said anything leaves nothing behind.
fn discard(store: Arc<SessionStore>, config: &Config) {
    let paths = ah_store::Paths::of(store.path());
    drop(store);
    // Where it cannot be removed it is in nobody's way, and `ah gc` does it.
    let _ = sessions(config).remove(&paths);
}
