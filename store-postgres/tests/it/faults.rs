//! Seeded runs in which workers are killed, stopped and cut off, and the server with them.
//!
//! `AH_FAULT_SEEDS=500` runs that many; `AH_FAULT_SEEDS=17..18` runs the one with seed 17 again. Each starts two to four
//! workers, which are processes of their own: this test program, at the test [`worker`]. Each is killed with SIGKILL
//! before, during or after its n-th append, and another takes its place. What they did is then read from the tables.
//!
//! With `AH_FAULT_FAKETIME`, the path of libfaketime, the clock of each worker is wrong by up to ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_conversation::{
    CallState, Clock as _, ContentBlock, MailKind, Mailbox as _, Message, MessageId, Origin,
    Record, Role, SessionId, Store as _, StoreError, ToolResult,
};
use ah_ids::SystemClock;
use ah_store::fleet::{End, Fleet, NewRun, Run, Timing, Wish};
use ah_store::{OpenError, SessionStore};
use ah_store_postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Speaker, bytes, finished, result, started};
use crate::server::{Server, database};

const URL: &str = "AH_FAULT_URL";
const SEED: &str = "AH_FAULT_SEED";
const FAKETIME: &str = "AH_FAULT_FAKETIME";
const ACKNOWLEDGED: &str = "AH_FAULT_ACKNOWLEDGED";
/// Turns of a session, each with one call.
const TURNS: usize = 4;
const SESSIONS: usize = 3;
/// Seeds with which a fault was found: mail that came while its run ended was left.
const FOUND: [u64; 1] = [447];
const FAST: Timing = Timing {
    beat: Duration::from_millis(30),
    dead: Duration::from_millis(250),
};

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn die() {
    let _ = kill_process(rustix::process::getpid(), Signal::KILL);
}

/// A worker; a test like the others, which passes at once, unless [`faults`] starts it.
#[tokio::test]
async fn worker() {
    let (Ok(url), Ok(seed)) = (env::var(URL), env::var(SEED)) else {
        return;
    };
    let mut numbers = Numbers(seed.parse().unwrap());
    let mut postgres = Postgres::connect(&url, FAST).await.unwrap();
    if numbers.below(3) == 0 {
        postgres = postgres.without_notifications();
    }
    let waker = postgres.clone().waker().await.unwrap();
    let name = format!("w{}", std::process::id());
    let mut hand = Hand {
        appends: 0,
        dies_at: numbers.below(24),
        dies_when: numbers.below(4),
        name,
    };
    loop {
        match postgres.claim(&hand.name).await.unwrap() {
            Some(run) => attempt(&postgres, &run, &mut hand).await,
            None => waker.wait(FAST.beat).await,
        }
    }
}

/// How a worker writes, and when it dies.
struct Hand {
    name: String,
    appends: u64,
    dies_at: u64,
    /// 0: before the append; 1: during it; 2: when it is acknowledged; 3: never.
    dies_when: u64,
}

impl Hand {
    async fn append(
        &mut self,
        session: &Arc<SessionStore>,
        records: Vec<Record>,
    ) -> Result<(), StoreError> {
        let is_last = self.appends == self.dies_at;
        self.appends += 1;
        if is_last && self.dies_when == 0 {
            die();
        }
        let ids: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                Record::Message(message) => Some(message.id.clone()),
                _ => None,
            })
            .collect();
        if is_last && self.dies_when == 1 {
            let session = session.clone();
            let append = tokio::spawn(async move { session.append(records).await });
            tokio::task::yield_now().await;
            die();
            return append.await.unwrap();
        }
        session.append(records).await?;
        let path = env::var(ACKNOWLEDGED).unwrap();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
        if is_last && self.dies_when == 2 {
            die();
        }
        Ok(())
    }
}

async fn attempt(postgres: &Arc<Postgres>, run: &Run, hand: &mut Hand) {
    let name = hand.name.clone();
    let beats = async {
        loop {
            tokio::time::sleep(FAST.beat).await;
            if postgres.beat(run.id, &name).await.unwrap() == Wish::Leave {
                return;
            }
        }
    };
    let end = tokio::select! {
        () = beats => None,
        end = go(postgres, run, hand) => Some(end),
    };
    postgres.close(&run.session, &name).await.unwrap();
    if let Some(end) = end {
        postgres.end(run.id, &name, &end).await.unwrap();
    }
}

