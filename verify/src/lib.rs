//! The check of a run (`--until`): a command that passes once the work is done, run by the engine where the model's
//! commands cannot reach it.
//!
//! What the check is made of is taken when the session begins ([`sealed`]): tests, the configuration of what runs them, the
//! files that the command names. The check runs in a copy of the project ([`place`]), first as the project is, and, if
//! something sealed has changed, once more with that as it was. Programs of dependencies (`node_modules`) are used where they
//! are, and must not change ([`dependencies`]). What the command itself believes of the product's code is beyond this: a
//! product that ends the process of its tests with success passes them.

mod dependencies;
mod place;
mod sealed;
mod shadow;
mod tree;
mod why;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use ah_conversation::{ChangedSeal, Check, CheckRun, Content};
use ah_process::{Behind, Command, Ending, Keep, ShellLine};
use ah_sandbox::Sandbox;
use async_trait::async_trait;

use dependencies::Dependencies;
pub use dependencies::dependency_folders;
use place::Place;
use sealed::Sealed;
use tree::Tree;

/// Most bytes of an output that are kept.
const OUTPUT: u64 = 64 * 1024 * 1024;

/// Variables of the check. Compiled files beside the sources of Python are not read: anybody could have written them.
const VARIABLES: [(&str, &str); 4] = [
    ("AH_CHECK", "1"),
    ("BABEL_DISABLE_CACHE", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONPYCACHEPREFIX", "/tmp/ah-pycache"),
];

/// What is to be checked, and how.
pub struct CheckPlan {
    /// The command line.
    pub command: String,
    /// The project.
    pub project: PathBuf,
    /// Where in the project the command runs, relative to it.
    pub cwd: PathBuf,
    /// An empty folder for the copy of the project, absolute and without symbolic links, and what keeps it.
    pub place: (PathBuf, Box<dyn fmt::Debug + Send + Sync>),
    /// Patterns of files that are sealed besides the usual ones; with `!` before it, of files that are not.
    pub seals: Vec<String>,
    /// Files of the project that nobody may read.
    pub hidden: Vec<PathBuf>,
    /// Most runs of it.
    pub most: usize,
    /// Time limit of a run of it.
    pub timeout: Duration,
    /// Folder for outputs.
    pub outputs: PathBuf,
    /// The shell.
    pub shell: PathBuf,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// The sandbox, whose workspace is the place. `None`: it runs with the user's permissions, and the model's commands can
    /// reach the place.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Whether the place is made anew for each run, because commands of the model have the user's permissions.
    pub is_anew: bool,
}

/// The check of a session.
pub struct Verifier {
    plan: CheckPlan,
    sealed: Sealed,
    dependencies: Dependencies,
    place: Arc<Mutex<Place>>,
    /// Number of runs so far, for the names of outputs.
    runs: AtomicUsize,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Verifier").field(&self.plan.command).finish()
    }
}

impl Verifier {
    /// Seals the files that the check is made of.
    ///
    /// # Errors
    ///
    /// If the project cannot be read, has too many files, or a pattern is none; the text says which.
    pub fn seal(plan: CheckPlan) -> Result<Self, String> {
        let tree = Tree::of(&plan.project, &plan.hidden)?;
        let sealed = Sealed::take(&plan.project, &tree, &plan.command, &plan.seals)?;
        let dependencies = Dependencies::of(&plan.project);
        let place = Place::open(&plan.place.0).map_err(|error| unusable(&plan.place.0, &error))?;
        Ok(Self {
            sealed,
            dependencies,
            place: Arc::new(Mutex::new(place)),
            runs: AtomicUsize::new(0),
            plan,
        })
    }

    /// Returns the paths of the sealed files, relative to the project.
    pub fn sealed(&self) -> impl Iterator<Item = &Path> {
        self.sealed.paths()
    }

