//! Marketplaces and the plugins installed from them: getting them, and keeping a copy of each at one commit below the
//! user's folder. Nothing of a plugin runs here; whether its programs may run is the caller's question to the user.

mod catalogue;
mod copy;
mod fetch;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use ah_config::installed::{
    Installed, InstalledPlugin, Marketplace, PluginStore, fingerprint, is_plugin_name,
};
use ah_config::{Config, Error, PluginParts};
use tempfile::TempDir;

use catalogue::{Catalogue, complete};
use copy::copy;
use fetch::fetch;
use source::{Source, of_entry, parse};

/// Folder of the copies of marketplaces, below that of all plugins.
const MARKETPLACES: &str = "marketplaces";
/// Folder of the copies of plugins, likewise.
const COPIES: &str = "copies";
/// Digits of a commit in the name of a copy's folder.
const SHORT: usize = 12;

/// The user's marketplaces and plugins.
pub struct Plugins<'a> {
    config: &'a Config,
    store: PluginStore,
}

/// A marketplace that was added or updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedMarketplace {
    /// Its name.
    pub name: String,
    /// Names and descriptions of the plugins that it offers.
    pub offers: Vec<(String, String)>,
    /// Its commit; `None` for a folder.
    pub commit: Option<String>,
    /// Whether it was there before.
    pub was_there: bool,
}

/// A plugin that was fetched and is not yet installed.
#[derive(Debug)]
pub struct StagedPlugin {
    /// `NAME@MARKETPLACE`.
    pub id: String,
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// The commit, or for a folder `sha256:` and the fingerprint.
    pub pin: String,
    /// The [`fingerprint`] of its files, with what the marketplace says about it.
    pub fingerprint: String,
    /// What it brings.
    pub parts: PluginParts,
    /// Paths that were left out, each with the reason.
    pub left_out: Vec<String>,
    folder: TempDir,
}

impl<'a> Plugins<'a> {
    /// Returns the marketplaces and plugins of the configuration's user.
    ///
    /// # Errors
    ///
    /// If there is no home directory.
    pub fn of(config: &'a Config) -> Result<Self, Error> {
        let home = config.home.as_deref();
        let home = home.ok_or_else(|| Error::failure("there is no home directory for plugins"))?;
        Ok(Self {
            config,
            store: PluginStore::below(home),
        })
    }

    /// Returns what is added and installed.
    ///
    /// # Errors
    ///
    /// If the list cannot be read.
    pub fn list(&self) -> Result<Installed, Error> {
        self.store.read().map_err(|error| unreadable(&error))
    }

    /// Adds a marketplace from what the user has typed, or gets it anew.
    ///
    /// # Errors
    ///
    /// If there is no marketplace, or another one has its name.
    pub async fn add_marketplace(&self, typed: &str) -> Result<AddedMarketplace, Error> {
        let environment = &self.config.environment;
        let source = parse(typed, environment.cwd(), environment.home().as_deref());
        let source =
            source.map_err(|why| Error::usage(format!("cannot add the marketplace: {why}")))?;
        let typed = match &source {
            Source::Folder(folder) => {
                let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
                folder.to_string_lossy().into_owned()
            }
            Source::Git(_) => typed.to_owned(),
        };
        self.get_marketplace(&typed, source, None).await
    }

    /// Gets the newest state of a marketplace.
    ///
    /// # Errors
    ///
    /// If it is not known, or cannot be got.
    pub async fn update_marketplace(&self, name: &str) -> Result<AddedMarketplace, Error> {
        let list = self.list()?;
        let known = list
            .marketplaces
            .get(name)
            .ok_or_else(|| no_marketplace(name))?;
        let source = parse(&known.source, Path::new("/"), None);
        let source = source.map_err(|why| {
            Error::failure(format!("cannot update the marketplace `{name}`: {why}"))
        })?;
        self.get_marketplace(&known.source, source, Some(name))
            .await
    }

