//! What may happen and who has a say in it, gathered from options and settings.

use std::fs;
use std::path::{Path, PathBuf};

use ah_conversation::{Environment, PermissionMode, Permissions, Places, Rule};

use super::layers::{Layer, Origin};
use super::settings::{HookSetting, Settings};
use super::{Config, Sourced};
use crate::args::options::Options;
use crate::error::CliError;

impl Config {
    /// What a session allows.
    pub fn permissions(&self) -> Permissions {
        let rules = |rules: &[Sourced<Rule>]| rules.iter().map(|rule| rule.value.clone()).collect();
        let mode = self.permission_mode.value;
        Permissions {
            mode,
            before_plan: PermissionMode::default(),
            may_bypass: mode == PermissionMode::BypassPermissions,
            allow: rules(&self.allow),
            ask: rules(&self.ask),
            deny: rules(&self.deny),
            directories: { self.directories.iter() }
                .map(|folder| real(&folder.value))
                .collect(),
            places: Places {
                cwd: real(self.environment.cwd()),
                project: real(&self.project_root),
                home: self.environment.home().map(|home| real(&home)),
            },
        }
    }
}

/// The path without symbolic links, as the tools resolve those of their calls.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The working directories that an option and all layers add.
pub(super) fn directories(
    options: &Options,
    layers: &[Layer],
    environment: &Environment,
) -> Vec<Sourced<PathBuf>> {
    let placed = |folder: &Path| match (folder.strip_prefix("~"), environment.home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => environment.cwd().join(folder),
    };
    let typed = options.safety.add_dir.iter().map(|folder| Sourced {
        value: placed(folder),
        origin: Origin::CommandLine,
    });
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
pub(super) fn hooks(layers: &[Layer]) -> Vec<Sourced<HookSetting>> {
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
pub(super) fn rules(
    option: &[String],
    layers: &[Layer],
    of: impl Fn(&Settings) -> &Vec<Rule>,
) -> Result<Vec<Sourced<Rule>>, CliError> {
    let mut rules = Vec::new();
    for text in option.iter().flat_map(|list| split_rules(list)) {
        let value = text
            .parse::<Rule>()
            .map_err(|error| CliError::usage(error.to_string()))?;
        rules.push(Sourced {
            value,
            origin: Origin::CommandLine,
        });
    }
    for layer in layers {
        let origin = &layer.origin;
        rules.extend(of(&layer.settings).iter().map(|rule| Sourced {
            value: rule.clone(),
            origin: origin.clone(),
        }));
    }
    Ok(rules)
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
