//! The measured rows and their budgets.
//!
//! Where the budget is a multiple of the least possible, the same is measured of a bare loop (`bin/floor.rs`) in the same
//! run. The last column was measured once, on the machine where the budget was set.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::answer::{Answer, runs, says, says_in_pieces, says_pieces};
use super::cost::cost;
use super::fleet::fleet;
use super::held::held;
use super::machine::bare_bash;
use super::openai;
use super::process::{Agent, Pair, Run, size_of, time};
use super::server::Script;
use super::soak::soak;
use super::statistics::{median, median_of, percentile_99, repeat};
use super::table::{Figure, Row};
use super::tools::tools;
use super::typing::Typed;
use super::watchers::watchers;

/// Measures the rows that come from the same runs.
pub type Measure = fn(&Pair) -> Result<Vec<Row>>;

/// All groups of rows by name.
pub const GROUPS: [(&str, Measure); 18] = [
    ("version", version),
    ("one-shot", one_shot),
    ("turns", turns),
    ("deltas", deltas),
    ("drawn", drawn),
    ("typing", typing),
    ("output", output),
    ("resume", resume),
    ("together", together),
    ("crowd", crowd),
    ("sandbox", sandbox),
    ("watchers", watchers),
    ("fleet", fleet),
    ("cost", cost),
    ("held", held),
    ("soak", soak),
    ("tools", tools),
    ("size", size),
];

/// Turns of the long session, and the windows that are compared as its beginning and its end.
const TURNS: usize = 1_025;
const EARLY: Range<usize> = 25..75;
const LATE: Range<usize> = 975..1_025;

fn version(pair: &Pair) -> Result<Vec<Row>> {
    let (wall, least) = pair.each(|agent| {
        let folder = agent.folder()?;
        let times =
            (0..100).map(|_| time(&mut agent.command(&folder, "unused", &["--version"])?));
        Ok(median(times.collect::<Result<Vec<_>>>()?))
    })?;
    Ok(vec![Row {
        what: "`ah --version`",
        figures: vec![Figure::over(wall, least, 1.6)],
        best: Some("8.7 ms"),
    }])
}

fn one_shot(pair: &Pair) -> Result<Vec<Row>> {
    let (runs, least) = pair.each(|agent| {
        repeat(30, || {
            agent.run(&agent.folder()?, 1, Arc::new(|_| says("Done.")))
        })
    })?;
    let compared = |value: fn(&Run) -> Duration| {
        Figure::over(median_of(&runs, value), median_of(&least, value), 3.5)
    };
    Ok(vec![
        Row {
            what: "one-shot with one model call: to the first request, wall",
            figures: vec![compared(Run::to_first_request), compared(|run| run.wall)],
            best: Some("136 / 170 ms"),
        },
        Row {
            what: "its memory: its own, mapped",
            figures: memory(&runs, &least, 2.0).into(),
            best: None,
        },
    ])
}

/// Returns the most memory that runs had of their own, and had mapped, beside that of the bare loop. What is mapped is mostly
/// the binary, so it has no budget.
fn memory(runs: &[Run], least: &[Run], budget: f64) -> [Figure; 2] {
    let most = |value: fn(&Run) -> u64| {
        let figure = |runs: &[Run]| Figure::megabytes(median_of(runs, value), budget);
        figure(runs).beside(&figure(least))
    };
    [
        most(|run| run.memory.own),
        most(|run| run.memory.mapped).without_budget(),
    ]
}

fn turns(pair: &Pair) -> Result<Vec<Row>> {
    let bash = bare_bash()?;
    let gap = |run: &Run, turns: Range<usize>| {
        median(turns.map(|turn| run.gap_after(turn)).collect()).saturating_sub(bash)
    };
    let (runs, least) = pair.each(|agent| repeat(3, || long_session(agent, &agent.folder()?)))?;
    let early = median_of(&runs, |run| gap(run, EARLY));
    let late = median_of(&runs, |run| gap(run, LATE));
    Ok(vec![
        Row {
            what: "gap from the end of a response to the next request, one `bash` call of `true`, less a bare \
                   `bash -c true`; everything stored with `synchronous=FULL`",
            figures: vec![Figure::over(
                early,
                median_of(&least, |run| gap(run, EARLY)),
                1.8,
            )],
            best: Some("5.5 ms"),
        },
        Row {
            what: "the same at turn 1,000 over turn 50",
            figures: vec![Figure::times(late.as_secs_f64() / early.as_secs_f64(), 1.1)],
            best: Some("1.05 × (2.3 × for the fastest)"),
        },
        Row {
            what: "memory after 1,000 turns: its own, mapped",
            figures: memory(&runs, &least, 8.0).into(),
            best: Some("156 MB"),
        },
    ])
}

