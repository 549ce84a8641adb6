//! What the output of a run needs to know of its session.

use std::path::PathBuf;
use std::sync::Arc;

use ah_config::{Config, Keeping};
use ah_conversation::{Model, ToolSpec};
use ah_engine::assemble::SessionView;

/// Facts of a session that its output needs.
pub struct View {
    /// Whether the work is shown as it goes on, each text as it arrives. Otherwise only the last answer is.
    pub shows_work: bool,
    /// The model, for its context window.
    pub model: Model,
    /// The tools, for the key arguments of their calls.
    pub tools: Arc<[ToolSpec]>,
    /// Paths are shown relative to this folder.
    pub cwd: PathBuf,
    /// The session's id, of which the beginning is shown.
    pub session: Option<String>,
    /// Name of the run in the log of a GitHub workflow; `None` outside of one.
    pub group: Option<String>,
    /// Place of permanent permissions, if a person can be asked.
    pub asks: Option<Keeping>,
    /// Whether the person can type commands beside the run.
    pub is_conversation: bool,
    /// The command that opens the session from here, if another process has it open: commands about its outputs do not
    /// work here.
    pub elsewhere: Option<String>,
}

impl View {
    /// Returns the view of a session; `asks` is the place of permanent permissions, if a person can be asked.
    pub fn of(session: SessionView, config: &Config, asks: Option<Keeping>) -> Self {
        let is_on_github = config.environment.get("GITHUB_ACTIONS") == Some("true");
        let skill = config.run.prompt.skill.clone();
        Self {
            shows_work: session.interface.shows_work(),
            model: session.model,
            tools: session.tools,
            cwd: session.cwd,
            session: Some(session.session),
            group: skill.filter(|_| is_on_github),
            asks,
            is_conversation: false,
            elsewhere: None,
        }
    }
}
