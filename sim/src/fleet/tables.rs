//! The tables of PostgreSQL as a model: what each function of `store-postgres/src/schema` does in one transaction. Time is the server's.

use std::collections::BTreeMap;

use ah_conversation::{MailKind, SessionId};
use ah_store::fleet::{Asker, NewRun, Run, RunState, Schedule, Start, Wish, command};
use ah_store::log::Entry;

/// The rows. Times are in milliseconds.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) sessions: BTreeMap<SessionId, SessionRow>,
    pub(crate) mail: Vec<MailRow>,
    pub(crate) runs: Vec<RunInTable>,
    pub(crate) questions: Vec<QuestionRow>,
    pub(crate) schedules: Vec<ScheduleRow>,
    blobs: BTreeMap<String, Vec<u8>>,
    numbers: i64,
}

#[derive(Default)]
pub(crate) struct SessionRow {
    epoch: i64,
    owner: Option<String>,
    beat_at: i64,
    /// Bodies of changes, each with the epoch of who made it.
    pub(crate) changes: Vec<(i64, String)>,
}

pub(crate) struct MailRow {
    pub(crate) session: SessionId,
    pub(crate) id: String,
    pub(crate) kind: MailKind,
    pub(crate) content: String,
    pub(crate) sent_at: i64,
    pub(crate) is_consumed: bool,
}

#[derive(Clone)]
pub(crate) struct RunInTable {
    pub(crate) id: i64,
    pub(crate) session: SessionId,
    pub(crate) run: NewRun,
    pub(crate) state: RunState,
    due_at: i64,
    pub(crate) attempt: u32,
    pub(crate) owner: Option<String>,
    beat_at: i64,
    pub(crate) wish: Option<Wish>,
    pub(crate) reason: Option<String>,
    pub(crate) queued_at: i64,
    taken_by: Option<String>,
}

pub(crate) struct QuestionRow {
    pub(crate) number: i64,
    pub(crate) session: SessionId,
    digest: String,
    pub(crate) body: String,
    asker: String,
    pub(crate) answer: Option<String>,
    is_taken: bool,
}

pub(crate) struct ScheduleRow {
    pub(crate) schedule: Schedule,
    run: NewRun,
}

impl Tables {
    fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    fn has_mail(&self, session: &SessionId) -> bool {
        let mut mail = self.mail.iter();
        mail.any(|row| row.session == *session && !row.is_consumed)
    }

    /// Queues a message; the same one once. Returns whether it is new.
    fn letter(
        &mut self,
        session: &SessionId,
        id: &str,
        kind: MailKind,
        text: &str,
        now: i64,
    ) -> bool {
        if self.mail.iter().any(|row| row.id == id) {
            return false;
        }
        self.mail.push(MailRow {
            session: session.clone(),
            id: id.to_owned(),
            kind,
            content: text.to_owned(),
            sent_at: now,
            is_consumed: false,
        });
        true
    }

    fn insert(&mut self, session: &SessionId, run: &NewRun, now: i64, delay: i64) -> i64 {
        let id = self.number();
        self.runs.push(RunInTable {
            id,
            session: session.clone(),
            run: run.clone(),
            state: RunState::Queued,
            due_at: now + delay,
            attempt: 0,
            owner: None,
            beat_at: now,
            wish: None,
            reason: None,
            queued_at: now,
            taken_by: None,
        });
        id
    }

    fn last_run(&mut self, session: &SessionId) -> Option<&mut RunInTable> {
        let runs = self.runs.iter_mut().filter(|row| row.session == *session);
        runs.max_by_key(|row| row.id)
    }

    /// `ENQUEUE`
    pub(crate) fn enqueue(&mut self, run: &NewRun, now: i64) -> i64 {
        let session = &run.session;
        self.sessions.entry(session.clone()).or_default();
        let kind = MailKind::FollowUp;
        match self.letter(session, run.message.as_str(), kind, &run.prompt, now) {
            true => self.insert(session, run, now, milliseconds(run.delay)),
            false => self.last_run(session).map_or(0, |row| row.id),
        }
    }

    /// `ah.claim`
    pub(crate) fn claim(
        &mut self,
        worker: &str,
        dead: i64,
        request: &str,
        now: i64,
    ) -> Option<Run> {
        let is_it = |row: &RunInTable| {
            row.taken_by.as_deref() == Some(request)
                && row.state == RunState::Running
                && row.owner.as_deref() == Some(worker)
        };
        let taken = self.runs.iter().position(is_it).or_else(|| {
            let at = self.next_run(worker, dead, now)?;
            let row = &mut self.runs[at];
            row.state = RunState::Running;
            row.owner = Some(worker.to_owned());
            row.attempt += 1;
            row.beat_at = now;
            Some(at)
        })?;
        let row = &mut self.runs[taken];
        row.taken_by = Some(request.to_owned());
        Some(Run {
            id: row.id,
            session: row.session.clone(),
            folder: row.run.folder.clone(),
            model: row.run.model.clone(),
            attempt: row.attempt,
            attempts: row.run.attempts,
            command: command::of(command::stored(&row.run.command)),
            answer_within: row.run.answer_within,
        })
    }

