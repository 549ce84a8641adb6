//! The check of a run (`--until`): a command that passes once the work is done, run by the engine where the model's
//! commands cannot reach it.
//!
//! What the check is made of is taken when the session begins (`sealed`), and kept for those who continue it (`kept`): tests, the
//! configuration of what runs them, the files that the command names. The check runs in a copy of the project (`copy`), first
//! as the project is, and, if something sealed has changed, once more with that as it was. What passes in a copy that earlier
//! checks have used is repeated in a new one. Programs of dependencies (`node_modules`) are used where they are, and must not
//! change (`dependencies`). What the command itself believes of the product's code is beyond this: a product that ends the
//! process of its tests with success passes them.

mod compiled;
mod copy;
mod dependencies;
mod kept;
mod links;
mod mentioned;
mod placed;
mod sealed;
mod shadow;
mod tree;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io};

use ah_conversation::{ChangedSeal, Check, CheckRun, Content, Taken};
use ah_process::{Behind, Command, Ending, Keep, ShellLine};
use ah_sandbox::Sandbox;
use async_trait::async_trait;
use copy::ProjectCopy;
use dependencies::{Dependencies, State};
use kept::Kept;
use parking_lot::Mutex;
use placed::placed;
use sealed::Sealed;
use tree::{Extent, Rules, Tree};

/// Most bytes of an output that are kept.
const OUTPUT: u64 = 64 * 1024 * 1024;

/// Number of times in a row that the model can have the check fail on the same files, where more than the files can have changed.
const SAME: usize = 3;

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
    pub copy: (PathBuf, Box<dyn fmt::Debug + Send + Sync>),
    /// Patterns of files that are sealed besides the usual ones; with `!` before it, of files that are not.
    pub seals: Vec<String>,
    /// Folders of the project in which programs are looked for, relative to it.
    pub programs: BTreeSet<PathBuf>,
    /// File that keeps what is sealed for those who continue the session, where commands cannot write; `None` if nobody does.
    pub kept: Option<PathBuf>,
    /// Whether the files are sealed as they are now, whatever is kept.
    pub is_resealed: bool,
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
    /// Builds the sandbox of one run, whose workspace is the copy.
    pub confine: Confine,
    /// Whether the copy is made fresh for each run, because commands of the model have the user's permissions.
    pub is_fresh: bool,
}

/// Returns a new sandbox that can read these folders of dependencies without these caches in them, with temporary folders that
/// nobody has used, and the variables of its commands. Without one the check runs with the user's permissions, and the model's commands can reach it.
pub type Confine = Arc<
    dyn Fn(&[PathBuf], &[PathBuf]) -> Result<(Option<Arc<Sandbox>>, Vec<(String, String)>), String>
        + Send
        + Sync,
>;

/// The check of a session.
pub struct Verifier {
    plan: CheckPlan,
    extent: Extent,
    sealed: Sealed,
    dependencies: Dependencies,
    copy: Arc<Mutex<ProjectCopy>>,
    /// Number of runs so far.
    runs: AtomicUsize,
    /// The last run.
    last: Mutex<Option<Last>>,
    /// Held while it runs: all runs share the copy.
    turn: tokio::sync::Mutex<()>,
}

/// A run of the check.
#[derive(Debug)]
struct Last {
    /// Digest of the files.
    digest: [u8; 32],
    /// Number of runs in a row on these.
    times: usize,
    run: CheckRun,
}

