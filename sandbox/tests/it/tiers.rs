//! Which tier can be built on which machine, and what each tier does not hold.

use std::collections::BTreeMap;
use std::path::Path;

use ah_sandbox::Tier;

use crate::attacks::{Bait, ordinary_user};

const PAGE: &str = include_str!("../../../docs/sandbox.md");
/// Newest version of Landlock that a tier uses: with an older one, the weakest tier holds less.
const NEWEST_LANDLOCK: i64 = 6;

/// Version of Landlock on this machine.
fn landlock() -> i64 {
    // SAFETY: asked for the version, the call reads no memory.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, 1) }
}

/// Returns the strongest tier that can be built on a machine.
fn strongest(machine: &str, user: u32) -> Option<String> {
    let bait = Bait::lay(user);
    let output = bait.program(user).args(["on", machine, "tiers"]).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut lines = said
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let built = lines.find(|line| line.last() == Some(&"built"));
    built.map(|line| line[0].to_owned())
}

#[test]
fn on_each_machine_the_strongest_tier_is_found() {
    let own = rustix::process::geteuid().as_raw();
    if strongest("this", ordinary_user()).as_deref() != Some("full") {
        assert!(
            std::env::var_os("CI").is_none(),
            "no sandbox, though CI is set"
        );
        return;
    }
    for (machine, expected) in [
        ("docker", Some("landlock")),
        ("ubuntu-24.04", Some("landlock")),
        ("debian-12", Some("namespaces")),
        ("neither", None),
    ] {
        for user in [ordinary_user(), own] {
            let found = strongest(machine, user);
            assert_eq!(found.as_deref(), expected, "{machine} as {user}");
        }
    }
}

/// Returns the attacks that a tier does not hold, and whether an ordinary user can carry them out.
fn not_held(tier: Tier) -> BTreeMap<String, bool> {
    let own = rustix::process::geteuid().as_raw();
    let mut found = BTreeMap::new();
    for user in [own, ordinary_user()] {
        let bare = Bait::lay(user).attack(user, &["all"]);
        let confined = Bait::lay(user).attack(user, &["confined", tier.as_str(), "all"]);
        assert!(confined.is_empty() || confined.len() == bare.len());
        for ((name, _, outside), (_, _, inside)) in bare.into_iter().zip(confined) {
            if inside == "escaped" && outside == "escaped" {
                found.insert(name, user != 0);
            }
        }
    }
    found
}

/// With `AH_WRITE_DOCS=1` the table is written instead of compared.
#[test]
fn the_table_of_what_a_tier_does_not_hold_agrees_with_a_run() {
    if landlock() < NEWEST_LANDLOCK || strongest("this", ordinary_user()).as_deref() != Some("full")
    {
        eprintln!("left out: the table needs Linux 6.12 or newer with a full sandbox");
        return;
    }
    let held = Tier::ALL.map(not_held);
    assert!(held[0].is_empty(), "{:#?}", held[0]);
    let mut names: Vec<_> = held.iter().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    let mut lines = vec![
        format!("| | {} |", Tier::ALL.map(Tier::as_str).join(" | ")),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    for name in names {
        let cells = held.each_ref().map(|tier| match tier.get(name) {
            None => "held",
            Some(true) => "not held",
            Some(false) => "not held for root",
        });
        lines.push(format!("| {name} | {} |", cells.join(" | ")));
    }
    let (before, rest) = PAGE.split_once("<!-- tiers -->\n").unwrap();
    let (table, after) = rest.split_once("<!-- end of tiers -->").unwrap();
    let fresh = format!("\n{}\n\n", lines.join("\n"));
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sandbox.md");
        let page = format!("{before}<!-- tiers -->\n{fresh}<!-- end of tiers -->{after}");
        std::fs::write(path, page).unwrap();
    } else {
        assert_eq!(
            table, fresh,
            "set AH_WRITE_DOCS=1 to bring the page up to date"
        );
    }
}