/// Runs a session with one `bash` call per turn. All calls differ, since an agent that repeats itself is stopped.
pub fn long_session(agent: &Agent, folder: &Path) -> Result<Run> {
    let script = |turn| match turn {
        TURNS => says("Done."),
        _ => runs(turn, [format!("true {turn}").as_str()]),
    };
    agent.run(folder, TURNS + 1, Arc::new(script))
}

/// Answer for the terminal, with the elements that answers usually have.
const ANSWER: &str = "## A heading\n\nSome words with `code` and **bold** that go on for a while, as answers do, and \
    then some more of them, so that a row is not enough.\n\n- one item\n- another with [a link](https://example.org)\n\n\
    ```rust\nfn main() {\n    let n: u32 = (0..10).map(|n| n * 2).sum();\n    println!(\"{n}\"); // so\n}\n```\n\n\
    | a | b |\n|---|---|\n| 1 | 2 |\n\n";

/// Answer of twenty thousand deltas of five bytes.
fn laid_out() -> Answer {
    const COUNT: usize = 20_000;
    let pieces = ANSWER.as_bytes().chunks(5).cycle().take(COUNT);
    says_pieces(&pieces.map(String::from_utf8_lossy).collect::<Vec<_>>())
}

/// Measures the drawing of the answer on a terminal of 80 columns: in a run, and in a conversation while a user types.
fn drawn(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    let answer = laid_out();
    let script = || {
        let answer = answer.clone();
        Arc::new(move |_| answer.clone())
    };
    let runs = repeat(5, || agent.run_drawn(&agent.folder()?, 1, script()))?;
    let talks = repeat(5, || agent.converse(&agent.folder()?, 1, script()))?;
    Ok(vec![Row {
        what: "one answer of 100 kB of Markdown in 20,000 deltas, drawn on a terminal: CPU of a run, of a conversation",
        figures: vec![
            Figure::milliseconds(median_of(&runs, |run| run.cpu), 150.0),
            Figure::milliseconds(median_of(&talks, |(run, _)| run.cpu), 150.0),
        ],
        best: None,
    }])
}

/// Measures typing while the same answer arrives within three seconds, and while a command writes as long.
fn typing(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    const TIME: Duration = Duration::from_secs(3);
    const WRITES: &str = "seq 10000; for i in $(seq 150); do echo $i; sleep 0.02; done";
    let answer = laid_out().within(TIME);
    let typed = |requests, script: Script| {
        repeat(5, || {
            agent.converse(&agent.folder()?, requests, script.clone())
        })
    };
    let beside = typed(
        2,
        Arc::new(|turn| match turn {
            0 => runs(0, [WRITES]),
            _ => says("Done."),
        }),
    )?;
    let typed = typed(1, Arc::new(move |_| answer.clone()))?;
    let delays = |typed: &[(Run, Typed)]| -> Vec<_> {
        let delays = typed.iter().flat_map(|(_, typed)| typed.delays.clone());
        delays.collect()
    };
    // A busy machine is slow in this as in anything else, so the start of a shell is what it is measured by. A frame has 16 ms.
    let bash = bare_bash()?;
    let latency = |delays: Vec<_>| {
        vec![
            Figure::over(median(delays.clone()), bash, 5.0),
            Figure::over(percentile_99(delays), bash, 15.0),
        ]
    };
    let per_second = |(_, typed): &(Run, Typed)| {
        let thousandths = typed.frames as u128 * 1_000_000 / typed.time.as_millis();
        u32::try_from(thousandths).unwrap_or(u32::MAX)
    };
    let frames = f64::from(median_of(&typed, per_second)) / 1e3;
    let own = median_of(&typed, |(run, _)| run.memory.own);
    let idle: usize = typed.iter().map(|(_, typed)| typed.idle).sum();
    Ok(vec![
        Row {
            what: "a conversation: from its start until keys are read, beside a bare `bash -c true`, its own memory at most, frames while \
                   nothing happens",
            figures: vec![
                Figure::over(median_of(&typed, |(_, typed)| typed.ready), bash, 60.0),
                Figure::megabytes(own, 30.0),
                Figure::more(idle),
            ],
            best: None,
        },
        Row {
            what: "from a key to the screen while such an answer comes within 3 s, beside a bare `bash -c true`: median, 99 of 100",
            figures: latency(delays(&typed)),
            best: None,
        },
        Row {
            what: "the same while a command writes, after 10,000 lines",
            figures: latency(delays(&beside)),
            best: None,
        },
        Row {
            what: "frames drawn while the answer comes: 60 a second, and one for each of 43 keys",
            figures: vec![Figure::per_second(frames, 105.0)],
            best: None,
        },
    ])
}

