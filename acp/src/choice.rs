//! Permission modes and models as an editor offers them. Pure.

use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};
use ah_conversation::PermissionMode;

use ah_desk::Offered;

/// Id of the option for the permission mode.
pub(crate) const MODE: &str = "mode";
/// Id of the option for the model.
pub(crate) const MODEL: &str = "model";
/// Id of the option for prompts during a run.
pub(crate) const BUSY: &str = "busy";

/// What becomes of a prompt during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Busy {
    /// It is the next prompt, once the run has ended.
    #[default]
    Queue,
    /// The run takes it before its next step.
    Steer,
}

impl Busy {
    /// Returns the choice with this id.
    pub(crate) fn of(id: &str) -> Option<Self> {
        [Self::Queue, Self::Steer]
            .into_iter()
            .find(|busy| busy.id() == id)
    }

    fn id(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Steer => "steer",
        }
    }
}

/// What can be chosen in a session, and what is.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    /// The permission mode.
    pub(crate) mode: PermissionMode,
    /// Whether a sandbox confines the session, so that mode `sandboxed` may be chosen.
    pub(crate) is_sandboxed: bool,
    /// Whether mode `bypassPermissions` may be chosen.
    pub(crate) may_bypass: bool,
    /// The models that are offered.
    pub(crate) offered: Vec<Offered>,
    /// Full name of the model that the session began with.
    pub(crate) first: String,
    /// Full name of the model.
    pub(crate) model: String,
    /// What becomes of prompts during a run.
    pub(crate) busy: Busy,
}

impl Choices {
    /// Returns the modes that may be chosen, the current one among them.
    fn modes(&self) -> impl Iterator<Item = PermissionMode> {
        PermissionMode::offered(self.mode, self.is_sandboxed, self.may_bypass)
    }

    /// Returns the mode with this id, if it may be chosen.
    pub(crate) fn mode_of(&self, id: &str) -> Option<PermissionMode> {
        self.modes().find(|mode| mode.as_str() == id)
    }

    /// Whether a model is offered under this name.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.first == name || self.offered.iter().any(|offered| offered.alias == name)
    }

    /// Returns the modes in the protocol's form.
    pub(crate) fn mode_state(&self) -> SessionModeState {
        let modes = self.modes().map(|mode| {
            let (name, description) = words(mode);
            SessionMode::new(mode.as_str(), name).description(description.to_owned())
        });
        SessionModeState::new(self.mode.as_str(), modes.collect())
    }

    /// Returns what can be chosen as options of the session.
    pub(crate) fn options(&self) -> Vec<SessionConfigOption> {
        let modes: Vec<_> = self
            .modes()
            .map(|mode| {
                let (name, description) = words(mode);
                SessionConfigSelectOption::new(mode.as_str(), name)
                    .description(description.to_owned())
            })
            .collect();
        let known = |name: &str| self.offered.iter().find(|it| it.name == name);
        let current = known(&self.model).map_or(&self.model, |known| &known.alias);
        let first = known(&self.first)
            .is_none()
            .then(|| SessionConfigSelectOption::new(self.first.clone(), self.first.clone()));
        let others = self.offered.iter().map(|offered| {
            SessionConfigSelectOption::new(offered.alias.clone(), offered.alias.clone())
                .description(offered.name.clone())
        });
        let models: Vec<_> = first.into_iter().chain(others).collect();
        let busy = [
            (
                Busy::Queue,
                "Queue",
                "Prompts during a run wait for its end",
            ),
            (
                Busy::Steer,
                "Steer",
                "The run takes prompts before its next step",
            ),
        ];
        let busy = busy.map(|(busy, name, description)| {
            SessionConfigSelectOption::new(busy.id(), name).description(description.to_owned())
        });
        vec![
            SessionConfigOption::select(MODE, "Permissions", self.mode.as_str(), modes)
                .category(SessionConfigOptionCategory::Mode),
            SessionConfigOption::select(MODEL, "Model", current.clone(), models)
                .category(SessionConfigOptionCategory::Model),
            SessionConfigOption::select(BUSY, "During a run", self.busy.id(), busy.to_vec()),
        ]
    }
}

/// Returns the name of a mode and what it means.
fn words(mode: PermissionMode) -> (&'static str, &'static str) {
    match mode {
        PermissionMode::Default => ("Ask", "Asks before edits and other changes"),
        PermissionMode::Sandboxed => (
            "Sandboxed",
            "Runs commands and edits in the sandbox without asking",
        ),
        PermissionMode::AcceptEdits => {
            ("Accept edits", "Edits files of the project without asking")
        }
        PermissionMode::Plan => ("Plan", "Reads only, and presents a plan"),
        PermissionMode::DontAsk => ("Don't ask", "Denies calls that would need permission"),
        PermissionMode::Delegate => ("Delegate", "Only starts subagents"),
        PermissionMode::BypassPermissions => ("Bypass permissions", "Allows everything"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(mode: PermissionMode, may_bypass: bool) -> Choices {
        Choices {
            mode,
            is_sandboxed: false,
            may_bypass,
            offered: vec![Offered {
                alias: "fast".to_owned(),
                name: "fast-1".to_owned(),
                ..Offered::default()
            }],
            first: "other-2".to_owned(),
            model: "fast-1".to_owned(),
            busy: Busy::Queue,
        }
    }

    fn ids(choices: &Choices) -> Vec<String> {
        let modes = choices.mode_state().available_modes.into_iter();
        modes.map(|mode| mode.id.to_string()).collect()
    }

    #[test]
    fn asking_is_not_being_sandboxed() {
        let sandboxed = Choices {
            is_sandboxed: true,
            ..choices(PermissionMode::Sandboxed, false)
        };
        assert_eq!(
            ids(&sandboxed),
            ["default", "sandboxed", "acceptEdits", "plan"]
        );
        assert_eq!(
            sandboxed.mode_state().current_mode_id.to_string(),
            "sandboxed"
        );
    }

    #[test]
    fn bypassing_is_offered_only_to_those_who_may() {
        let usual = choices(PermissionMode::Default, false);
        assert_eq!(ids(&usual), ["default", "acceptEdits", "plan"]);
        assert_eq!(usual.mode_of("bypassPermissions"), None);
        let free = choices(PermissionMode::DontAsk, true);
        assert_eq!(
            ids(&free),
            [
                "default",
                "acceptEdits",
                "plan",
                "dontAsk",
                "bypassPermissions"
            ]
        );
    }

    #[test]
    fn the_first_model_stays_an_option_whatever_its_name() {
        let options = serde_json::to_value(choices(PermissionMode::Plan, false).options());
        let options = options.unwrap_or_default();
        assert_eq!(options[0]["currentValue"], "plan");
        assert_eq!(options[1]["currentValue"], "fast");
        assert_eq!(options[1]["options"][0]["value"], "other-2");
        assert_eq!(options[1]["options"][1]["value"], "fast");
    }
}
