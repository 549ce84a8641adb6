//! What a process in the background has to know to continue the conversation.

use super::super::HandOver;
use super::SessionWorker;

impl SessionWorker {
    /// Leaves the session to a process in the background: the run that was left, or a prompt.
    pub(super) fn hand_over(&mut self, prompt: Option<String>) {
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
            rules: rules.map(ToString::to_string).collect(),
            folders: folders.cloned().collect(),
            effort: config.requests.effort.as_ref().map(|effort| effort.value),
        });
    }
}
