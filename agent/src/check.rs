//! The check of a run (`--until`). When the model ends its turn, the engine runs it; the run ends once it has passed.
//!
//! How it runs is left to the port [`Check`]. What follows is decided here, from the messages of the run alone: a run that
//! was killed between the check and its message checks again, and repeats none of the work.

use std::sync::Arc;

use ah_conversation::{
    Check, CheckRun, ContentBlock, EventKind, Evidence, ExitReason, Message, Origin, Role,
    StoreError, Verification,
};

use crate::{RunOutcome, Session, Stop};

/// Begins a message about a check that did not pass.
const MARK: &str = "[CHECK]";
/// Names the state of the files in it.
const TREE: &str = "State of the files: ";
/// Number of times in a row that the check may fail on the same files.
const SAME: usize = 3;

/// What follows from a run of the check.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The run ends.
    End,
    /// The model is told this.
    Tell(String),
}

impl Session {
    /// Runs `prompt` to its end, or until `stop`. If it is empty, the check alone runs on what earlier runs have done; the model
    /// is asked only if it does not pass.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored; every other failure is a [`RunOutcome`].
    pub async fn run_or_check(
        &mut self,
        prompt: Vec<ContentBlock>,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        let is_empty =
            |block: &ContentBlock| { block.as_text() }.is_some_and(|text| text.trim().is_empty());
        if self.settings.check.get().is_none() || !prompt.iter().all(is_empty) {
            return self.run(prompt, stop).await;
        }
        let (started, stop) = self.begin_time(stop);
        self.announce(String::new());
        if self.is_told_of_check(Origin::Prompt, &stop).await? {
            return self.go_on(started, &stop).await;
        }
        let ended = stop.reason(self.ports.clock.now());
        let reason = self.reason_after_check(ended.unwrap_or(ExitReason::EndTurn));
        // What was asked and answered before is no part of it.
        let outcome = RunOutcome {
            duration_ms: self.ports.clock.now().since(started),
            verification: self.take_verification(),
            ..RunOutcome::new(reason)
        };
        self.end(&outcome).await?;
        Ok(outcome)
    }

    /// Lets further runs go on until this check passes; without one, until the model ends its turn.
    pub fn set_check(&mut self, check: Option<Arc<dyn Check>>) {
        self.settings.check.set(check);
    }

    /// Whether this is the command of the check in force; without one, whether there is a check.
    pub fn has_check(&self, command: Option<&str>) -> bool {
        let check = self.settings.check.get();
        check.is_some_and(|check| command.is_none_or(|command| command == check.command()))
    }

    /// Runs the check, if there is one and the model has just ended its turn; returns whether the run continues.
    pub(crate) async fn is_continued_by_check(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        match self.owes_check() {
            true => self.is_told_of_check(Origin::Reminder, stop).await,
            false => Ok(false),
        }
    }

    /// Runs the check; if the model can do something about what it shows, tells it. What it is told begins a run if it is a
    /// prompt.
    async fn is_told_of_check(&mut self, origin: Origin, stop: &Stop) -> Result<bool, StoreError> {
        let Some(check) = self.settings.check.get() else {
            return Ok(false);
        };
        let begins = origin == Origin::Prompt;
        let number = match begins {
            true => 1,
            false => failures(self.transcript.run()).count() + 1,
        };
        let clock = self.ports.clock.clone();
        let run = tokio::select! {
            biased;
            () = stop.wait(&*clock) => return Ok(false),
            run = check.run() => run,
        };
        let before = if begins { &[] } else { self.transcript.run() };
        let next = after(before, &*check, &run, number);
        let verification = Verification::of(&*check, &run, number);
        self.verification = Some(verification.clone());
        match next {
            Next::End => Ok(false),
            Next::Tell(text) => {
                self.tell_checked(verification, false);
                self.append(origin, vec![ContentBlock::text(text)]).await?;
                // What comes now is checked anew.
                self.verification = None;
                Ok(true)
            }
        }
    }

    /// Whether the run has a check that says nothing yet about the last answer.
    pub(crate) fn owes_check(&self) -> bool {
        let is_answer = |last: &Arc<Message>| last.role == Role::Assistant;
        self.settings.check.get().is_some()
            && self.verification.is_none()
            && !self.stop_prevented
            && self.transcript.last().is_some_and(is_answer)
    }

    /// Returns what is known about the work at the end of the run, if it has a check.
    pub(crate) fn take_verification(&mut self) -> Option<Verification> {
        let check = self.settings.check.get()?;
        let not_tried = || {
            let failed = failures(self.transcript.run()).count();
            let left = check.most().saturating_sub(failed);
            let mut verification = Verification::not_tried(check.command(), left);
            verification.checks = failed;
            verification
        };
        Some(self.verification.take().unwrap_or_else(not_tried))
    }

    /// Tells what is known about the work at the end of the run.
    pub(crate) fn tell_verification(&mut self, outcome: &RunOutcome) {
        if let Some(verification) = outcome.verification.clone() {
            self.tell_checked(verification, true);
        }
    }

