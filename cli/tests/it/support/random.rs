//! Reproducible randomness: a failing test prints its seed, and the same seed repeats the test.
//!
//! A usual run has the same seed each time, so that a change is judged by the change alone. `AH_TEST_SEED` sets
//! another; with `random` it is drawn from the clock, as the scheduled run of the workflow `test` does to search.
//!
//! A test has few rounds, to keep the suite fast; its variable sets more: `AH_TEST_KILLS`, `AH_TEST_WRITES`,
//! `AH_TEST_CUTS`, `AH_TEST_GARBLED`, `AH_TEST_DAMAGED`, `AH_TEST_DENIED`, `AH_TEST_UNDO`,
//! `AH_TEST_UNDO_KILLS`, `AH_TEST_AGENTS`. `AH_TEST_OUTPUT_MB` sets the size of the very long output.

use std::env;
use std::time::SystemTime;

/// The number of rounds of a random test: the variable's value, or else `usual`.
pub fn rounds(variable: &str, usual: u32) -> u32 {
    let asked = env::var(variable).ok();
    asked.map_or(usual, |text| text.parse().expect("a number of rounds"))
}

/// A pseudo-random number generator, determined by its seed.
pub struct Random(u64);

impl Random {
    /// Starts from `AH_TEST_SEED`; prints the seed.
    #[expect(
        clippy::print_stdout,
        reason = "a test that fails shows what it has printed"
    )]
    pub fn new() -> Self {
        let seed = match env::var("AH_TEST_SEED").unwrap_or_default().as_str() {
            "" => 0,
            "random" => {
                let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
                now.subsec_nanos().into()
            }
            seed => seed.parse().expect("a seed"),
        };
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

    /// A number from 0 up to 1.
    pub fn fraction(&mut self) -> f64 {
        self.below(10_000) as f64 / 10_000.0
    }
}
