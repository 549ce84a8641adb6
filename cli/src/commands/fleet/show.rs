//! What is said in queued sessions, and the list of their runs.

use std::time::Instant;

use ah_config::Error;
use ah_conversation::{ContentBlock, Environment, Message, Role, SessionId, json, neutralise};
use ah_store::fleet::{Fleet, RunRow, RunState};
use serde_json::{Value, json};

use super::super::output::{print, print_json};
use super::answer::shown;

/// Most runs that are listed.
const LISTED: u32 = 200;

/// Prints the messages of a session until no run of it is open.
pub async fn watch(
    environment: &Environment,
    fleet: &dyn Fleet,
    id: &SessionId,
) -> Result<u8, Error> {
    let (mut place, mut asked) = (0, 0);
    let began = Instant::now();
    let mut is_told = false;
    loop {
        // First, so that what the last run said is not missed.
        let runs = fleet.runs(Some(id), LISTED).await?;
        let is_over = runs.iter().all(|run| run.state.is_over());
        loop {
            let (messages, next) = fleet.messages(id, place).await?;
            for message in &messages {
                print(&said(message, environment))?;
            }
            if next == place {
                break;
            }
            place = next;
        }
        for waiting in fleet.questions(id).await? {
            if waiting.number > asked {
                asked = waiting.number;
                print(&shown(&waiting, id, environment))?;
            }
        }
        if is_over {
            let failed = runs.first().and_then(|run| run.error.as_deref());
            if let Some(error) = failed.filter(|_| runs[0].state.word() == "failed") {
                return Err(Error::failure(error));
            }
            if let Some(known) = runs.first().and_then(|run| run.known.as_deref()) {
                ah_terminal::note(&neutralise(known));
            }
            return Ok(0);
        }
        let is_untaken = |run: &RunRow| run.state == RunState::Queued && run.attempt == 0;
        if runs.iter().any(is_untaken) && !is_told && began.elapsed() >= fleet.timing().beat {
            is_told = true;
            ah_terminal::note("no worker has taken it yet; `ah worker` starts one");
        }
        fleet.wait(fleet.timing().beat).await;
    }
}

/// Returns a message as lines: who says it, its text, and the calls in one line each.
fn said(message: &Message, environment: &Environment) -> String {
    let mut lines = String::new();
    for block in &message.content {
        let line = match block {
            ContentBlock::Text { text } if message.role == Role::User => format!("> {text}"),
            ContentBlock::Text { text } => text.clone(),
            ContentBlock::ToolUse(call) => {
                let input = json::line(&call.input);
                let input: String = input.chars().take(200).collect();
                format!("* {} {input}", call.name)
            }
            ContentBlock::ToolResult(result) if result.is_error => {
                format!("! {}", result.text().lines().next().unwrap_or_default())
            }
            _ => continue,
        };
        lines.push_str(&environment.redact(&line));
        lines.push('\n');
    }
    lines
}

/// Lists the newest runs.
pub async fn list(fleet: &dyn Fleet, is_json: bool) -> Result<u8, Error> {
    let runs = fleet.runs(None, LISTED).await?;
    if is_json {
        let counts = fleet.counts().await?;
        let counts = counts
            .iter()
            .map(|(state, count)| (state.word().to_owned(), json!(count)));
        let runs: Vec<_> = runs.iter().map(to_json).collect();
        return print_json(&json!({ "counts": Value::Object(counts.collect()), "runs": runs }));
    }
    if runs.is_empty() {
        return print("nothing was queued; `ah enqueue TASK` queues a run\n");
    }
    let lines = runs.iter().map(|run| {
        let end = run.error.as_ref().or(run.known.as_ref());
        let end = end.and_then(|text| text.lines().next()).unwrap_or_default();
        let worker = run.worker.as_deref().unwrap_or_default();
        let (id, session, title) = (run.id, &run.session, &run.title);
        let line = format!(
            "{id:>6}  {session}  {:<9}  {}  {title}",
            word(run),
            run.attempt
        );
        let more = [worker, end].into_iter().filter(|text| !text.is_empty());
        let more: String = more.map(|text| format!("  {text}")).collect();
        format!("{}\n", neutralise(&format!("{line}{more}")))
    });
    print(&lines.collect::<String>())
}

/// Returns what a run does.
fn word(run: &RunRow) -> &'static str {
    match run.questions {
        0 => run.state.word(),
        _ => "asks",
    }
}

fn to_json(run: &RunRow) -> Value {
    json!({
        "id": run.id,
        "session": run.session,
        "title": run.title,
        "state": run.state.word(),
        "attempt": run.attempt,
        "worker": run.worker,
        "questions": run.questions,
        "queued_at": run.queued_at.seconds(),
        "error": run.error,
        "known": run.known,
        "cost_usd": run.cost.map(|cost| cost as f64 / 1e12),
    })
}
