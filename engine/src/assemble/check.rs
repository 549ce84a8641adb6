//! The check of a session (`--until`): where it runs, and what it may reach.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_config::own_folder::OwnFolder;
use ah_config::{Config, Error, Origin};
use ah_conversation::{Check, CheckRun, Environment, first_of, without_dots};
use ah_store::SessionStore;
use ah_tools::Shell;
use ah_verify::{CheckPlan, Confine, Verifier};

use super::recorded_check::RecordedTo;
use crate::conditions;
use crate::confinement::{SandboxStatus, for_check};

/// Prefix of the temporary folders with copies of projects. Confined commands have temporary folders of their own.
const PLACE: &str = "ah-check-";

/// Says which files are sealed, for people.
fn seals<'a>(paths: impl Iterator<Item = &'a Path>) -> String {
    let paths: Vec<_> = paths.map(|path| path.display().to_string()).collect();
    match paths.as_slice() {
        [] => "no file is sealed for the check (`--seal PATTERN`)".to_owned(),
        paths => format!("sealed for the check: {}", first_of(paths.iter().cloned())),
    }
}

/// Returns the error for a check that is no command; the hint names those that the project has.
fn none(project: &Path) -> Error {
    let known = conditions::hint(&conditions::of(project));
    let known = known.unwrap_or_else(|| "for example `--until 'make test'`".to_owned());
    Error::usage("--until needs a command").hint(known)
}

/// Returns the folders of the project in which programs are looked for, if commands run in the folder `cwd`: those of `PATH` that are
/// in it, by their names and where these lead.
fn programs(environment: &Environment, project: &Path, cwd: Option<&Path>) -> BTreeSet<PathBuf> {
    let cwd = cwd.unwrap_or(project);
    let path = environment.get("PATH").unwrap_or_default();
    let folders = path.split(':').map(|folder| cwd.join(folder));
    // What is not there yet is meant by its name.
    let folders =
        folders.flat_map(|folder| [folder.canonicalize().ok(), Some(without_dots(&folder))]);
    let below = folders
        .flatten()
        .map(|folder| folder.strip_prefix(project).map(Path::to_owned));
    below.flatten().collect()
}

/// Returns what was recorded of a check, if the model is a recording.
fn replayed(model: &str, environment: &Environment, command: &str) -> Option<Vec<CheckRun>> {
    // One that cannot be read is the model's error.
    let script = ah_provider::scripted(model, environment).ok()??;
    Some(script.checks_of(command)).filter(|runs| !runs.is_empty())
}

/// Returns the check that the options ask for, with its files sealed; `told` says which. In a recorded run that is replayed it
/// is the recorded one. `recorded_to` is of the session.
///
/// # Errors
///
/// If the files cannot be sealed, or the check cannot be confined here.
pub async fn of(
    config: &Config,
    sandbox: &SandboxStatus,
    recorded_to: &RecordedTo,
    store: &SessionStore,
    told: &mut Option<String>,
) -> Result<Option<Arc<dyn Check>>, Error> {
    let Some(command) = config.check.command() else {
        let typed = { config.check.until.as_ref() }.filter(|it| it.origin == Origin::CommandLine);
        return typed.map_or(Ok(None), |_| Err(none(&config.project_root)));
    };
    let failed = |text: String| Error::failure(format!("cannot check the run: {text}"));
    if let Some(runs) = replayed(&config.model.value, &config.environment, command) {
        let check = (command, config.check.most());
        let replayed = recorded_to.replayed(check, store.outputs(), runs);
        return Ok(Some(recorded_to.with(replayed)));
    }
    let made = OwnFolder::make(PLACE).and_then(|kept| {
        let place = kept.path().canonicalize()?.join("project");
        std::fs::create_dir(&place)?;
        Ok((place, kept))
    });
    let (place, kept) = made.map_err(|error| failed(error.to_string()))?;
    let project =
        { config.project_root.canonicalize() }.map_err(|error| failed(error.to_string()))?;
    let writable = { config.directories.iter() }
        .map(|folder| config.environment.cwd().join(&folder.value))
        .chain([project.clone()])
        .find(|folder| place.starts_with(folder.canonicalize().unwrap_or_default()));
    if let Some(folder) = writable {
        let text = format!(
            "its copy would lie in `{}`, which the model can write to",
            folder.display()
        );
        return Err(failed(text).hint("set TMPDIR to a folder that the model cannot write to"));
    }
    let confine: Confine = Arc::new({
        let (config, place) = (config.clone(), place.clone());
        move |folders, caches| match for_check(&config, &place, (folders, caches)) {
            Ok(Some(confined)) => Ok((Some(confined.sandbox), confined.variables)),
            Ok(None) => Ok((None, Shell::new(&config.environment).environment)),
            Err(error) => Err(error.message),
        }
    });
    // What cannot be confined is said before anything was asked.
    let probed = (config.clone(), place.clone());
    let probe = move || for_check(&probed.0, &probed.1, (&[], &[])).map(drop);
    let probed = tokio::task::spawn_blocking(probe).await;
    probed.map_err(|error| failed(error.to_string()))??;
    let cwd = { config.environment.cwd().canonicalize() }.ok();
    let below = { cwd.iter() }.find_map(|cwd| cwd.strip_prefix(&project).ok().map(Path::to_owned));
    let hidden = ah_tools::denied_files(&config.permissions().hidden());
    let verifier = Verifier::seal(CheckPlan {
        command: command.to_owned(),
        programs: programs(&config.environment, &project, cwd.as_deref()),
        project,
        cwd: below.unwrap_or_default(),
        copy: (place, Box::new(kept)),
        seals: config.check.seals().to_owned(),
        kept: { config.seals() }
            // The id of a database from elsewhere can be any text, and this is a path.
            .filter(|_| store.is_on_disk() && ah_ids::is_ulid(store.id().as_str()))
            .map(|seals| seals.join(store.id().as_str())),
        is_resealed: config.run.is_resealed,
        hidden: hidden.into_iter().collect(),
        most: config.check.most(),
        timeout: config.check.timeout(),
        outputs: store.outputs().to_owned(),
        shell: Shell::new(&config.environment).program,
        confine,
        is_fresh: sandbox.confined().is_none(),
    });
    let verifier = verifier.await.map_err(failed)?;
    *told = Some(seals(verifier.sealed()));
    Ok(Some(recorded_to.with(Arc::new(verifier))))
}
