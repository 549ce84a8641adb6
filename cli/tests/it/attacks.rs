//! Attacks of a stranger whose words the model follows: what a command or a call of a tool may try against the user.
//!
//! The tables are in `attacks/confined` (the sandbox holds) and `attacks/ruled` (the rules about permissions hold). Each
//! line is tried without the sandbox or the rule, where it must succeed: one that does not, since a program or a right
//! is missing, proves nothing and is left out by name. Then it is tried with it, as an ordinary user and as root, on
//! each tier of the sandbox.
//!
//! What a tier is known not to hold is a mark in the tables. The documentation has a table made of them;
//! `AH_WRITE_DOCS=1 cargo test -p ah-cli --test it documents_say` makes it again.

mod page;
mod place;
mod table;
mod trial;

use std::fs;
use std::path::Path;
use std::thread;

use parking_lot::Mutex;
use tempfile::TempDir;

use self::place::{NOBODY, Place, laid, reachable};
use self::table::{Section, parse};
use self::trial::{Outcome, confined, ruled};

/// Tiers of the sandbox, strongest first.
pub const TIERS: [&str; 3] = ["full", "namespaces", "landlock"];

/// The classes of the tables in a folder beside this file, in the order of the files' names.
pub fn tables(folder: &str) -> Vec<Section> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/attacks")
        .join(folder);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap());
    texts.flat_map(|text| parse(&text)).collect()
}

/// Tries all `sections` as `user` and compares what came through with what is known.
#[expect(clippy::print_stderr, reason = "what is left out is named")]
fn check(user: u32, sections: &[Section], attempt: fn(&Place, &Section, &mut Outcome)) {
    let folder = TempDir::with_prefix("ah-attacks-").unwrap();
    let program = reachable(user, folder.path());
    let files = laid(user, folder.path());
    // To try some classes alone.
    let only = std::env::var("AH_TEST_ATTACKS").unwrap_or_default();
    let chosen: Vec<_> = sections
        .iter()
        .filter(|section| section.title.contains(&only))
        .collect();
    let (waiting, outcome) = (
        Mutex::new(chosen.into_iter()),
        Mutex::new(Outcome::default()),
    );
    // Deleted at the end: see `restore.pl`.
    let places = Mutex::new(Vec::new());
    let workers = thread::available_parallelism()
        .map_or(2, usize::from)
        .min(4);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().next();
                    let Some(section) = next else { return };
                    let place = Place::lay(user, &program, &files);
                    let mut own = Outcome::default();
                    attempt(&place, section, &mut own);
                    outcome.lock().add(own);
                    places.lock().push(place);
                }
            });
        }
    });
    let outcome = outcome.into_inner();
    let (all, left_out) = (
        outcome.tried + outcome.left_out.len(),
        outcome.left_out.len(),
    );
    eprintln!(
        "as {user}, {left_out} of {all} attacks are left out, since they do nothing here: {}",
        outcome.left_out.join("; ")
    );
    assert!(
        outcome.faults.is_empty(),
        "as {user}:\n{}",
        outcome.faults.join("\n")
    );
    // An ordinary user can do less without the sandbox, too.
    let most = if user == 0 { 25 } else { 40 };
    let is_strict = std::env::var_os("CI").is_some();
    assert!(
        !is_strict || left_out * 100 <= all * most,
        "too many are left out"
    );
}

/// Returns a user other than root.
fn ordinary_user() -> u32 {
    match rustix::process::geteuid().as_raw() {
        0 => NOBODY,
        own => own,
    }
}

#[test]
fn the_sandbox_holds_attacks_of_an_ordinary_user() {
    check(ordinary_user(), &tables("confined"), confined);
}

#[test]
fn the_sandbox_holds_attacks_of_root() {
    if rustix::process::geteuid().is_root() {
        check(0, &tables("confined"), confined);
    }
}

#[test]
fn the_rules_hold_attacks_of_an_ordinary_user() {
    check(ordinary_user(), &tables("ruled"), ruled);
}

#[test]
fn the_rules_hold_attacks_of_root() {
    if rustix::process::geteuid().is_root() {
        check(0, &tables("ruled"), ruled);
    }
}

#[test]
fn the_documents_say_what_no_tier_holds() {
    let (confined, ruled) = (tables("confined"), tables("ruled"));
    let lines = |sections: &[Section]| sections.iter().map(|own| own.attacks.len()).sum::<usize>();
    assert!(lines(&confined) + lines(&ruled) >= 400);
    page::check(&confined, &ruled);
}