/// Measures all protocols, whose events differ in size.
fn deltas(pair: &Pair) -> Result<Vec<Row>> {
    const COUNT: usize = 20_000;
    let piece = format!("{:-<99}\n", "a hundred bytes ");
    let measure = |agent: &Agent, model: &str, answer: Answer| {
        let runs = repeat(5, || {
            let (folder, answer) = (agent.folder()?, answer.clone());
            let script = Arc::new(move |_| answer.clone());
            let run = agent.run_with_model(model, &folder, 1, script)?;
            let (kept, said) = (size_of(&folder)?, piece.len() * COUNT);
            ensure!(kept >= said as u64, "only {kept} of {said} bytes were kept");
            Ok(run)
        })?;
        Ok::<_, anyhow::Error>(median_of(&runs, |run| run.cpu))
    };
    let (messages, least) =
        pair.each(|agent| measure(agent, "sonnet", says_in_pieces(&piece, COUNT)))?;
    let agent = &pair.agent;
    let chat = measure(agent, "openai/bench", openai::chat(&piece, COUNT))?;
    let responses = openai::responses(&piece, COUNT);
    let responses = measure(agent, "openai-responses/bench", responses)?;
    Ok(vec![
        Row {
            what: "one answer of 2 MB in 20,000 deltas: CPU",
            figures: vec![Figure::over(messages, least, 1.7)],
            best: Some("665 ms"),
        },
        Row {
            what: "the same by chat completions",
            figures: vec![Figure::over(chat, least, 1.7)],
            best: None,
        },
        Row {
            what: "the same by the Responses API",
            figures: vec![Figure::over(responses, least, 1.7)],
            best: None,
        },
    ])
}

fn output(pair: &Pair) -> Result<Vec<Row>> {
    const BYTES: u64 = 50_000_000;
    let command =
        format!("yes 'a line of output that is neither long nor short' | head -c {BYTES}");
    let (runs, least) = pair.each(|agent| {
        repeat(3, || {
            let command = command.clone();
            let folder = agent.folder()?;
            let script = move |turn| {
                if turn == 0 {
                    runs(turn, [command.as_str()])
                } else {
                    says("Done.")
                }
            };
            let run = agent.run(&folder, 2, Arc::new(script))?;
            let kept = size_of(&folder)?;
            ensure!(kept >= BYTES, "only {kept} of {BYTES} bytes were kept");
            fs::remove_dir_all(folder)?;
            Ok(run)
        })
    })?;
    let gap = |runs: &[Run]| median_of(runs, |run| run.gap_after(0));
    Ok(vec![Row {
        what: "one command that prints 50 MB, all of it kept: gap, memory of its own, mapped",
        figures: [Figure::over(gap(&runs), gap(&least), 1.6)]
            .into_iter()
            .chain(memory(&runs, &least, 4.0))
            .collect(),
        best: Some("119 ms, 160 MB (keeps 41 kB)"),
    }])
}

fn resume(pair: &Pair) -> Result<Vec<Row>> {
    let done = || -> Script { Arc::new(|_| says("Done.")) };
    let (time, least) = pair.each(|agent| {
        let folder = agent.folder()?;
        long_session(agent, &folder)?;
        let runs = repeat(15, || agent.go_on(&folder, &[], 1, done()))?;
        Ok(median_of(&runs, Run::to_first_request))
    })?;
    let agent = &pair.agent;
    let folder = agent.folder()?;
    let last = || {
        let runs = repeat(15, || agent.go_on(&folder, &["-c"], 1, done()))?;
        Ok::<_, anyhow::Error>(median_of(&runs, Run::to_first_request))
    };
    agent.run(&folder, 1, done())?;
    let alone = last()?;
    repeat(999, || agent.run(&folder, 1, done()))?;
    // Those of the last two seconds are all taken for the last one.
    thread::sleep(Duration::from_secs(3));
    let grown = last()?.as_secs_f64() / alone.as_secs_f64();
    Ok(vec![
        Row {
            what: "resume a session of 1,000 turns: to the first request",
            figures: vec![Figure::over(time, least, 6.0)],
            best: Some("242 ms"),
        },
        Row {
            what: "resume the session of the last prompt, of 1,000 in the folder over the only one: to the first request",
            figures: vec![Figure::times(grown, 2.5)],
            best: None,
        },
    ])
}

fn together(pair: &Pair) -> Result<Vec<Row>> {
    let script = |turn| {
        if turn == 0 {
            runs(turn, ["sleep 0.5"; 8])
        } else {
            says("Done.")
        }
    };
    let agent = &pair.agent;
    let runs = repeat(5, || agent.run(&agent.folder()?, 2, Arc::new(script)))?;
    Ok(vec![Row {
        what: "8 × `sleep 0.5` in one response (recognised as harmless, so together)",
        figures: vec![Figure::milliseconds(
            median_of(&runs, |run| run.gap_after(0)),
            560.0,
        )],
        best: Some("552 ms"),
    }])
}

