//! Long sessions against servers that refuse what each vendor refuses: tools that appear later, changes of the model,
//! resumes, forks, summaries, pictures, parallel calls, words said during a run, interrupts. None may be refused. Each row of
//! the table of servers is reached as its users reach it, but at the address of a test server.
//!
//! A session is a story, made from a number. `AH_TEST_SESSIONS=all` plays thirty for each row, `AH_TEST_SESSIONS=17`
//! the story 17 alone.

mod player;
mod routes;
mod story;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::player::play;
use self::routes::{ROUTES, Route};
use self::story::Story;

/// Number of stories for each row, and of those that are always played.
const STORIES: u64 = 30;
const FEW: u64 = 2;

/// Returns the numbers of the stories to play with the route number `at`, others for each route.
fn numbers(at: u64) -> Vec<u64> {
    match std::env::var("AH_TEST_SESSIONS").ok().as_deref() {
        Some("all") => (0..STORIES).collect(),
        Some(number) => vec![number.parse().expect("`all` or a number")],
        None => (0..FEW).map(|few| (at * FEW + few) % STORIES).collect(),
    }
}

/// Plays story `number` with `route`; returns what went wrong, with the story.
fn failure(route: &'static Route, number: u64) -> Option<String> {
    // Each goes elsewhere for a while, to all others in turn.
    let others: Vec<_> = ROUTES
        .iter()
        .filter(|other| other.preset.name != route.preset.name)
        .collect();
    let turn = usize::try_from(number).expect("small") % others.len();
    let elsewhere = others[turn];
    let story = Story::new(number, [route, elsewhere]);
    let failed = catch_unwind(AssertUnwindSafe(|| play(&story))).err()?;
    let why = failed.downcast_ref::<String>().cloned();
    let why = why.or_else(|| failed.downcast_ref::<&str>().map(|it| (*it).to_owned()));
    Some(format!(
        "{}, story {number}: {}\n{story}",
        route.preset.name,
        why.unwrap_or_default()
    ))
}

#[test]
fn no_server_refuses_a_long_session() {
    let routes = ROUTES.iter().zip(0..);
    let plays: Vec<_> = routes
        .flat_map(|(route, at)| numbers(at).into_iter().map(move |number| (route, number)))
        .collect();
    // Half the time is waiting for a server.
    let threads = plays.len().min(4);
    let failures: Vec<_> = std::thread::scope(|scope| {
        let played = (0..threads).map(|thread| {
            let plays = plays.iter().skip(thread).step_by(threads);
            scope.spawn(move || {
                let failures = plays.filter_map(|(route, number)| failure(route, *number));
                failures.collect::<Vec<_>>()
            })
        });
        let played: Vec<_> = played.collect();
        played
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {} stories failed:\n{}",
        failures.len(),
        plays.len(),
        failures.join("\n")
    );
}