    async fn get_marketplace(
        &self,
        typed: &str,
        source: Source,
        expected: Option<&str>,
    ) -> Result<AddedMarketplace, Error> {
        let failed = |why: &str| {
            Error::failure(format!(
                "cannot use the marketplace `{}`: {why}",
                shown(typed)
            ))
        };
        let place = self.place()?;
        let (fetched, folder) = match source {
            Source::Folder(folder) => (None, folder),
            Source::Git(git) => {
                let fetched = fetch(&git, &self.config.environment, &place).await?;
                let folder = fetched.folder.path().to_owned();
                (Some(fetched), folder)
            }
        };
        let catalogue = Catalogue::read(&folder).map_err(|why| failed(&why))?;
        let name = catalogue.name.clone();
        if expected.is_some_and(|expected| expected != name) {
            return Err(failed(&format!("it is now named `{name}`")));
        }
        let mut open = self.store.open().map_err(|error| unreadable(&error))?;
        let former = open.list.marketplaces.get(&name);
        if former.is_some_and(|former| former.source != typed) {
            return Err(
                failed(&format!("another marketplace is named `{name}`")).hint(format!(
                    "`ah plugin marketplace remove {name}` removes that one"
                )),
            );
        }
        let was_there = former.is_some();
        let commit = fetched.as_ref().map(|fetched| fetched.commit.clone());
        let folder = match fetched {
            None => fs::canonicalize(&folder).map_err(|error| failed(&error.to_string()))?,
            Some(fetched) => {
                let copy = place.join(MARKETPLACES).join(&name);
                replace(fetched.folder, &copy).map_err(|error| failed(&error.to_string()))?;
                copy
            }
        };
        let marketplace = Marketplace {
            source: typed.to_owned(),
            commit: commit.clone(),
            folder,
        };
        open.list.marketplaces.insert(name.clone(), marketplace);
        open.save().map_err(|error| unreadable(&error))?;
        let offers = catalogue.offers();
        Ok(AddedMarketplace {
            offers: offers
                .map(|(name, about)| (name.to_owned(), about.to_owned()))
                .collect(),
            name,
            commit,
            was_there,
        })
    }

    /// Removes a marketplace and the plugins from it; returns those.
    ///
    /// # Errors
    ///
    /// If it is not known, or the list cannot be written.
    pub fn remove_marketplace(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut open = self.store.open().map_err(|error| unreadable(&error))?;
        if open.list.marketplaces.remove(name).is_none() {
            return Err(no_marketplace(name));
        }
        let ending = format!("@{name}");
        let of_it = open.list.plugins.keys().filter(|id| id.ends_with(&ending));
        let of_it: Vec<_> = of_it.cloned().collect();
        open.list.plugins.retain(|id, _| !of_it.contains(id));
        open.save().map_err(|error| unreadable(&error))?;
        for kind in [MARKETPLACES, COPIES] {
            discard(&open.folder().join(kind).join(name));
        }
        Ok(of_it)
    }

    /// Returns the plugins that a marketplace offers, as name and description.
    ///
    /// # Errors
    ///
    /// If its list cannot be read.
    pub fn offers(&self, marketplace: &Marketplace) -> Result<Vec<(String, String)>, Error> {
        let list = Catalogue::read(&marketplace.folder).map_err(Error::failure)?;
        let offers = list.offers();
        Ok(offers
            .map(|(name, about)| (name.to_owned(), about.to_owned()))
            .collect())
    }

