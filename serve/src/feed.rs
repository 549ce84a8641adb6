//! The current branch of a session as its watchers see it: read from the store once for all of them, and only what is new.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_conversation::{MessageId, Role, StoreError, ToolUseId, Verdicts};
use ah_desk::Transcript;
use parking_lot::Mutex;

use crate::short::short;
use crate::shown::{Entry, Node, OutputStart, Shown};

/// Time in which what was read at a step is what another watcher gets. Other processes write without a step.
const RECENT: Duration = Duration::from_millis(100);

/// The branch of a session that has watchers.
pub(crate) struct Feed {
    branch: Mutex<Branch>,
    /// Held by the watcher that reads.
    turn: tokio::sync::Mutex<()>,
}

struct Branch {
    transcript: Box<dyn Transcript>,
    shown: Shown,
    entries: Vec<Arc<Entry>>,
    /// Place of each entry.
    places: HashMap<String, usize>,
    /// Newest step that it was read at or after, and when that was.
    step: Option<u64>,
    read_at: Instant,
}

/// The last message that a watcher has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastSeen {
    pub id: String,
    /// Whether it was seen with what a check has shown, or nobody waits for that.
    pub is_judged: bool,
}

impl LastSeen {
    /// A message that a client names. Whether it has what a check has shown is not known: that comes again.
    pub(crate) fn named(id: String) -> Self {
        Self {
            id,
            is_judged: false,
        }
    }
}

/// What a watcher has not seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Whether what it has seen last is not on the branch any more: all of the branch comes again.
    pub is_anew: bool,
    /// Whether the model has said the last message of the branch, so that what it is saying is that one, or none yet.
    pub is_answered: bool,
    /// The messages, oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// Whether these are all that there are on this side.
    pub is_whole: bool,
}

/// A part of a session's tree.
#[derive(Debug, PartialEq)]
pub(crate) struct Nodes {
    /// The session's name, if it has one.
    pub name: Option<String>,
    /// Id of the current message.
    pub current: Option<String>,
    /// What the session has cost in US dollars, as far as prices are known.
    pub spent_usd: f64,
    /// Messages in the order of storing.
    pub nodes: Vec<Node>,
}

