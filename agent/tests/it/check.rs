//! The check of a run: when it runs, and what its end is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_conversation::{Check, CheckRun, Evidence, ExitReason, Taken};
use ah_testkit::script::says;
use async_trait::async_trait;

use crate::world::World;

/// A check that passes from its run with this number on.
#[derive(Debug)]
struct PassesAt {
    number: usize,
    runs: AtomicUsize,
}

impl PassesAt {
    fn new(number: usize) -> Arc<Self> {
        let runs = AtomicUsize::new(0);
        Arc::new(Self { number, runs })
    }
}

#[async_trait]
impl Check for PassesAt {
    fn command(&self) -> &'static str {
        "make test"
    }

    fn most(&self) -> usize {
        3
    }

    async fn run_asked(&self, _: Taken) -> CheckRun {
        self.run().await
    }

    async fn run(&self) -> CheckRun {
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        CheckRun {
            is_passed: number >= self.number,
            ending: "exit 1".to_owned(),
            tree: number.to_string(),
            ..CheckRun::default()
        }
    }
}

#[tokio::test]
async fn a_run_ends_once_its_check_passes() {
    for (number, requests, evidence, reason) in [
        (1, 1, Evidence::Verified, ExitReason::EndTurn),
        (3, 3, Evidence::Verified, ExitReason::EndTurn),
        (4, 3, Evidence::Claimed, ExitReason::CheckFailed),
    ] {
        let mut world = World::new([says("Done."), says("Now."), says("Now, then.")]);
        world.settings.check.set(Some(PassesAt::new(number)));
        let outcome = world.run("mend").await;
        let verification = outcome.verification.unwrap();
        assert_eq!((outcome.reason, verification.evidence), (reason, evidence));
        assert_eq!(world.requests().len(), requests);
        assert_eq!(verification.checks, requests);
    }
}

/// Without a prompt only the check runs. What it shows begins a run, which may be checked as often as any other.
#[tokio::test]
async fn a_check_needs_no_prompt() {
    for (number, requests, evidence) in [
        (1, 0, Evidence::Verified),
        (3, 2, Evidence::Verified),
        (4, 2, Evidence::Claimed),
    ] {
        let mut world = World::new([says("Done."), says("Still."), says("Still.")]);
        world.settings.check.set(Some(PassesAt::new(4)));
        world.run("mend").await;
        let mut again = world.resumed([says("Now."), says("Now, then.")]);
        again.settings.check.set(Some(PassesAt::new(number)));
        let outcome = again.check_alone().await;
        let verification = outcome.verification.unwrap();
        assert_eq!(verification.evidence, evidence);
        assert_eq!(again.requests().len(), requests);
        assert_eq!(verification.checks, number.min(3));
    }
}

/// What a process has not told before it died, another one finds out, and repeats nothing else.
#[tokio::test]
async fn an_answer_that_was_not_checked_is_checked_by_who_resumes_the_run() {
    for (number, asked) in [(1, 0), (2, 1)] {
        let mut world = World::new([says("Done.")]);
        world.run("mend").await;
        let again = world.resumed([says("Now.")]);
        let check = PassesAt::new(number);
        again.settings.check.set(Some(check.clone()));
        let outcome = again.take_over().await.expect("it is checked");
        assert_eq!(outcome.verification.unwrap().evidence, Evidence::Verified);
        assert_eq!(again.requests().len(), asked);
        assert_eq!(check.runs.load(Ordering::Relaxed), number);
    }
}
