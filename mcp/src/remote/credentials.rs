//! Credentials of servers that the user has signed in to: one file, which only the user can read.
//!
//! An entry belongs to the address of a server and to the issuer of its tokens, so a token goes to no other server, and
//! not to an issuer that has taken the place of the first. Several processes use the file: it is replaced as a whole, and
//! tokens are refreshed by one process at a time.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde::{Deserialize, Serialize};

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
    file: PathBuf,
    address: String,
}

impl Credentials {
    /// Returns the credentials in `file` of the server at `address`.
    pub(crate) fn new(file: &Path, address: &str) -> Self {
        Self {
            file: file.to_owned(),
            address: address.to_owned(),
        }
    }

    /// Reads them; `None` if the user has not signed in.
    pub(crate) fn read(&self) -> io::Result<Option<Entry>> {
        Ok(self.entries()?.remove(&self.address))
    }

    /// Changes them; a new entry is empty.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Entry)) -> io::Result<()> {
        self.rewrite(|entries| change(entries.entry(self.address.clone()).or_default()))
    }

    /// Removes them; returns whether there were any.
    pub(crate) fn remove(&self) -> io::Result<bool> {
        if self.read()?.is_none() {
            return Ok(false);
        }
        self.rewrite(|entries| drop(entries.remove(&self.address)))?;
        Ok(true)
    }

    /// Notes that the server wants these scopes, for the next sign-in.
    pub(crate) fn want(&self, scopes: &str) -> io::Result<()> {
        self.change(|entry| {
            for scope in scopes.split_whitespace() {
                if entry.wanted.len() < MOST_SCOPES && !entry.wanted.iter().any(|it| it == scope) {
                    entry.wanted.push(scope.to_owned());
                }
            }
        })
    }

    fn entries(&self) -> io::Result<Entries> {
        match fs::read(&self.file) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entries::new()),
            Err(error) => Err(error),
        }
    }

    fn rewrite(&self, change: impl FnOnce(&mut Entries)) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let _lock = self.locked("lock")?;
        let mut entries = self.entries()?;
        change(&mut entries);
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        serde_json::to_writer_pretty(&mut file, &entries)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.file)?;
        Ok(())
    }

    /// Waits for a lock of the file, which ends with the returned value.
    fn locked(&self, what: &str) -> io::Result<File> {
        let lock = File::options()
            .create(true)
            .append(true)
            .open(self.file.with_extension(what))?;
        lock.lock()?;
        Ok(lock)
    }
}

fn failed(error: &dyn std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let entry = self.read().map_err(|error| failed(&error))?;
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
        self.change(|entry| {
            if entry.client_id != new.client_id || entry.issuer != new.issuer {
                entry.client_secret = None;
            }
            entry.wanted.retain(|it| !new.granted_scopes.contains(it));
            entry.issuer = new.issuer;
            entry.client_id = new.client_id;
            entry.granted = new.granted_scopes;
            entry.received_at = new.token_received_at;
            entry.tokens = new.token_response;
        })
        .map_err(|error| failed(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.remove().map(drop).map_err(|error| failed(&error))
    }

    /// An issuer may accept a refresh token once, so that the second process to use it would sign the user out.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let credentials = self.clone();
        let lock = tokio::task::spawn_blocking(move || credentials.locked("refresh"))
            .await
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))?;
        Ok(Some(CredentialRefreshGuard::new(lock)))
    }
}