/// Which run on the same files is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// One that passed.
    Passed,
    /// One that failed, too: the model has asked, and would ask until chance is on its side.
    Any,
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
    /// If the project cannot be read, has too many files, a pattern is none, or what is sealed cannot be kept; the text says
    /// which.
    pub async fn seal(plan: CheckPlan) -> Result<Self, String> {
        blocking(move || Self::taken(plan)).await
    }

    fn taken(plan: CheckPlan) -> Result<Self, String> {
        let path = plan.kept.as_deref();
        let before = path.filter(|_| !plan.is_resealed).map(kept::read);
        let before = before.transpose()?.flatten();
        let command = placed(&plan.command, &plan.project, Path::new("."));
        let command = (&*command, &*plan.cwd);
        let take = |tree| Sealed::take(&plan.project, tree, command, &plan.programs, &plan.seals);
        let mut first = BTreeMap::new();
        let (extent, sealed, dependencies) = match before {
            None => {
                let (extent, tree) = Extent::first(&plan.project, plan.hidden.clone())?;
                (extent, take(&tree)?, Dependencies::of(&plan.project))
            }
            Some(before) => {
                let extent = Extent {
                    hidden: plan.hidden.clone(),
                    left_out: before.left_out.clone(),
                    known: before.known.clone(),
                    rules: Rules::of(before.patterns.clone()),
                };
                let sealed = take(&Tree::sealed(&plan.project, &extent)?)?.continued(&before);
                first = before.files;
                (extent, sealed, before.dependencies)
            }
        };
        if let Some(path) = path {
            // What is left out now may count again another time.
            let mut files = (*sealed.files).clone();
            files.extend(first);
            let kept = Kept {
                left_out: extent.left_out.clone(),
                known: extent.known.clone(),
                named: (*sealed.named).clone(),
                modules: (*sealed.modules).clone(),
                files,
                dependencies: dependencies.clone(),
                patterns: extent.rules.patterns(),
            };
            kept::write(path, &kept)?;
        }
        let copy =
            ProjectCopy::open(&plan.copy.0).map_err(|error| unusable(&plan.copy.0, &error))?;
        Ok(Self {
            extent,
            sealed,
            dependencies,
            copy: Arc::new(Mutex::new(copy)),
            runs: AtomicUsize::new(0),
            last: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            plan,
        })
    }

    /// Returns the paths of the sealed files, relative to the project.
    pub fn sealed(&self) -> impl Iterator<Item = &Path> {
        self.sealed.paths()
    }

    /// Runs it; what is known of the very same files is not found out again, as far as `known` may say so.
    async fn checked(&self, known: Known, taken: Taken) -> Result<CheckRun, String> {
        let _turn = self.turn.lock().await;
        let is_first = self.runs.fetch_add(1, Ordering::Relaxed) == 0;
        let name = self.free_name();
        let update = self.copied(self.plan.is_fresh).await?;
        taken();
        let before = self.states().await?;
        let is_as_sealed = self.dependencies.changed(&before).is_none();
        if is_as_sealed && let Some(known) = self.known(&update, known) {
            return Ok(known);
        }
        let caches: Arc<[PathBuf]> = self.dependencies.caches(&before).into();
        let mut run = self.tried((&name, &caches), &update, is_first).await?;
        if run.is_passed
            && let Some((why, hint)) = self.objection(&before, known, &update).await?
        {
            run.is_passed = false;
            run.ending += &format!(", but {why}");
            run.hint = Some(hint.to_owned());
        }
        run.tree = short(&update.digest);
        run.edited = update.edited;
        run.changed = update.changed;
        let mut last = self.last.lock();
        let times = last.as_ref().filter(|last| last.digest == update.digest);
        let times = times.map_or(1, |last| last.times + 1);
        // What was objected to is of that moment.
        let is_settled = run.is_passed || run.exit_code != Some(0);
        *last = is_settled.then(|| Last {
            digest: update.digest,
            times,
            run: run.clone(),
        });
        Ok(run)
    }

    /// Runs it with the files as they are; if that passes, with the sealed ones as they were, and then in a copy that no
    /// earlier check has used.
    async fn tried(
        &self,
        (name, caches): (&str, &Arc<[PathBuf]>),
        update: &Update,
        is_first: bool,
    ) -> Result<CheckRun, String> {
        let mut run = self.run_as(name, caches).await?;
        if run.is_passed && (!update.changed.is_empty() || update.is_hiding()) {
            run = self.run_sealed((name, caches), update, run).await?;
        }
        if run.is_passed && !is_first && !self.plan.is_fresh {
            run = match self.is_copied_again(update).await? {
                true => self.run_as(&format!("{name}-fresh"), caches).await?,
                false => overtaken(run),
            };
        }
        Ok(run)
    }

    /// Runs it with the sealed files as they were, after it has passed as they are.
    async fn run_sealed(
        &self,
        (name, caches): (&str, &Arc<[PathBuf]>),
        update: &Update,
        passed: CheckRun,
    ) -> Result<CheckRun, String> {
        if !self.is_copied_again(update).await? {
            return Ok(overtaken(passed));
        }
        self.put_seals(update).await?;
        let mut run = self.run_as(&format!("{name}-sealed"), caches).await?;
        // What was hidden is no part of the project, and has to be what it was before.
        let is_same = !update.is_hiding() || self.is_copied_again(update).await?;
        if run.is_passed {
            return Ok(match is_same {
                true => passed,
                false => overtaken(passed),
            });
        }
        run.ending += &format!(
            " with the sealed files as they were, {} as they are",
            passed.ending
        );
        Ok(run)
    }

    /// Makes a copy that no check has used; returns whether the files are still those of the update.
    async fn is_copied_again(&self, update: &Update) -> Result<bool, String> {
        Ok(self.copied(true).await?.digest == update.digest)
    }

    /// Returns the last run, if it was on the very same files and need not be repeated.
    fn known(&self, update: &Update, known: Known) -> Option<CheckRun> {
        let last = self.last.lock();
        let last = last.as_ref().filter(|last| last.digest == update.digest)?;
        let is_enough = match (last.run.is_passed, known) {
            // Commands that the sandbox does not keep from anything can have changed more than the files.
            (true, _) => !self.plan.is_fresh,
            (false, Known::Passed) => false,
            (false, Known::Any) => !self.plan.is_fresh || last.times >= SAME,
        };
        is_enough.then(|| CheckRun {
            edited: Vec::new(),
            is_known: true,
            ..last.run.clone()
        })
    }

    /// Returns why a check that passed says nothing, if so. `before` are the dependencies as they were when it began.
    async fn objection(
        &self,
        before: &[State],
        known: Known,
        update: &Update,
    ) -> Result<Option<(String, &'static str)>, String> {
        // The model may go on with its work while a check runs that it has asked for: that says something of the copy.
        if known == Known::Passed && !self.is_current(update).await? {
            let why = "files changed while it ran".to_owned();
            return Ok(Some((why, "Stop what you have left running.")));
        }
        let now = self.states().await?;
        let changed = self.dependencies.changed(before);
        if let Some(path) = changed.or_else(|| self.dependencies.changed(&now)) {
            let why = format!(
                "`{}` has changed since the check was sealed",
                path.display()
            );
            return Ok(Some((
                why,
                "Programs that the check uses must stay as they were. The user can accept these with `--reseal`.",
            )));
        }
        // Without a sandbox, the check itself may write there.
        let exchanged = self.dependencies.exchanged(before, &now);
        Ok(exchanged.filter(|_| !self.plan.is_fresh).map(|path| {
            let why = format!("`{}` changed while it ran", path.display());
            (why, "Stop what you have left running.")
        }))
    }

    /// Looks at the folders of dependencies.
    async fn states(&self) -> Result<Vec<State>, String> {
        let (dependencies, project) = (self.dependencies.clone(), self.plan.project.clone());
        blocking(move || Ok(dependencies.states(&project))).await
    }

    /// Returns the first name that no output has.
    fn free_name(&self) -> String {
        let names = (1..).map(|number| format!("check-{number}"));
        let is_free = |name: &String| !self.plan.outputs.join(name).exists();
        names.into_iter().find(is_free).unwrap_or_default()
    }

    /// Copies what has changed into the copy; all of it if that is to be cleared.
    async fn copied(&self, clears: bool) -> Result<Update, String> {
        let (copy, project) = (self.copy.clone(), self.plan.project.clone());
        let (extent, sealed) = (self.extent.clone(), self.sealed.clone());
        let (links, path) = (self.dependencies.links(), self.plan.copy.0.clone());
        blocking(move || {
            let tree = Tree::of(&project, &extent)?;
            let hidden = tree.hidden(&project, &extent)?;
            let mut copy = copy.lock();
            let mut bring = || {
                if clears {
                    copy.clear()?;
                }
                let edited = copy.update(&project, &tree)?;
                copy.link(&project, &links)?;
                Ok(edited)
            };
            let edited = bring().map_err(|error: io::Error| unusable(&path, &error))?;
            Ok(Update {
                digest: hidden.digest(copy.digest()),
                edited,
                changed: sealed.changed(&copy),
                hidden: Arc::new(hidden),
            })
        })
        .await
    }

    /// Whether the project is still what was checked.
    async fn is_current(&self, update: &Update) -> Result<bool, String> {
        let (copy, project) = (self.copy.clone(), self.plan.project.clone());
        let (extent, hidden) = (self.extent.clone(), update.hidden.clone());
        blocking(move || {
            let tree = Tree::of(&project, &extent)?;
            let is_hidden_as_before = tree.hidden(&project, &extent)? == *hidden;
            Ok(is_hidden_as_before && copy.lock().is_current(&tree))
        })
        .await
    }

    /// Puts the sealed files over the copies, and what only new patterns hide beside them.
    async fn put_seals(&self, update: &Update) -> Result<(), String> {
        let (copy, sealed) = (self.copy.clone(), self.sealed.clone());
        let (project, hidden) = (self.plan.project.clone(), update.hidden.clone());
        let path = self.plan.copy.0.clone();
        blocking(move || {
            let mut copy = copy.lock();
            let failed = |error: io::Error| unusable(&path, &error);
            copy.add(&project, &hidden).map_err(failed)?;
            sealed.put(&mut copy).map_err(failed)
        })
        .await
    }

    /// Runs the command in the copy; `name` is the file for its output. It does not see these caches.
    async fn run_as(&self, name: &str, caches: &Arc<[PathBuf]>) -> Result<CheckRun, String> {
        let plan = &self.plan;
        let (confine, folders) = (plan.confine.clone(), self.dependencies.folders());
        let caches = caches.clone();
        let (sandbox, environment) = blocking(move || confine(&folders, &caches)).await?;
        // Its processes end with it.
        let held = sandbox.clone();
        let there = |text: &str| placed(text, &plan.project, &plan.copy.0);
        let line = ShellLine::new(&plan.shell, &there(&plan.command), Behind::Nothing);
        let set = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let is_set = |name: &String| VARIABLES.iter().any(|(set, _)| set == name);
        let kept = environment.into_iter().filter(|(name, _)| !is_set(name));
        let kept = kept.map(|(name, value)| (name, there(&value)));
        let output = plan.outputs.join(name);
        let command = Command {
            program: plan.shell.clone(),
            arguments: line.arguments,
            cwd: plan.copy.0.join(&plan.cwd),
            environment: kept.chain(set).collect(),
            stdin: line.stdin,
            deadline: Some(plan.timeout),
            keep: Keep::new(output.clone(), OUTPUT).at_once(),
            sandbox,
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
            hint: why::hint(&outcome.output).filter(|_| held.is_some()),
            output: matches!(outcome.output, Content::Spool(_)).then_some(output),
            ..CheckRun::default()
        })
    }
}

