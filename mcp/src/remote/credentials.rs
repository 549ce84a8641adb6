//! Credentials of servers that the user has signed in to: in the system's key store if there is one, else in one file, which
//! only the user can read.
//!
//! An entry belongs to the address of a server and to the issuer of its tokens, so a token goes to no other server, and
//! not to an issuer that has taken the place of the first. Several processes use the file: it is replaced as a whole, and
//! tokens are refreshed by one process at a time.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use ah_conversation::json;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde::{Deserialize, Serialize};

use crate::key_store::CredentialPlace;
use crate::remote::vault;

/// Most scopes that a server may ask for.
const MOST_SCOPES: usize = 64;

/// What is known of one server.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Entry {
    /// Issuer of the tokens.
    pub(crate) issuer: Option<String>,
    /// Name by which the issuer knows this program.
    pub(crate) client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<String>,
    pub(crate) granted: Vec<String>,
    /// Scopes for which the server has refused a request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) wanted: Vec<String>,
    /// Seconds since 1970.
    pub(crate) received_at: Option<u64>,
    pub(crate) tokens: Option<OAuthTokenResponse>,
}

/// Entries by the address of the server.
type Entries = BTreeMap<String, Entry>;

/// The credentials of one server.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    place: CredentialPlace,
    address: String,
}

impl Credentials {
    /// Returns the credentials in `place` of the server at `address`.
    pub(crate) fn new(place: &CredentialPlace, address: &str) -> Self {
        Self {
            place: place.clone(),
            address: address.to_owned(),
        }
    }

    /// Reads them; `None` if the user has not signed in.
    pub(crate) async fn read(&self) -> io::Result<Option<Entry>> {
        if let Some(store) = &self.place.key_store
            && let Some(secret) = vault::look_up(store, &self.address).await
            && let Some(entry) = entry(&secret)
        {
            return Ok(Some(entry));
        }
        Ok(self.entries()?.remove(&self.address))
    }

    /// Changes them; a new entry is empty.
    pub(crate) async fn change(&self, change: impl FnOnce(&mut Entry)) -> io::Result<()> {
        self.make_folder()?;
        let _lock = self.locked("lock").await?;
        let mut entry = self.read().await?.unwrap_or_default();
        change(&mut entry);
        let is_kept = match &self.place.key_store {
            Some(store) => {
                let secret = STANDARD.encode(json::line(&entry));
                vault::keep(store, &self.address, &secret).await
            }
            None => false,
        };
        let mut entries = self.entries()?;
        // What the store has is nowhere else; what it refuses is in the file.
        let former = match is_kept {
            true => entries.remove(&self.address),
            false => entries.insert(self.address.clone(), entry),
        };
        if is_kept && former.is_none() {
            return Ok(());
        }
        self.write(&entries)
    }

    /// Removes them; returns whether there were any.
    pub(crate) async fn remove(&self) -> io::Result<bool> {
        if self.read().await?.is_none() {
            return Ok(false);
        }
        if let Some(store) = &self.place.key_store {
            vault::forget(store, &self.address).await;
        }
        let _lock = self.locked("lock").await?;
        let mut entries = self.entries()?;
        if entries.remove(&self.address).is_some() {
            self.write(&entries)?;
        }
        Ok(true)
    }

    /// Notes that the server wants these scopes, for the next sign-in.
    pub(crate) async fn want(&self, scopes: &str) -> io::Result<()> {
        let change = self.change(|entry| {
            for scope in scopes.split_whitespace() {
                if entry.wanted.len() < MOST_SCOPES && !entry.wanted.iter().any(|it| it == scope) {
                    entry.wanted.push(scope.to_owned());
                }
            }
        });
        change.await
    }

    fn entries(&self) -> io::Result<Entries> {
        match fs::read(&self.place.file) {
            Ok(text) => json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entries::new()),
            Err(error) => Err(error),
        }
    }

    fn folder(&self) -> &Path {
        self.place.file.parent().unwrap_or(Path::new("/"))
    }

    fn make_folder(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(self.folder())
    }

    fn write(&self, entries: &Entries) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(self.folder())?;
        serde_json::to_writer_pretty(&mut file, entries)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.place.file)?;
        Ok(())
    }

    /// Waits for a lock of the file, which ends with the returned value.
    async fn locked(&self, what: &str) -> io::Result<File> {
        let path = self.place.file.with_extension(what);
        let locking = tokio::task::spawn_blocking(move || {
            let lock = File::options().create(true).append(true).open(path)?;
            lock.lock()?;
            Ok(lock)
        });
        locking.await.map_err(io::Error::other)?
    }
}

/// Returns the entry in a secret of the key store.
fn entry(secret: &str) -> Option<Entry> {
    let text = STANDARD.decode(secret).ok()?;
    json::from_slice(&text).ok()
}

fn failed(error: &dyn std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let entry = self.read().await.map_err(|error| failed(&error))?;
        Ok(entry.filter(|entry| entry.tokens.is_some()).map(|entry| {
            StoredCredentials::new(
                entry.client_id,
                entry.tokens,
                entry.granted,
                entry.received_at,
            )
            .with_issuer(entry.issuer)
        }))
    }

    async fn save(&self, new: StoredCredentials) -> Result<(), AuthError> {
        let change = self.change(|entry| {
            if entry.client_id != new.client_id || entry.issuer != new.issuer {
                entry.client_secret = None;
            }
            entry.wanted.retain(|it| !new.granted_scopes.contains(it));
            entry.issuer = new.issuer;
            entry.client_id = new.client_id;
            entry.granted = new.granted_scopes;
            entry.received_at = new.token_received_at;
            entry.tokens = new.token_response;
        });
        change.await.map_err(|error| failed(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let removed = self.remove().await;
        removed.map(drop).map_err(|error| failed(&error))
    }

    /// An issuer may accept a refresh token once, so that the second process to use it would sign the user out.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let lock = self.locked("refresh").await;
        let lock = lock.map_err(|error| failed(&error))?;
        Ok(Some(CredentialRefreshGuard::new(lock)))
    }
}