    /// Gets the plugin `NAME` or `NAME@MARKETPLACE`, without installing it.
    ///
    /// # Errors
    ///
    /// If no marketplace has it, several have, or it cannot be got.
    pub async fn stage(&self, wanted: &str) -> Result<StagedPlugin, Error> {
        let list = self.list()?;
        let (name, marketplace) = self.found(wanted, &list)?;
        let id = format!("{name}@{marketplace}");
        let failed = |why: &str| Error::failure(format!("cannot install `{id}`: {why}"));
        let market = list
            .marketplaces
            .get(&marketplace)
            .ok_or_else(|| no_marketplace(&marketplace))?;
        let catalogue = Catalogue::read(&market.folder).map_err(|why| failed(&why))?;
        let entry = catalogue
            .entry(&name)
            .ok_or_else(|| failed("the marketplace has no such plugin"))?;
        let is_local = market.commit.is_none();
        let source = of_entry(&entry["source"], &market.folder, catalogue.base(), is_local);
        let source = source.map_err(|why| failed(&why))?;
        let place = self.place()?;
        let fetched = match &source {
            Source::Git(git) => Some(fetch(git, &self.config.environment, &place).await?),
            Source::Folder(_) => None,
        };
        let (from, bounds) = match (&source, &fetched) {
            (Source::Git(git), Some(fetched)) => {
                let root = fetched.folder.path().to_owned();
                let inner = git.folder.as_deref().unwrap_or(Path::new(""));
                (root.join(inner), root)
            }
            (Source::Git(_), None) => return Err(failed("nothing was fetched")),
            (Source::Folder(folder), _) => (folder.clone(), market.folder.clone()),
        };
        let folder = tempfile::Builder::new()
            .prefix(".staged-")
            .tempdir_in(&place);
        let folder = folder.map_err(|error| failed(&error.to_string()))?;
        let to = folder.path().join(&name);
        let left_out = copy(&from, &to, &bounds).map_err(|error| failed(&error.to_string()))?;
        let version = complete(&to, &name, entry).map_err(|why| failed(&why))?;
        let fingerprint = fingerprint(&to).map_err(|error| failed(&error.to_string()))?;
        let commit = fetched
            .map(|fetched| fetched.commit)
            .or_else(|| market.commit.clone());
        let parts = self
            .config
            .parts_of_plugin(&to)
            .map_err(|why| failed(&why))?;
        Ok(StagedPlugin {
            id,
            version,
            pin: commit.unwrap_or_else(|| format!("sha256:{fingerprint}")),
            fingerprint,
            parts,
            left_out,
            folder,
        })
    }

    /// Returns name and marketplace of a plugin that can be installed.
    fn found(&self, wanted: &str, list: &Installed) -> Result<(String, String), Error> {
        let (name, marketplace) = match wanted.split_once('@') {
            Some((name, marketplace)) => (name, Some(marketplace)),
            None => (wanted, None),
        };
        if !is_plugin_name(name) {
            return Err(Error::usage(format!(
                "`{name}` is not the name of a plugin"
            )));
        }
        if let Some(marketplace) = marketplace {
            return Ok((name.to_owned(), marketplace.to_owned()));
        }
        let having = list.marketplaces.iter().filter(|(_, marketplace)| {
            Catalogue::read(&marketplace.folder).is_ok_and(|list| list.entry(name).is_some())
        });
        let having: Vec<_> = having.map(|(marketplace, _)| marketplace.clone()).collect();
        match having.as_slice() {
            [one] => Ok((name.to_owned(), one.clone())),
            [] if list.marketplaces.is_empty() => Err(Error::failure("there is no marketplace yet")
                .hint("`ah plugin marketplace add SOURCE` adds one: a folder, a git URL or OWNER/NAME of GitHub")),
            [] => Err(Error::failure(format!("no marketplace has a plugin `{name}`"))
                .hint("`ah plugin list --available` lists the plugins; `ah plugin marketplace update` gets newer lists")),
            several => {
                let several: Vec<_> = several.iter().map(|marketplace| format!("{name}@{marketplace}")).collect();
                Err(Error::failure(format!("several marketplaces have a plugin `{name}`"))
                    .hint(format!("name one: {}", several.join(", "))))
            }
        }
    }