async fn go(postgres: &Arc<Postgres>, run: &Run, hand: &mut Hand) -> End {
    let session = match postgres.clone().open(&run.session, &hand.name).await {
        Ok(session) => Arc::new(session),
        Err(OpenError::Busy(_)) => return End::HandedOn(FAST.beat),
        Err(OpenError::Store(error)) => return End::Again(error.to_string(), FAST.beat),
    };
    match play(&session, hand).await {
        Ok(()) => End::Done(None),
        Err(error) => End::Again(error.to_string(), FAST.beat),
    }
}

/// The loop of a run, without a model: the next step follows from what is stored.
async fn play(session: &Arc<SessionStore>, hand: &mut Hand) -> Result<(), StoreError> {
    let name = hand.name.clone();
    loop {
        let transcript = session.load().await?;
        let messages = transcript.messages();
        let mut speaker = match messages.last() {
            Some(last) => Speaker::after(last),
            None => Speaker::default(),
        };
        let answers = messages
            .iter()
            .filter(|message| message.role == Role::Assistant);
        let turn = answers.count();
        let last = messages
            .last()
            .filter(|last| last.tool_uses().next().is_some());
        if let Some(asking) = last {
            let call = asking.tool_uses().next().unwrap().id.clone();
            let done = match transcript.call(&call) {
                Some(CallState::Finished(kept)) => kept.clone(),
                Some(CallState::Started { .. }) => unknown(call.as_str(), &name),
                None => {
                    let start = started(asking, call.as_str(), "command");
                    hand.append(session, vec![start]).await?;
                    let done = result(call.as_str(), &format!("ran by {name}"));
                    let output = "x".repeat(if turn == 2 { 40_000 } else { 10 });
                    let finish = finished(asking, done.clone(), bytes(output));
                    hand.append(session, vec![finish]).await?;
                    done
                }
            };
            let answer = speaker.results(vec![done]);
            hand.append(session, vec![Record::Message(answer)]).await?;
            continue;
        }
        let kind = match turn {
            0 if messages.is_empty() => MailKind::FollowUp,
            _ => MailKind::Steer,
        };
        let mail = session.mail(kind).await?;
        let had_mail = !mail.is_empty();
        for letter in mail {
            let block = vec![ContentBlock::text(letter.content)];
            let message = speaker.says_as(letter.id, Role::User, Origin::Steering, block);
            hand.append(session, vec![Record::Message(message)]).await?;
        }
        if had_mail {
            continue;
        }
        if turn > TURNS
            && messages
                .last()
                .is_some_and(|last| last.role == Role::Assistant)
        {
            return Ok(());
        }
        let answer = match turn {
            turn if turn < TURNS => speaker.calls(&[&format!("call{turn}")]),
            _ => speaker.answer(&format!("done by {name}")),
        };
        hand.append(session, vec![Record::Message(answer)]).await?;
    }
}

fn unknown(call: &str, name: &str) -> ToolResult {
    ToolResult {
        is_error: true,
        ..result(call, &format!("nobody knows whether it ran, says {name}"))
    }
}

/// The seeds to run: those that are asked for, and unless they are named, those with which something was found.
fn seeds() -> impl Iterator<Item = u64> {
    let wanted = env::var("AH_FAULT_SEEDS").unwrap_or_else(|_| "3".to_owned());
    let (asked, found) = match wanted.split_once("..") {
        Some((first, end)) => (first.parse().unwrap()..end.parse().unwrap(), &[][..]),
        None => (0..wanted.parse().unwrap(), &FOUND[..]),
    };
    asked.chain(found.iter().copied())
}

#[tokio::test]
async fn faults_lose_nothing_and_do_nothing_twice() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let url = database(&server).await;
    for seed in seeds() {
        let problems = universe(seed, &mut server, &url).await;
        assert!(problems.is_empty(), "seed {seed}: {problems:#?}");
    }
}

