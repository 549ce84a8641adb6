//! How the web is reached, as settings say it.

use crate::first::First;
use crate::layers::Layer;
use crate::origin::{Origin, Sourced};

/// What holds of the web.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebConfig {
    /// The model that reads pages, where one was named.
    pub reader: Option<Sourced<String>>,
    /// Hosts whose private addresses may be reached, and by plain HTTP; the lists of all files add up.
    pub private_hosts: Vec<Sourced<String>>,
    /// Who searches, where that was said: `model`, `brave`, `none`, or the address of a server like SearXNG.
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

    /// The settings in force: key, value and where it comes from.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, &str, &Origin)> {
        let reader = { self.reader.iter() }.map(|set| ("web.reader", set));
        let hosts = { self.private_hosts.iter() }.map(|set| ("web.privateHosts", set));
        let search = { self.search.iter() }.map(|set| ("web.search", set));
        let all = reader.chain(hosts).chain(search);
        all.map(|(key, set)| (key, set.value.as_str(), &set.origin))
    }
}
