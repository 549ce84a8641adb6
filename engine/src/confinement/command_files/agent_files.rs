//! The journal as one agent's commands and their agent see it.

use std::path::Path;
use std::sync::Arc;

use ah_agent::{AGENT, CommandFiles, Conflict, SeenFiles};
use ah_conversation::MessageId;
use ah_sandbox::{Recorder, Recorders, UpcomingChange};

use super::CommandJournal;
use super::agents::Agent;

/// The files of one agent's commands, of all that work on a project.
pub struct AgentFiles {
    journal: Arc<CommandJournal>,
    agent: Agent,
}

/// Told of the changes by a command.
struct CommandRecorder {
    journal: Arc<CommandJournal>,
    agent: Agent,
    number: u64,
}

impl AgentFiles {
    /// Returns the files of the main agent's commands.
    pub fn of_main(journal: Arc<CommandJournal>) -> Self {
        Self {
            journal,
            agent: None,
        }
    }
}

impl Recorders for AgentFiles {
    fn of_command(&self, environment: &[(String, String)]) -> Arc<dyn Recorder> {
        let mut variables = environment.iter();
        let agent = variables.find(|(name, _)| name == AGENT);
        Arc::new(CommandRecorder {
            journal: self.journal.clone(),
            agent: agent.map(|(_, id)| id.clone()),
            number: self.journal.state.lock().next_command(),
        })
    }
}

impl Recorder for CommandRecorder {
    fn ended(&self) {
        if let Some(changed) = self.journal.state.lock().changed.get_mut(&self.number) {
            changed.has_ended = true;
        }
    }

    fn covers(&self, path: &Path) -> bool {
        self.journal.covers(path)
    }

    fn is_settled(&self, path: &Path) -> bool {
        let mut journal = self.journal.state.lock();
        let is_settled =
            journal.settled.contains(path) && journal.agents.is_last(path, &self.agent);
        if is_settled {
            journal.touch();
        }
        is_settled
    }

    fn before(&self, change: UpcomingChange<'_>) {
        self.journal.change(change, &self.agent, self.number);
    }

    fn missed(&self, path: &Path, reason: &str) {
        let told = format!("{}: {reason}", path.display());
        self.journal.state.lock().miss(told);
    }
}

impl CommandFiles for AgentFiles {
    fn begin(&self, run: &MessageId) {
        self.journal.begin(run);
    }

    fn take(&self) -> SeenFiles {
        self.journal.take()
    }

    fn stored(&self) {
        self.journal.stored();
    }

    fn of_agent(&self, id: &str) -> Arc<dyn CommandFiles> {
        let mut journal = self.journal.state.lock();
        journal.agents.begin(id, self.agent.clone());
        Arc::new(Self {
            journal: self.journal.clone(),
            agent: Some(id.to_owned()),
        })
    }

    fn told(&self) {
        self.journal.state.lock().agents.tell(&self.agent);
    }

    fn wrote(&self, path: &Path) {
        self.journal.state.lock().agents.write(path, &self.agent);
    }

    fn conflicts(&self) -> Vec<Conflict> {
        self.journal.state.lock().conflicts.news(&self.agent)
    }

    fn all_conflicts(&self) -> Vec<Conflict> {
        self.journal.state.lock().conflicts.all(&self.agent)
    }
}

impl Drop for AgentFiles {
    fn drop(&mut self) {
        if let Some(id) = &self.agent {
            self.journal.state.lock().agents.end(id);
        }
    }
}