fn crowd(pair: &Pair) -> Result<Vec<Row>> {
    const TURNS: usize = 10;
    let script = |turn| {
        let answer = if turn + 1 == TURNS {
            says("Done.")
        } else {
            runs(turn, [format!("true {turn}").as_str()])
        };
        answer.after(Duration::from_millis(200))
    };
    let (runs, least) = pair.each(|agent| {
        repeat(3, || {
            agent.run_together(100, TURNS, &(Arc::new(script) as _))
        })
    })?;
    let wall = |runs: &[(Duration, u64)]| median_of(runs, |(wall, _)| *wall);
    let memory =
        |runs: &[(Duration, u64)]| Figure::megabytes(median_of(runs, |(_, memory)| *memory), 150.0);
    Ok(vec![Row {
        what: "100 runs at once, 10 turns each, 200 ms of model time per call: wall, memory in all (PSS)",
        figures: vec![
            Figure::over(wall(&runs), wall(&least), 1.2),
            memory(&runs).beside(&memory(&least)),
        ],
        best: None,
    }])
}

fn sandbox(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    let folder = agent.folder()?;
    let arguments = ["sandbox", "exec", "--", "bash", "-c", "true"];
    let times = (0..50).map(|_| time(&mut agent.command(&folder, "unused", &arguments)?));
    let wall = median(times.collect::<Result<Vec<_>>>()?).saturating_sub(bare_bash()?);
    let script = |turn| match turn {
        60 => says("Done."),
        // Far less than a model takes, and enough for what is done ahead of a command.
        _ => runs(turn, [format!("true {turn}").as_str()]).after(Duration::from_millis(30)),
    };
    let script = || Arc::new(script);
    let gap = |run: &Run| median((10..60).map(|turn| run.gap_after(turn)).collect());
    let free = repeat(3, || agent.run(&agent.folder()?, 61, script()))?;
    let confined = repeat(3, || agent.run_confined(&agent.folder()?, 61, script()))?;
    let in_landlock = repeat(3, || agent.run_in_landlock(&agent.folder()?, 61, script()))?;
    let bounded = repeat(3, || agent.run_bounded(&agent.folder()?, 61, script()))?;
    let added = |runs: &[Run]| median_of(runs, gap).saturating_sub(median_of(&free, gap));
    // Machines differ far more in this than in speed, so another sandbox in the same run is what it is measured by. The
    // budgets are of a machine on which that takes 4 ms.
    let bubblewrap = bubblewrap()?;
    let beside = |value, budget| match bubblewrap {
        Some(bubblewrap) => Figure::over(value, bubblewrap, budget / 4.0),
        None => Figure::milliseconds(value, budget),
    };
    Ok(vec![
        Row {
            what: "`bash -c true` by `ah sandbox exec`, less a bare one, beside bubblewrap: the start of `ah` (3 ms) and the sandbox (8 ms)",
            figures: vec![beside(wall, 3.0 + 8.0)],
            best: None,
        },
        Row {
            what: "overhead of the sandbox on a `bash` call of `true` in a run, beside bubblewrap",
            figures: vec![beside(added(&confined), 3.0)],
            best: None,
        },
        Row {
            what: "the same in the tier without namespaces",
            figures: vec![beside(added(&in_landlock), 3.0)],
            best: None,
        },
        Row {
            what: "overhead of the bounds of a command that only reads, without the sandbox, on the same call",
            figures: vec![beside(added(&bounded), 1.5)],
            best: None,
        },
    ])
}

/// Returns what bubblewrap adds to `bash -c true`, if it is installed and can be used here.
fn bubblewrap() -> Result<Option<Duration>> {
    let run = || {
        let mut bubblewrap = Command::new("bwrap");
        let views = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];
        bubblewrap.args(views).arg("--unshare-all");
        time(bubblewrap.args(["bash", "-c", "true"]))
    };
    if run().is_err() {
        return Ok(None);
    }
    let times = (0..50).map(|_| run());
    let whole = median(times.collect::<Result<_>>()?);
    Ok(Some(whole.saturating_sub(bare_bash()?)))
}

fn size(pair: &Pair) -> Result<Vec<Row>> {
    let (size, least) = pair.each(|agent| {
        let size = fs::metadata(&agent.binary)?.len();
        Ok(Figure::megabytes(size, 36.0))
    })?;
    Ok(vec![Row {
        what: "the `dist` binary with everything in it",
        figures: vec![size.beside(&least)],
        best: Some("143 MB"),
    }])
}
