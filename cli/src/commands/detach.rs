//! `ah -d PROMPT`: a run in a process of its own, which goes on without this terminal. That process serves its session, as
//! `ah serve` does, so `ah attach` and other programs of the user can follow, steer and answer it; it ends when the run has
//! ended and nobody watches any more.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use ah_config::trust::Reason;
use ah_config::{Config, Error};
use ah_conversation::{Environment, Goal, MailKind, json};
use ah_desk::{At, Refusal, RefusalKind, Start, Which};
use ah_engine::sessions::place::{sessions, stored};
use ah_engine::sessions::plan::SessionChoice;
use ah_serve::{FirstRun, Life};
use ah_terminal::repl::HandOver;
use tokio::sync::oneshot;

use super::{output::print, place, run::keyless, runtime::runtime, serve::Server};
use crate::args::TypedPrompt;
use crate::args::options::Options;
use crate::args::serve::Place;
use crate::args::session::plan;

/// Argument by which the process of the run knows what it is.
pub const OWN_PROCESS: &str = "--detached-process";
/// The same for one that continues what a conversation has left.
const HANDED_OVER: &str = "--handed-over";

/// What the process says behind the id of a session that another process has open, for which the prompt is queued.
const QUEUED: &str = " queued";

/// Starts the process of the run, and prints the id of its session; returns the exit code.
///
/// # Errors
///
/// If the process cannot be started. It reports itself why the run did not begin.
pub fn start(prompt: &str, config: &Config) -> Result<u8, Error> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let trust = config.trust.reason();
    let session = begin(prompt, &arguments, trust, &config.environment)?;
    let Some(session) = session else {
        return Ok(ah_terminal::exit::FAILURE);
    };
    let (session, is_queued) = match session.strip_suffix(QUEUED) {
        Some(session) => (session, true),
        None => (session.as_str(), false),
    };
    print(&format!("{session}\n"))?;
    ah_terminal::note(&match is_queued {
        false => format!("Running in the background. View: ah attach {session}"),
        true => {
            "Queued: this session is open in another ah, which will answer after its current run"
                .to_owned()
        }
    });
    Ok(0)
}

/// Starts the process that continues what a conversation has left; returns the exit code.
///
/// # Errors
///
/// If the process cannot be started. It reports itself why the run did not begin.
pub fn hand_over(left: &HandOver, options: &Options, config: &Config) -> Result<u8, Error> {
    let arguments = [&[HANDED_OVER.into()], &*options.given].concat();
    let trust = config.trust.reason();
    let session = begin(&json::line(left), &arguments, trust, &config.environment)?;
    let Some(session) = session else {
        let back = left.session.iter().map(|id| format!("Resume: ah -r {id}"));
        back.for_each(|back| ah_terminal::note(&back));
        return Ok(ah_terminal::exit::FAILURE);
    };
    ah_terminal::note(&format!(
        "Running in the background. View: ah attach {session}"
    ));
    Ok(0)
}

