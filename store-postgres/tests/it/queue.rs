//! The queue of runs, the same checks over PostgreSQL and over the sessions of a folder.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Clock as _, MailKind, Mailbox as _, Question, SessionId, Time, ToolUseId};
use ah_ids::SystemClock;
use ah_store::fleet::{
    ALL, Admission, Asker, End, Fleet, Limit, NewRun, RunState, Schedules as _, Start, Timing,
    Wish, backoff,
};
use ah_store::{LocalFleet, Sessions};
use tokio_postgres::NoTls;

use crate::fixture::{Speaker, append};
use crate::server::{PATIENT, connect, database, shared};

const IMPATIENT: Timing = Timing {
    beat: Duration::from_millis(1),
    dead: Duration::ZERO,
};

pub fn run(session: &str, priority: i32) -> NewRun {
    NewRun {
        session: SessionId::from(session),
        message: SystemClock::default().message_id(),
        prompt: format!("task of {session}"),
        command: Vec::new(),
        folder: "/tmp".into(),
        model: Some("m".to_owned()),
        priority,
        delay: Duration::ZERO,
        attempts: 3,
        answer_within: None,
    }
}

/// Calls every check with a fleet of its own.
async fn check(fleet: impl AsyncFn(Timing) -> Arc<dyn Fleet>) {
    runs_are_taken_by_priority_and_age(fleet(PATIENT).await).await;
    a_run_waits_for_its_time(fleet(PATIENT).await).await;
    a_session_has_one_run_at_a_time(fleet(PATIENT).await).await;
    the_run_of_a_dead_worker_is_taken_over(fleet(IMPATIENT).await).await;
    a_failed_attempt_is_repeated_later(fleet(PATIENT).await).await;
    wishes_reach_the_worker(fleet(PATIENT).await).await;
    mail_wakes_a_session_at_rest(fleet(PATIENT).await).await;
    who_interrupts_a_run_says_what_to_do_instead(fleet(PATIENT).await).await;
    what_was_said_can_be_followed(fleet(PATIENT).await).await;
    an_answer_is_taken_once(fleet(PATIENT).await).await;
    requests_get_slots_under_all_limits(fleet(PATIENT).await).await;
    nothing_begins_when_the_budget_is_spent(fleet(PATIENT).await).await;
    old_sessions_at_rest_are_collected(fleet(PATIENT).await).await;
}

async fn old_sessions_at_rest_are_collected(fleet: Arc<dyn Fleet>) {
    let id = |at| SessionId::from(format!("01ARZ3NDEKTSV4RRFFQ69G5FA{at}"));
    let [old, open, asked, queued, again] = &[1, 2, 3, 4, 5].map(id);
    // Its prompt is a message already, and no mail.
    let begun = run(again.as_str(), 0);
    fleet.enqueue(&begun).await.unwrap();
    let claimed = fleet.claim("me").await.unwrap().unwrap();
    let session = fleet.clone().open(again, "me").await.unwrap();
    let mut prompt = Speaker::default().prompt(&begun.prompt);
    Arc::make_mut(&mut prompt).id = begun.message;
    append(&session, &prompt).await;
    drop(session);
    fleet.close(again, "me").await.unwrap();
    let end = End::Again("it failed".to_owned(), Duration::from_secs(3600));
    fleet.end(claimed.id, "me", &end).await.unwrap();
    let mut held = None;
    for id in [old, open, asked] {
        let session = fleet.clone().open(id, "me").await.unwrap();
        append(&session, &Speaker::default().prompt("hi")).await;
        if id == open {
            held = Some(session);
        } else {
            drop(session);
            fleet.close(id, "me").await.unwrap();
        }
    }
    fleet.send(asked, MailKind::Steer, "more").await.unwrap();
    fleet.enqueue(&run(queued.as_str(), 0)).await.unwrap();
    let kept = fleet.collect(None).await.unwrap();
    assert_eq!(kept.sessions, []);
    let later = Time(SystemClock::default().now().0 + 3_600_000);
    let collected = fleet.collect(Some(later)).await.unwrap();
    assert_eq!(collected.sessions, std::slice::from_ref(old));
    for id in [open, asked, again] {
        let (messages, _) = fleet.messages(id, 0).await.unwrap();
        assert_eq!(messages.len(), 1, "{id}");
    }
    assert_eq!(fleet.find(queued.as_str()).await.unwrap().len(), 1);
    drop(held);
}

