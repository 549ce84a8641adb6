//! What goes out in a long conversation, and how soon: to a server that holds conversations and to one that does not.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::answer::{Answer, runs, says, says_and_runs};
use super::machine::bare_bash;
use super::process::{Agent, Pair, Run};
use super::server::Script;
use super::statistics::{median, median_of, repeat};
use super::table::{Figure, Row};

/// Settings for a server that holds conversations, and for one that does not.
const HOLDS: &str = r#"{"conversationState": "on"}"#;
const HOLDS_NOTHING: &str = r#"{"conversationState": "off"}"#;
/// Turns of the session whose bytes are counted; it has settled at the first of these.
const TURNS: usize = 1_000;
const SETTLED: usize = 10;
/// Turns of the session that grows from 20 kB to 2 MB: the ones before and after, and those between, with answers of 100 kB.
const SHORT: Range<usize> = 10..60;
const GROWING: Range<usize> = 60..80;
const LONG: Range<usize> = 85..135;
/// Sessions that grow; the middle one counts, since syncs and starts of shells scatter more than what is measured.
const SESSIONS: usize = 7;

/// Number from which calls are counted, so that all have as many digits.
const FIRST: usize = 10_000;

fn call(turn: usize) -> Answer {
    runs(FIRST + turn, [format!("true {}", FIRST + turn).as_str()])
}

/// Returns the sizes of the bodies of a session in which each turn adds as much.
fn sizes(agent: &Agent) -> Result<Vec<usize>> {
    let script = |turn| match turn {
        TURNS => says("Done."),
        _ => call(turn),
    };
    let folder = agent.folder()?;
    let bodies = agent.requests(&folder, HOLDS, &["-n", "go"], TURNS + 1, Arc::new(script))?;
    Ok(bodies.iter().map(Vec::len).collect())
}

/// Returns the median time from the end of an answer to the first byte of the next request, without that of the command, at 2 MB
/// of history over that at 20 kB.
#[expect(clippy::cast_precision_loss, reason = "ratios are small")]
fn grown(agent: &Agent, settings: &str) -> Result<f64> {
    let words = "Some words that go on for a while. ".repeat(100_000 / 35);
    let script = move |turn| match turn {
        turn if turn == LONG.end => says("Done."),
        turn if GROWING.contains(&turn) => says_and_runs(turn, &words, &format!("true {turn}")),
        _ => call(turn),
    };
    let script: Script = Arc::new(script);
    let bash = bare_bash()?;
    let gap = |run: &Run, turns: Range<usize>| {
        let gap = median(turns.map(|turn| run.gap_after(turn)).collect());
        gap.saturating_sub(bash)
    };
    let grown = |run: &Run| gap(run, LONG).as_nanos() * 1_000 / gap(run, SHORT).as_nanos().max(1);
    let runs = repeat(SESSIONS, || {
        agent.run_set(&agent.folder()?, settings, LONG.end + 1, script.clone())
    })?;
    Ok(median_of(&runs, grown) as f64 / 1e3)
}

/// Measures the bytes and the times.
#[expect(clippy::cast_precision_loss, reason = "requests are small")]
pub fn held(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    let mut sizes = sizes(agent)?.split_off(SETTLED);
    // The last answer is another one.
    sizes.pop();
    let least = *sizes.iter().min().context("no requests")?;
    let most = *sizes.iter().max().context("no requests")?;
    Ok(vec![
        Row {
            what: "bytes that a turn sends to a server that holds the conversation: at most, and over the least, from turn 10 to 1,000",
            figures: vec![
                Figure::bytes(most, 1_500.0),
                Figure::times(most as f64 / least as f64, 1.05),
            ],
            best: None,
        },
        Row {
            what: "from the end of a response to the first byte of the next request, at 2 MB of history over 20 kB: held, sent whole",
            figures: vec![
                Figure::times(grown(agent, HOLDS)?, 1.2),
                Figure::times(grown(agent, HOLDS_NOTHING)?, 1.2),
            ],
            best: None,
        },
    ])
}
