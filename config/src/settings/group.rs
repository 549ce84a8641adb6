//! Declares settings, each in one place: what it is, its key and type, whether a folder that is not trusted may set it, its JSON
//! schema and its default. From that come the settings of one file, those in force, what `ah config show` lists, what trust
//! takes away, and the published schema.
//!
//! A setting is in force as the first layer has it. Where an option counts as well, `resolve` puts it in afterwards.

use crate::origin::{Origin, Sourced};

/// Who may set a value where the project is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setter {
    /// The project, too: the value is harmless, or makes a run safer.
    Anyone,
    /// Only the user, or a project that is trusted.
    User,
}

/// Returns the value of the first of `layers` that has one.
pub(super) fn first<F, T>(
    layers: &[(&F, &Origin)],
    of: impl Fn(&F) -> Option<T>,
) -> Option<Sourced<T>> {
    layers.iter().find_map(|(file, origin)| {
        let value = of(file)?;
        let origin = (*origin).clone();
        Some(Sourced { value, origin })
    })
}

/// The type of a setting in force: an option, unless there is a default.
macro_rules! in_force {
    ($kind:ty) => { Option<Sourced<$kind>> };
    ($kind:ty, $default:expr) => { Sourced<$kind> };
}

/// A setting in force, from what the layers have.
macro_rules! put_in_force {
    ($found:expr) => {
        $found
    };
    ($found:expr, $default:expr) => {
        $found.unwrap_or_else(|| Sourced::built_in($default))
    };
}

/// Declares a group: the settings of one file and those in force. A row is
/// `/// description`, `field: Type = "key", Setter, {schema}` and, if there is one, a default that is listed.
macro_rules! group {
    (
        $(#[$about:meta])*
        $file:ident => $config:ident {
            $(
                $(#[doc = $description:literal])+
                $field:ident: $kind:ty = $key:literal $(or $other:literal)?, $setter:ident, $schema:tt $(, $default:expr)?;
            )+
        }
    ) => {
        $(#[$about])*
        /// As one file sets them.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $file {
            $( $(#[doc = $description])+ pub $field: Option<$kind>, )+
        }

        $(#[$about])*
        /// As they are in force.
        #[derive(Debug, Clone, PartialEq)]
        pub struct $config {
            $( $(#[doc = $description])+ pub $field: in_force!($kind $(, $default)?), )+
        }

        impl $file {
            /// Reads the value of `key`; returns whether it is one of these settings.
            pub(super) fn read(&mut self, file: &File<'_>, key: &str, value: &RawValue) -> Result<bool, Error> {
                match key {
                    $( $key $(| $other)? => self.$field = Some(file.value(value)?), )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Removes what a folder that is not trusted may not set; returns the keys.
            pub(crate) fn restrict(&mut self) -> Vec<&'static str> {
                let mut taken = Vec::new();
                $(
                    if Setter::$setter == Setter::User && self.$field.take().is_some() {
                        taken.push($key);
                    }
                )+
                taken
            }

            /// Returns the keys with their JSON schemas.
            #[cfg(test)]
            pub(super) fn schemas() -> Vec<(&'static str, serde_json::Value)> {
                vec![$({
                    let mut schema = serde_json::json!($schema);
                    schema["description"] = concat!($($description),+).trim_start().into();
                    $( schema["default"] = serde_json::json!($default); )?
                    ($key, schema)
                }),+]
            }
        }

        impl $config {
            /// Returns, of each, what the first of `layers` has.
            pub(crate) fn of(layers: &[(&$file, &Origin)]) -> Self {
                Self {
                    $( $field: put_in_force!(
                        first(layers, |file| Clone::clone(&file.$field))
                        $(, $default)?
                    ), )+
                }
            }

            /// Returns key, value and origin of those that are set.
            pub(crate) fn entries(&self) -> Vec<SettingEntry<'_>> {
                [$( entry($key, &self.$field) ),+].into_iter().flatten().collect()
            }
        }
    };
}

pub(super) use {group, in_force, put_in_force};