impl Feed {
    pub(crate) fn new(transcript: Box<dyn Transcript>, shown: Shown) -> Self {
        Self {
            branch: Mutex::new(Branch {
                transcript,
                shown,
                entries: Vec::new(),
                places: HashMap::new(),
                step: None,
                read_at: Instant::now(),
            }),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Returns at most `most` messages after the one that was seen last, as the store has them now, or had them at a `step` of
    /// the session's runs: a hundred watchers that are woken by one step ask the store once. That one comes again if a check has
    /// shown something of it since. Blocks while it reads.
    pub(crate) fn after(
        &self,
        seen: Option<&LastSeen>,
        most: usize,
        step: Option<u64>,
    ) -> Result<Unseen, String> {
        let mut branch = self.branch.lock();
        if !branch.is_known(step) {
            branch.refresh()?;
            branch.read_at = Instant::now();
            branch.step = branch.step.max(step);
        }
        Ok(branch.after(seen, most))
    }

    /// As [`Self::after`], for one of many watchers: they wait for the one that reads, and take no thread each.
    pub(crate) async fn news(
        self: &Arc<Self>,
        seen: Option<LastSeen>,
        most: usize,
        step: u64,
    ) -> Result<Unseen, String> {
        let _turn = self.turn.lock().await;
        if let Some(branch) = self.branch.try_lock()
            && branch.is_known(Some(step))
        {
            return Ok(branch.after(seen.as_ref(), most));
        }
        let feed = self.clone();
        let read = move || feed.after(seen.as_ref(), most, Some(step));
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err("it ended unexpectedly".to_owned()))
    }

    /// Returns the last messages up to the one with this id, at most `most`, of any branch; `None` if there is none.
    pub(crate) fn up_to(&self, last: &str, most: usize) -> Result<Option<Unseen>, String> {
        let branch = self.branch.lock();
        let (mut next, mut entries) = (Some(last.to_owned()), Vec::new());
        let mut verdicts = None;
        while let Some(id) = next.take_if(|_| entries.len() < most) {
            let known = branch.places.get(&id).copied();
            let entry = match known {
                Some(place) => branch.entries[place].clone(),
                None => match branch.read(&id, &mut verdicts)? {
                    Some(entry) => entry,
                    None if entries.is_empty() => return Ok(None),
                    None => return Err(gone(&id)),
                },
            };
            next.clone_from(&entry.parent);
            entries.push(entry);
        }
        entries.reverse();
        Ok(Some(Unseen {
            is_anew: false,
            is_answered: false,
            entries,
            is_whole: next.is_none(),
        }))
    }

    /// Returns a message in full, of any branch; `None` if there is none.
    pub(crate) fn whole(&self, id: &str) -> Result<Option<Entry>, String> {
        self.branch.lock().whole(id, &mut None)
    }

    /// Returns at most `most` nodes of the tree in the order of storing, without the first `from`.
    pub(crate) fn tree(&self, from: usize, most: usize) -> Result<Nodes, String> {
        let branch = self.branch.lock();
        let (transcript, shown) = (&branch.transcript, &branch.shown);
        let name = transcript.name().map_err(unread)?;
        let current = transcript.current().map_err(unread)?;
        let heads = transcript.heads().map_err(unread)?;
        let nodes = heads.iter().skip(from).take(most);
        Ok(Nodes {
            name: name.map(|name| shown.name(&name)),
            current: current.map(|id| id.to_string()),
            spent_usd: transcript.spent().map_err(unread)?.usd(),
            nodes: nodes.map(|head| shown.node(head)).collect(),
        })
    }

    /// Returns the output of a call, if there is one; what is longer than a few MiB is cut.
    pub(crate) fn output(&self, call: &str) -> Result<Option<String>, String> {
        let branch = self.branch.lock();
        let (call, mut start) = (ToolUseId::from(call.to_owned()), OutputStart::default());
        let is_there = branch.transcript.copy_output(&call, &mut start);
        let is_there = is_there.map_err(unread)?;
        Ok(is_there.then(|| branch.shown.output(&start)))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` calls it")]
fn unread(error: StoreError) -> String {
    error.to_string()
}

fn gone(id: &str) -> String {
    format!("there is no message `{id}`")
}

impl Branch {
    /// Returns whether what was read is what the store had at this step.
    fn is_known(&self, step: Option<u64>) -> bool {
        step.is_some() && self.step >= step && self.read_at.elapsed() < RECENT
    }

    fn after(&self, seen: Option<&LastSeen>, most: usize) -> Unseen {
        let place = seen.map(|seen| (seen, self.places.get(&seen.id).copied()));
        let (is_anew, from) = match place {
            None => (false, 0),
            Some((seen, Some(place))) => {
                let is_news = self.entries[place].is_judged && !seen.is_judged;
                (false, place + usize::from(!is_news))
            }
            Some((_, None)) => (true, 0),
        };
        let entries = self.entries[from..].iter().take(most).cloned();
        Unseen {
            is_anew,
            is_answered: self.entries.last().is_some_and(|last| last.is_answer),
            entries: entries.collect(),
            is_whole: self.entries.len() - from < most,
        }
    }

    /// Reads a message. What checks have shown is read once for all messages that are read together.
    fn whole(&self, id: &str, verdicts: &mut Option<Verdicts>) -> Result<Option<Entry>, String> {
        let id = MessageId::from(id.to_owned());
        let message = self.transcript.message(&id).map_err(unread)?;
        let Some(message) = message else {
            return Ok(None);
        };
        let known = match message.role {
            Role::Assistant => self.verdicts(verdicts)?.get(&id),
            _ => None,
        };
        Ok(Some(self.shown.entry(&message, known)))
    }

    /// Reads a message as lists have it.
    fn read(
        &self,
        id: &str,
        verdicts: &mut Option<Verdicts>,
    ) -> Result<Option<Arc<Entry>>, String> {
        let entry = self.whole(id, verdicts)?;
        Ok(entry.map(|entry| {
            Arc::new(Entry {
                json: short(entry.json),
                ..entry
            })
        }))
    }

    /// Returns what checks have shown; reads it if nobody has yet.
    fn verdicts<'a>(&self, known: &'a mut Option<Verdicts>) -> Result<&'a Verdicts, String> {
        let verdicts = match known.take() {
            Some(verdicts) => verdicts,
            None => self.transcript.verdicts().map_err(unread)?,
        };
        Ok(known.insert(verdicts))
    }

    /// Reads what is new, back to a message that is known.
    fn refresh(&mut self) -> Result<(), String> {
        let current = self.transcript.current().map_err(unread)?;
        let mut next = current.map(|id| id.to_string());
        let mut new = Vec::new();
        let mut kept = 0;
        let mut verdicts = None;
        while let Some(id) = next {
            if let Some(place) = self.places.get(&id) {
                kept = place + 1;
                break;
            }
            let entry = self.read(&id, &mut verdicts)?.ok_or_else(|| gone(&id))?;
            next = entry.parent.clone();
            new.push(entry);
        }
        for entry in self.entries.drain(kept..) {
            self.places.remove(&entry.id);
        }
        self.judge_last(&mut verdicts)?;
        for entry in new.into_iter().rev() {
            self.places.insert(entry.id.clone(), self.entries.len());
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Reads the last message again if the check of its run has ended since.
    fn judge_last(&mut self, verdicts: &mut Option<Verdicts>) -> Result<(), String> {
        let last = self
            .entries
            .last()
            .filter(|it| it.is_answer && !it.is_judged);
        let Some(id) = last.map(|last| last.id.clone()) else {
            return Ok(());
        };
        let known = self.verdicts(verdicts)?;
        if known.contains_key(&MessageId::from(id.clone()))
            && let Some(entry) = self.read(&id, verdicts)?
            && let Some(last) = self.entries.last_mut()
        {
            *last = entry;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ah_conversation::{Cost, Environment, Head, Message, Origin, Time};

    use super::*;

    /// Messages by id, each with its parent, and the current one.
    #[derive(Default)]
    struct Messages {
        parents: HashMap<String, Option<String>>,
        current: Option<String>,
        verdicts: Verdicts,
    }

    #[derive(Clone, Default)]
    struct Fake {
        messages: Arc<Mutex<Messages>>,
        reads: Arc<AtomicUsize>,
        reads_of_verdicts: Arc<AtomicUsize>,
    }

    impl Fake {
        fn feed(&self) -> Feed {
            let environment = Environment::new([], "/".into());
            let shown = Shown::without_secrets_of(environment);
            Feed::new(Box::new(self.clone()), shown)
        }

        fn goes(&self, ids: &[&str]) {
            let mut messages = self.messages.lock();
            let mut parent: Option<String> = None;
            for id in ids {
                let before = parent.replace((*id).to_owned());
                messages.parents.insert((*id).to_owned(), before);
            }
            messages.current = parent;
        }

        /// The check of the run that ended with this message passes.
        fn passes(&self, id: &str) {
            let verification = serde_json::json!({
                "command": "make test", "evidence": "verified", "checks": 1, "left": 9, "duration_ms": 0,
            });
            let verification = serde_json::from_value(verification).unwrap();
            let mut messages = self.messages.lock();
            messages.verdicts.insert(id.to_owned().into(), verification);
        }

        fn reads(&self) -> usize {
            self.reads.load(Ordering::Relaxed)
        }
    }

    impl Transcript for Fake {
        fn name(&self) -> Result<Option<String>, StoreError> {
            Ok(None)
        }

        fn current(&self) -> Result<Option<MessageId>, StoreError> {
            let current = self.messages.lock().current.clone();
            Ok(current.map(MessageId::from))
        }

        fn message(&self, id: &MessageId) -> Result<Option<Message>, StoreError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let messages = self.messages.lock();
            let parent = messages.parents.get(id.as_str()).cloned();
            Ok(parent.map(|parent| Message {
                id: id.clone(),
                parent: parent.map(MessageId::from),
                seq: 0,
                role: match id.as_str().starts_with(char::is_uppercase) {
                    true => Role::Assistant,
                    false => Role::User,
                },
                origin: Origin::Prompt,
                created_at: Time(0),
                content: Vec::new(),
                response: None,
            }))
        }

        fn verdicts(&self) -> Result<Verdicts, StoreError> {
            self.reads_of_verdicts.fetch_add(1, Ordering::Relaxed);
            Ok(self.messages.lock().verdicts.clone())
        }

        fn heads(&self) -> Result<Vec<Head>, StoreError> {
            Ok(Vec::new())
        }

        fn spent(&self) -> Result<Cost, StoreError> {
            Ok(Cost::default())
        }

        fn copy_output(&self, _: &ToolUseId, _: &mut dyn Write) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    #[test]
    fn a_branch_is_followed_and_read_once() {
        let fake = Fake::default();
        let feed = fake.feed();
        let after = |seen: Option<&str>| {
            let seen = seen.map(|id| LastSeen::named(id.to_owned()));
            let unseen = feed.after(seen.as_ref(), 3, None).unwrap();
            let ids: Vec<_> = unseen
                .entries
                .iter()
                .map(|entry| entry.id.clone())
                .collect();
            (unseen.is_anew, ids.join(" "))
        };
        let told = |is_anew: bool, ids: &str| (is_anew, ids.to_owned());
        assert_eq!(after(None), told(false, ""));
        fake.goes(&["a", "b", "c", "d"]);
        assert_eq!(after(None), told(false, "a b c"));
        assert_eq!(after(Some("c")), told(false, "d"));
        fake.goes(&["a", "b", "c", "d", "e"]);
        assert_eq!(after(Some("c")), told(false, "d e"));
        assert_eq!(after(Some("e")), told(false, ""));
        assert_eq!(fake.reads(), 5);
        // An undo, and another way from there.
        fake.goes(&["a", "b", "x"]);
        assert_eq!(after(Some("b")), told(false, "x"));
        assert_eq!(after(Some("e")), told(true, "a b x"));
        assert_eq!(fake.reads(), 6);
    }
    #[test]
    fn what_a_check_has_shown_is_told_also_if_the_session_went_on_since() {
        let fake = Fake::default();
        let feed = fake.feed();
        let judged = || {
            let unseen = feed.after(None, 9, None).unwrap();
            let is_judged = |entry: &&Arc<Entry>| entry.json.contains("verification");
            let judged = unseen.entries.iter().filter(is_judged);
            judged
                .map(|entry| entry.id.clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        fake.goes(&["a", "B", "c", "D"]);
        assert_eq!(judged(), "");
        assert_eq!(fake.reads_of_verdicts.load(Ordering::Relaxed), 1);
        fake.passes("D");
        fake.goes(&["a", "B", "c", "D", "e"]);
        assert_eq!(judged(), "D");
        assert_eq!(fake.reads_of_verdicts.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_a_check_shows_later_is_told_to_those_who_have_seen_the_answer() {
        let fake = Fake::default();
        let feed = fake.feed();
        let news = |is_judged: bool| {
            let seen = LastSeen {
                id: "B".to_owned(),
                is_judged,
            };
            let unseen = feed.after(Some(&seen), 9, None).unwrap();
            let ids = unseen.entries.iter().map(|entry| entry.id.clone());
            ids.collect::<Vec<_>>().join(" ")
        };
        fake.goes(&["a", "B"]);
        assert_eq!((news(false), news(true)), (String::new(), String::new()));
        fake.passes("B");
        assert_eq!((news(false), news(true)), ("B".to_owned(), String::new()));
        // Nobody knows whether a client that comes back had it.
        let back = feed.after(Some(&LastSeen::named("B".to_owned())), 9, None);
        assert_eq!(back.unwrap().entries.len(), 1);
        fake.goes(&["a", "B", "c"]);
        assert_eq!(
            (news(false), news(true)),
            ("B c".to_owned(), "c".to_owned())
        );
    }

    #[test]
    fn any_branch_is_read_from_its_end() {
        let fake = Fake::default();
        let feed = fake.feed();
        fake.goes(&["a", "b", "c"]);
        fake.goes(&["a", "b", "x", "y"]);
        feed.after(None, 9, None).unwrap();
        let up_to = |last: &str, most| {
            let unseen = feed.up_to(last, most).unwrap()?;
            let ids: Vec<_> = unseen.entries.iter().map(|it| it.id.clone()).collect();
            Some((unseen.is_whole, ids.join(" ")))
        };
        let told = |is_whole: bool, ids: &str| Some((is_whole, ids.to_owned()));
        assert_eq!(up_to("c", 9), told(true, "a b c"));
        assert_eq!(up_to("y", 2), told(false, "x y"));
        assert_eq!(up_to("b", 2), told(true, "a b"));
        assert_eq!(up_to("nothing", 2), None);
    }
    #[test]
    fn a_step_is_read_once_for_all() {
        let fake = Fake::default();
        let feed = fake.feed();
        let many = |step| feed.after(None, 9, step).unwrap().entries.len();
        fake.goes(&["a"]);
        assert_eq!(many(Some(1)), 1);
        fake.goes(&["a", "b"]);
        // Who has not been told of the next step does not need it yet.
        assert_eq!(many(Some(2)), 2);
        fake.goes(&["a", "b", "c"]);
        assert_eq!(many(None), 3);
    }
}
