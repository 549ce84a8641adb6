//! Tasks of a few lines each: subcommands of the program, effort, name, clipboard.

use std::sync::Arc;

use ah_agent::SessionChange;
use ah_config::{Error, Sourced};
use ah_conversation::{Effort, Head, Origin, Role, StoreError, title_of};
use ah_engine::model::Catalogued;
use ah_engine::model::absent::absent;
use ah_store::Tree;

use super::super::effect::{Lent, Task};
use super::super::facts::Totals;
use super::super::input::{Ending, Input};
use super::super::side_tasks::run_beside;
use super::super::{own, rules, title};
use super::SessionWorker;

/// Whether it is what the session begins with.
fn is_first(head: &Head) -> bool {
    head.message.origin == Origin::Prompt
}

impl SessionWorker {
    /// Counts what the session that was opened has used so far, and tells the terminal of it.
    ///
    /// # Errors
    ///
    /// If the session cannot be read.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        let mut totals = Totals::default();
        let read = |tree: &Tree| {
            let said = tree.heads()?.into_iter().find(is_first);
            Ok::<_, StoreError>((tree.name()?, said, tree.api_calls()?))
        };
        let (name, first, calls) = self.store.read(read).await?;
        self.title = name.or_else(|| first.map(|head| title_of(&head.preview, title::MOST)));
        // Other branches and subagents are paid for too.
        totals.count_calls(calls);
        for message in self.session.transcript().messages() {
            totals.note_own(message);
        }
        self.factory.link.begin(totals);
        self.introduce();
        Ok(())
    }

    /// Runs a subcommand of the program, about this session where it is about one.
    pub(super) async fn own(&mut self, arguments: Vec<String>) -> Result<(), Error> {
        let environment = self.factory.opening.config.environment.clone();
        let session = ["-r".to_owned(), self.store.id().to_string()];
        let arguments: Vec<_> = session.into_iter().chain(arguments).collect();
        let stop = self.stop.child_token();
        let mut side_tasks = self.side_tasks(Some(stop.clone()));
        let running = async {
            let ran = tokio::task::spawn_blocking(move || own::run(&arguments, &environment));
            tokio::select! {
                () = stop.cancelled() => None,
                ran = ran => Some(ran),
            }
        };
        let ran = run_beside(running, &mut self.tasks, &mut self.later, &mut side_tasks).await?;
        let ending = match ran {
            None => Ending::Interrupted,
            Some(Ok(Ok(text))) => {
                let text = ah_conversation::neutralise(&text);
                self.tell(Input::Written(format!("{}\n", text.trim_end())));
                Ending::Well
            }
            Some(Ok(Err(error))) => Ending::Failed(error, None),
            Some(Err(error)) => Ending::Failed(error.to_string(), None),
        };
        self.tell(Input::Ended(ending));
        Ok(())
    }

    /// Lets the user log in at the terminal, which this subcommand gets.
    fn log_in(&mut self, arguments: &'static [&'static str]) {
        self.kept = self.factory.opening.config.kept();
        self.tell(Input::Lend(Box::new(Lent {
            arguments,
            environment: self.factory.opening.config.environment.clone(),
            then: Task::LoggedIn,
        })));
    }

    /// Takes over what a login has kept, and uses its key and its model from now on.
    async fn logged_in(&mut self) -> Result<(), Error> {
        let chosen = self.factory.opening.config.take_login(&self.kept);
        if let Some(name) = &chosen {
            self.factory.opening.config.model = Sourced {
                value: name.clone(),
                origin: ah_config::Origin::CommandLine,
            };
        }
        self.renew_models();
        let connected = match chosen {
            Some(name) => self.side_tasks(None).perform(Task::Model(name)).await,
            None => self.connect_again().await,
        };
        self.tell_failure(connected);
        self.tell(Input::Ended(Ending::Well));
        Ok(())
    }

    /// Makes models of the configuration as it is now.
    fn renew_models(&mut self) {
        let (config, warn) = (
            self.factory.opening.config.clone(),
            self.factory.warn.clone(),
        );
        self.factory.models = Arc::new(Catalogued::new(config, warn));
    }

    /// Connects the session's model once more. One that cannot be connected is not asked with the key that is gone.
    async fn connect_again(&self) -> Result<(), Error> {
        let named = self.store.read(Tree::model).await?;
        let name = named.unwrap_or_else(|| self.factory.opening.config.model.value.clone());
        let connected = self.factory.models.connect(Some(&name));
        let (provider, failed) = match connected {
            Ok(provider) => (provider, Ok(())),
            Err(error) => {
                let failed = Err(Error::failure(error.to_string()));
                (absent(&*self.session.provider(), error), failed)
            }
        };
        self.session
            .controls()
            .request(SessionChange::Model(provider));
        failed
    }

    /// Changes the reasoning effort for later requests, or says what it is.
    pub(super) async fn effort(&mut self, wanted: &str) -> Result<(), Error> {
        let Some(effort) = Effort::ALL.into_iter().find(|it| it.as_str() == wanted) else {
            let now = self.factory.opening.config.requests.effort.as_ref();
            let now = now.map_or("the model's default", |effort| effort.value.as_str());
            let names = Effort::ALL.map(Effort::as_str).join(", ");
            crate::note(&format!(
                "the effort is {now}; /effort takes one of {names}"
            ));
            return Ok(());
        };
        self.factory.opening.config.requests.effort = Some(Sourced {
            value: effort,
            origin: ah_config::Origin::CommandLine,
        });
        self.renew_models();
        self.connect_again().await?;
        crate::note(&format!("effort: {wanted}"));
        Ok(())
    }

    /// Names the session.
    pub(super) async fn rename(&mut self, name: String) -> Result<(), Error> {
        if name.is_empty() {
            crate::note("/rename takes the new name of this session");
            return Ok(());
        }
        self.store.set_name(name.clone()).await?;
        self.title = Some(name.clone());
        self.introduce();
        crate::note(&format!(
            "Renamed. Resume with: ah -r {}",
            own::shell_word(&name)
        ));
        Ok(())
    }

    /// Copies the last answer to the clipboard.
    pub(super) fn copy(&self) {
        let messages = self.session.transcript().messages().iter().rev();
        let mut answers = messages
            .filter(|message| message.role == Role::Assistant)
            .map(|message| message.text().trim().to_owned());
        match answers.find(|text| !text.is_empty()) {
            Some(text) => self.tell(Input::Copied(text)),
            None => crate::note("there is no answer to copy yet"),
        }
    }

    /// Does one of these tasks.
    pub(super) async fn small(&mut self, task: Task) -> Result<(), Error> {
        match task {
            Task::Own(arguments) => return self.own(arguments).await,
            Task::LogIn(arguments) => self.log_in(arguments),
            Task::LoggedIn => self.logged_in().await?,
            Task::Rule(list, rule) => {
                let changed =
                    rules::change(&self.session, &self.factory.opening.config, &list, &rule);
                self.session.take_changes();
                self.tell_failure(changed);
            }
            Task::AddDirectory(path) => {
                let added = rules::add_directory(
                    &self.session.controls(),
                    &self.factory.opening.config.environment,
                    &path,
                );
                self.session.take_changes();
                self.tell_failure(added);
            }
            Task::StatusLine(command) => {
                let kept = rules::keep_status_line(&self.factory.opening.config, &command);
                self.tell_failure(kept);
            }
            Task::Effort(wanted) => {
                let changed = self.effort(&wanted).await;
                self.tell_failure(changed);
            }
            Task::Rename(name) => {
                let named = self.rename(name).await;
                self.tell_failure(named);
            }
            Task::Copy => self.copy(),
            _ => {}
        }
        Ok(())
    }
}
