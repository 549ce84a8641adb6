//! Signed requests in a build without them: nothing is a credential of AWS.

use std::time::SystemTime;

use ah_conversation::ProviderError;
use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;

/// Whether requests can be signed.
pub const IS_THERE: bool = false;

/// Credentials of AWS: there are none.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {}

/// Returns `None`.
pub fn of_variables<'a>(_: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    None
}

impl Credentials {
    /// Returns `None`.
    pub fn read(_: &str) -> Option<Self> {
        None
    }

    /// Is never called.
    pub fn headers(
        &self,
        _: &str,
        _: &Url,
        _: &[Bytes],
        _: SystemTime,
    ) -> Result<HeaderMap, ProviderError> {
        match *self {}
    }
}