async fn runs_are_taken_by_priority_and_age(fleet: Arc<dyn Fleet>) {
    for (session, priority) in [("A", 0), ("B", 5), ("C", 0), ("D", -1)] {
        fleet.enqueue(&run(session, priority)).await.unwrap();
    }
    let mut taken = Vec::new();
    while let Some(run) = fleet.claim("me").await.unwrap() {
        assert_eq!((run.attempt, run.attempts), (1, 3));
        assert_eq!(run.model.as_deref(), Some("m"));
        taken.push(run.session.to_string());
    }
    assert_eq!(taken, ["B", "A", "C", "D"]);
    assert_eq!(fleet.counts().await.unwrap(), [(RunState::Running, 4)]);
}

async fn a_run_waits_for_its_time(fleet: Arc<dyn Fleet>) {
    let late = NewRun {
        delay: Duration::from_secs(3600),
        ..run("A", 0)
    };
    fleet.enqueue(&late).await.unwrap();
    assert_eq!(fleet.claim("me").await.unwrap(), None);
}

async fn a_session_has_one_run_at_a_time(fleet: Arc<dyn Fleet>) {
    fleet.enqueue(&run("A", 0)).await.unwrap();
    fleet.enqueue(&run("A", 0)).await.unwrap();
    let first = fleet.claim("me").await.unwrap().unwrap();
    assert_eq!(fleet.claim("you").await.unwrap(), None);
    assert!(fleet.end(first.id, "me", &End::Cancelled).await.unwrap());
    assert!(fleet.claim("you").await.unwrap().is_some());
}

async fn the_run_of_a_dead_worker_is_taken_over(fleet: Arc<dyn Fleet>) {
    fleet.enqueue(&run("A", 0)).await.unwrap();
    let first = fleet.claim("dead").await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    // It is late, but knows what it has.
    assert_eq!(fleet.claim("dead").await.unwrap(), None);
    let second = fleet.claim("living").await.unwrap().unwrap();
    assert_eq!((second.id, second.attempt), (first.id, 2));
    // It was only asleep.
    assert_eq!(fleet.beat(first.id, "dead").await.unwrap(), Wish::Leave);
    assert!(!fleet.end(first.id, "dead", &End::Done(None)).await.unwrap());
    assert_eq!(fleet.beat(first.id, "living").await.unwrap(), Wish::GoOn);
}

async fn a_failed_attempt_is_repeated_later(fleet: Arc<dyn Fleet>) {
    fleet.enqueue(&run("A", 0)).await.unwrap();
    let first = fleet.claim("me").await.unwrap().unwrap();
    let again = End::Again("no answer".to_owned(), Duration::ZERO);
    assert!(fleet.end(first.id, "me", &again).await.unwrap());
    let second = fleet.claim("me").await.unwrap().unwrap();
    assert_eq!(second.attempt, 2);
    // A hand-over does not count.
    let on = End::HandedOn(Duration::ZERO);
    assert!(fleet.end(first.id, "me", &on).await.unwrap());
    let third = fleet.claim("me").await.unwrap().unwrap();
    assert_eq!(third.attempt, 2);
    let later = End::Again("no answer".to_owned(), backoff(2) * 100);
    assert!(fleet.end(first.id, "me", &later).await.unwrap());
    assert_eq!(fleet.claim("me").await.unwrap(), None);
    let listed = &fleet.runs(None, 10).await.unwrap()[0];
    assert_eq!(listed.state, RunState::Queued);
    assert_eq!(listed.error.as_deref(), Some("no answer"));
}

async fn wishes_reach_the_worker(fleet: Arc<dyn Fleet>) {
    fleet.enqueue(&run("A", 0)).await.unwrap();
    fleet.enqueue(&run("A", 0)).await.unwrap();
    let session = SessionId::from("A");
    let running = fleet.claim("me").await.unwrap().unwrap();
    assert_eq!(fleet.wish(&session, Wish::Interrupt).await.unwrap(), 1);
    assert_eq!(fleet.beat(running.id, "me").await.unwrap(), Wish::Interrupt);
    assert_eq!(fleet.wish(&session, Wish::Cancel).await.unwrap(), 2);
    assert_eq!(fleet.beat(running.id, "me").await.unwrap(), Wish::Cancel);
    assert!(fleet.end(running.id, "me", &End::Cancelled).await.unwrap());
    assert_eq!(fleet.claim("me").await.unwrap(), None);
    assert_eq!(fleet.counts().await.unwrap(), [(RunState::Cancelled, 2)]);
    assert_eq!(fleet.wish(&session, Wish::Cancel).await.unwrap(), 0);
}

