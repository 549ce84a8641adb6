//! Every target over its corpus, and over inputs derived from it by cutting, joining and inserting bytes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use ah_fuzz::{TARGETS, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Number of derived inputs for each target.
const CASES: u32 = 400;

/// Returns the inputs of a target's corpus, one per file.
fn corpus(target: Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut paths: Vec<_> = fs::read_dir(folder.join(target.name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Derives an input from two of the corpus: a piece of one, some bytes, a piece of the other.
fn made_from(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let noise = vec(
        prop_oneof![
            any::<u8>(),
            prop::sample::select(b" \t\r\n\0'\"\\$(){}[]<>&;|#:-=*~,".to_vec()),
        ],
        0..6,
    );
    let piece = (any::<Index>(), any::<Index>(), any::<Index>());
    (piece.clone(), noise, piece).prop_map(move |(first, noise, second)| {
        let cut = |(file, from, to): (Index, Index, Index)| {
            let file = &corpus[file.index(corpus.len())];
            let (from, to) = (from.index(file.len() + 1), to.index(file.len() + 1));
            file[from.min(to)..from.max(to)].to_vec()
        };
        [cut(first), noise, cut(second)].concat()
    })
}

fn holds(name: &str) {
    let target = TARGETS
        .into_iter()
        .find(|target| target.name == name)
        .unwrap();
    let corpus = corpus(target);
    assert!(corpus.len() >= 5, "{} files", corpus.len());
    for input in &corpus {
        (target.run)(input);
    }
    let config = Config {
        cases: CASES,
        // Failing inputs are added to the corpus by hand.
        failure_persistence: None,
        ..Config::default()
    };
    let inputs = prop_oneof![3 => made_from(corpus), 1 => vec(any::<u8>(), 0..200)];
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        (target.run)(&input);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn front_matter() {
    holds("front-matter");
}

#[test]
fn requests_to_the_proxy() {
    holds("proxy-request");
}

#[test]
fn scenarios() {
    holds("scenario");
}

#[test]
fn answers_of_interactions() {
    holds("interaction");
}

#[test]
fn shell_lines_under_rules() {
    holds("shell-rule");
}

#[test]
fn server_sent_events() {
    holds("sse");
}

#[test]
fn lines_of_hosts() {
    holds("stream-json");
}

#[test]
fn every_target_has_a_test_and_a_corpus() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap();
    let mut folders: Vec<_> = folders
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, TARGETS.map(|target| target.name));
}
