//! Git worktrees for subagents: each has a checkout, tools that work in it, and a sandbox around it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_agent::skills::Skills;
use ah_agent::{Isolation, OwnPlace};
use ah_config::{Config, Error};
use ah_conversation::{CheckInForce, Tool};
use ah_store::SessionStore;
use ah_tools::Web;
use async_trait::async_trait;

use super::tools::{Sources, layered};
use crate::assemble::recorded_check::RecordedTo;
use crate::confinement::SandboxProbe;
use crate::prompt::instructions::surroundings;
use crate::sessions::worktrees::{Left, Used, Worktrees};

/// Makes worktrees of the session's repository.
pub struct InWorktrees {
    config: Config,
    /// The store that keeps whole outputs.
    store: Arc<SessionStore>,
    skills: Arc<Skills>,
    web: Web,
}

/// A worktree, with the tools that work in it.
struct InWorktree {
    used: Used,
    folder: PathBuf,
    tools: Vec<Arc<dyn Tool>>,
    context: (String, String),
}

impl InWorktrees {
    /// Returns the port of a session with this configuration, store, skills and access to the web.
    pub fn of(
        config: &Config,
        store: &Arc<SessionStore>,
        skills: &Arc<Skills>,
        web: &Web,
    ) -> Box<dyn Isolation> {
        Box::new(Self {
            config: config.clone(),
            store: store.clone(),
            skills: skills.clone(),
            web: web.clone(),
        })
    }

    async fn make(&self) -> Result<InWorktree, Error> {
        let trees = Worktrees::find(&self.config).await?;
        let used = trees.enter(None).await?;
        let folder = used.path();
        let mut config = self.config.clone();
        config.environment = config.environment.within(folder.clone());
        config.project_root.clone_from(&folder);
        // What it warns of was told when the session began.
        let probe = SandboxProbe::begin(&config, &mut Vec::new())?;
        let wait = tokio::task::spawn_blocking(move || {
            probe.status();
            probe
        });
        let probe = wait
            .await
            .map_err(|error| Error::failure(error.to_string()))?;
        let sources = Sources {
            sandbox: probe.status(),
            recorded_to: &RecordedTo::default(),
            store: self.store.clone(),
            skills: &self.skills,
            active: None,
            has_person: false,
            web: self.web.clone(),
            check: CheckInForce::default(),
            subagents: None,
        };
        let (tools, _) = layered(sources, &config).await;
        let context = surroundings(&config, &probe.status().summary());
        Ok(InWorktree {
            used,
            folder,
            tools: tools.iter().map(|known| known.tool.clone()).collect(),
            context,
        })
    }
}

#[async_trait]
impl Isolation for InWorktrees {
    async fn enter(&self) -> Result<Box<dyn OwnPlace>, String> {
        let made = self.make().await;
        let place = made.map_err(|error| format!("cannot make a worktree: {}", error.message))?;
        Ok(Box::new(place))
    }
}

#[async_trait]
impl OwnPlace for InWorktree {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }

    fn context(&self) -> (String, String) {
        self.context.clone()
    }

    async fn leave(self: Box<Self>) -> Option<String> {
        let Self {
            used,
            folder,
            tools,
            ..
        } = *self;
        // Commands that still run in the folder end with the tools. What they have left is moved aside before git looks.
        drop(tools);
        let _ = tokio::task::spawn_blocking(ah_process::finish_stopped).await;
        match used.leave().await {
            Ok(Left::Removed) => None,
            Ok(Left::Kept(tree)) => {
                let branch = tree.branch.as_deref().unwrap_or("no branch");
                let (path, state) = (tree.path.display(), tree.state());
                Some(format!(
                    "[Its changes are in the git worktree {path}, on {branch}: {state}.]"
                ))
            }
            Ok(Left::InUse) | Err(_) => Some(format!(
                "[It worked in the git worktree {}.]",
                folder.display()
            )),
        }
    }
}
