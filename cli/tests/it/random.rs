//! Chance that can be repeated: a failing test names its seed, and the same seed gives the same test.
//!
//! A test has few rounds, so that the whole suite stays quick; a variable of its own gives it more of them:
//! `AH_TEST_KILLS`, `AH_TEST_WRITES`, `AH_TEST_CUTS`, `AH_TEST_GARBLED`, `AH_TEST_DAMAGED`; `AH_TEST_OUTPUT_MB` makes
//! the very long output longer.

use std::env;
use std::time::SystemTime;

/// How many rounds a test of chance has: `usual`, or as many as the variable says.
pub fn rounds(variable: &str, usual: u32) -> u32 {
    let asked = env::var(variable).ok();
    asked.map_or(usual, |text| text.parse().expect("a number of rounds"))
}

/// A stream of numbers that depend on the seed alone.
pub struct Random(u64);

impl Random {
    /// The seed is that of `AH_TEST_SEED`, or one of the moment, which is printed.
    #[expect(
        clippy::print_stdout,
        reason = "a test that fails shows what it has printed"
    )]
    pub fn new() -> Self {
        let now = || {
            SystemTime::UNIX_EPOCH
                .elapsed()
                .unwrap()
                .subsec_nanos()
                .into()
        };
        let seed =
            env::var("AH_TEST_SEED").map_or_else(|_| now(), |text| text.parse().expect("a seed"));
        println!("AH_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        // SplitMix64, by Sebastiano Vigna.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// A part of one.
    pub fn fraction(&mut self) -> f64 {
        self.below(10_000) as f64 / 10_000.0
    }
}
