//! One task: its working folder, its run, and its check.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use ah_config::Error;
use ah_conversation::{Environment, json};

use super::outcome::{complaint, is_interrupted};
use super::report::{TaskResult, Verdict};
use crate::args::bench::BenchOptions;

/// A task, and where its results go.
pub(super) struct Task {
    name: String,
    /// Folder with `prompt.md`.
    folder: PathBuf,
    /// Folder of its results.
    results: PathBuf,
    /// Variables for its runs, with the keys for models.
    environment: Environment,
}

/// Why a task has no result.
enum Stop {
    Interrupted,
    /// The task itself is at fault, or the machine.
    Broken(String),
}

impl Task {
    pub fn new(name: String, folder: &Path, output: &Path, environment: &Environment) -> Self {
        Self {
            folder: folder.join(&name),
            results: output.join(&name),
            name,
            environment: environment.clone(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the folder of all tasks.
    pub fn all(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Returns the folder of all results.
    pub fn output(&self) -> &Path {
        self.results.parent().unwrap_or(&self.results)
    }

    pub fn result_path(&self) -> PathBuf {
        self.results.join("result.json")
    }

    fn workspace(&self) -> PathBuf {
        self.results.join("workspace")
    }

    fn recording(&self) -> PathBuf {
        self.results.join("recording.yaml")
    }

    /// Returns the stored result, if there is one.
    ///
    /// # Errors
    ///
    /// If it is of runs with other options.
    pub fn result(&self, options: &[String]) -> Result<Option<TaskResult>, Error> {
        let Ok(text) = fs::read_to_string(self.result_path()) else {
            return Ok(None);
        };
        let found: Option<TaskResult> = json::from_str(&text).ok();
        match found {
            // It is tried again, with any options.
            Some(found) if found.options != options && found.verdict == Verdict::Broken => Ok(None),
            Some(found) if found.options != options => Err(Error::usage(format!(
                "the result of `{}` is from a run with other options: {}",
                self.name,
                found.options.join(" ")
            ))
            .hint("name another folder with `--output`, or remove that one")),
            found => Ok(found),
        }
    }

    /// Runs and judges the task; `None` if that was interrupted.
    ///
    /// # Errors
    ///
    /// If the folder of its results cannot be written.
    pub fn run(&self, options: &BenchOptions) -> Result<Option<TaskResult>, Error> {
        self.judged(options, None)
    }

    /// Runs the recording of `former` and judges it again; `None` if that was interrupted.
    ///
    /// # Errors
    ///
    /// If the folder of its results cannot be written.
    pub fn replay(
        &self,
        former: &TaskResult,
        options: &BenchOptions,
    ) -> Result<Option<TaskResult>, Error> {
        self.judged(options, Some(former))
    }

    fn judged(
        &self,
        options: &BenchOptions,
        former: Option<&TaskResult>,
    ) -> Result<Option<TaskResult>, Error> {
        let mut result = TaskResult {
            task: self.name.clone(),
            options: options.run.clone(),
            ..TaskResult::default()
        };
        match self.attempt(options, former.is_some(), &mut result) {
            Ok(()) => {}
            Err(Stop::Interrupted) => return Ok(None),
            Err(Stop::Broken(why)) => {
                result.verdict = Verdict::Broken;
                result.error = Some(why);
            }
        }
        if let Some(former) = former {
            result.former = Some(former.verdict);
        }
        Ok(Some(result))
    }

    fn attempt(
        &self,
        options: &BenchOptions,
        is_replay: bool,
        result: &mut TaskResult,
    ) -> Result<(), Stop> {
        self.prepare(is_replay)
            .map_err(|error| Stop::Broken(format!("cannot make the working folder: {error}")))?;
        let setup = self.script("setup.sh", options)?;
        if let Some(ended) = setup.filter(|ended| !ended.status.success()) {
            return Err(Stop::Broken(format!(
                "its setup failed: {}",
                complaint(&ended)
            )));
        }
        let began = Instant::now();
        let ended = self.agent(options, is_replay)?;
        result.seconds = began.elapsed().as_secs_f64();
        let is_limit = result.take(&ended);
        let check = self.script("check.sh", options)?;
        result.verdict = match check {
            None if result.error.is_none() => Verdict::Solved,
            Some(check) if check.status.success() => Verdict::Solved,
            _ if result.error.is_none() || is_limit => Verdict::Failed,
            // The model or the machine is at fault, not the work.
            _ => Verdict::Broken,
        };
        Ok(())
    }

    /// Makes the working folder anew, with the files of the task.
    fn prepare(&self, is_replay: bool) -> std::io::Result<()> {
        let old = if is_replay {
            self.workspace()
        } else {
            self.results.clone()
        };
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
        fs::create_dir_all(&self.results)?;
        let files = self.folder.join("files");
        match files.is_dir() {
            true => ah_work::setup::copy(&files, &self.workspace()),
            false => fs::create_dir(self.workspace()),
        }
    }

    /// Lets the agent work.
    fn agent(&self, options: &BenchOptions, is_replay: bool) -> Result<Output, Stop> {
        let recording = self.recording();
        let mut command = own_program();
        command
            // The keys are not in the environment of this process any more.
            .envs(self.environment.all())
            .args(["-p", "--output-format", "json"])
            .args(&options.run);
        if is_replay {
            // The last one counts.
            let mut model = std::ffi::OsString::from("script:");
            model.push(&recording);
            command.arg("-m").arg(model).arg("--no-session-persistence");
        } else {
            command.arg("--db").arg(self.results.join("session.db"));
            command.arg("--record").arg(&recording);
        }
        let prompt = File::open(self.folder.join("prompt.md"));
        let prompt = prompt.map_err(|error| Stop::Broken(format!("no prompt: {error}")))?;
        self.finish(command.stdin(prompt))
    }

    /// Runs a script of the task in its working folder, if there is one. The script itself comes by standard input: the
    /// agent has not seen it, and cannot have changed it.
    fn script(&self, name: &str, options: &BenchOptions) -> Result<Option<Output>, Stop> {
        let Ok(script) = File::open(self.folder.join(name)) else {
            return Ok(None);
        };
        let mut command = if options.no_sandbox {
            Command::new("bash")
        } else {
            let mut command = own_program();
            command.args(["sandbox", "exec", "--workspace", "."]);
            for host in &options.allow_host {
                command.args(["--allow-host", host]);
            }
            command.args(["--", "bash"]);
            command
        };
        let ended = self.finish(command.arg("-s").stdin(script))?;
        let mut log = ended.stdout.clone();
        log.extend(&ended.stderr);
        let path = self.results.join(name).with_extension("log");
        let written = File::create(path).and_then(|mut file| file.write_all(&log));
        written.map_err(|error| Stop::Broken(format!("cannot write a log: {error}")))?;
        Ok(Some(ended))
    }

    fn finish(&self, command: &mut Command) -> Result<Output, Stop> {
        command.current_dir(self.workspace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = command.output();
        let ended = ended.map_err(|error| Stop::Broken(format!("cannot start it: {error}")))?;
        match is_interrupted(ended.status) {
            true => Err(Stop::Interrupted),
            false => Ok(ended),
        }
    }
}

fn own_program() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|_| "ah".into()))
}
