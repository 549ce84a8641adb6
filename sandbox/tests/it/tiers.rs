//! Which tier can be built on which machine, and what each tier does not hold.

use std::collections::BTreeMap;

use ah_sandbox::Tier;

use crate::attacks::{Bait, ordinary_user};

/// Newest version of Landlock that a tier uses: with an older one, the weakest tier holds less.
const NEWEST_LANDLOCK: i64 = 6;

/// Version of Landlock on this machine.
fn landlock() -> i64 {
    // SAFETY: asked for the version, the call reads no memory.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, 1) }
}

/// Returns the strongest tier that can be built on a machine.
pub fn strongest(machine: &str, user: u32) -> Option<String> {
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

/// What a command can do in the tier without mounts while it runs. Of what it changes in protected files nothing is left
/// afterwards; the tables of attacks of `ah-cli` test that, and the documentation is made of them.
const NOT_HELD_BY_LANDLOCK: [&str; 15] = [
    "ask whether a file is there",
    "change into a folder outside",
    "change modes outside",
    "change times outside",
    "delete settings of another agent",
    "delete the configuration of git",
    "put a configuration of git in the old one's place",
    "put another repository in the place of this",
    "put other hooks in the place of git's",
    "read what a process was started with",
    "see what in /etc is not for everybody",
    "write a hook of git",
    "write settings of another agent",
    "write settings of this program",
    "write the configuration of git",
];

#[test]
fn what_a_tier_does_not_hold_is_known() {
    if landlock() < NEWEST_LANDLOCK || strongest("this", ordinary_user()).as_deref() != Some("full")
    {
        eprintln!("left out: this needs Linux 6.12 or newer with a full sandbox");
        return;
    }
    for tier in [Tier::Full, Tier::Namespaces] {
        let found = not_held(tier);
        assert!(found.is_empty(), "{tier:?}: {found:#?}");
    }
    let found = not_held(Tier::Landlock);
    let found: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(found, NOT_HELD_BY_LANDLOCK);
}
