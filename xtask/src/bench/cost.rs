//! What a session costs under an emulated prompt cache, against the least that the same words can cost.
//!
//! Nothing here is a time of this machine: the requests of real runs are priced as the vendor's documentation of prompt
//! caching says (November 2026), with a clock that the script advances. Costs are in input tokens at the usual price; a
//! token is taken for four bytes.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;

use super::answer::{Answer, runs, runs_in_crowded_window, says};
use super::process::{Agent, Pair};
use super::table::{Figure, Row};

/// Turns of the session, and the processes that share them.
const TURNS: usize = 200;
const PROCESSES: usize = 4;
/// Turn at which the server says that the window is crowded.
const CROWDED: usize = 120;
/// A pause follows each so many turns.
const PAUSE_EVERY: usize = 20;
/// Seconds between two requests, and of a pause.
const STEP: u64 = 10;
const PAUSE: u64 = 360;
/// How many blocks before a mark the server looks for an entry.
const LOOKBACK: usize = 20;
/// Price of a token that is read from the cache, as a share of the usual one.
const READ: f64 = 0.1;

/// Lifetime of cache entries.
#[derive(Clone, Copy)]
struct Lifetime {
    seconds: u64,
    /// Price of a token that is written to the cache, as a share of the usual one.
    write: f64,
    /// Settings with which the agent asks for it.
    settings: &'static str,
}

const SHORT: Lifetime = Lifetime {
    seconds: 300,
    write: 1.25,
    settings: "{}",
};
const LONG: Lifetime = Lifetime {
    seconds: 3_600,
    write: 2.0,
    settings: r#"{"cacheTtl": "1h"}"#,
};

/// A content block of a request, a tool, or a part of the system prompt.
struct Block {
    text: String,
    is_marked: bool,
}

