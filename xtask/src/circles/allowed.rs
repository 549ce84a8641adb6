//! Circles that may stay, each with its reason.

/// A circle that may stay.
pub struct Allowed {
    /// Folder of the crate.
    pub folder: &'static str,
    /// Its files, below `src`.
    pub files: &'static [&'static str],
    /// Reason why it may stay.
    pub reason: &'static str,
}

/// All of them, by crate.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        folder: "tools",
        files: &["grep.rs", "grep/search.rs"],
        reason: "a parent and its child: the search takes the arguments of the tool",
    },
    Allowed {
        folder: "testkit",
        files: &[
            "server/chat/stream.rs",
            "server/protocol.rs",
            "server/vendor.rs",
            "server/vendor/chat.rs",
            "server/vendor/messages.rs",
            "server/vendor/responses.rs",
            "server/vendor/table.rs",
        ],
        reason: "an API is checked by its strictest vendor, and a vendor's rules are about requests of an API",
    },
];
