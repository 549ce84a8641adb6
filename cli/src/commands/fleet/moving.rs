//! Moves a session between this folder, a store and a file.

use std::path::Path;

use ah_config::{Config, Error, Resolver};
use ah_conversation::Interface;
use ah_fleet::moving::{Destination, Source, away, home, is_here};

use super::super::output::print;
use super::store::{found, open, url};
use crate::args::fleet::{Moving, Queued, Store};
use crate::args::options::Options;

/// Moves a session.
pub async fn perform(config: &Config, options: &Options, wanted: &Moving) -> Result<u8, Error> {
    let cwd = config.environment.cwd();
    let from = Store {
        store: wanted.from.clone(),
    };
    let to = wanted.to.as_deref();
    let there = match &wanted.folder {
        Some(folder) => {
            let folder = cwd.join(folder);
            std::fs::create_dir_all(&folder).map_err(|error| {
                Error::failure(format!("cannot make `{}`: {error}", folder.display()))
            })?;
            Some(config_of(config, options, &folder)?)
        }
        None => None,
    };
    let here = there.as_ref().unwrap_or(config);
    let file = cwd.join(&wanted.session);
    let from = if file.is_file() {
        Source::File(file)
    } else if url(&from, &config.environment)
        .is_some_and(|from| wanted.from.is_some() || to != Some(from))
    {
        let session = wanted.session.clone();
        let queued = Queued {
            session,
            store: from,
        };
        match found(config, &queued).await {
            Ok((fleet, id)) => Source::Store(fleet, id),
            Err(error) => {
                // The store has given it up already, or it never was there.
                let is_near = is_here(here, &wanted.session, to.is_some());
                if !is_near || to.is_some() && wanted.from.is_some() {
                    return Err(error);
                }
                Source::Here(wanted.session.clone())
            }
        }
    } else {
        Source::Here(wanted.session.clone())
    };
    let moved = match to {
        Some(to) if to.contains("://") => {
            let store = Store {
                store: Some(to.to_owned()),
            };
            away(
                config,
                from,
                Destination::Store(open(config, &store).await?),
            )
            .await?
        }
        Some(to) => away(config, from, Destination::File(cwd.join(to))).await?,
        None => home(here, from).await?,
    };
    for left in &moved.left {
        ah_terminal::warn(&format!("left behind: {left}"));
    }
    moved.removed.iter().for_each(|it| ah_terminal::warn(it));
    print(&format!("{}\n", moved.session))
}

/// Returns the configuration of another folder.
pub(super) fn config_of(
    config: &Config,
    options: &Options,
    folder: &Path,
) -> Result<Config, Error> {
    // As it is found from within: what is above it by its path here may be another project.
    let folder = folder
        .canonicalize()
        .map_err(|error| Error::failure(format!("cannot use `{}`: {error}", folder.display())))?;
    Resolver::new(options.overrides()?, Interface::Native, config).resolve(&folder, |_| {})
}
