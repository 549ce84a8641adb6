//! What reads bytes from outside, each with what must hold whatever they are.
//!
//! Every target is a function that panics where it does not hold. Its tests run it over the committed corpus and over
//! inputs that are made from it; `cargo xtask fuzz` runs it for as long as one likes, with libFuzzer looking for
//! inputs that take new ways. What that finds becomes a file of the corpus, so that the tests try it ever after.

mod front_matter;
mod proxy;
mod scenario;
mod shell;
mod sse;
mod stream_json;

/// One thing that reads bytes from outside.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `corpus`.
    pub name: &'static str,
    /// Reads these bytes. Panics where something does not hold.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "front-matter",
        run: front_matter::run,
    },
    Target {
        name: "proxy-request",
        run: proxy::run,
    },
    Target {
        name: "scenario",
        run: scenario::run,
    },
    Target {
        name: "shell-rule",
        run: shell::run,
    },
    Target {
        name: "sse",
        run: sse::run,
    },
    Target {
        name: "stream-json",
        run: stream_json::run,
    },
];