async fn who_interrupts_a_run_says_what_to_do_instead(fleet: Arc<dyn Fleet>) {
    let instead = async |session: &SessionId| {
        fleet
            .send(session, MailKind::Steer, "instead")
            .await
            .unwrap();
    };
    // Said after the run has ended.
    fleet.enqueue(&run("A", 0)).await.unwrap();
    let first = fleet.claim("me").await.unwrap().unwrap();
    fleet.wish(&first.session, Wish::Interrupt).await.unwrap();
    assert!(fleet.end(first.id, "me", &End::Cancelled).await.unwrap());
    assert_eq!(fleet.claim("me").await.unwrap(), None);
    instead(&first.session).await;
    let second = fleet.claim("me").await.unwrap().unwrap();
    assert_eq!(
        (second.id, second.session),
        (first.id, first.session.clone())
    );
    // Said before it has ended, by which it is not read.
    fleet.wish(&first.session, Wish::Interrupt).await.unwrap();
    instead(&first.session).await;
    assert_eq!(
        fleet.claim("me").await.unwrap(),
        None,
        "it is still running"
    );
    assert!(fleet.end(first.id, "me", &End::Cancelled).await.unwrap());
    let third = fleet.claim("me").await.unwrap().unwrap();
    assert!(third.id > first.id);
    assert_eq!(third.session, first.session);
    // What was said before the interrupt does not undo it.
    instead(&first.session).await;
    fleet.wish(&first.session, Wish::Interrupt).await.unwrap();
    assert!(fleet.end(third.id, "me", &End::Cancelled).await.unwrap());
    assert_eq!(fleet.claim("me").await.unwrap(), None);
}

async fn mail_wakes_a_session_at_rest(fleet: Arc<dyn Fleet>) {
    let wanted = run("A", 0);
    fleet.enqueue(&wanted).await.unwrap();
    let first = fleet.claim("me").await.unwrap().unwrap();
    let session = fleet.clone().open(&first.session, "me").await.unwrap();
    let mail = session.mail(MailKind::FollowUp).await.unwrap();
    assert_eq!(mail.len(), 1);
    assert_eq!(
        (&mail[0].id, &mail[0].content),
        (&wanted.message, &wanted.prompt)
    );
    let mut speaker = Speaker::default();
    let block = vec![ah_conversation::ContentBlock::text("task")];
    let (role, origin) = (ah_conversation::Role::User, ah_conversation::Origin::Prompt);
    let prompt = speaker.says_as(mail[0].id.clone(), role, origin, block);
    append(&session, &prompt).await;
    drop(session);
    fleet.close(&first.session, "me").await.unwrap();
    // Done with nothing left: it stays done, until somebody writes.
    assert!(fleet.end(first.id, "me", &End::Done(None)).await.unwrap());
    assert_eq!(fleet.claim("me").await.unwrap(), None);
    fleet
        .send(&first.session, MailKind::Steer, "left")
        .await
        .unwrap();
    let second = fleet.claim("me").await.unwrap().unwrap();
    assert_eq!((second.id, second.attempt), (first.id, 1));
    // Done while a message has come: it goes on.
    assert!(fleet.end(second.id, "me", &End::Done(None)).await.unwrap());
    assert!(fleet.claim("me").await.unwrap().is_some());
}

async fn what_was_said_can_be_followed(fleet: Arc<dyn Fleet>) {
    let id = SessionId::from("01ARZ3NDEKTSV4RRFFQ69G5FAV");
    fleet.enqueue(&run(id.as_str(), 0)).await.unwrap();
    assert_eq!(
        fleet.find("01ARZ").await.unwrap(),
        std::slice::from_ref(&id)
    );
    assert_eq!(fleet.find("01ARY").await.unwrap(), []);
    let claimed = fleet.claim("me").await.unwrap().unwrap();
    let session = fleet.clone().open(&claimed.session, "me").await.unwrap();
    let mut speaker = Speaker::default();
    let (one, two) = (speaker.prompt("one"), speaker.answer("two"));
    append(&session, &one).await;
    let (messages, place) = fleet.messages(&id, 0).await.unwrap();
    assert_eq!(messages, [one]);
    append(&session, &two).await;
    let (messages, place) = fleet.messages(&id, place).await.unwrap();
    assert_eq!(messages, [two]);
    assert_eq!(
        fleet.messages(&id, place).await.unwrap(),
        (Vec::new(), place)
    );
}

