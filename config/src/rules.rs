//! Permissions from options and settings.

use std::fs;
use std::path::{Path, PathBuf};

use ah_agent::hooks::HookSetting;
use ah_conversation::{Environment, Interface, PatternRoots, PermissionMode, Permissions, Rule};

use crate::config::Config;
use crate::error::Error;
use crate::layers::Layer;
use crate::layout::real;
use crate::origin::{Origin, Sourced};
use crate::overrides::{Overrides, SandboxChoice};
use crate::rulebook::SettingsFiles;
use crate::settings::Settings;

/// Variable that marks a disposable machine.
const IS_SANDBOX: &str = "IS_SANDBOX";

impl Config {
    /// Returns the permissions of a session.
    pub fn permissions(&self) -> Permissions {
        let files = SettingsFiles::of(self);
        let kept = |rule: &Sourced<Rule>| match &rule.origin {
            Origin::File(path) => Rule {
                kept: files.destination(path),
                ..rule.value.clone()
            },
            _ => rule.value.clone(),
        };
        let places = PatternRoots {
            cwd: real(self.environment.cwd()),
            project: real(&self.project_root),
            home: self.environment.home().map(|home| real(&home)),
        };
        // Denying and asking rules match a file under all its names.
        let with_targets = |rule: &Sourced<Rule>| {
            let rule = kept(rule);
            let target = rule.behind_links(&places, |path| fs::canonicalize(path).ok());
            std::iter::once(rule).chain(target).collect::<Vec<_>>()
        };
        Permissions {
            mode: self.permission_mode.value,
            before_plan: self.before_plan.unwrap_or_default(),
            confined: false,
            hosts: Vec::new(),
            may_bypass: self.may_bypass,
            plan_asks: false,
            allow: self.allow.iter().map(kept).collect(),
            ask: self.ask.iter().flat_map(with_targets).collect(),
            readable: None,
            deny: self.deny.iter().flat_map(with_targets).collect(),
            directories: { self.directories.iter() }
                .map(|folder| real(&folder.value))
                .collect(),
            places,
        }
    }
}

/// Returns whether `bypassPermissions` is in force, or may be chosen later. Like other agents, the program refuses it
/// to root unless the machine is marked as disposable.
///
/// # Errors
///
/// If root wants it elsewhere.
pub(crate) fn may_bypass(
    mode: PermissionMode,
    overrides: &Overrides,
    interface: Interface,
    environment: &Environment,
) -> Result<bool, Error> {
    let is_wanted = mode == PermissionMode::BypassPermissions || overrides.may_bypass;
    let is_sandboxed = matches!(
        overrides.run.sandbox.wanted,
        Some(SandboxChoice::Required(_))
    );
    let is_contained = is_sandboxed || environment.get(IS_SANDBOX) == Some("1");
    let is_refused = is_wanted && interface == Interface::AgentSdk && !is_contained;
    if is_refused && rustix::process::geteuid().is_root() {
        let message =
            "permissions cannot be bypassed as root: a model's mistakes would have no limits";
        return Err(Error::failure(message).hint(format!(
            "run it as another user, with --sandbox, or with {IS_SANDBOX}=1 on a disposable machine"
        )));
    }
    Ok(is_wanted)
}

/// Whether the settings of a layer forbid to bypass permissions.
pub(crate) fn forbids_bypass(layer: &Layer) -> bool {
    layer.settings.permissions.forbids_bypass
}

/// Refuses the mode `bypassPermissions` where settings forbid it.
///
/// # Errors
///
/// If they do.
pub(crate) fn refuse_bypass(mode: &Sourced<PermissionMode>, layers: &[Layer]) -> Result<(), Error> {
    let forbids = layers.iter().find(|layer| forbids_bypass(layer));
    match forbids.filter(|_| mode.value == PermissionMode::BypassPermissions) {
        None => Ok(()),
        Some(layer) => {
            let message = format!(
                "permissions cannot be bypassed: {} forbids it",
                layer.origin
            );
            Err(Error::failure(message))
        }
    }
}

/// Returns the additional working directories of options and all layers.
pub(crate) fn directories(
    typed: &[PathBuf],
    layers: &[Layer],
    environment: &Environment,
) -> Vec<Sourced<PathBuf>> {
    let placed = |folder: &Path| match (folder.strip_prefix("~"), environment.home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => environment.cwd().join(folder),
    };
    let typed = typed.iter().map(|folder| Sourced::typed(placed(folder)));
    let set = layers.iter().flat_map(|layer| {
        let folders = layer.settings.permissions.additional_directories.iter();
        folders.map(|folder| Sourced {
            value: placed(folder),
            origin: layer.origin.clone(),
        })
    });
    typed.chain(set).collect()
}

/// Returns the hooks of all layers; the user's run first.
pub(crate) fn hooks(layers: &[Layer]) -> Vec<Sourced<HookSetting>> {
    let of_layer = |layer: &Layer| {
        let origin = layer.origin.clone();
        let is_own = !layer.is_of_project;
        let hooks = layer.settings.hooks.clone().into_iter();
        hooks
            .map(move |hook| Sourced {
                value: HookSetting { is_own, ..hook },
                origin: origin.clone(),
            })
            .collect::<Vec<_>>()
    };
    layers.iter().rev().flat_map(of_layer).collect()
}

/// Returns the rules of options and all layers.
pub(crate) fn rules(
    typed: &[Rule],
    layers: &[Layer],
    of: impl Fn(&Settings) -> &Vec<Rule>,
) -> Vec<Sourced<Rule>> {
    let mut rules: Vec<_> = typed.iter().cloned().map(Sourced::typed).collect();
    for layer in layers {
        rules.extend(of(&layer.settings).iter().map(|rule| Sourced {
            value: rule.clone(),
            origin: layer.origin.clone(),
        }));
    }
    rules
}

/// Reads the rules in the values of an option; each value may be a list.
///
/// # Errors
///
/// If one is not a rule.
pub fn parse_rules(lists: &[String]) -> Result<Vec<Rule>, Error> {
    let texts = lists.iter().flat_map(|list| split_rules(list));
    texts
        .map(|text| {
            text.parse::<Rule>()
                .map_err(|error| Error::usage(error.to_string()))
        })
        .collect()
}

/// Splits a list of rules at commas and blanks outside of parentheses.
fn split_rules(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let pieces = list.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    pieces.filter(|piece| !piece.is_empty()).collect()
}
