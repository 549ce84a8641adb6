//! Fuzz targets: parsers of external bytes, each with properties that hold for any input.
//!
//! Every target is a function that panics if a property is violated. The tests run it over the committed corpus and over
//! inputs derived from it; `cargo xtask fuzz` runs it under libFuzzer, which searches for inputs with new coverage. An
//! input that fails there is added to the corpus, so that the tests run it from then on.

mod front_matter;
mod interaction;
mod proxy;
mod scenario;
mod shell;
mod sse;
mod stream_json;

/// One parser of external bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target and of its folder in `corpus`.
    pub name: &'static str,
    /// Parses the bytes; panics if a property is violated.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "front-matter",
        run: front_matter::run,
    },
    Target {
        name: "interaction",
        run: interaction::run,
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
