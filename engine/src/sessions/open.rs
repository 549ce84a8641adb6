//! Opens a session: finds it, locks it and assembles its parts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_agent::{Audience, Ports, Session, SessionSettings, Toolbox};
use ah_config::{Config, Error, ErrorKind};
use ah_conversation::{Interface, Provider, StoreError};
use ah_store::{Holder, OpenError, Paths, SessionStore, Sessions, Tree};
use tokio::time::sleep;

use crate::assemble::recorded_check::RecordedTo;
use crate::assemble::{self, SessionInputs, SessionView};
use crate::model::small;
use crate::sessions::folders::{note_place, sessions_in};
use crate::sessions::place::{SessionLocation, check_point, existing};
use crate::sessions::plan::SessionPlan;
use crate::sessions::session_model::SessionModel;

/// Time that a process may take to end after its last result.
const ENDING: Duration = Duration::from_secs(5);

/// A session ready to run, its store, and warnings for the user.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// Its store.
    pub store: Arc<SessionStore>,
    /// The file that it is recorded to.
    pub recorded_to: RecordedTo,
    /// Warnings, one line each.
    pub warnings: Vec<String>,
}

/// A session that is being opened, and was not there before: it is removed if that fails, or it would be the current one.
struct Made(Option<(Sessions, Paths)>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some((sessions, paths)) = self.0.take()
            && let Err(error) = sessions.remove(&paths)
        {
            let path = paths.database().display();
            tracing::warn!("cannot remove `{path}`, a session that was not begun: {error}");
        }
    }
}

/// Opens the session that `plan` chooses, at the message with the number `fork_at` if that is given. If that fails, it
/// leaves no new session behind, and no copy.
///
/// # Errors
///
/// If there is no such session or message, another process holds it ([`ErrorKind::SessionBusy`]), the model cannot be
/// asked ([`ErrorKind::Provider`]), or an option makes no sense.
pub async fn open(
    plan: &SessionPlan,
    config: &Config,
    fork_at: Option<u32>,
    inputs: SessionInputs<'_>,
    make_audience: impl FnOnce(SessionView) -> Audience,
) -> Result<Opened, Error> {
    let mut made = Made(None);
    let opened = begin(plan, config, fork_at, (inputs, &mut made), make_audience).await?;
    // It is there to stay.
    made.0 = None;
    Ok(opened)
}

async fn begin(
    plan: &SessionPlan,
    config: &Config,
    fork_at: Option<u32>,
    (mut inputs, made): (SessionInputs<'_>, &mut Made),
    make_audience: impl FnOnce(SessionView) -> Audience,
) -> Result<Opened, Error> {
    let mut warnings = Vec::new();
    // A model that cannot be asked must not leave a new session behind, or a copy: only a session that is there is opened
    // before its model is known.
    let mut location = None;
    let mut store = inputs.extensions.store.clone();
    if store.is_none() && !plan.fork {
        let found = location.insert(SessionLocation::find(plan, config)?);
        if found.is_stored() {
            store = Some(Arc::new(
                open_when_free(found, plan, config.interface).await?,
            ));
        }
    }
    let given = inputs.extensions.provider.as_ref();
    let SessionModel {
        provider,
        recorded_to,
        config,
        recorded_as,
    } = model(plan, config, given, store.as_ref(), &mut warnings).await?;
    inputs.recorded_to = recorded_to.clone();
    let provider = match &inputs.extensions.around {
        Some(around) => around(provider),
        None => provider,
    };
    let config = &*config;
    let of = |paths: &Paths| sessions_in(paths.folder().to_owned(), config);
    let store = match store {
        Some(store) => store,
        None => {
            let found = match location.take() {
                Some(found) => found,
                None => {
                    // A copy may be long: it is not made in vain.
                    check_point(plan, config, fork_at)?;
                    SessionLocation::find(plan, config)?
                }
            };
            let found = location.insert(found);
            let new = found.made();
            let opened = open_when_free(found, plan, config.interface).await?;
            made.0 = new.map(|paths| (of(&paths), paths));
            Arc::new(opened)
        }
    };
    if let Some(location) = &location {
        warnings.extend(location.notice());
        if let Some(begun) = location.begun(&store, plan).await? {
            made.0 = Some((of(&begun), begun));
        }
        warnings.extend(location.prepare(&store, plan, config, fork_at).await?);
    }
    note_place(&store, config.environment.cwd());
    if let Some(name) = recorded_as {
        store.set_model(name).await?;
    }
    let parts = assemble::session(
        provider,
        &store,
        config,
        inputs,
        make_audience,
        &mut warnings,
    )
    .await?;
    Ok(Opened {
        session: loaded(plan, parts).await?,
        store,
        recorded_to,
        warnings,
    })
}

/// Loads the conversation of a session.
async fn loaded(
    plan: &SessionPlan,
    (ports, tools, settings): (Ports, Toolbox, SessionSettings),
) -> Result<Session, StoreError> {
    match plan.takes_over {
        true => Session::take_over(ports, tools, settings).await,
        false => Session::open(ports, tools, settings).await,
    }
}

/// Returns the model of a session: the one that is given, its own, or that of the configuration.
async fn model<'a>(
    plan: &SessionPlan,
    config: &'a Config,
    given: Option<&Arc<dyn Provider>>,
    store: Option<&Arc<SessionStore>>,
    warnings: &mut Vec<String>,
) -> Result<SessionModel<'a>, Error> {
    if let Some(given) = given {
        return Ok(SessionModel {
            provider: given.clone(),
            recorded_to: RecordedTo::default(),
            config: Cow::Borrowed(config),
            recorded_as: None,
        });
    }
    let own = match store {
        Some(store) => store.read(Tree::model).await.ok().flatten(),
        None if plan.fork => existing(plan, config).and_then(|tree| tree.model().ok()?),
        None => None,
    };
    let found = SessionModel::find(own.as_deref(), config, warnings)?;
    Ok(SessionModel {
        config: Cow::Owned(small::suited(&found.config).into_owned()),
        ..found
    })
}

/// Opens the session. A host that has read a result may go on at once, while the process that wrote it is still ending:
/// that is waited for.
async fn open_when_free(
    location: &SessionLocation,
    plan: &SessionPlan,
    interface: Interface,
) -> Result<SessionStore, Error> {
    let patience = match plan.is_impatient {
        true => Duration::ZERO,
        false => interface.pick(Duration::ZERO, ENDING),
    };
    let began = Instant::now();
    loop {
        match location.open() {
            Ok(store) => return Ok(store),
            Err(OpenError::Busy(_)) if began.elapsed() < patience => sleep(ENDING / 500).await,
            Err(OpenError::Busy(holder)) => return Err(busy(&holder)),
            Err(OpenError::Store(error)) => return Err(error.into()),
        }
    }
}

/// Returns the error for a session that another process has open.
pub fn busy(holder: &Holder) -> Error {
    let holder = match holder.pid {
        Some(pid) => format!("this session is open in another ah (process {pid})"),
        None => "this session is open in another ah".to_owned(),
    };
    Error::new(ErrorKind::SessionBusy, holder)
        .hint("start a new one with `ah -n`, continue in a copy with `ah -c --fork-session`, or queue a message with `ah --followup MESSAGE`")
}
