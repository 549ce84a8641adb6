//! What a process in the background has to know to continue the conversation.

use super::super::HandOver;
use super::super::effect::Task;
use super::super::input::{Ending, Input};
use super::super::lent::Lent;
use super::SessionWorker;

impl SessionWorker {
    /// Returns whether no other process can open the session: it is not stored, or not with those of the folder.
    pub(super) fn is_bound(&self) -> bool {
        let folder = self.factory.opening.config.session_folder().path;
        !self.store.path().starts_with(folder)
    }

    /// Tells how a run has ended. One that was left is for a process in the background, with the model that was lent for it and what is
    /// queued at the terminal.
    pub(super) async fn run_ended(&mut self, ending: Ending, lent: &Lent) {
        self.introduce();
        let is_left = ending == Ending::Left;
        self.tell(Input::Ended(ending));
        if is_left {
            let queued = self.queued().await;
            self.hand_over(None, lent, queued);
        }
    }

    /// Returns what is queued at the terminal, which says it once it knows that the run is left.
    async fn queued(&mut self) -> Vec<String> {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return Vec::new(),
                task = self.tasks.recv() => match task {
                    Some(Task::Queued(texts)) => return texts,
                    Some(_) => {}
                    None => return Vec::new(),
                },
            }
        }
    }

    /// Leaves the session to a process in the background: the run that was left, or a prompt.
    pub(super) fn hand_over(&mut self, prompt: Option<String>, lent: &Lent, queued: Vec<String>) {
        self.session.take_changes();
        let config = &self.factory.opening.config;
        let permissions = &self.session.settings().permissions;
        let configured = config.permissions();
        let is_new = |rule: &&_| !configured.allow.contains(rule);
        let rules = permissions.allow.iter().filter(is_new);
        let given = |folder: &&_| !config.directories.iter().any(|it| it.value == **folder);
        let folders = permissions.directories.iter().filter(given);
        // What commands of the user have printed is for the next prompt.
        let shared = std::mem::take(&mut self.shared).into_iter();
        self.left = Some(HandOver {
            session: None,
            prompt: prompt.map(|prompt| shared.chain([prompt]).collect::<Vec<_>>().join("\n\n")),
            mode: permissions.mode,
            before_plan: permissions.before_plan,
            rules: rules.map(ToString::to_string).collect(),
            folders: folders.cloned().collect(),
            effort: config.requests.effort.as_ref().map(|effort| effort.value),
            lent_model: lent.model.as_ref().map(|model| model.name.clone()),
            queued,
        });
    }
}