    /// Installs a plugin, enabled; a former copy of it is replaced.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn install(&self, staged: StagedPlugin, runs_programs: bool) -> Result<(), Error> {
        let failed = |error: std::io::Error| {
            Error::failure(format!("cannot install `{}`: {error}", staged.id))
        };
        let mut open = self.store.open().map_err(failed)?;
        let (name, marketplace) = staged.id.split_once('@').unwrap_or((&staged.id, ""));
        let digits = staged.pin.trim_start_matches("sha256:");
        let version = &digits[..digits.len().min(SHORT)];
        let of_plugin = open.folder().join(COPIES).join(marketplace).join(name);
        let copy = of_plugin.join(version);
        replace(staged.folder, &copy).map_err(failed)?;
        let former = open.list.plugins.get(&staged.id);
        let installed = InstalledPlugin {
            version: staged.version,
            pin: staged.pin.clone(),
            folder: copy.join(name),
            enabled: former.is_none_or(|former| former.enabled),
            shown: staged.fingerprint,
            runs_programs,
        };
        open.list.plugins.insert(staged.id.clone(), installed);
        open.save().map_err(failed)?;
        for other in fs::read_dir(&of_plugin).into_iter().flatten().flatten() {
            if other.path() != copy {
                discard(&other.path());
            }
        }
        Ok(())
    }

    /// Returns the id of the installed plugin `NAME` or `NAME@MARKETPLACE`.
    ///
    /// # Errors
    ///
    /// If none is installed under this name, or several.
    pub fn installed(&self, wanted: &str) -> Result<String, Error> {
        let list = self.list()?;
        let start = format!("{wanted}@");
        let meant = list
            .plugins
            .keys()
            .filter(|id| *id == wanted || id.starts_with(&start));
        let meant: Vec<_> = meant.cloned().collect();
        match meant.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(
                Error::failure(format!("the plugin `{wanted}` is not installed"))
                    .hint("`ah plugin list` lists the installed ones"),
            ),
            several => Err(
                Error::failure(format!("several plugins are named `{wanted}`"))
                    .hint(format!("name one: {}", several.join(", "))),
            ),
        }
    }

    /// Changes an installed plugin's entry; `None` removes it.
    ///
    /// # Errors
    ///
    /// If it is not installed, or the list cannot be written.
    pub fn change(
        &self,
        id: &str,
        change: impl FnOnce(InstalledPlugin) -> Option<InstalledPlugin>,
    ) -> Result<(), Error> {
        let mut open = self.store.open().map_err(|error| unreadable(&error))?;
        let plugin = open.list.plugins.remove(id);
        let plugin =
            plugin.ok_or_else(|| Error::failure(format!("the plugin `{id}` is not installed")))?;
        let changed = change(plugin);
        let is_removed = changed.is_none();
        open.list
            .plugins
            .extend(changed.map(|plugin| (id.to_owned(), plugin)));
        open.save().map_err(|error| unreadable(&error))?;
        if let Some((name, marketplace)) = id.split_once('@').filter(|_| is_removed) {
            discard(&open.folder().join(COPIES).join(marketplace).join(name));
        }
        Ok(())
    }

    /// Returns the folder of all plugins, which is made.
    fn place(&self) -> Result<PathBuf, Error> {
        let open = self.store.open().map_err(|error| unreadable(&error))?;
        Ok(open.folder().to_owned())
    }
}

/// Moves a temporary folder to `to`, in the place of what is there.
fn replace(folder: TempDir, to: &Path) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::rename(folder.path(), to)?;
    // It is no longer there to be removed.
    let _ = folder.keep();
    Ok(())
}

/// Removes a folder that nothing refers to any more; what is left of it does no harm.
fn discard(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::debug!(folder = %folder.display(), %error, "not removed");
    }
}

/// Returns a source without passwords.
pub fn shown(source: &str) -> String {
    ah_git::without_passwords(source)
}

fn unreadable(error: &std::io::Error) -> Error {
    Error::failure(format!("cannot read or write the list of plugins: {error}"))
}

fn no_marketplace(name: &str) -> Error {
    Error::failure(format!("there is no marketplace `{name}`")).hint(
        "`ah plugin marketplace list` lists them; `ah plugin marketplace add SOURCE` adds one",
    )
}
