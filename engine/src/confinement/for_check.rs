//! The sandbox of the check of a run (`--until`).

use std::path::{Path, PathBuf};

use ah_config::overrides::SandboxChoice;
use ah_config::{Config, Error, ErrorKind, Sourced};
use ah_sandbox::{Access, Grant, Tier};

use super::{Confined, PendingSandbox, SandboxGrants, SandboxStatus};

/// Returns the strongest sandbox that can be built here for a check in `place`, which reads these folders besides, without the
/// caches in them. `None` if the user wants no sandbox.
///
/// # Errors
///
/// If there is none, and the user did not say that there need not be.
pub(crate) fn for_check(
    config: &Config,
    place: &Path,
    (folders, caches): (&[PathBuf], &[PathBuf]),
) -> Result<Option<Confined>, Error> {
    if config.run.sandbox.wanted == Some(SandboxChoice::Off) {
        return Ok(None);
    }
    let mut grants = SandboxGrants::of(config, Tier::Full);
    grants.workspace = Some(place.to_owned());
    // What the project may be given to work in, its check only reads.
    grants.paths.retain(|grant| !grant.access.write);
    grants.paths.extend(folders.iter().map(|path| Grant {
        path: path.clone(),
        access: Access::RUN,
    }));
    // Whoever could write these could have written anything, and so could whoever works in the project.
    let project = &config.project_root;
    let project = (!config.environment.has_home_in(project)).then(|| project.clone());
    let hidden = caches.iter().cloned().chain(project).map(Sourced::typed);
    let mut config = config.clone();
    config.sandbox.hide.extend(hidden);
    let config = &config;
    let pending = PendingSandbox {
        journal: None,
        ..PendingSandbox::of(config, grants)?
    };
    match pending.strongest() {
        SandboxStatus::Inside(confined) => Ok(Some(confined)),
        SandboxStatus::Off => Ok(None),
        SandboxStatus::Unavailable(obstacle) => {
            let hint = format!(
                "{}; with `--no-sandbox` the check runs without one, and the model's commands can reach it",
                obstacle.remedy
            );
            let text = format!("there is no sandbox for the check: {}", obstacle.reason);
            Err(Error::failure(text)
                .hint(hint)
                .with_kind(ErrorKind::SandboxUnavailable))
        }
    }
}