    fn tell_checked(&mut self, verification: Verification, is_last: bool) {
        self.emit(&EventKind::Checked {
            verification,
            is_last,
            message_id: self.transcript.last().map(|last| last.id.clone()),
        });
    }

    /// Returns the reason for the end of a run whose model ended its turn.
    pub(crate) fn reason_after_check(&self, reason: ExitReason) -> ExitReason {
        let is_verified = |verification: &Verification| verification.evidence == Evidence::Verified;
        let is_claimed = self
            .verification
            .as_ref()
            .is_some_and(|it| !is_verified(it));
        if reason.is_end_of_turn() && is_claimed {
            ExitReason::CheckFailed
        } else {
            reason
        }
    }
}

/// Returns the messages about failed checks, the last first.
fn failures(run: &[Arc<Message>]) -> impl Iterator<Item = String> {
    let is_failure =
        |message: &&Arc<Message>| matches!(message.origin, Origin::Reminder | Origin::Prompt);
    let texts = run.iter().rev().filter(is_failure).map(|it| it.text());
    texts.filter(|text| text.starts_with(MARK))
}

/// Returns what follows from the check that ran as number `number` of the run.
fn after(messages: &[Arc<Message>], check: &dyn Check, run: &CheckRun, number: usize) -> Next {
    let left = check.most().saturating_sub(number);
    let state = format!("{TREE}{}.", run.tree);
    let same = failures(messages).take_while(|text| text.contains(&state));
    if run.is_passed || left == 0 || same.count() + 1 >= SAME {
        return Next::End;
    }
    // Of an earlier run, nothing is known here.
    let why = match messages {
        [] => "",
        _ => "You ended your turn, so ",
    };
    let mut text = format!(
        "{MARK} {why}`{}` was run on your work. It did not pass: {}, after {} ms (check {number} of {}; {left} left).",
        check.command(),
        run.ending,
        run.duration_ms,
        check.most(),
    );
    text.push_str(&run.account());
    text.push_str(&format!(
        "\n{state}\nFix what is wrong and end your turn; the check runs again then. If it cannot pass, say why."
    ));
    Next::Tell(text)
}

#[cfg(test)]
mod tests {
    use ah_conversation::{MessageId, Taken, Time};
    use async_trait::async_trait;

    use super::*;

    #[derive(Debug)]
    struct Make;

    #[async_trait]
    impl Check for Make {
        fn command(&self) -> &'static str {
            "make test"
        }

        fn most(&self) -> usize {
            4
        }

        async fn run_asked(&self, _: Taken) -> CheckRun {
            self.run().await
        }

        async fn run(&self) -> CheckRun {
            CheckRun::default()
        }
    }

    fn run(tree: &str, is_passed: bool) -> CheckRun {
        CheckRun {
            is_passed,
            ending: "exit 1".to_owned(),
            tree: tree.to_owned(),
            why: "a.py:3: wrong\n".to_owned(),
            edited: vec!["a.py".into()],
            ..CheckRun::default()
        }
    }

    fn message(at: usize, text: String) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId::from(at.to_string()),
            parent: None,
            seq: 0,
            role: Role::User,
            origin: Origin::Reminder,
            created_at: Time(0),
            content: vec![ContentBlock::text(text)],
            response: None,
        })
    }

    /// Plays checks on these trees, and returns after which one the run ends.
    fn ends_after(trees: &str, passes: bool) -> usize {
        let mut messages = Vec::new();
        for (at, tree) in trees.split(' ').enumerate() {
            let is_last = at + 1 == trees.split(' ').count();
            match after(&messages, &Make, &run(tree, passes && is_last), at + 1) {
                Next::End => return at + 1,
                Next::Tell(text) => messages.push(message(at, text)),
            }
        }
        0
    }

    #[test]
    fn a_run_ends_when_its_check_passes_or_cannot() {
        for (trees, passes, expected) in [
            ("1", true, 1),
            ("1 2 3", true, 3),
            // The fourth is the last that it may have.
            ("1 2 3 4", false, 4),
            // Nothing was changed, twice.
            ("1 1 1 1", false, 3),
            ("1 2 1 2", false, 4),
            ("1 2 2 2", false, 4),
            ("1 2 3", false, 0),
        ] {
            assert_eq!(ends_after(trees, passes), expected, "{trees}");
        }
    }

    #[test]
    fn the_model_reads_why() {
        let read = |messages: &[Arc<Message>]| match after(messages, &Make, &run("5f", false), 1) {
            Next::Tell(text) => text,
            Next::End => panic!("the run ended"),
        };
        let began = read(&[]);
        assert!(began.starts_with("[CHECK] `make test` was run on your work. It did not pass"));
        let text = read(&[message(0, "Done.".to_owned())]);
        insta::assert_snapshot!(text, @r"
        [CHECK] You ended your turn, so `make test` was run on your work. It did not pass: exit 1, after 0 ms (check 1 of 4; 3 left).

        a.py:3: wrong
        Changed since the last check: a.py.
        State of the files: 5f.
        Fix what is wrong and end your turn; the check runs again then. If it cannot pass, say why.
        ");
    }
}