#[cfg(feature = "graphile")]
#[tokio::test]
async fn faults_of_workers_that_graphile_wakes() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let url = database(&server).await;
    Postgres::migrate_graphile(&url).await.unwrap();
    for seed in seeds() {
        let problems = universe(seed, &mut server, &url).await;
        assert!(problems.is_empty(), "seed {seed}: {problems:#?}");
    }
}

/// The checks are worth something: without fencing by epochs, they find what goes wrong.
#[tokio::test]
async fn a_store_that_does_not_fence_is_noticed() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let url = database(&server).await;
    let planted = "CREATE FUNCTION unfenced() RETURNS trigger LANGUAGE plpgsql AS
                   $$ BEGIN NEW.epoch := OLD.epoch; RETURN NEW; END $$;
                   CREATE TRIGGER unfenced BEFORE UPDATE ON ah.sessions
                   FOR EACH ROW EXECUTE FUNCTION unfenced()";
    server.psql(&url, planted).unwrap();
    // On a busy machine few of them come to the point.
    for seed in 0..60 {
        if !universe(seed, &mut server, &url).await.is_empty() {
            return;
        }
    }
    panic!("60 seeds without a problem");
}

/// Runs the sessions of a seed; returns what is wrong afterwards.
async fn universe(seed: u64, server: &mut Server, url: &str) -> Vec<String> {
    let mut numbers = Numbers(seed);
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = folder.path().join("acknowledged");
    let fleet = Postgres::connect(url, FAST).await.unwrap();
    let clock = SystemClock::default();
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let session = SessionId::from(clock.message_id().as_str());
        let run = NewRun {
            session: session.clone(),
            message: clock.message_id(),
            prompt: format!("task {number}"),
            command: Vec::new(),
            folder: "/".into(),
            model: None,
            priority: 0,
            delay: Duration::ZERO,
            attempts: 1000,
            answer_within: None,
        };
        fleet.enqueue(&run).await.unwrap();
        sessions.push((session, vec![run.message]));
    }
    let count = 2 + numbers.below(3);
    let mut workers: Vec<Child> = Vec::new();
    let began = Instant::now();
    let server_dies = (numbers.below(4) == 0).then(|| numbers.below(60));
    let mut letters = 0;
    for step in 0_u64.. {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "seed {seed} does not end"
        );
        workers.retain_mut(|worker| worker.try_wait().unwrap().is_none());
        while (workers.len() as u64) < count {
            workers.push(start(url, numbers.below(u64::MAX), &acknowledged));
        }
        if server_dies == Some(step) {
            server.kill();
            server.run();
        }
        if letters < 6 && numbers.below(4) == 0 {
            let at = usize::try_from(numbers.below(SESSIONS as u64)).unwrap();
            let (session, sent) = &mut sessions[at];
            let text = format!("letter {letters}");
            sent.push(fleet.send(session, MailKind::Steer, &text).await.unwrap());
            letters += 1;
        }
        disturb(&mut numbers, server, url, &workers);
        tokio::time::sleep(Duration::from_millis(10)).await;
        let runs = fleet.runs(None, 1000).await.unwrap();
        let is_of_us = |id: &SessionId| sessions.iter().any(|(session, _)| session == id);
        let mut open = runs.iter().filter(|run| is_of_us(&run.session));
        if letters == 6 && open.all(|run| run.state.is_over()) {
            break;
        }
    }
    for worker in &mut workers {
        let _ = kill_process(Pid::from_child(worker), Signal::KILL);
        let _ = worker.wait();
    }
    let (mut problems, mut stored) = (Vec::new(), String::new());
    for (session, mail) in &sessions {
        let changes = format!(
            "SELECT json_build_array(seq, epoch, body) FROM ah.changes WHERE session = '{session}' ORDER BY seq"
        );
        let changes = server.psql(url, &changes).unwrap();
        problems.extend(judge(session, &changes, mail));
        stored.push_str(&changes);
        let waiting = format!(
            "SELECT count(*) FROM ah.mail WHERE session = '{session}' AND consumed_by IS NULL"
        );
        if server.psql(url, &waiting).unwrap() != "0" {
            problems.push(format!("{session}: mail is left"));
        }
    }
    for id in fs::read_to_string(&acknowledged)
        .unwrap_or_default()
        .lines()
    {
        if !stored.contains(id) {
            problems.push(format!("{id} was acknowledged and is lost"));
        }
    }
    problems
}

