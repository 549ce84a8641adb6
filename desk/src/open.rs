//! An open session, and the place that it works in.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::Session;
use ah_conversation::{
    Check, ContentBlock, Effort, Models, PermissionMode, Rule, TellSealed, Verdicts,
};
use async_trait::async_trait;

use crate::refusal::Refusal;

/// An open session.
pub struct OpenSession {
    /// The session.
    pub session: Session,
    /// Its id.
    pub id: String,
    /// Working directory.
    pub folder: PathBuf,
    /// Models to switch to.
    pub models: Arc<dyn Models>,
    /// The models that are offered by name.
    pub offered: Vec<Offered>,
    /// Commands and skills that a prompt may begin with.
    pub commands: Vec<Command>,
    /// The place that it works in.
    pub place: Arc<dyn Place>,
}

/// The place that a session works in: its folder, its settings and its store.
#[async_trait]
pub trait Place: Send + Sync {
    /// Returns the content of a prompt: its commands, skills and files expanded.
    ///
    /// # Errors
    ///
    /// If something that it names cannot be read.
    async fn content(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal>;

    /// Returns the text of a prompt with its commands and skills expanded, and what they bring along for its run.
    ///
    /// # Errors
    ///
    /// If something that it names cannot be read.
    async fn expand(&self, typed: &str) -> Result<ExpandedPrompt, Refusal>;

    /// Seals the files of a check of the session (`/goal`); `tell` is told which. Without a command, it is that of the settings.
    /// `mode` is that of the session.
    ///
    /// # Errors
    ///
    /// If there is none, the settings have another one, the rules do not let it run, or it cannot be sealed or confined.
    async fn check(
        &self,
        command: Option<&str>,
        mode: PermissionMode,
        tell: TellSealed<'_>,
    ) -> Result<Arc<dyn Check>, Refusal>;

    /// Lets the session go on without its check (`/goal off`).
    ///
    /// # Errors
    ///
    /// If it is that of the settings, or was given when the program was started.
    fn end_check(&self) -> Result<(), Refusal>;

    /// Gives the session a name.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    async fn rename(&self, name: &str) -> Result<(), Refusal>;

    /// Records that the session continues with this model.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    async fn keep_model(&self, name: &str) -> Result<(), Refusal>;

    /// Records that this permission mode was chosen. A session that is opened later begins with it if it allows less than the
    /// settings: what is stored could be somebody else's.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    async fn keep_mode(&self, mode: PermissionMode) -> Result<(), Refusal>;

    /// Queues a message that a run takes before its next step.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    fn send(&self, message: &str) -> Result<(), Refusal>;

    /// Returns what the checks of runs have shown at their ends; nothing if that cannot be read.
    async fn verdicts(&self) -> Verdicts;

    /// Returns commands that are known only some time after the session was opened: prompts of its servers.
    async fn more_commands(&self) -> Vec<Command>;

    /// Gives the stored session up. One without messages stays as well: the client knows its id.
    async fn leave(&self);
}

/// A prompt of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// What was typed. A file of the project is named as `@PATH`.
    pub text: String,
    /// Contents that the client has attached, each as a text of its own.
    pub attached: Vec<String>,
    /// Pictures as Base64, not checked yet.
    pub pictures: Vec<String>,
    /// Whether a program or a model has written it, so that nothing in it is a command or is expanded.
    pub is_verbatim: bool,
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// The text of a prompt with what its command brings along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpandedPrompt {
    /// The text for the model.
    pub text: String,
    /// Rules for calls that need no question during its run.
    pub allow: Vec<Rule>,
    /// The model of its run.
    pub model: Option<String>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// A command or a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its arguments, if it has any.
    pub hint: Option<String>,
}

/// A model that is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    /// The short name by which it is chosen.
    pub alias: String,
    /// Its full name.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Description.
    pub description: String,
    /// Effort levels that it supports.
    pub efforts: Vec<Effort>,
}

/// What can be chosen for a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choices {
    /// The model of the settings, by its full name.
    pub model: String,
    /// The models that are offered by name.
    pub models: Vec<Offered>,
    /// The permission mode of the settings; `None` if it depends on the sandbox.
    pub mode: Option<PermissionMode>,
    /// The permission modes that may be chosen.
    pub modes: Vec<PermissionMode>,
}
