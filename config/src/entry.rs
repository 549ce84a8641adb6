//! A setting in force, as `ah config show` lists it.

use serde_json::Value;

use crate::origin::Origin;

/// Key, value and origin of a setting.
pub type SettingEntry<'a> = (&'static str, Value, &'a Origin);