    async fn checked(&self) -> Result<CheckRun, String> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let update = self.brought_up_to_date().await?;
        let replaced = self.dependencies.changed();
        let mut run = self.run_as(&format!("check-{number}")).await?;
        run.tree = update.tree;
        run.edited = update.edited;
        run.changed = update.changed;
        if run.is_passed && !run.changed.is_empty() {
            self.put_seals().await?;
            let sealed = self.run_as(&format!("check-{number}-sealed")).await?;
            if !sealed.is_passed {
                run = CheckRun {
                    ending: format!(
                        "{} with the sealed files as they were, {} as they are",
                        sealed.ending, run.ending
                    ),
                    tree: run.tree,
                    edited: run.edited,
                    changed: run.changed,
                    ..sealed
                };
            }
        }
        if run.is_passed && !self.is_current().await? {
            run.is_passed = false;
            run.ending = format!("{}, but files changed while it ran", run.ending);
        }
        let replaced = replaced.or_else(|| self.dependencies.changed());
        if let Some(path) = replaced.filter(|_| run.is_passed) {
            run.is_passed = false;
            run.ending = format!(
                "{}, but `{}` has changed since the session began",
                run.ending,
                path.display()
            );
            run.hint = Some(
                "Programs that the check uses must stay as they were. The user can begin a new session with these."
                    .to_owned(),
            );
        }
        Ok(run)
    }

    /// Copies what has changed into the place.
    async fn brought_up_to_date(&self) -> Result<Update, String> {
        let (place, project) = (self.place.clone(), self.plan.project.clone());
        let (hidden, sealed) = (self.plan.hidden.clone(), self.sealed.clone());
        let (links, path) = (self.dependencies.folders(), self.plan.place.0.clone());
        let is_anew = self.plan.is_anew;
        blocking(move || {
            let tree = Tree::of(&project, &hidden)?;
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            let there = Tree::of(&path, &[])?;
            let mut bring = || {
                if is_anew {
                    place.clear()?;
                }
                let edited = place.update(&project, &tree)?;
                place.tidy(&there, |path| sealed.has(path))?;
                place.link(&project, &links)?;
                Ok(edited)
            };
            let edited = bring().map_err(|error: io::Error| unusable(&path, &error))?;
            Ok(Update {
                tree: place.digest(),
                edited,
                changed: sealed.changed(&place),
            })
        })
        .await
    }

    /// Whether the project is still what was checked.
    async fn is_current(&self) -> Result<bool, String> {
        let (place, project) = (self.place.clone(), self.plan.project.clone());
        let hidden = self.plan.hidden.clone();
        blocking(move || {
            let tree = Tree::of(&project, &hidden)?;
            let place = place.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(place.is_current(&tree))
        })
        .await
    }

    /// Puts the sealed files over the copies.
    async fn put_seals(&self) -> Result<(), String> {
        let (place, sealed) = (self.place.clone(), self.sealed.clone());
        let path = self.plan.place.0.clone();
        blocking(move || {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            { sealed.put(&mut place) }.map_err(|error| unusable(&path, &error))
        })
        .await
    }

    /// Runs the command in the place; `name` is the file for its output.
    async fn run_as(&self, name: &str) -> Result<CheckRun, String> {
        let plan = &self.plan;
        let line = ShellLine::new(&plan.shell, &plan.command, Behind::Nothing);
        let set = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let is_set = |name: &String| VARIABLES.iter().any(|(set, _)| set == name);
        let kept = plan.environment.iter().filter(|(name, _)| !is_set(name));
        let output = plan.outputs.join(name);
        let command = Command {
            program: plan.shell.clone(),
            arguments: line.arguments,
            cwd: plan.place.0.join(&plan.cwd),
            environment: kept.cloned().chain(set).collect(),
            stdin: line.stdin,
            deadline: Some(plan.timeout),
            keep: Keep::new(output.clone(), OUTPUT).at_once(),
            sandbox: plan.sandbox.clone(),
            bounds: None,
            note: |_| None,
        };
        let started = Instant::now();
        let outcome = command.run().await.map_err(|error| error.to_string())?;
        let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(CheckRun {
            is_passed: outcome.ending == Ending::Exited(0),
            ending: ending(outcome.ending),
            exit_code: match outcome.ending {
                Ending::Exited(code) => Some(code),
                _ => None,
            },
            duration_ms: took,
            why: why::of(&outcome.output),
            hint: plan
                .sandbox
                .is_some()
                .then(|| why::hint(&outcome.output))
                .flatten(),
            output: matches!(outcome.output, Content::Spool(_)).then_some(output),
            ..CheckRun::default()
        })
    }
}

/// What the place has after it was brought up to date.
struct Update {
    tree: String,
    edited: Vec<PathBuf>,
    changed: Vec<ChangedSeal>,
}

#[async_trait]
impl Check for Verifier {
    fn command(&self) -> &str {
        &self.plan.command
    }

    fn most(&self) -> usize {
        self.plan.most
    }

    async fn run(&self) -> CheckRun {
        let started = Instant::now();
        self.checked().await.unwrap_or_else(|reason| CheckRun {
            ending: format!("it could not run: {reason}"),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ..CheckRun::default()
        })
    }
}

fn ending(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exit {code}"),
        Ending::Killed(signal) => format!("killed by signal {signal}"),
        Ending::TimedOut(time) => format!("timed out after {} s", time.as_secs()),
        Ending::Stopped => "stopped".to_owned(),
    }
}

fn unusable(place: &Path, error: &io::Error) -> String {
    format!("cannot copy the project to `{}`: {error}", place.display())
}

/// Runs work that waits for files where it holds nothing up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}
