//! Lookup of a setting in the layers, by precedence.

use ah_conversation::Environment;

use crate::layers::Layer;
use crate::origin::{Origin, Sourced};
use crate::settings::Settings;

/// Layers of settings; the first one that sets a value counts.
pub(crate) struct First<'a> {
    pub(crate) layers: &'a [Layer],
}

impl First<'_> {
    /// Returns the value of the first layer that has one.
    pub(crate) fn value<T>(&self, of: impl Fn(&Settings) -> Option<T>) -> Option<Sourced<T>> {
        self.layers.iter().find_map(|layer| {
            let value = of(&layer.settings)?;
            Some(Sourced {
                value,
                origin: layer.origin.clone(),
            })
        })
    }

    /// Returns a group of the settings of each layer, with its origin.
    pub(crate) fn groups<G>(&self, of: impl Fn(&Settings) -> &G) -> Vec<(&G, &Origin)> {
        let layers = self.layers.iter();
        layers
            .map(|layer| (of(&layer.settings), &layer.origin))
            .collect()
    }

    /// Returns what an administrator has set, or else what was typed, or else the value of the first layer that has one.
    pub(crate) fn chosen<T>(
        &self,
        typed: Option<T>,
        of: impl Fn(&Settings) -> Option<T>,
    ) -> Option<Sourced<T>> {
        let managed = self.managed().value(&of);
        let typed = || typed.map(Sourced::typed);
        managed.or_else(typed).or_else(|| self.value(of))
    }

    /// Returns the layers that nothing overrides.
    pub(crate) fn managed(&self) -> Self {
        let count = self
            .layers
            .iter()
            .take_while(|layer| layer.is_managed())
            .count();
        Self {
            layers: &self.layers[..count],
        }
    }

    /// Returns the first of `variables` that the process has, or else the value of the first layer that has one of them
    /// in `env`, or the setting.
    pub(crate) fn variable_or(
        &self,
        of_process: &Environment,
        variables: &[&'static str],
        setting: impl Fn(&Settings) -> Option<String>,
    ) -> Option<Sourced<String>> {
        let is_set = |value: &&str| !value.trim().is_empty();
        let found = variables.iter().find_map(|name| {
            let value = of_process.get(name).filter(is_set)?;
            Some(Sourced {
                value: value.to_owned(),
                origin: Origin::Environment(name),
            })
        });
        let of_layer = |settings: &Settings| {
            let values = variables.iter().filter_map(|name| settings.env.get(*name));
            let value = values.map(String::as_str).find(is_set);
            value.map(str::to_owned).or_else(|| setting(settings))
        };
        let managed = self.managed().value(of_layer);
        managed.or(found).or_else(|| self.value(of_layer))
    }
}
