//! Circles that may stay, each with its reason.

/// A circle that may stay.
pub struct Allowed {
    /// Folder of the crate.
    pub folder: &'static str,
    /// Its files, below `src`.
    pub files: &'static [&'static str],
    /// Why it may stay.
    pub reason: &'static str,
}

/// All of them, by crate.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        folder: "provider",
        files: &["auth.rs", "exchange.rs", "server.rs"],
        reason: "to be broken: `header_name` moves to `auth.rs`",
    },
    Allowed {
        folder: "provider",
        files: &["body.rs", "decode.rs"],
        reason: "to be broken: `protocol` moves to `failure.rs`",
    },
    Allowed {
        folder: "provider",
        files: &["lib.rs", "route.rs"],
        reason: "to be broken: `Options` and `NamedServer` move to a file of their own",
    },
    Allowed {
        folder: "provider",
        files: &["script/expect.rs", "script/format.rs", "script/play.rs"],
        reason: "to be broken: what a request says to a script moves to a file of its own",
    },
    Allowed {
        folder: "render",
        files: &["markdown.rs", "markdown/block.rs"],
        reason: "to be broken: `Kind` moves to `markdown/block.rs`",
    },
    Allowed {
        folder: "tools",
        files: &["grep.rs", "grep/search.rs"],
        reason: "a parent and its child: the search takes the arguments of the tool",
    },
    Allowed {
        folder: "tools",
        files: &["pdf.rs", "pdf/page.rs"],
        reason: "to be broken: `MAX_STREAM` moves to `pdf/page.rs`",
    },
    Allowed {
        folder: "tools",
        files: &["web.rs", "web/address.rs", "web/get.rs", "web/search.rs"],
        reason: "a parent and its children: the tools of the web share one client",
    },
];
