//! The sessions that are run or watched here: what each is doing, its questions, and its feed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use ah_conversation::{Environment, LiveOutput, Question, neutralise};
use ah_desk::{
    Asked, BegunCall, Ended, Piece, Prompt, Refusal, RunEvent, Running, Scope, Sessions, Start,
    State, Which,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::draft::{Draft, Told};
use crate::feed::Feed;
use crate::pieces::Pieces;
use crate::shown::Shown;
use crate::socket::Drive;

/// Calls whose output is kept while a run is in progress.
const OUTPUTS: usize = 64;

type Answer = oneshot::Sender<Option<BTreeMap<String, String>>>;

/// A session that was run or watched here.
#[derive(Default)]
pub(crate) struct Live {
    state: watch::Sender<State>,
    /// Changes when the transcript may have grown.
    steps: watch::Sender<u64>,
    draft: Mutex<Draft>,
    calls: Mutex<Vec<BegunCall>>,
    answers: Mutex<HashMap<u64, Answer>>,
    stop: Mutex<Option<CancellationToken>>,
    /// Calls of the run by their ids, the newest last, with what they have written so far.
    outputs: Mutex<VecDeque<(String, LiveOutput)>>,
}

/// Why something was not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A run is in progress.
    Busy,
    /// No run is in progress, or the question was already answered.
    Idle,
    /// It does not fit what was asked, with the reason.
    Unfit(String),
    /// The run could not begin.
    Run(Refusal),
}

impl Refused {
    /// Returns it as the engine would have refused it.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Run(refusal) => refusal,
            other => Refusal::failed(other.reason()),
        }
    }

    /// Returns why, in words.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Busy => "a run of this session is in progress".to_owned(),
            Self::Idle => "no run is in progress, or it was already answered".to_owned(),
            Self::Unfit(reason) => reason,
            Self::Run(refusal) => refusal.text,
        }
    }
}

/// What clients are served.
pub struct Served {
    /// The sessions.
    pub sessions: Arc<dyn Sessions>,
    /// The environment, whose secrets no client is shown.
    pub environment: Environment,
    /// Has hosts drive sessions.
    pub drive: Drive,
    /// Called when a run needs somebody while nobody watches it.
    pub call: Option<Call>,
}

/// Callback: the id of the session, whether the run waits for an answer (else it has ended), and what it is about.
pub type Call = Arc<dyn Fn(&str, bool, &str) + Send + Sync>;

/// All sessions.
pub(crate) struct Lives {
    served: Served,
    shown: Shown,
    all: Mutex<HashMap<String, Arc<Live>>>,
    feeds: Mutex<HashMap<String, Weak<Feed>>>,
    questions: AtomicU64,
}

impl Live {
    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn steps(&self) -> watch::Receiver<u64> {
        self.steps.subscribe()
    }

    /// Returns the pieces of the answer in progress that a watcher was not told, and whether those before are void.
    pub(crate) fn news(&self, told: &mut Told) -> (bool, Vec<Piece>) {
        self.draft.lock().news(told)
    }

    /// Returns the calls in progress.
    pub(crate) fn calls(&self) -> Vec<BegunCall> {
        self.calls.lock().clone()
    }

    /// Whether somebody watches.
    fn is_watched(&self) -> bool {
        self.state.receiver_count() > 0
    }

    /// Whether a run is in progress or somebody watches.
    fn is_used(&self) -> bool {
        self.is_watched() || self.state.borrow().running
    }

    /// Adds to the answer in progress.
    fn grow(&self, pieces: Vec<Piece>) {
        if !pieces.is_empty() {
            let mut draft = self.draft.lock();
            pieces.into_iter().for_each(|piece| draft.add(piece));
            drop(draft);
            self.step();
        }
    }

    /// Tells the watchers that there may be something new.
    fn step(&self) {
        self.steps.send_modify(|steps| *steps += 1);
    }

    /// Returns the end of what a call of the run has written so far, at most `most` bytes.
    pub(crate) fn output(&self, call: &str, most: usize) -> Option<Vec<u8>> {
        let outputs = self.outputs.lock();
        let (_, output) = outputs.iter().rfind(|(id, _)| id == call)?;
        Some(output.last(most).0)
    }

