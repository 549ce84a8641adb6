//! A setting in force, as `ah config show` lists it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::origin::{Origin, Sourced};

/// Key, value and origin of a setting.
pub type SettingEntry<'a> = (&'static str, Value, &'a Origin);

/// Returns the entry of a setting, if it is set.
pub fn entry<'a, T: Serialize + 'a>(
    key: &'static str,
    set: impl Into<Option<&'a Sourced<T>>>,
) -> Option<SettingEntry<'a>> {
    set.into().map(|set| (key, json!(set.value), &set.origin))
}