fn start(url: &str, seed: u64, acknowledged: &Path) -> Child {
    let mut worker = Command::new(env::current_exe().unwrap());
    if let Some(library) = env::var_os(FAKETIME) {
        let seconds = i64::try_from(Numbers(seed).below(1200)).unwrap() - 600;
        worker.env("LD_PRELOAD", library);
        worker.env("FAKETIME", format!("{seconds:+}"));
        // Only what the calendar says; waiting takes as long as ever.
        worker.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    worker
        .args(["--exact", "faults::worker", "--nocapture"])
        .env(URL, url)
        .env(SEED, seed.to_string())
        .env(ACKNOWLEDGED, acknowledged)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Cuts connections, or stops a worker until it counts as dead and wakes it up again.
fn disturb(numbers: &mut Numbers, server: &Server, url: &str, workers: &[Child]) {
    match numbers.below(40) {
        0 => {
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE application_name = 'ah' AND pid <> pg_backend_pid()";
            let _ = server.psql(url, cut);
        }
        1 => {
            let at = usize::try_from(numbers.below(workers.len() as u64)).unwrap();
            let pid = Pid::from_child(&workers[at]);
            let _ = kill_process(pid, Signal::STOP);
            std::thread::spawn(move || {
                std::thread::sleep(FAST.dead * 2);
                let _ = kill_process(pid, Signal::CONT);
            });
        }
        _ => {}
    }
}

/// Returns what is wrong with the changes of a session.
fn judge(session: &SessionId, changes: &str, mail: &[MessageId]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut writers: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    let (mut last_epoch, mut finished) = (0, BTreeMap::<String, usize>::new());
    let mut messages: Vec<Message> = Vec::new();
    for (number, line) in (0_i64..).zip(changes.lines()) {
        let change: serde_json::Value = serde_json::from_str(line).unwrap();
        let (seq, epoch) = (change[0].as_i64().unwrap(), change[1].as_i64().unwrap());
        if seq != number || epoch < last_epoch {
            problems.push(format!(
                "{session}: change {seq} of epoch {epoch} is out of order"
            ));
        }
        last_epoch = epoch;
        for record in change[2]["append"]["records"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if record.get("call_finished").is_some() {
                let call = &record["call_finished"]["result"]["tool_use_id"];
                *finished
                    .entry(call.as_str().unwrap().to_owned())
                    .or_default() += 1;
            }
            let text = record.to_string();
            let by = text
                .split("by w")
                .nth(1)
                .filter(|_| record.get("call_finished").is_some());
            if let Some(by) = by {
                let digits: String = by.chars().take_while(char::is_ascii_digit).collect();
                writers.entry(epoch).or_default().insert(digits);
            }
            if let Some(message) = record.get("message") {
                messages.push(serde_json::from_value(message.clone()).unwrap());
            }
        }
    }
    for (epoch, names) in writers.iter().filter(|(_, names)| names.len() > 1) {
        problems.push(format!(
            "{session}: epoch {epoch} has the writers {names:?}"
        ));
    }
    for (call, count) in finished.iter().filter(|(_, count)| **count > 1) {
        problems.push(format!("{session}: {call} has {count} results"));
    }
    let results: Vec<_> = messages
        .iter()
        .flat_map(Message::tool_results)
        .map(|result| result.tool_use_id.to_string())
        .collect();
    let expected: Vec<_> = (0..TURNS).map(|turn| format!("call{turn}")).collect();
    if results != expected {
        problems.push(format!("{session}: the results are {results:?}"));
    }
    let delivered: Vec<_> = messages
        .iter()
        .map(|message| &message.id)
        .filter(|id| mail.contains(id))
        .collect();
    if delivered != mail.iter().collect::<Vec<_>>() {
        problems.push(format!(
            "{session}: of the mail {mail:?}, {delivered:?} came"
        ));
    }
    problems
}
