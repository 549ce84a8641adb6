//! What sessions are opened with, in one recipe for all who open some: the configuration, the sandbox of its commands and
//! its skills. Sessions with the same configuration share them.

use std::sync::Arc;

use ah_agent::Audience;
use ah_agent::skills::Skills;
use ah_config::{Config, Error, extensions};

use crate::assemble::recorded_check::RecordedTo;
use crate::assemble::{HostExtensions, SessionInputs, SessionView, as_main};
use crate::confinement::SandboxProbe;
use crate::sessions::open::{Opened, open};
use crate::sessions::plan::SessionPlan;
use crate::warn::Warn;

/// What sessions are opened with.
pub struct Opening {
    /// The configuration.
    pub config: Config,
    /// The sandbox of commands, which is set up in the background.
    pub probe: Arc<SandboxProbe>,
    /// All skills.
    pub skills: Arc<Skills>,
    /// Text that the first prompt of a session begins with.
    pub first_words: Option<String>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

impl Opening {
    /// Begins to set up the sandbox, and finds the skills.
    ///
    /// # Errors
    ///
    /// If the required sandbox is unavailable.
    pub fn of(config: Config) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let probe = Arc::new(SandboxProbe::begin(&config, &mut warnings)?);
        let mut opening = Self::with(config, probe);
        opening.warnings.splice(0..0, warnings);
        Ok(opening)
    }

    /// As [`Self::of`], for a session that runs as the agent that `--agent` names, if it names one.
    ///
    /// # Errors
    ///
    /// If there is no such definition, or the required sandbox is unavailable.
    pub fn as_main(config: Config) -> Result<Self, Error> {
        let Some(main) = as_main(&config)? else {
            return Self::of(config);
        };
        Ok(Self {
            first_words: main.first_words,
            ..Self::of(main.config)?
        })
    }

    /// Finds the skills, for a sandbox that is being set up.
    pub fn with(config: Config, probe: Arc<SandboxProbe>) -> Self {
        let (skills, warnings) = extensions::skills(&config);
        Self {
            config,
            probe,
            skills: Arc::new(skills),
            first_words: None,
            warnings,
        }
    }

    /// Returns the inputs of a session in which nobody is asked, and nothing comes from its host. Waits for the sandbox.
    pub fn inputs(&self, warn: Warn) -> SessionInputs<'_> {
        SessionInputs {
            skills: &self.skills,
            active: None,
            sandbox: self.probe.status(),
            has_person: false,
            host: None,
            hooks: Vec::new(),
            extensions: HostExtensions::default(),
            recorded_to: RecordedTo::default(),
            warn,
        }
    }

    /// Opens the session that `plan` chooses, at the message with the number `fork_at` if that is given. If that fails, it
    /// leaves no new session behind, and no copy.
    ///
    /// # Errors
    ///
    /// If there is no such session or message, another process holds it, the model cannot be asked, or an option makes no
    /// sense.
    pub async fn open(
        &self,
        plan: &SessionPlan,
        fork_at: Option<u32>,
        inputs: SessionInputs<'_>,
        make_audience: impl FnOnce(SessionView) -> Audience,
    ) -> Result<Opened, Error> {
        open(plan, &self.config, fork_at, inputs, make_audience).await
    }
}
