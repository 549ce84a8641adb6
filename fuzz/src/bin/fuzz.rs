//! Binary for libFuzzer. The target is named by a variable, since the arguments are libFuzzer's own.

#![no_main]

use std::sync::LazyLock;

use ah_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("AH_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.into_iter().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("no target `{name}`"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
