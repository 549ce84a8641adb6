//! What is done beside the conversation: commands of the user's, side questions, changes to files and back.

use ah_agent::Leaving;
use ah_config::Error;
use ah_conversation::LiveOutput;
use tokio_util::sync::CancellationToken;

use super::super::activity::RunningTool;
use super::super::input::{Ending, Input};
use super::super::session_factory::SessionFactory;
use super::super::side_tasks::{SideTasks, run_beside};
use super::super::{bang, rewind};
use super::SessionWorker;
use crate::undo::Direction;

impl SessionWorker {
    /// Asks a side question, which can be stopped.
    pub(super) async fn aside(&mut self, question: String) -> Result<(), Error> {
        let stop = self.stop.child_token();
        let mut side_tasks = self.side_tasks(Some(stop.clone()));
        let asking = side_tasks.side_question(question).ask();
        let asking = stop.run_until_cancelled(asking);
        let asked = run_beside(asking, &mut self.tasks, &mut self.later, &mut side_tasks).await?;
        self.tell(Input::Ended(match asked {
            Some(Ok(())) => Ending::Well,
            Some(Err(error)) => Ending::Failed(error, None),
            None => Ending::Interrupted,
        }));
        Ok(())
    }

    /// Runs a command of the user's outside of the sandbox. If `is_shared`, the next prompt includes its output.
    pub(super) async fn shell(&mut self, command: &str, is_shared: bool) -> Result<(), Error> {
        let stop = self.stop.child_token();
        let mut side_tasks = self.side_tasks(Some(stop.clone()));
        let live = LiveOutput::default();
        let running = RunningTool::new("!".into(), "!", command, &live);
        self.tell(Input::Running(running));
        let ran = bang::run(
            command,
            live,
            &self.factory.opening.config.environment,
            &stop,
        );
        let ran = run_beside(ran, &mut self.tasks, &mut self.later, &mut side_tasks).await?;
        let ending = match ran {
            Ok(output) => {
                self.tell(Input::Output(format!(
                    "{}\n",
                    ah_conversation::neutralise(&output).trim_end()
                )));
                if is_shared {
                    self.shared.push(bang::report(command, &output));
                }
                // What was queued is not sent by whoever has stopped.
                match stop.is_cancelled() {
                    true => Ending::Interrupted,
                    false => Ending::Well,
                }
            }
            Err(error) => Ending::Failed(error, None),
        };
        self.tell(Input::Ended(ending));
        Ok(())
    }

    /// Returns the tasks that are possible during a run; cancelling `run` stops that.
    pub(super) fn side_tasks(&mut self, run: Option<CancellationToken>) -> SideTasks {
        // A side question is for a model that was chosen a moment ago.
        self.session.take_changes();
        let most = self.session.settings().limits.max_budget;
        SideTasks {
            store: self.store.clone(),
            controls: self.session.controls(),
            config: self.factory.opening.config.clone(),
            link: self.factory.link.clone(),
            questions: self.session.side_questions(),
            asking: self.asking.clone(),
            most: most.map(|most| self.factory.link.totals().cost + most),
            models: self.factory.models.clone(),
            servers: self.session.tools().servers().cloned(),
            tasks: self.session.tools().tasks(),
            run,
            leaving: Leaving::default(),
        }
    }

    pub(super) async fn changes(&self) -> Result<(), Error> {
        let SessionFactory { opening, link, .. } = &self.factory;
        let config = &opening.config;
        let place = (&config.environment, &*config.project_root);
        let text = rewind::changes(&self.session.files(), place, link).await?;
        self.tell(Input::Written(text));
        Ok(())
    }

    /// Undoes or redoes file changes. The next prompt informs the model, since it may have read the files.
    pub(super) async fn rewind(&mut self, direction: Direction) -> Result<(), Error> {
        let stop = self.stop.child_token();
        let mut side_tasks = self.side_tasks(Some(stop.clone()));
        let files = self.session.files();
        let SessionFactory { opening, link, .. } = &self.factory;
        let config = &opening.config;
        let rewind = rewind::go(&files, direction, config, link, &stop);
        let ending =
            match run_beside(rewind, &mut self.tasks, &mut self.later, &mut side_tasks).await? {
                Ok(note) => {
                    // The files are others than those that were checked.
                    self.checked.take_if(|_| note.is_some());
                    self.introduce();
                    self.shared.extend(note);
                    Ending::Well
                }
                Err(error) => Ending::Failed(error.message, error.hint),
            };
        self.tell(Input::Ended(ending));
        Ok(())
    }
}
