//! Settings of the check of a run: what must pass before the run ends, and how it is run.

use std::num::NonZero;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::file::File;
use super::group::{Setter, first, group, in_force, put_in_force};
use crate::entry::{SettingEntry, entry};
use crate::error::Error;
use crate::origin::{Origin, Sourced};

/// Most runs of a check in one run of the session, unless told otherwise.
const MOST: usize = 10;
/// Time limit of a run of it, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

group! {
    /// The check of a run.
    CheckSettings => CheckConfig {
        /// Command line that must pass before a run ends (`until.md`); `""`: none.
        until: String = "until", User, {"type": "string"};
        /// Patterns of files that are sealed for the check besides the usual ones; with `!` before it, of files that are not.
        seal: Vec<String> = "seal", User, {"type": "array", "items": {"type": "string"}};
        /// How often the check may run in one run.
        max_checks: NonZero<usize> = "maxChecks", User, {"type": "integer", "minimum": 1, "default": 10};
        /// Time limit of a check, in seconds.
        check_timeout: Seconds = "checkTimeout", User, {"type": "number", "exclusiveMinimum": 0, "default": 600};
    }
}

/// A time limit, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Seconds(Duration);

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        match seconds > 0.0 {
            true => Ok(Self(
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
            )),
            false => Err(format!("{seconds} is not a time limit in seconds")),
        }
    }
}

impl From<Seconds> for f64 {
    fn from(seconds: Seconds) -> Self {
        seconds.0.as_secs_f64()
    }
}

impl CheckConfig {
    /// Returns the command line of the check, if there is one.
    pub fn command(&self) -> Option<&str> {
        let until = self.until.as_ref()?.value.as_str();
        (!until.trim().is_empty()).then_some(until)
    }

    /// Returns the patterns of further files that are sealed, or with `!` are not.
    pub fn seals(&self) -> &[String] {
        self.seal.as_ref().map_or(&[], |seal| &seal.value)
    }

    /// Returns how often it may run in one run.
    pub fn most(&self) -> usize {
        { self.max_checks.as_ref() }.map_or(MOST, |most| most.value.get())
    }

    /// Returns its time limit.
    pub fn timeout(&self) -> Duration {
        { self.check_timeout.as_ref() }.map_or(TIMEOUT, |timeout| timeout.value.0)
    }
}
