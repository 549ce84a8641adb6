//! Lists of the options of a program, and what each of them does.

/// Options of a program. Short ones are letters, long ones names separated by blanks, without hyphens.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Harmless short options without a value.
    pub flags: &'static str,
    /// Harmless short options with a value, in the same word or the next.
    pub values: &'static str,
    /// Harmless short options whose value may be missing, so that it is always in the same word.
    pub optional: &'static str,
    /// Short options with a value that is harmless if it has no effect of its own.
    pub guarded: &'static str,
    /// Short options with a file to write.
    pub writes: &'static str,
    /// Short options with a command line to run.
    pub starts: &'static str,
    /// Harmless long options.
    pub long: &'static [&'static str],
    /// Harmless long options with a value, in the same word or the next.
    pub long_values: &'static str,
    /// Like `guarded`.
    pub long_guarded: &'static str,
    /// Long options with a file to write. Any unambiguous beginning counts, so every beginning does.
    pub long_writes: &'static str,
    /// Long options with a command line to run; so does every beginning of these.
    pub long_starts: &'static str,
    /// Whether not every call has the options with a value in the next word, so that it may be an option, too.
    pub has_doubtful_values: bool,
}

impl Known {
    /// No options at all.
    pub const NONE: Self = Self {
        flags: "",
        values: "",
        optional: "",
        guarded: "",
        writes: "",
        starts: "",
        long: &[],
        long_values: "",
        long_guarded: "",
        long_writes: "",
        long_starts: "",
        has_doubtful_values: false,
    };

    /// Returns what a short option does.
    pub fn kind_of_letter(&self, letter: char) -> Kind {
        [
            (self.flags, Kind::Flag),
            (self.values, Kind::Value),
            (self.optional, Kind::Optional),
            (self.guarded, Kind::Guarded),
            (self.writes, Kind::Written),
            (self.starts, Kind::Started),
        ]
        .into_iter()
        .find(|(letters, _)| letters.contains(letter))
        .map_or(Kind::Unknown, |(_, kind)| kind)
    }

    /// Returns what a long option does.
    pub fn kind_of_name(&self, name: &str) -> Kind {
        let has = |names: &str| names.split_whitespace().any(|known| known == name);
        let begins = |names: &str| {
            names
                .split_whitespace()
                .any(|known| known.starts_with(name))
        };
        if self.long.iter().any(|names| has(names)) {
            Kind::Optional
        } else if has(self.long_values) {
            Kind::Value
        } else if has(self.long_guarded) {
            Kind::Guarded
        } else if name.is_empty() {
            Kind::Unknown
        } else if begins(self.long_writes) {
            Kind::Written
        } else if begins(self.long_starts) {
            Kind::Started
        } else {
            Kind::Unknown
        }
    }
}

/// What an option does with its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has none.
    Flag,
    /// It may have a harmless one.
    Optional,
    /// It has a harmless one.
    Value,
    /// It has one that may be harmless.
    Guarded,
    /// It names a file to write.
    Written,
    /// It names a command line to run.
    Started,
    /// The option is not known.
    Unknown,
}
