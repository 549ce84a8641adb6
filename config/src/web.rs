//! Configuration of web access.

use crate::first::First;
use crate::layers::Layer;
use crate::origin::{Origin, Sourced};

/// Configuration of web access.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebConfig {
    /// The model that reads pages, if set.
    pub reader: Option<Sourced<String>>,
    /// Hosts whose private addresses are reachable, also by plain HTTP; the lists of all files add up.
    pub private_hosts: Vec<Sourced<String>>,
    /// The search, if set: `model`, `brave`, `none`, or the address of a server like SearXNG.
    pub search: Option<Sourced<String>>,
}

impl WebConfig {
    pub(crate) fn of(layers: &[Layer], first: &First<'_>) -> Self {
        let hosts = layers.iter().flat_map(|layer| {
            let hosts = layer.settings.web.private_hosts.iter();
            hosts.map(|host| Sourced {
                value: host.clone(),
                origin: layer.origin.clone(),
            })
        });
        Self {
            reader: first.value(|settings| settings.web.reader.clone()),
            private_hosts: hosts.collect(),
            search: first.value(|settings| settings.web.search.clone()),
        }
    }

    /// Returns key, value and origin of the settings in force.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, &str, &Origin)> {
        let reader = self.reader.iter().map(|set| ("web.reader", set));
        let hosts = self
            .private_hosts
            .iter()
            .map(|set| ("web.privateHosts", set));
        let search = self.search.iter().map(|set| ("web.search", set));
        let all = reader.chain(hosts).chain(search);
        all.map(|(key, set)| (key, set.value.as_str(), &set.origin))
    }
}