impl Block {
    fn of(value: &Value) -> Self {
        let mut value = value.clone();
        let mark = value
            .as_object_mut()
            .and_then(|fields| fields.remove("cache_control"));
        Self {
            text: value.to_string(),
            is_marked: mark.is_some(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn tokens(&self) -> f64 {
        self.text.len() as f64 / 4.0
    }
}

/// Returns the blocks of a request in the order of the cache.
fn blocks(body: &[u8]) -> Result<Vec<Block>> {
    let body: Value = serde_json::from_slice(body).context("a request is no JSON")?;
    let list = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        Value::Null => Vec::new(),
        other => vec![other.clone()],
    };
    let mut blocks: Vec<_> = list(&body["tools"]).iter().map(Block::of).collect();
    blocks.extend(list(&body["system"]).iter().map(Block::of));
    for message in list(&body["messages"]) {
        blocks.extend(list(&message["content"]).iter().map(Block::of));
    }
    Ok(blocks)
}

/// Cache of the server: the hash of each stored prefix, and when it expires.
struct Cache {
    lifetime: Lifetime,
    entries: HashMap<u64, u64>,
}

impl Cache {
    /// Returns the cost of a request at the time `now`, in seconds.
    fn cost(&mut self, blocks: &[Block], now: u64) -> f64 {
        let mut hasher = DefaultHasher::new();
        let prefixes: Vec<u64> = blocks
            .iter()
            .map(|block| {
                block.text.hash(&mut hasher);
                hasher.finish()
            })
            .collect();
        let marks: Vec<usize> = (0..blocks.len())
            .filter(|at| blocks[*at].is_marked)
            .collect();
        let is_live = |at: &usize| {
            self.entries
                .get(&prefixes[*at])
                .is_some_and(|end| *end > now)
        };
        let read = marks
            .iter()
            .flat_map(|mark| mark.saturating_sub(LOOKBACK)..=*mark)
            .filter(is_live)
            .max();
        let (read, written) = (
            read.map_or(0, |at| at + 1),
            marks.last().map_or(0, |at| at + 1),
        );
        let tokens = |range: &[Block]| range.iter().map(Block::tokens).sum::<f64>();
        let end = now + self.lifetime.seconds;
        for at in marks.iter().copied().chain(read.checked_sub(1)) {
            self.entries.insert(prefixes[at], end);
        }
        let written = written.max(read);
        READ * tokens(&blocks[..read])
            + self.lifetime.write * tokens(&blocks[read..written])
            + tokens(&blocks[written..])
    }
}

/// Returns the least that the requests can cost: each word is written once, and once more if nothing was asked for longer
/// than entries live; every other time it is read.
fn least(requests: &[Vec<Block>], times: &[u64], lifetime: Lifetime) -> f64 {
    let (mut known, mut last, mut cost) = (HashSet::new(), 0, 0.0);
    for (blocks, now) in requests.iter().zip(times) {
        if now - last >= lifetime.seconds {
            known.clear();
        }
        last = *now;
        for block in blocks {
            let price = if known.insert(&block.text) {
                lifetime.write
            } else {
                READ
            };
            cost += price * block.tokens();
        }
    }
    cost
}

/// Returns the answer at a turn of the session (0-based); one of them is the summary.
fn answer(turn: usize) -> Answer {
    let command = format!("seq {turn} {}", turn + 100);
    match turn {
        CROWDED => runs_in_crowded_window(turn, &command),
        turn if turn == CROWDED + 1 => says("A summary of what was done so far, in a few words."),
        turn if (turn + 1) % (TURNS / PROCESSES) == 0 => says("Done for now."),
        _ => runs(turn, [command.as_str()]),
    }
}

/// Returns the times of the requests in seconds.
fn times(count: usize) -> Vec<u64> {
    let time = |at: usize| at as u64 * STEP + (at / PAUSE_EVERY) as u64 * (PAUSE - STEP);
    (0..count).map(time).collect()
}

/// The bodies of all requests of the session.
fn session(agent: &Agent, lifetime: Lifetime) -> Result<Vec<Vec<u8>>> {
    let folder = agent.folder()?;
    let mut bodies = Vec::new();
    let each = TURNS / PROCESSES;
    for process in 0..PROCESSES {
        let script = Arc::new(move |at| answer(process * each + at));
        let arguments: &[&str] = if process == 0 {
            &["-n", "go"]
        } else {
            &["go on"]
        };
        bodies.extend(agent.requests(&folder, lifetime.settings, arguments, each, script)?);
    }
    Ok(bodies)
}

/// Returns what the requests cost, over the least that they can.
fn ratio(bodies: &[Vec<u8>], lifetime: Lifetime) -> Result<f64> {
    let requests = bodies.iter().map(|body| blocks(body));
    let requests = requests.collect::<Result<Vec<_>>>()?;
    let times = times(requests.len());
    let mut cache = Cache {
        lifetime,
        entries: HashMap::new(),
    };
    let costs = requests.iter().zip(&times);
    let cost: f64 = costs.map(|(blocks, now)| cache.cost(blocks, *now)).sum();
    Ok(cost / least(&requests, &times, lifetime))
}

/// Measures the cost of the session, and the bytes of its requests.
pub fn cost(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    let (short, long) = (session(agent, SHORT)?, session(agent, LONG)?);
    let figure =
        |bodies: &[_], lifetime| -> Result<_> { Ok(Figure::times(ratio(bodies, lifetime)?, 1.05)) };
    let (early, late) = (20, 100);
    let added = (short[late].len() - short[early].len()) / (late - early);
    Ok(vec![
        Row {
            what: "cost of 200 turns with three resumes, ten pauses of 6 minutes and a summary, over the least for the same words: entries of 5 minutes, of 1 hour",
            figures: vec![figure(&short, SHORT)?, figure(&long, LONG)?],
            best: None,
        },
        Row {
            what: "first request",
            figures: vec![Figure::bytes(short[0].len(), 6_000.0)],
            best: None,
        },
        Row {
            what: "bytes that a turn with a `bash` call and 300 bytes of output adds to a request",
            figures: vec![Figure::bytes(added, 900.0)],
            best: None,
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(texts: &[&str], is_marked: bool) -> Vec<Block> {
        let last = texts.len() - 1;
        let block = |(at, text): (usize, &&str)| Block {
            text: text.repeat(40),
            is_marked: is_marked && at == last,
        };
        texts.iter().enumerate().map(block).collect()
    }

    fn total(requests: &[Vec<Block>], times: &[u64]) -> f64 {
        let mut cache = Cache {
            lifetime: SHORT,
            entries: HashMap::new(),
        };
        let costs = requests.iter().zip(times);
        costs.map(|(blocks, now)| cache.cost(blocks, *now)).sum()
    }

    #[test]
    fn extensions_are_read_and_all_else_is_paid_again() {
        // A letter is ten tokens.
        let grown = [request(&["a", "b"], true), request(&["a", "b", "c"], true)];
        let close = |cost: f64, expected: f64| assert!((cost - expected).abs() < 1e-9, "{cost}");
        close(
            total(&grown, &[0, 10]),
            20.0 * 1.25 + 20.0 * 0.1 + 10.0 * 1.25,
        );
        close(least(&grown, &[0, 10], SHORT), total(&grown, &[0, 10]));
        // An entry has expired.
        close(total(&grown, &[0, 300]), 50.0 * 1.25);
        close(least(&grown, &[0, 300], SHORT), 50.0 * 1.25);
        let changed = [request(&["a", "b"], true), request(&["x", "b", "c"], true)];
        close(total(&changed, &[0, 10]), 50.0 * 1.25);
        assert!(least(&changed, &[0, 10], SHORT) < total(&changed, &[0, 10]));
        let unmarked = [request(&["a", "b"], false), request(&["a", "b"], false)];
        close(total(&unmarked, &[0, 10]), 40.0);
    }
}
