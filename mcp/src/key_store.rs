//! Where sign-ins to servers are kept: the system's key store, reached by its own program, else a file of the user's.
//!
//! On Linux it is the Secret Service of the desktop, reached by `secret-tool`; on macOS the keychain, by `security`. A
//! client of D-Bus would be much for three calls.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::Environment;

/// Variable with the address of the desktop's bus; without it there is no Secret Service.
const BUS: &str = "DBUS_SESSION_BUS_ADDRESS";
/// Variable that keeps all in the file if it is `file`.
const CHOICE: &str = "AH_KEY_STORE";

/// Place of the sign-ins.
#[derive(Debug, Clone)]
pub struct CredentialPlace {
    /// The file, for what is not in the key store.
    pub file: PathBuf,
    /// The key store, if there is one.
    pub key_store: Option<Arc<KeyStore>>,
}

/// The system's key store.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "client"),
    expect(dead_code, reason = "nothing signs in without a client")
)]
pub struct KeyStore {
    pub(crate) program: PathBuf,
    pub(crate) environment: Environment,
}

impl CredentialPlace {
    /// Returns the place for the user of `environment`, with this file.
    pub fn of(file: PathBuf, environment: &Environment) -> Self {
        Self {
            file,
            key_store: KeyStore::of(environment).map(Arc::new),
        }
    }

    /// Returns a file alone.
    pub fn file(file: PathBuf) -> Self {
        Self {
            file,
            key_store: None,
        }
    }
}

impl KeyStore {
    /// Returns the key store that the user of `environment` has.
    fn of(environment: &Environment) -> Option<Self> {
        if environment.get(CHOICE) == Some("file") {
            return None;
        }
        let is_mac = cfg!(target_os = "macos");
        if !is_mac && environment.get(BUS).is_none_or(str::is_empty) {
            return None;
        }
        let name = if is_mac { "security" } else { "secret-tool" };
        let path = environment.get("PATH").unwrap_or_default();
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let mut programs = folders.map(|folder| folder.join(name));
        Some(Self {
            program: programs.find(|program| program.is_file())?,
            environment: environment.clone(),
        })
    }

    /// Whether it is the keychain of macOS.
    pub fn is_keychain(&self) -> bool {
        self.program.file_name() == Some(OsStr::new("security"))
    }
}
