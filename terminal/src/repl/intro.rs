//! What a person is told first: version, place, model, sandbox, and what to try. `/status` tells the same, and more.

use std::path::Path;

use ah_agent::Session;
use ah_config::Config;
use ah_config::places::short;
use ah_conversation::{Environment, neutralise};
use ah_engine::confinement::SandboxStatus;
use ah_git::repository;
use ah_render::{Line, Palette, Style, wrap};

/// Returns the lines above the first prompt of a session.
pub fn text(
    session: &Session,
    sandbox: &SandboxStatus,
    environment: &Environment,
    (width, palette): (usize, Palette),
) -> String {
    let mut first = Line::of("ah ", Style::BOLD);
    first.push(env!("CARGO_PKG_VERSION"), Style::BOLD);
    first.push(&format!(" · {}", place(environment)), Style::PLAIN);
    let about = format!("{} · {}", session.model().name, of_sandbox(sandbox));
    let rows = [
        first,
        Line::of(&about, Style::DIM),
        Line::of("Try: what does this project do?", Style::DIM),
        Line::of("     /init writes an AGENTS.md for it", Style::DIM),
        Line::of("     ? lists commands and keys", Style::DIM),
        Line::default(),
    ];
    let (none, rest) = (Line::default(), Line::of("  ", Style::PLAIN));
    let rows = rows.iter();
    let rows = rows.flat_map(|row| wrap(row, width.max(8), &none, &rest));
    rows.map(|row| row.paint(palette) + "\n").collect()
}

/// Returns what `/status` tells.
pub fn status(session: &Session, id: &str, sandbox: &SandboxStatus, config: &Config) -> String {
    let model = session.model();
    let messages = session.transcript().count();
    let servers = session.tools().servers().map(|servers| servers.status());
    let servers = servers.unwrap_or_default().len();
    let mode = session.settings().permissions.mode.as_str();
    let effort = config
        .requests
        .effort
        .as_ref()
        .map(|effort| effort.value.as_str());
    let rows = [
        ("version", format!("ah {}", env!("CARGO_PKG_VERSION"))),
        ("folder", place(&config.environment)),
        (
            "session",
            format!("{id}, {messages} messages; `ah -r {id}` opens it again"),
        ),
        ("model", format!("{} ({})", model.name, model.provider)),
        ("effort", effort.unwrap_or("the model's default").to_owned()),
        ("mode", mode.to_owned()),
        ("sandbox", of_sandbox(sandbox)),
        ("servers", format!("{servers} MCP servers")),
    ];
    let rows = rows
        .iter()
        .map(|(what, is)| format!("  {what:<9} {}\n", neutralise(is)));
    rows.collect::<String>() + "\n"
}

/// Returns the working directory, with `~` for the home directory, and the branch: `~/project (main)`.
pub fn place(environment: &Environment) -> String {
    let cwd = environment.cwd();
    let home = environment.home();
    with_branch(short(cwd, home.as_deref()), cwd)
}

/// Returns the name of the working directory, and the branch: `project (main)`.
pub fn short_place(environment: &Environment) -> String {
    let cwd = environment.cwd();
    let name = cwd.file_name().unwrap_or(cwd.as_os_str());
    with_branch(name.to_string_lossy().into_owned(), cwd)
}

fn with_branch(shown: String, cwd: &Path) -> String {
    match repository(cwd).and_then(|repository| repository.branch) {
        Some(branch) => format!("{shown} ({branch})"),
        None => shown,
    }
}

fn of_sandbox(sandbox: &SandboxStatus) -> String {
    match sandbox.confined() {
        Some(confined) => {
            let tier = confined.sandbox.confinement().tier.as_str();
            format!("commands run in the sandbox ({tier})")
        }
        None => "sandbox off: commands run with your full permissions".to_owned(),
    }
}