    /// Shows what happens in a run, but for its beginning, its questions and its end.
    fn happened(&self, event: RunEvent) {
        match event {
            RunEvent::Step(_) => {
                self.draft.lock().end();
                self.step();
            }
            RunEvent::Answering => {
                self.draft.lock().begin();
                self.step();
            }
            RunEvent::Called(call) => {
                self.write(call.id.to_string(), call.output.clone());
                self.calls.lock().push(call);
                self.step();
            }
            RunEvent::Returned(call) => {
                self.calls.lock().retain(|running| running.id != call);
                self.step();
            }
            RunEvent::Model(model) => {
                self.state.send_modify(|state| state.model = Some(model));
            }
            RunEvent::Mode(mode) => self.state.send_modify(|state| state.mode = Some(mode)),
            // Pieces were shown before.
            RunEvent::Piece(_)
            | RunEvent::Began(_)
            | RunEvent::Asked(..)
            | RunEvent::Ended(_)
            | RunEvent::Refused(_) => {}
        }
    }

    fn write(&self, call: String, output: LiveOutput) {
        let mut outputs = self.outputs.lock();
        outputs.push_back((call, output));
        while outputs.len() > OUTPUTS {
            outputs.pop_front();
        }
    }

    /// Interrupts its run.
    pub(crate) fn interrupt(&self) -> Result<(), Refused> {
        match &*self.stop.lock() {
            Some(stop) => {
                stop.cancel();
                Ok(())
            }
            None => Err(Refused::Idle),
        }
    }

    /// Answers a question, with `None` if nobody does. Only the first answer counts; one that names what was not asked is
    /// none.
    pub(crate) fn answer(
        &self,
        question: u64,
        answers: Option<BTreeMap<String, String>>,
    ) -> Result<(), Refused> {
        let unfit = {
            let state = self.state.borrow();
            let asked = state.questions.iter().find(|open| open.id == question);
            asked.and_then(|asked| unfit(asked, answers.as_ref()?))
        };
        if let Some(reason) = unfit {
            return Err(Refused::Unfit(reason));
        }
        let waiting = self.answers.lock().remove(&question);
        let answered = waiting.map(|waiting| waiting.send(answers).is_ok());
        self.state
            .send_modify(|state| state.questions.retain(|open| open.id != question));
        answered
            .filter(|is_taken| *is_taken)
            .map(drop)
            .ok_or(Refused::Idle)
    }

    /// Takes the session for a run; returns whether none was in progress.
    fn take(&self) -> bool {
        self.state.send_if_modified(|state| {
            let is_free = !state.running;
            state.running = true;
            if is_free {
                state.begun_ms = Some(now_ms());
            }
            is_free
        })
    }

    /// Gives the session back that was taken for a run which has not begun: how the last one ended stays.
    fn give_back(&self) {
        self.stop.lock().take();
        self.state.send_modify(|state| {
            state.running = false;
            state.begun_ms = None;
        });
        // For those who wait for the end, and are no watchers.
        self.step();
    }

    fn end(&self, ended: Option<Ended>) {
        self.answers.lock().clear();
        self.stop.lock().take();
        self.draft.lock().begin();
        self.outputs.lock().clear();
        self.calls.lock().clear();
        // First the step: whoever learns that the run has ended reads what came before.
        self.step();
        self.state.send_modify(|state| {
            *state = State {
                ended,
                mode: state.mode,
                ..State::default()
            };
        });
        // For those who wait for the end, and are no watchers.
        self.step();
    }
}

impl Lives {
    pub(crate) fn new(served: Served) -> Self {
        Self {
            shown: Shown::without_secrets_of(served.environment.clone()),
            served,
            all: Mutex::default(),
            feeds: Mutex::default(),
            questions: AtomicU64::new(1),
        }
    }