/// Returns a run that has passed as one that says nothing: the files are not those any more with which it has to pass again.
fn overtaken(passed: CheckRun) -> CheckRun {
    CheckRun {
        is_passed: false,
        ending: format!(
            "{}, but files changed before it could be repeated",
            passed.ending
        ),
        ..passed
    }
}

/// Returns the short form of a digest, which people see.
fn short(digest: &[u8; 32]) -> String {
    digest[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What the copy has after it was brought up to date.
struct Update {
    /// Digest of all files, also of those that are hidden.
    digest: [u8; 32],
    edited: Vec<PathBuf>,
    changed: Vec<ChangedSeal>,
    /// Files that are ignored by now, and were not at the time of sealing.
    hidden: Arc<Tree>,
}

impl Update {
    fn is_hiding(&self) -> bool {
        !self.hidden.0.is_empty()
    }
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
        self.run_or_say_why(Known::Passed, Box::new(|| {})).await
    }

    async fn run_asked(&self, taken: Taken) -> CheckRun {
        self.run_or_say_why(Known::Any, taken).await
    }
}

impl Verifier {
    async fn run_or_say_why(&self, known: Known, taken: Taken) -> CheckRun {
        let started = Instant::now();
        self.checked(known, taken)
            .await
            .unwrap_or_else(|reason| CheckRun {
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

fn unusable(copy: &Path, error: &io::Error) -> String {
    format!("cannot copy the project to `{}`: {error}", copy.display())
}

/// Runs work that waits for files where it holds nothing up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests;
