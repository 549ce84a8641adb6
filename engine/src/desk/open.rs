//! A session that a client drives itself.

use std::sync::Arc;

use ah_agent::{Audience, Session, SessionChange};
use ah_config::untrusted::stricter;
use ah_config::{Error, ErrorKind};
use ah_conversation::PermissionMode;
use ah_desk::{OpenSession, Start, Which};
use ah_store::SessionStore;

use super::place::OpenPlace;
use super::starts::{Starts, plan};
use crate::assemble::SessionInputs;
use crate::model::Catalogued;
use crate::serve::{commands, models};
use crate::sessions::open::Opened;
use crate::sessions::opening::Opening;
use crate::sessions::plan::SessionPlan;

impl Starts {
    /// Opens a session.
    pub(super) async fn open(
        &self,
        start: &Start,
        audience: Audience,
    ) -> Result<OpenSession, Error> {
        let config = self.config(start, |_| {})?;
        let trust = config.trust.notice();
        let known = config.warnings.iter().chain(&trust);
        known.for_each(|text| audience.notice(text));
        let opening = Opening::as_main(config)?;
        let (plan, at) = plan(start.which.clone());
        let plan = SessionPlan {
            ephemeral: opening.config.run.is_ephemeral && start.which == Which::New,
            ..plan
        };
        let told = audience.clone();
        let inputs = SessionInputs {
            has_person: true,
            ..opening.inputs(Arc::new(move |text: &str| told.notice(text)))
        };
        let shown = audience.clone();
        let opened = opening.open(&plan, at, inputs, |_| shown).await?;
        let Opened {
            mut session,
            store,
            recorded_to,
            warnings,
        } = opened;
        let all = opening.warnings.iter().chain(&warnings);
        all.for_each(|text| audience.notice(text));
        for notice in store.take_notices().await {
            audience.notice(&notice.to_string());
        }
        let id = store.id().to_string();
        if let Which::Resume(wanted, _) = &start.which
            && *wanted != id
        {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no session with exactly the id `{wanted}`"),
            ));
        }
        keep_strict(&mut session, &store).await?;
        let config = &opening.config;
        Ok(OpenSession {
            id,
            folder: config.environment.cwd().to_owned(),
            models: Arc::new(Catalogued::new(config.clone(), self.warn.clone())),
            // The first is the one of the settings, under the name `default`.
            offered: models(config).into_iter().skip(1).collect(),
            commands: commands(config, &opening.skills),
            place: OpenPlace::of(&session, (store, recorded_to), opening, self.warn.clone()),
            session,
        })
    }
}

/// Has the session continue in the mode that was chosen in it, if that allows less than the one it begins with.
async fn keep_strict(session: &mut Session, store: &SessionStore) -> Result<(), Error> {
    let chosen = store.read(|tree| tree.permission_mode()).await?;
    let chosen = chosen.and_then(|word| word.parse::<PermissionMode>().ok());
    let first = session.settings().permissions.mode;
    if let Some(mode) = chosen.and_then(|mode| stricter(first, mode)) {
        session.controls().request(SessionChange::Mode(mode));
        session.take_changes();
    }
    Ok(())
}
