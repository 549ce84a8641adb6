//! `ah work init`: prepares a repository for scheduled work.

use std::fs;
use std::path::Path;

use ah_work::issue::LABELS;
use ah_work::run::Work;
use ah_work::setup::proposal::proposed;

use super::events::left_out;
use crate::commands::doctor::release::digest;
use ah_config::Error;
use ah_conversation::Environment;
use ah_terminal::line::preview;

/// The workflow that works on issues every three hours, on GitHub.
pub const WORKFLOW: &str = include_str!("../../sys/work.yml");
/// Its path in the repository.
const PLACE: &str = ".github/workflows/ah.yml";
/// The published archive that the workflow uses.
const ARCHIVE: &str = concat!(
    "ah-",
    env!("CARGO_PKG_VERSION"),
    "-x86_64-unknown-linux-musl.tar.gz"
);
/// Line for the digest of the archive.
const DIGEST: &str = "      AH_SHA256: \"\"\n";

/// Writes the workflow and creates the labels; returns the exit code.
///
/// # Errors
///
/// If a different file exists there, or the hub rejects the labels.
pub(super) async fn run(work: &Work, environment: &Environment, is_dry: bool) -> Result<u8, Error> {
    let digest = digest(environment, ARCHIVE).await;
    let workflow = workflow(digest.as_ref().ok().and_then(Option::as_deref));
    if is_dry {
        return crate::commands::output::print_exact(&workflow);
    }
    let is_written = work.hub.runs_workflows();
    if is_written {
        write(&work.top, &workflow)?;
    }
    for (name, colour, meaning) in LABELS {
        let made = work.hub.ensure_label(name, colour, meaning).await;
        made.map_err(|error| {
            Error::failure(format!("the label `{name}`: {error}")).maybe_hint(error.hint)
        })?;
    }
    let labels: Vec<_> = LABELS.iter().map(|(name, ..)| *name).collect();
    let labels = labels.join(", ");
    ah_terminal::note(&if is_written {
        format!(
            "Wrote {PLACE} and created the labels: {labels}.\n\
             Commit the file, and give the repository a secret ANTHROPIC_API_KEY (or CLAUDE_CODE_OAUTH_TOKEN).\n\
             In its settings, allow Actions to create pull requests."
        )
    } else {
        format!(
            "Created the labels: {labels}.\n\
             The workflow is for GitHub; docs/work.md has one for Forgejo, and how a runner of GitLab does it."
        )
    });
    if is_written && workflow == WORKFLOW {
        let reason = match digest {
            Ok(_) => format!("the release of this version names none for {ARCHIVE}"),
            Err(error) => error.message,
        };
        ah_terminal::note(&format!(
            "The digest of the program is not in it: {reason}. The workflow trusts the checksums and the attestation of the release; to pin it, put the digest from SHA256SUMS into AH_SHA256."
        ));
    }
    propose(work);
    Ok(0)
}

/// Returns the workflow with the digest of the program, if it is known.
fn workflow(digest: Option<&str>) -> String {
    let line = digest.map(|digest| format!("      AH_SHA256: {digest}\n"));
    WORKFLOW.replace(DIGEST, line.as_deref().unwrap_or(DIGEST))
}

/// Proposes the setup that the project needs, unless there is one.
fn propose(work: &Work) {
    let plan = proposed(
        |name| fs::read_to_string(work.top.join(name)).ok(),
        |_| true,
    );
    let is_whole = plan == plan.clone().by_default();
    if work.settings.setup.is_some() || plan.setup.is_empty() {
        return;
    }
    let settings = serde_json::json!({ "work": { "setup": plan.setup } });
    let from = match plan.source.as_str() {
        "" => String::new(),
        file => format!(", as {} says", preview(file, 120)),
    };
    let rest = if is_whole {
        ""
    } else {
        ", without submodules and Git LFS"
    };
    ah_terminal::note(&format!(
        "The agents have no network. What the project depends on{from}, is fetched before{rest}. To change that, edit this in your settings, or in those of a trusted project:\n{settings:#}"
    ));
    if !plan.left_out.is_empty() {
        ah_terminal::note(&format!(
            "Left out, since the sandbox cannot run it: {}",
            left_out(&plan)
        ));
    }
}

fn write(top: &Path, workflow: &str) -> Result<(), Error> {
    let path = top.join(PLACE);
    let failed = |error: &std::io::Error| {
        Error::failure(format!("cannot write `{}`: {error}", path.display()))
    };
    if let Ok(there) = fs::read_to_string(&path) {
        let is_ours = |line: &str| !line.starts_with("      AH_SHA256:");
        return if there
            .lines()
            .filter(|line| is_ours(line))
            .eq(workflow.lines().filter(|line| is_ours(line)))
        {
            Ok(())
        } else {
            Err(
                Error::failure(format!("`{PLACE}` exists with other content"))
                    .hint("remove it first; `ah work init --dry-run` prints the new content"),
            )
        };
    }
    let folder = path.parent().unwrap_or(top);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, workflow))
        .map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_uses_what_is_written_for_others() {
        let own = include_str!("../../../../.github/workflows/work.yml");
        assert_eq!(own, WORKFLOW);
        assert!(own.contains(ARCHIVE) && own.contains(DIGEST));
        let digest = "a".repeat(64);
        let pinned = workflow(Some(&digest));
        assert!(pinned.contains(&format!("AH_SHA256: {digest}\n")) && !pinned.contains(DIGEST));
    }
}