    fn next_run(&self, worker: &str, dead: i64, now: i64) -> Option<usize> {
        let is_due = |row: &RunInTable| match row.state {
            RunState::Queued => row.due_at <= now,
            RunState::Running => row.owner.as_deref() != Some(worker) && row.beat_at < now - dead,
            _ => false,
        };
        let is_busy = |row: &RunInTable| {
            self.runs.iter().any(|other| {
                other.session == row.session
                    && other.id != row.id
                    && other.state == RunState::Running
                    && other.beat_at >= now - dead
            })
        };
        let rows = self.runs.iter().enumerate();
        let free = rows.filter(|(_, row)| is_due(row) && !is_busy(row));
        let order = |row: &RunInTable| (-row.run.priority, row.due_at, row.id);
        free.min_by_key(|(_, row)| order(row)).map(|(at, _)| at)
    }

    /// The statement of `Fleet::beat`
    pub(crate) fn beat(&mut self, run: i64, worker: &str, now: i64) -> Option<Option<Wish>> {
        let mut runs = self.runs.iter_mut();
        let row = runs.find(|row| {
            row.id == run && row.owner.as_deref() == Some(worker) && row.state == RunState::Running
        })?;
        row.beat_at = now;
        let (wish, session) = (row.wish, row.session.clone());
        if let Some(held) = self.sessions.get_mut(&session)
            && held.owner.as_deref() == Some(worker)
        {
            held.beat_at = now;
        }
        Some(wish)
    }

    /// `ah.finish`
    pub(crate) fn finish(
        &mut self,
        run: i64,
        worker: &str,
        part: &ah_store::fleet::Part<'_>,
        now: i64,
    ) -> bool {
        let mut runs = self.runs.iter_mut();
        let Some(row) = runs.find(|row| {
            row.id == run && row.owner.as_deref() == Some(worker) && row.state == RunState::Running
        }) else {
            return false;
        };
        row.state = part.state;
        let reason = part.reason.map(str::to_owned);
        row.reason = match part.state {
            RunState::Done => reason,
            _ => reason.or(row.reason.take()),
        };
        if part.state == RunState::Queued {
            row.owner = None;
        }
        row.due_at = now + milliseconds(part.after);
        row.attempt -= u32::from(!part.counts);
        let session = row.session.clone();
        if part.state != RunState::Queued {
            self.questions.retain(|row| row.session != session);
        }
        if part.state == RunState::Done {
            self.queue_again(&session, now);
        }
        true
    }

    /// `ah.queue_again`
    fn queue_again(&mut self, session: &SessionId, now: i64) {
        if !self.has_mail(session) {
            return;
        }
        if let Some(row) = self.last_run(session).filter(|row| row.state.is_over()) {
            row.state = RunState::Queued;
            row.due_at = now;
            row.attempt = 0;
            row.owner = None;
            row.wish = None;
        }
    }

    /// `ah.send`
    pub(crate) fn send(
        &mut self,
        session: &SessionId,
        id: &str,
        kind: MailKind,
        text: &str,
        now: i64,
    ) {
        self.letter(session, id, kind, text, now);
        let stopped = self
            .last_run(session)
            .filter(|row| !row.state.is_over() && row.wish.is_some())
            .map(|row| row.run.clone());
        if let Some(run) = stopped {
            self.insert(session, &run, now, 0);
        }
        self.queue_again(session, now);
    }

    /// The statement of `Fleet::wish`
    pub(crate) fn wish(&mut self, session: &SessionId, wish: Wish) -> u64 {
        let mut count = 0;
        for row in self.runs.iter_mut().filter(|row| row.session == *session) {
            let is_queued = row.state == RunState::Queued;
            if row.state == RunState::Running || is_queued && wish == Wish::Cancel {
                row.wish = Some(wish);
                if is_queued {
                    row.state = RunState::Cancelled;
                }
                count += 1;
            }
        }
        count
    }

    /// `ah.take`
    pub(crate) fn take(
        &mut self,
        session: &SessionId,
        holder: &str,
        dead: i64,
        now: i64,
    ) -> Option<(i64, Vec<String>)> {
        let row = self.sessions.entry(session.clone()).or_default();
        let is_free =
            row.owner.as_deref().is_none_or(|owner| owner == holder) || row.beat_at < now - dead;
        if !is_free {
            return None;
        }
        row.epoch += 1;
        row.owner = Some(holder.to_owned());
        row.beat_at = now;
        let bodies = row.changes.iter().map(|(_, body)| body.clone());
        Some((row.epoch, bodies.collect()))
    }

