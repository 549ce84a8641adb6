//! The check of a session (`--until`): where it runs, and what it may reach.

use std::sync::Arc;

use ah_config::own_folder::OwnFolder;
use ah_config::{Config, Error};
use ah_conversation::Check;
use ah_store::SessionStore;
use ah_tools::Shell;
use ah_verify::{CheckPlan, Verifier, dependency_folders};

use crate::confinement::{Confined, SandboxStatus, for_check};

/// Prefix of the temporary folders with copies of projects. Confined commands have temporary folders of their own, so none
/// reaches these.
const PLACE: &str = "ah-check-";

/// Returns the check that the options ask for, with its files sealed.
///
/// # Errors
///
/// If the files cannot be sealed, or the check cannot be confined here.
pub(crate) fn of(
    config: &Config,
    status: &SandboxStatus,
    store: &SessionStore,
) -> Result<Option<Arc<dyn Check>>, Error> {
    let Some(options) = &config.run.check else {
        return Ok(None);
    };
    let failed = |text: String| Error::failure(format!("cannot check the run: {text}"));
    let made = OwnFolder::make(PLACE).and_then(|kept| {
        let place = kept.path().canonicalize()?.join("project");
        std::fs::create_dir(&place)?;
        Ok((place, kept))
    });
    let (place, kept) = made.map_err(|error| failed(error.to_string()))?;
    let project =
        { config.project_root.canonicalize() }.map_err(|error| failed(error.to_string()))?;
    let confined = for_check(config, &place, &dependency_folders(&project))?;
    let shell = Shell::new(&config.environment);
    let (sandbox, environment) = match confined {
        Some(Confined {
            sandbox, variables, ..
        }) => (Some(sandbox), variables),
        None => (None, shell.environment),
    };
    let cwd = { config.environment.cwd().canonicalize() }.ok();
    let below = cwd.and_then(|cwd| cwd.strip_prefix(&project).ok().map(ToOwned::to_owned));
    let hidden = ah_tools::denied_files(&config.permissions().hidden());
    let verifier = Verifier::seal(CheckPlan {
        command: options.command.clone(),
        project,
        cwd: below.unwrap_or_default(),
        place: (place, Box::new(kept)),
        seals: options.seals.clone(),
        hidden: hidden.into_iter().collect(),
        most: options.most,
        timeout: options.timeout,
        outputs: store.outputs().to_owned(),
        shell: shell.program,
        environment,
        sandbox,
        is_anew: status.confined().is_none(),
    });
    Ok(Some(Arc::new(verifier.map_err(failed)?)))
}
