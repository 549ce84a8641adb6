//! Help for small models: fewer tools in fewer words, shorter results, earlier summaries, and a limit for thinking. It is the
//! profile `small`, which turns itself on for a model with a small window and for one that a server on this machine runs.

use std::borrow::Cow;

use ah_config::overrides::RunOptions;
use ah_config::profile::Profile;
use ah_config::settings::tools::ToolConfig;
use ah_config::{Config, Origin, Sourced};
use ah_conversation::{CompactAt, Thinking};

use crate::model::asking;

/// Percentage of the context window that triggers a summary.
const CROWDED: u64 = 60;
/// Most thinking of one answer, in tokens, and the part of the window that it may take.
const THINKING: u64 = 2_048;
const THINKING_SHARE: u64 = 8;

/// Returns the configuration with the profile that suits its model, if none was chosen.
pub fn suited(config: &Config) -> Cow<'_, Config> {
    if config.tools.profile.is_some() || asks_for_tools(&config.run) || !is_small(config) {
        return Cow::Borrowed(config);
    }
    let mut suited = config.clone();
    suited.tools.profile = Some(Sourced {
        value: Profile::Small,
        origin: Origin::BuiltIn,
    });
    Cow::Owned(suited)
}

/// Returns what the user is told if the server leaves out all tools, since the model's chat template shows none: the model knows
/// nothing of them, and nobody else says it.
pub fn without_tools(config: &Config) -> Option<String> {
    let name = &config.model.value;
    let shows_none = asking(config, &[], |options| {
        Ok(ah_provider::shows_no_tools(name, options))
    });
    { shows_none.unwrap_or_default() }.then(|| ah_provider::abilities::shows_no_tools(name))
}

/// Returns whether a server on this machine runs the configured model.
pub fn runs_here(config: &Config) -> bool {
    let name = &config.model.value;
    asking(config, &[], |options| {
        Ok(ah_provider::runs_here(name, options))
    })
    .unwrap_or_default()
}

/// Whether the profile is on.
pub(crate) fn is_on(tools: &ToolConfig) -> bool {
    { tools.profile.as_ref() }.is_some_and(|profile| profile.value == Profile::Small)
}

/// Returns when the conversation is summarised, if no setting says it.
pub(crate) fn compact_at(tools: &ToolConfig) -> Option<CompactAt> {
    is_on(tools).then_some(CompactAt::Percent(CROWDED))
}

/// Returns the limit of thinking for a model of this window, if no setting says it.
pub(crate) fn thinking(tools: &ToolConfig, window: u64) -> Option<Thinking> {
    let budget = THINKING.min(window / THINKING_SHARE);
    is_on(tools).then(|| Thinking {
        budget: u32::try_from(budget).ok(),
        effort: None,
    })
}

/// Whether the caller names tools, or agents that need some.
fn asks_for_tools(run: &RunOptions) -> bool {
    run.tools.only.is_some() || run.prompt.agent.is_some() || !run.prompt.agents.is_empty()
}

fn is_small(config: &Config) -> bool {
    let name = &config.model.value;
    asking(config, &[], |options| {
        Ok(ah_provider::is_small(name, options))
    })
    .unwrap_or_default()
}
