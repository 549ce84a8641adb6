//! `/goal`: a check says when the work of the session is done.

use ah_agent::prompt::about_check;
use ah_config::{Error, Sourced};
use ah_conversation::{Goal, NOTE, Verification, neutralise};
use ah_engine::assemble::check;
use ah_engine::conditions;

use super::super::asker::Asker;
use super::super::input::Input;
use super::{SessionWorker, failed};
use crate::print::question;

impl SessionWorker {
    /// Returns what is known about the work of the session, if a check says when it is done.
    pub(super) fn known(&self) -> Option<Verification> {
        let check = self.session.settings().check.get()?;
        let is_of_it = |known: &Verification| known.command == check.command();
        let known = self.checked.clone().filter(is_of_it);
        Some(known.unwrap_or_else(|| Verification::not_tried(check.command(), check.most())))
    }

    /// Sets the goal of the session and works for it, ends it, or says what it is.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored.
    pub(super) async fn goal(&mut self, typed: &str) -> Result<(), Error> {
        match Goal::of(typed) {
            Goal::Which => {
                let known = self.known().map(|known| known.line());
                crate::note(&known.unwrap_or_else(|| {
                    "no goal is set; `/goal WORDS --until COMMAND` works until the command passes".to_owned()
                }));
                Ok(())
            }
            Goal::Off => {
                self.factory.opening.config.check.until = None;
                self.session.set_check(None);
                self.introduce();
                crate::note("runs end when the model ends its turn");
                Ok(())
            }
            Goal::Is(words, command) => match self.check_by(&words, command).await {
                Ok(()) => self.prompt(&words, Vec::new()).await,
                Err(error) => {
                    self.tell(Input::Ended(failed(error)));
                    Ok(())
                }
            },
        }
    }

    /// Seals the files of a check, and tells the model and the terminal of it. Without a command, that of before counts.
    async fn check_by(&mut self, words: &str, command: Option<&str>) -> Result<(), Error> {
        let config = &self.factory.opening.config;
        let before = config.check.until.clone();
        let command = match command.or_else(|| config.check.command()) {
            Some(command) => command.to_owned(),
            None => self.proposed().await?,
        };
        let typed = Sourced::typed(command.clone());
        self.factory.opening.config.check.until = Some(typed);
        let is_same = self.known().is_some_and(|known| known.command == command);
        if is_same {
            return Ok(());
        }
        let opening = &self.factory.opening;
        let mut told = None;
        let made = check::of(
            &opening.config,
            opening.probe.status(),
            &self.recorded_to,
            &self.store,
            &mut told,
        )
        .await;
        told.iter().for_each(|text| crate::note(text));
        match made {
            Ok(made) => self.session.set_check(made),
            Err(error) => {
                self.factory.opening.config.check.until = before;
                return Err(error);
            }
        }
        if !words.is_empty() {
            self.shared
                .push(format!("{NOTE} {}", about_check(&command)));
        }
        self.introduce();
        Ok(())
    }

    /// Asks whether what the project has is to be the check.
    async fn proposed(&self) -> Result<String, Error> {
        let found = conditions::of(&self.factory.opening.config.project_root);
        let none = || {
            let hint = "`/goal WORDS --until COMMAND`, for example `--until 'make test'`";
            Error::failure("a goal needs a check").hint(hint)
        };
        if found.is_empty() {
            return Err(none());
        }
        let command = conditions::joined(&found);
        let sources = { found.iter() }.map(|it| format!("{}: {}", it.source, it.command));
        let body = neutralise(&sources.collect::<Vec<_>>().join("\n")).into_owned();
        let mut asker = Asker::open(&self.factory.link.inputs);
        let _closer = asker.closer();
        let asked = tokio::task::spawn_blocking(move || {
            let head = "The goal needs a check. This project has:";
            question::confirm(
                head,
                &body,
                "Work until all of it passes? (y/n) ",
                &mut asker,
            )
        });
        match asked.await {
            Ok(Ok(true)) => Ok(command),
            _ => Err(none()),
        }
    }
}