/// Starts the process; returns the id of its session, or `None` if the run did not begin.
fn begin(
    prompt: &str,
    arguments: &[OsString],
    trust: Option<Reason>,
    environment: &Environment,
) -> Result<Option<String>, Error> {
    let failed =
        |error: std::io::Error| Error::failure(format!("cannot start the process: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.arg(OWN_PROCESS);
    let is_given = arguments.iter().any(|argument| argument == "--trust");
    if trust == Some(Reason::Option) && !is_given {
        // An answer for this once.
        command.arg("--trust");
    }
    command.args(arguments);
    // Of this process, they are not in the environment any more.
    let secrets = environment.all();
    command.envs(secrets.filter(|(name, _)| environment.is_secret(name)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = process.stdin.take() {
        // If it has ended, it has said why.
        let _ = stdin.write_all(prompt.as_bytes());
    }
    let mut said = String::new();
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_string(&mut said).map_err(failed)?;
    }
    Ok(Some(said.trim().to_owned()).filter(|session| !session.is_empty()))
}

/// Is the process of the run: reads the prompt from standard input, and prints the id of its session once it has begun.
///
/// # Errors
///
/// If the run cannot begin.
pub fn run(prompt: &TypedPrompt, options: &Options, config: &Config) -> Result<u8, Error> {
    // The end of the terminal is not its end. It fails only for a process that leads a group, which is as good.
    let _ = rustix::process::setsid();
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Error::failure(format!("cannot read the prompt: {error}")))?;
    let mut options = options.clone();
    let (start, queued) = match options.output.handed_over {
        true => handed_over(&mut text, &mut options)?,
        false => (start_of(prompt, &options, config)?, Vec::new()),
    };
    let waiting = (start.which.clone(), text.clone());
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let server = Server::begin(config, &options, config.interface, &Place::default()).await?;
        let (begun, told) = oneshot::channel();
        let first = FirstRun {
            start,
            prompt: text,
            queued,
            begun,
        };
        let life = Life::WhileInUse(Some(Box::new(first)));
        let served = server.serve(life);
        let (served, told) = tokio::join!(served, tell(told, waiting, &options, config));
        told.and(served)
    });
    // Processes started by tools may still be ending.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

/// Prints the session's id, and lets go of the terminal.
async fn tell(
    begun: oneshot::Receiver<Result<String, Refusal>>,
    (which, prompt): (Which, String),
    options: &Options,
    config: &Config,
) -> Result<u8, Error> {
    let session = match begun.await {
        Ok(Ok(session)) => session,
        // What was left goes on, or is resumed by hand.
        Ok(Err(refusal)) if options.output.handed_over => return Err(Error::failure(refusal.text)),
        Ok(Err(refusal)) => match (which, refusal.kind) {
            // As a prompt without -d.
            (Which::Resume(session, None), RefusalKind::Busy)
                if !place::is_aimed(&config.check) && Goal::in_prompt(&prompt).is_none() =>
            {
                let found = sessions(config).find(&session)?;
                place::queue(&found)?.send(MailKind::FollowUp, &prompt)?;
                format!("{session}{QUEUED}")
            }
            // What is queued is answered at the end of the session, not at the message that was meant.
            (Which::Resume(_, Some(_)), RefusalKind::Busy) => {
                let hint = "wait for the end of its run, or continue in a copy with --fork-session";
                return Err(Error::failure(refusal.text).hint(hint));
            }
            (_, RefusalKind::Model(Some(error))) => {
                let hint = keyless::with_ways(error.hint.as_deref());
                return Err(Error::failure(error.to_string()).hint(hint));
            }
            _ => return Err(Error::failure(refusal.text)),
        },
        // The server was stopped, or says itself why it failed.
        Err(_) => return Ok(0),
    };
    print(&format!("{session}\n"))?;
    let let_go = || {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        Ok::<_, std::io::Error>(())
    };
    let_go().map_err(|error| Error::failure(format!("cannot release the terminal: {error}")))?;
    Ok(0)
}

/// Takes over what a conversation has left, which is in the place of the prompt, and what was chosen in it. Returns the prompts
/// that are queued, too.
fn handed_over(text: &mut String, options: &mut Options) -> Result<(Start, Vec<String>), Error> {
    let left: HandOver = json::from_str(text)
        .map_err(|error| Error::failure(format!("cannot read what was left: {error}")))?;
    let safety = &mut options.safety;
    // The mode may have been changed since.
    safety.allow_dangerously_skip_permissions |= safety.dangerously_skip_permissions;
    safety.dangerously_skip_permissions = false;
    safety.permission_mode = Some(left.mode);
    safety.before_plan = Some(left.before_plan);
    options.safety.add_dir.extend(left.folders);
    options.tools.allowed_tools.extend(left.rules);
    options.model.effort = left.effort.or(options.model.effort);
    let resumes = left.prompt.is_none();
    *text = left.prompt.unwrap_or_default();
    let session = left.session;
    let start = Start {
        which: session.map_or(Which::New, |id| Which::Resume(id, None)),
        resumes,
        lent_model: left.lent_model,
        ..Start::default()
    };
    Ok((start, left.queued))
}

/// Returns the session that the options choose.
fn start_of(prompt: &TypedPrompt, options: &Options, config: &Config) -> Result<Start, Error> {
    let plan = plan(options, config.interface)?;
    if plan.ephemeral || plan.uuid.is_some() || plan.at.is_some() {
        let text = "a run in the background needs a stored session, with an id that ah chooses";
        return Err(Error::usage(text)
            .hint("leave out --no-session-persistence, --session-id and --resume-session-at"));
    }
    let paths = stored(&plan, config)?;
    if paths.is_none()
        && let SessionChoice::Named(name) = &plan.choice
    {
        let text = format!("there is no session with the name `{name}`");
        return Err(Error::failure(text).hint("start it without -d, or name it later"));
    }
    let at = prompt.fork_at.map(At::Number);
    Ok(Start {
        which: match paths.and_then(|paths| paths.id()) {
            None => Which::New,
            Some(id) if plan.fork => Which::Fork(id.to_string(), at),
            Some(id) => Which::Resume(id.to_string(), at),
        },
        ..Start::default()
    })
}