async fn an_answer_is_taken_once(fleet: Arc<dyn Fleet>) {
    fleet.enqueue(&run("A", 0)).await.unwrap();
    let (session, other) = (SessionId::from("A"), SessionId::from("B"));
    let question = Question {
        about: "NUL: \0".to_owned(),
        choices: Vec::new(),
        is_permission: true,
        proposal: None,
    };
    let taken = fleet.claim("me").await.unwrap().unwrap();
    let call = ToolUseId::from("call");
    let other_call = ToolUseId::from("other");
    let ask = async |name, call, is_again| {
        let asker = Asker {
            name,
            call,
            is_again,
        };
        fleet.ask(&session, &question, &asker).await.unwrap();
    };
    ask("first", Some(&call), false).await;
    let waiting = fleet.questions(&session).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].question, question);
    assert_eq!(fleet.runs(None, 1).await.unwrap()[0].questions, 1);
    assert_eq!(fleet.questions(&other).await.unwrap(), []);
    // Its worker dies, and another one asks the same.
    ask("second", Some(&call), true).await;
    assert_eq!(fleet.questions(&session).await.unwrap(), waiting);
    let number = waiting[0].number;
    let answers = ["yes".to_owned()];
    for (to, of, expected) in [
        (&other, number, false),
        (&session, number + 1, false),
        (&session, number, true),
        (&session, number, false),
    ] {
        assert_eq!(fleet.answer(to, of, &answers).await.unwrap(), expected);
    }
    assert_eq!(fleet.questions(&session).await.unwrap(), []);
    fleet.withdraw_question(&session, "second").await.unwrap();
    assert_eq!(fleet.take_answer(&session, "first").await.unwrap(), None);
    for _ in 0..2 {
        // An attempt whose result was lost finds it again.
        let answer = fleet.take_answer(&session, "second").await.unwrap();
        assert_eq!(answer.as_deref(), Some(&answers[..]));
    }
    // Its worker dies before the call has begun, and another one asks for the same call.
    ask("heir", Some(&call), true).await;
    let answer = fleet.take_answer(&session, "heir").await.unwrap();
    assert_eq!(answer.as_deref(), Some(&answers[..]));
    // The same question of another call, or later, is another one.
    ask("else", Some(&other_call), true).await;
    assert_eq!(fleet.take_answer(&session, "else").await.unwrap(), None);
    fleet.withdraw_question(&session, "else").await.unwrap();
    ask("third", Some(&call), false).await;
    assert_eq!(fleet.take_answer(&session, "third").await.unwrap(), None);
    let again = fleet.questions(&session).await.unwrap();
    assert!(again.len() == 1 && again[0].number > number);
    fleet.withdraw_question(&session, "third").await.unwrap();
    // A question about no call may be asked for another command, so what was answered once is not its answer.
    ask("nameless", None, false).await;
    let number = fleet.questions(&session).await.unwrap()[0].number;
    assert!(fleet.answer(&session, number, &answers).await.unwrap());
    let answer = fleet.take_answer(&session, "nameless").await.unwrap();
    assert_eq!(answer.as_deref(), Some(&answers[..]));
    ask("other", None, true).await;
    assert_eq!(fleet.take_answer(&session, "other").await.unwrap(), None);
    fleet.withdraw_question(&session, "other").await.unwrap();
    assert_eq!(fleet.questions(&session).await.unwrap(), []);
    ask("fourth", Some(&call), false).await;
    assert!(fleet.end(taken.id, "me", &End::Done(None)).await.unwrap());
    fleet.send(&session, MailKind::Steer, "on").await.unwrap();
    assert_eq!(fleet.questions(&session).await.unwrap(), []);
}

