//! Opens sessions for the conversation, all with the same configuration, models and terminal.

use std::sync::Arc;

use ah_agent::Audience;
use ah_agent::skills::Skills;
use ah_config::{Config, Error};
use ah_conversation::Models;
use ah_engine::assemble::{HostExtensions, SessionInputs};
use ah_engine::confinement::SandboxProbe;
use ah_engine::plan::SessionPlan;
use ah_engine::warn::Warn;
use ah_engine::{Opened, open};

use super::frontend::Link;
use crate::print::asks;
use crate::print::text::View;
use crate::tell_notices;

/// Inputs that all sessions of the program share.
pub struct SessionFactory {
    /// The configuration.
    pub config: Config,
    /// Sandbox of commands.
    pub probe: SandboxProbe,
    /// All skills.
    pub skills: Arc<Skills>,
    /// Available models.
    pub models: Arc<dyn Models>,
    /// Receiver of warnings about models that are connected later.
    pub warn: Warn,
    /// Connection to the terminal.
    pub link: Link,
}

impl SessionFactory {
    /// Opens the session that `plan` selects.
    ///
    /// # Errors
    ///
    /// If the session cannot be opened or the model cannot be used.
    pub async fn open(&self, plan: &SessionPlan, fork_at: Option<u32>) -> Result<Opened, Error> {
        let asks = asks(&self.config, true);
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
        let audience = |session| {
            let view = View::of(session, &self.config, asks);
            Audience::of(Arc::new(self.link.frontend(View {
                is_conversation: true,
                ..view
            })))
        };
        let opened = open(plan, &self.config, fork_at, inputs, audience).await?;
        opened
            .warnings
            .iter()
            .for_each(|warning| crate::warn(warning));
        tell_notices(&opened.store).await;
        Ok(opened)
    }
}
