//! The demonstration of `ah demo`: a folder with a shell program and its failing test, and the scenario that fixes it.
//! It needs only a POSIX shell.

/// The name of the built-in scenario: `script:demo`.
pub const NAME: &str = "demo";

/// The scenario, in YAML.
pub(super) const SCENARIO: &str = include_str!("demo.yaml");

/// The prompt of the user.
pub const PROMPT: &str = "The test fails. Find out why and repair it.";

const GREET: &str = r#"#!/bin/sh
# Greets everyone who is named.
#
# usage: greet.sh NAME...

if [ $# -eq 0 ]; then
    echo "usage: greet.sh NAME..." >&2
    exit 2
fi

for name in $*; do
    echo "Hello, $name!"
done
"#;

const TEST: &str = r#"#!/bin/sh
# Tests greet.sh. Ends with 1 if a check fails.

failed=0

check() {
    expected=$1
    shift
    actual=$(sh greet.sh "$@")
    if [ "$actual" = "$expected" ]; then
        echo "ok: greet.sh $*"
    else
        echo "FAIL: greet.sh $*"
        echo "  expected: $expected"
        echo "  actual:   $actual" | tr '\n' ' '
        echo
        failed=1
    fi
}

check "Hello, Ada!" Ada
check "Hello, Grace Hopper!" "Grace Hopper"

exit $failed
"#;

/// Returns the files of the demo's folder: name and content.
pub fn files() -> &'static [(&'static str, &'static str)] {
    &[("greet.sh", GREET), ("test.sh", TEST)]
}
