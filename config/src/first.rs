//! Lookup of a setting in the layers, by precedence.

use crate::layers::Layer;
use crate::origin::Sourced;
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
}