async fn requests_get_slots_under_all_limits(fleet: Arc<dyn Fleet>) {
    assert_eq!(fleet.limits().await.unwrap(), []);
    let rate = |model: &str, per_minute| Limit {
        tenant: String::new(),
        model: model.to_owned(),
        per_minute,
        budget: None,
    };
    // So slow that it does not matter how long the test takes.
    fleet.set_limit(&rate("m", Some(0.06))).await.unwrap();
    for (model, waits) in [("m", 0), ("m", 1), ("other", 0), ("m", 2), ("other", 0)] {
        assert_eq!(slots(&*fleet, model).await, waits, "{model}");
    }
    fleet.set_limit(&rate(ALL, Some(0.03))).await.unwrap();
    // The slots of the model are 1000 seconds apart, those of all models 2000.
    for (model, waits) in [("other", 0), ("other", 2), ("m", 4), ("m", 6)] {
        assert_eq!(slots(&*fleet, model).await, waits, "{model}");
    }
    fleet.set_limit(&rate(ALL, None)).await.unwrap();
    fleet.set_limit(&rate("m", None)).await.unwrap();
    assert_eq!(slots(&*fleet, "m").await, 0);
    assert_eq!(fleet.limits().await.unwrap(), []);
}

/// Returns the wait of a request in thousands of seconds.
async fn slots(fleet: &dyn Fleet, model: &str) -> u64 {
    match fleet.admit(model).await.unwrap() {
        Admission::After(wait) => (wait.as_secs() + 500) / 1000,
        Admission::Spent => panic!("nothing is spent"),
    }
}

async fn nothing_begins_when_the_budget_is_spent(fleet: Arc<dyn Fleet>) {
    fleet.enqueue(&run("A", 0)).await.unwrap();
    fleet.enqueue(&run("B", 0)).await.unwrap();
    let budget = |budget| Limit {
        tenant: String::new(),
        model: ALL.to_owned(),
        per_minute: None,
        budget,
    };
    fleet.set_limit(&budget(Some(100))).await.unwrap();
    let first = fleet.claim("me").await.unwrap().unwrap();
    for (cost, left) in [(60, 40), (0, 40), (50, -10)] {
        let go = Admission::After(Duration::ZERO);
        assert_eq!(fleet.admit("m").await.unwrap(), go);
        fleet.spend(cost).await.unwrap();
        assert_eq!(fleet.limits().await.unwrap()[0].budget, Some(left));
    }
    assert_eq!(fleet.admit("m").await.unwrap(), Admission::Spent);
    assert!(fleet.end(first.id, "me", &End::Spent).await.unwrap());
    assert_eq!(fleet.claim("me").await.unwrap(), None);
    let waiting = &fleet.runs(Some(&first.session), 1).await.unwrap()[0];
    assert_eq!(waiting.error.as_deref(), Some("the budget is spent"));
    assert_eq!(waiting.attempt, 0);
    fleet.set_limit(&budget(Some(1))).await.unwrap();
    let again = fleet.claim("me").await.unwrap().unwrap();
    fleet.set_limit(&budget(None)).await.unwrap();
    let other = fleet.claim("me").await.unwrap().unwrap();
    // What was once waited for is no news of a run that is done.
    for run in [again, other] {
        assert!(fleet.end(run.id, "me", &End::Done(None)).await.unwrap());
        let done = &fleet.runs(Some(&run.session), 1).await.unwrap()[0];
        assert_eq!(done.error, None);
    }
}