    /// Gives a session back.
    pub(crate) fn release(&mut self, session: &SessionId, holder: &str) {
        if let Some(row) = self.sessions.get_mut(session)
            && row.owner.as_deref() == Some(holder)
        {
            row.owner = None;
        }
    }

    /// `ah.append`: returns whether mail waits, or nothing if the change was not stored.
    pub(crate) fn append(
        &mut self,
        session: &SessionId,
        (epoch, place): (i64, i64),
        entry: &Entry,
        now: i64,
    ) -> Option<bool> {
        let row = self.sessions.get_mut(session)?;
        let next = i64::try_from(row.changes.len()).unwrap_or(i64::MAX);
        if row.epoch != epoch || next != place {
            return None;
        }
        row.beat_at = now;
        row.changes.push((epoch, entry.body.clone()));
        let is_in = |row: &&mut MailRow| {
            row.session == *session && entry.messages.iter().any(|id| id.as_str() == row.id)
        };
        for letter in self.mail.iter_mut().filter(is_in) {
            letter.is_consumed = true;
        }
        for blob in &entry.blobs {
            self.blobs.insert(blob.hash.clone(), blob.content.clone());
        }
        Some(self.has_mail(session))
    }

    /// Returns the epoch of the change at a place.
    pub(crate) fn epoch_at(&self, session: &SessionId, place: i64) -> Option<i64> {
        let at = usize::try_from(place).ok()?;
        let row = self.sessions.get(session)?;
        row.changes.get(at).map(|(epoch, _)| *epoch)
    }

    pub(crate) fn blob(&self, hash: &str) -> Option<Vec<u8>> {
        self.blobs.get(hash).cloned()
    }

    /// `ASK`
    pub(crate) fn ask(
        &mut self,
        session: &SessionId,
        digest: String,
        body: &str,
        asker: &Asker<'_>,
    ) {
        let number = self.number();
        let mut questions = self.questions.iter_mut();
        let known = questions.find(|row| row.session == *session && row.digest == digest);
        match known {
            Some(row) => {
                row.asker = asker.name.to_owned();
                if row.is_taken && !asker.asks_again() {
                    (row.number, row.answer, row.is_taken) = (number, None, false);
                }
            }
            None => self.questions.push(QuestionRow {
                number,
                session: session.clone(),
                digest,
                body: body.to_owned(),
                asker: asker.name.to_owned(),
                answer: None,
                is_taken: false,
            }),
        }
    }

    /// The statement of `Questions::take_answer`
    pub(crate) fn take_answer(&mut self, session: &SessionId, asker: &str) -> Option<String> {
        let mut questions = self.questions.iter_mut();
        let row = questions
            .find(|row| row.session == *session && row.asker == asker && row.answer.is_some())?;
        row.is_taken = true;
        row.answer.clone()
    }

    /// The statement of `Questions::withdraw_question`
    pub(crate) fn withdraw(&mut self, session: &SessionId, asker: &str) {
        self.questions
            .retain(|row| row.session != *session || row.asker != asker || row.answer.is_some());
    }

    /// The statement of `Questions::answer`
    pub(crate) fn answer(&mut self, session: &SessionId, number: i64, answer: &str) -> bool {
        let mut questions = self.questions.iter_mut();
        let row = questions
            .find(|row| row.session == *session && row.number == number && row.answer.is_none());
        row.is_some_and(|row| row.answer.replace(answer.to_owned()).is_none())
    }

    /// The statement of `Schedules::schedule`
    pub(crate) fn schedule(&mut self, cron: &str, due: ah_conversation::Time, run: &NewRun) -> i64 {
        let mut known = self.schedules.iter();
        if let Some(row) = known.find(|row| row.run.message == run.message) {
            return row.schedule.number;
        }
        let number = self.number();
        self.schedules.push(ScheduleRow {
            schedule: Schedule {
                number,
                cron: cron.to_owned(),
                due,
                prompt: run.prompt.clone(),
            },
            run: run.clone(),
        });
        number
    }

    /// `START`
    pub(crate) fn start(
        &mut self,
        schedule: &Schedule,
        start: &Start,
        next: ah_conversation::Time,
        (now, is_checked): (i64, bool),
    ) -> bool {
        let mut rows = self.schedules.iter_mut();
        let Some(row) = rows.find(|row| {
            row.schedule.number == schedule.number
                && (row.schedule.due == schedule.due || !is_checked)
        }) else {
            return false;
        };
        row.schedule.due = next;
        let run = row.run.clone();
        let session = &start.session;
        self.sessions.entry(session.clone()).or_default();
        let kind = MailKind::FollowUp;
        self.letter(session, start.message.as_str(), kind, &run.prompt, now);
        self.insert(session, &run, now, 0);
        true
    }
}

fn milliseconds(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
