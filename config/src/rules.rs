//! What may happen and who has a say in it, gathered from options and settings.

use std::fs;
use std::path::{Path, PathBuf};

use ah_agent::hooks::HookSetting;
use ah_conversation::{Environment, Interface, PatternRoots, PermissionMode, Permissions, Rule};

use crate::config::Config;
use crate::error::Error;
use crate::layers::Layer;
use crate::origin::{Origin, Sourced};
use crate::overrides::{Overrides, SandboxChoice};
use crate::rulebook::SettingsFiles;
use crate::settings::Settings;

/// The variable by which a machine says that it is there to be experimented on.
const IS_SANDBOX: &str = "IS_SANDBOX";

impl Config {
    /// What a session allows.
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
        // What forbids or asks holds for a file under all its names.
        let with_targets = |rule: &Sourced<Rule>| {
            let rule = kept(rule);
            let target = rule.behind_links(&places, |path| fs::canonicalize(path).ok());
            std::iter::once(rule).chain(target).collect::<Vec<_>>()
        };
        Permissions {
            mode: self.permission_mode.value,
            before_plan: PermissionMode::default(),
            confined: false,
            hosts: Vec::new(),
            may_bypass: self.may_bypass,
            allow: self.allow.iter().map(kept).collect(),
            ask: self.ask.iter().flat_map(with_targets).collect(),
            deny: self.deny.iter().flat_map(with_targets).collect(),
            directories: { self.directories.iter() }
                .map(|folder| real(&folder.value))
                .collect(),
            places,
        }
    }
}

/// Whether the mode that allows everything holds, or may be chosen later. What takes the place of other agents keeps to
/// their rule for root: that is for machines which say of themselves that nothing of worth is on them.
///
/// # Errors
///
/// Where root wants it on any other.
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
            "root cannot skip the permissions: what a model gets wrong would have no bounds";
        return Err(Error::failure(message).hint(format!(
            "run it as another user, with --sandbox, or with {IS_SANDBOX}=1 on a machine that holds nothing else"
        )));
    }
    Ok(is_wanted)
}

/// The path without symbolic links, as the tools resolve those of their calls.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The working directories that an option and all layers add.
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

/// The hooks of all layers: they add up, and those of the user are asked first.
pub(crate) fn hooks(layers: &[Layer]) -> Vec<Sourced<HookSetting>> {
    let of_layer = |layer: &Layer| {
        let origin = layer.origin.clone();
        let hooks = layer.settings.hooks.clone().into_iter();
        hooks
            .map(move |value| Sourced {
                value,
                origin: origin.clone(),
            })
            .collect::<Vec<_>>()
    };
    layers.iter().rev().flat_map(of_layer).collect()
}

/// The rules of an option and of all layers: lists add up.
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

/// The rules of a list: commas and blanks separate them, but not within parentheses.
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