    pub(crate) fn served(&self) -> &Served {
        &self.served
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Returns the sessions as JSON objects with an `id` and the number of their `messages`, the last written first.
    pub(crate) fn list(&self) -> Result<Vec<Value>, String> {
        let listed = self.served.sessions.list(Scope::Here);
        let listed = listed.map_err(|refusal| refusal.text)?;
        Ok(listed.iter().map(|one| self.shown.summary(one)).collect())
    }

    /// Forgets a session that was removed.
    pub(crate) fn forget(&self, session: &str) {
        self.all.lock().remove(session);
        self.feeds.lock().remove(session);
    }

    /// Returns a session.
    pub(crate) fn of(&self, session: &str) -> Arc<Live> {
        let mut all = self.all.lock();
        all.entry(session.to_owned()).or_default().clone()
    }

    /// Returns the feed of a session; `None` if there is no such session. Blocks while it opens the store.
    pub(crate) fn feed(&self, session: &str) -> Result<Option<Arc<Feed>>, String> {
        let mut feeds = self.feeds.lock();
        if let Some(feed) = feeds.get(session).and_then(Weak::upgrade) {
            return Ok(Some(feed));
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let transcript = self.served.sessions.transcript(session);
        let Some(transcript) = transcript.map_err(|refusal| refusal.text)? else {
            return Ok(None);
        };
        let feed = Arc::new(Feed::new(transcript, self.shown.clone()));
        feeds.insert(session.to_owned(), Arc::downgrade(&feed));
        let (live, followed) = (self.of(session), Arc::downgrade(&feed));
        let changed = move || {
            live.step();
            followed.strong_count() > 0
        };
        self.served.sessions.follow(session, Box::new(changed));
        Ok(Some(feed))
    }

    /// Returns what a session is doing, if it was run or watched here.
    pub(crate) fn state(&self, session: &str) -> Option<State> {
        let live = self.all.lock().get(session).cloned()?;
        Some(live.state.borrow().clone())
    }

    /// Whether a run is in progress or somebody watches.
    pub(crate) fn is_used(&self) -> bool {
        self.all.lock().values().any(|live| live.is_used())
    }

    /// Waits until no run is in progress and nobody watches.
    pub(crate) async fn unused(&self) {
        let used = || {
            let all = self.all.lock();
            all.values().find(|live| live.is_used()).cloned()
        };
        while let Some(live) = used() {
            let mut steps = live.steps();
            if live.is_watched() {
                live.state.closed().await;
            } else if live.is_used() {
                // The sender is ours, so this is no error.
                let _ = steps.changed().await;
            }
        }
    }

    /// Begins a run; returns the id of its session once that is open.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        start: Start,
        prompt: Prompt,
    ) -> Result<String, Refused> {
        let taken = match &start.which {
            Which::Resume(session, _) => Some(self.of(session)),
            // A copy is a session of its own.
            Which::New | Which::Fork(..) => None,
        };
        if taken.as_ref().is_some_and(|live| !live.take()) {
            return Err(Refused::Busy);
        }
        let running = self.served.sessions.begin(start, prompt);
        if let Some(live) = &taken {
            *live.stop.lock() = Some(running.stop.clone());
        }
        let (begun, told) = oneshot::channel();
        let lives = self.clone();
        // Whoever asked for it may be gone; the run goes on.
        tokio::spawn(async move { lives.follow(running, taken, begun).await });
        told.await
            .unwrap_or_else(|_| Err(Refusal::failed("the run ended unexpectedly")))
            .map_err(Refused::Run)
    }

    /// Runs these prompts in turn, each once no run of the session is in progress, and none after one that was stopped or
    /// failed.
    pub(crate) async fn run_queued(self: &Arc<Self>, session: &str, prompts: Vec<String>) {
        let live = self.of(session);
        let mut steps = live.steps();
        for prompt in prompts {
            loop {
                if live.state.borrow().running {
                    // The sender is ours, so this is no error.
                    let _ = steps.changed().await;
                    continue;
                }
                let ended = live.state.borrow().ended.clone();
                if ended.is_none_or(|ended| ended.is_error || ended.is_stopped) {
                    return;
                }
                let start = Start {
                    which: Which::Resume(session.to_owned(), None),
                    ..Start::default()
                };
                match self.begin(start, prompt.clone().into()).await {
                    // Somebody else was faster.
                    Err(Refused::Busy) => {}
                    Err(refused) => {
                        tracing::warn!("a queued prompt did not run: {}", refused.reason());
                        return;
                    }
                    Ok(_) => break,
                }
            }
        }
    }

    /// Follows a run to its end.
    async fn follow(
        &self,
        mut running: Running,
        taken: Option<Arc<Live>>,
        begun: oneshot::Sender<Result<String, Refusal>>,
    ) {
        let (mut live, mut begun) = (taken, Some(begun));
        let (mut session, mut ended, mut refusal) = (None, None, None);
        let mut pieces = Pieces::new(self.shown.clone());
        while let Some(event) = running.events.recv().await {
            let news = match &event {
                RunEvent::Piece(piece) => pieces.after(piece.clone()),
                _ => pieces.rest().into_iter().collect(),
            };
            if let Some(live) = &live {
                live.grow(news);
            }
            match event {
                RunEvent::Began(opened) => {
                    let own = live.get_or_insert_with(|| self.of(&opened));
                    own.take();
                    // That of the last run; this one says its own.
                    own.state.send_modify(|state| state.mode = None);
                    *own.stop.lock() = Some(running.stop.clone());
                    if let Some(begun) = begun.take() {
                        // Whoever asked may be gone.
                        let _ = begun.send(Ok(opened.clone()));
                    }
                    session = Some(opened);
                }
                RunEvent::Asked(question, answer) => {
                    if let (Some(live), Some(session)) = (&live, &session) {
                        self.ask(question, answer, (live, session));
                    }
                }
                RunEvent::Ended(end) => {
                    ended = Some(Ended {
                        text: self.shown.redacted(&end.text),
                        verification: { end.verification.as_ref() }
                            .and_then(|known| self.shown.verification(known)),
                        ..end
                    });
                    break;
                }
                RunEvent::Refused(why) => {
                    refusal = Some(why);
                    break;
                }
                other => {
                    if let Some(live) = &live {
                        live.happened(other);
                    }
                }
            }
        }
        let Some(session) = session else {
            if let Some(live) = live {
                live.give_back();
            }
            let refusal = refusal.or_else(|| ended.map(|end| Refusal::failed(end.text)));
            if let (Some(begun), Some(refusal)) = (begun, refusal) {
                // Whoever asked may be gone.
                let _ = begun.send(Err(refusal));
            }
            return;
        };
        if let (Some(live), Some(ended)) = (&live, &ended)
            && !live.is_watched()
        {
            self.call(&session, false, &how(ended));
        }
        if let Some(live) = live {
            live.end(ended);
        }
    }

    /// Asks the clients of a session.
    fn ask(&self, question: Question, answer: Answer, (live, session): (&Live, &str)) {
        let id = self.questions.fetch_add(1, Ordering::Relaxed);
        live.answers.lock().insert(id, answer);
        let question = self.shown.question(id, question);
        if !live.is_watched() {
            self.call(session, true, &summary(&question));
        }
        live.state
            .send_modify(|state| state.questions.push(question));
    }

    /// Calls somebody, whom a run needs.
    fn call(&self, session: &str, waits: bool, about: &str) {
        if let Some(call) = &self.served.call {
            call(session, waits, about);
        }
    }
}

/// Returns a question in a few words.
fn summary(question: &Asked) -> String {
    // Which tool, and the first of its arguments.
    let about: Vec<_> = question.about.lines().take(2).map(str::trim).collect();
    let about = match &about[..] {
        [] => {
            let pick = question.picks.first();
            pick.map_or_else(String::new, |pick| pick.question.clone())
        }
        about => about.join(" "),
    };
    neutralise(&about).into_owned()
}

fn how(ended: &Ended) -> String {
    let known = match (ended.is_stopped, ended.is_error) {
        (true, _) => return "interrupted".to_owned(),
        (false, true) => return "failed".to_owned(),
        (false, false) => ended.verification.as_ref(),
    };
    let Some(known) = known else {
        return "finished".to_owned();
    };
    let recorded = if known.is_replayed {
        " (as recorded)"
    } else {
        ""
    };
    format!("{}{recorded}", known.evidence.word())
}

/// Returns why answers do not fit a question: they name none of its picks, or something else.
fn unfit(question: &Asked, answers: &BTreeMap<String, String>) -> Option<String> {
    let is_pick = |name: &str| question.picks.iter().any(|pick| pick.question == name);
    let picks = || {
        let picks = question.picks.iter();
        let picks: Vec<_> = picks.map(|pick| format!("`{}`", pick.question)).collect();
        picks.join(", ")
    };
    match answers.keys().find(|name| !is_pick(name)) {
        Some(other) => Some(format!(
            "the question has no `{other}`; it asks {}",
            picks()
        )),
        None if answers.is_empty() && !question.picks.is_empty() => {
            Some(format!("there is no answer; it asks {}", picks()))
        }
        None => None,
    }
}

/// Returns the time in milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Evidence, Verification};

    use super::*;

    #[test]
    fn a_recorded_run_is_told_as_one() {
        let told = |is_replayed| {
            let mut known = Verification::not_tried("make", 1);
            (known.evidence, known.is_replayed) = (Evidence::Verified, is_replayed);
            let verification = Some(Box::new(known));
            how(&Ended {
                verification,
                ..Ended::default()
            })
        };
        assert_eq!(told(false), "verified");
        assert_eq!(told(true), "verified (as recorded)");
    }
}
