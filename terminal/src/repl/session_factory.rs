//! Opens sessions for the conversation, all with the same configuration, models and terminal.

use std::sync::Arc;

use ah_agent::Audience;
use ah_config::Error;
use ah_conversation::Models;
use ah_engine::assemble::SessionInputs;
use ah_engine::sessions::plan::SessionPlan;
use ah_engine::warn::Warn;
use ah_engine::{Opened, Opening};

use super::frontend::Link;
use crate::print::asks;
use crate::print::text::View;
use crate::tell_notices;

/// Inputs that all sessions of the program share.
pub struct SessionFactory {
    /// The configuration, the sandbox of commands and the skills.
    pub opening: Opening,
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
        let config = &self.opening.config;
        let asks = asks(config, true);
        let inputs = SessionInputs {
            has_person: asks.is_some(),
            ..self.opening.inputs(self.warn.clone())
        };
        let audience = |session| {
            let view = View::of(session, config, asks);
            Audience::of(Arc::new(self.link.frontend(View {
                is_conversation: true,
                ..view
            })))
        };
        let opened = self.opening.open(plan, fork_at, inputs, audience).await?;
        opened
            .warnings
            .iter()
            .for_each(|warning| crate::warn(warning));
        tell_notices(&opened.store).await;
        Ok(opened)
    }
}