/// Several workers find the same schedules due.
async fn each_due_time_starts_one_session(fleets: [Arc<dyn Fleet>; 3]) {
    let fleet = &fleets[0];
    let now = fleet.now().await.unwrap();
    let due = |after: i64| Time(now.0 + after);
    let number = fleet
        .schedule("* * * * *", due(-60_000), &run("S", 7))
        .await
        .unwrap();
    for start in [-60_000, 0, 60_000] {
        let schedule = fleet.schedules().await.unwrap().remove(0);
        assert_eq!((schedule.number, schedule.due), (number, due(start)));
        let mut starting = tokio::task::JoinSet::new();
        for fleet in &fleets {
            let (fleet, schedule) = (fleet.clone(), schedule.clone());
            let next = due(start + 60_000);
            starting.spawn(async move {
                let ids = Start::of(&schedule);
                fleet.start(&schedule, &ids, next).await.unwrap()
            });
        }
        let started = starting.join_all().await;
        assert_eq!(started.iter().filter(|started| **started).count(), 1);
        let run = fleet.claim("me").await.unwrap().unwrap();
        assert_eq!((run.model.as_deref(), run.attempts), (Some("m"), 3));
        let session = fleet.clone().open(&run.session, "me").await.unwrap();
        let mail = session.mail(MailKind::FollowUp).await.unwrap();
        assert_eq!(mail.len(), 1);
        assert_eq!(mail[0].content, "task of S");
        assert_eq!(fleet.claim("me").await.unwrap(), None);
    }
    assert!(fleet.unschedule(number).await.unwrap());
    assert!(!fleet.unschedule(number).await.unwrap());
    assert_eq!(fleet.schedules().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn due_times_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        Arc::new(LocalFleet::open(&Sessions::in_folder(folder.path()), PATIENT).unwrap())
            as Arc<dyn Fleet>
    };
    each_due_time_starts_one_session([open(), open(), open()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn due_times_of_a_server() {
    let Some(server) = shared() else { return };
    let url = database(server).await;
    let open = async || connect(&url, PATIENT).await as Arc<dyn Fleet>;
    each_due_time_starts_one_session([open().await, open().await, open().await]).await;
}

#[tokio::test]
async fn of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicU32::new(0);
    check(async |timing| {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let folder = folder.path().join(number.to_string());
        Arc::new(LocalFleet::open(&Sessions::in_folder(&folder), timing).unwrap()) as Arc<dyn Fleet>
    })
    .await;
}

#[tokio::test]
async fn of_a_server() {
    let Some(server) = shared() else { return };
    check(async |timing| {
        let url = database(server).await;
        let fleet = connect(&url, timing).await;
        fleet as Arc<dyn Fleet>
    })
    .await;
}

/// Whoever comes second waits for the first and sees what it wrote, be it the message or the end of the run.
#[tokio::test]
async fn a_message_meets_the_end_of_a_run() {
    let Some(server) = shared() else { return };
    let url = database(server).await;
    let fleet = connect(&url, PATIENT).await;
    let (first, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for session in ["message first", "end first"] {
        fleet.enqueue(&run(session, 0)).await.unwrap();
        let taken = fleet.claim("me").await.unwrap().unwrap();
        let read = format!("UPDATE ah.mail SET consumed_by = 0 WHERE session = '{session}'");
        server.psql(&url, &read).unwrap();
        let send = format!("BEGIN; SELECT ah.send('{session}', '{session}', 'steer', 'go on')");
        let finish = format!(
            "BEGIN; SELECT ah.finish({}, 'me', 'done', NULL, 0, true)",
            taken.id
        );
        let second = if session == "message first" {
            first.batch_execute(&send).await.unwrap();
            let fleet = fleet.clone();
            tokio::spawn(async move { fleet.end(taken.id, "me", &End::Done(None)).await.map(drop) })
        } else {
            first.batch_execute(&finish).await.unwrap();
            let (fleet, id) = (fleet.clone(), taken.session.clone());
            tokio::spawn(async move { fleet.send(&id, MailKind::Steer, "go on").await.map(drop) })
        };
        let waits = "SELECT EXISTS (
                         SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
                         WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)";
        let is_waiting = async {
            while server.psql(&url, waits).unwrap() != "t" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limited = tokio::time::timeout(Duration::from_secs(60), is_waiting);
        limited.await.expect("the second waits for the first");
        first.batch_execute("COMMIT").await.unwrap();
        second.await.unwrap().unwrap();
        let again = fleet.claim("me").await.unwrap();
        assert_eq!(again.map(|run| run.id), Some(taken.id), "{session}");
    }
}

/// An answer that is lost with its connection is asked for once more, and a run that nobody knows of would wait.
#[tokio::test]
async fn who_asks_for_a_run_again_gets_the_same() {
    let Some(server) = shared() else { return };
    let url = database(server).await;
    let fleet = connect(&url, PATIENT).await;
    for session in ["A", "B"] {
        fleet.enqueue(&run(session, 0)).await.unwrap();
    }
    let claim = |request: &str| {
        let claim = format!("SELECT session, attempt FROM ah.claim('me', 60, '{request}')");
        server.psql(&url, &claim).unwrap()
    };
    let taken = ["first", "first", "second", "first", "third"].map(claim);
    assert_eq!(taken, ["A|1", "A|1", "B|1", "A|1", ""]);
}

#[tokio::test]
async fn a_schedule_whose_number_was_lost_is_made_once() {
    let Some(server) = shared() else { return };
    let url = database(server).await;
    let fleet = connect(&url, PATIENT).await;
    let (one, other) = (run("S", 0), run("S", 0));
    let mut numbers = Vec::new();
    for run in [&one, &one, &other] {
        numbers.push(fleet.schedule("0 3 * * *", Time(0), run).await.unwrap());
    }
    assert_eq!(numbers[0], numbers[1]);
    assert_ne!(numbers[0], numbers[2]);
    assert_eq!(fleet.schedules().await.unwrap().len(), 2);
}
