//! What is done to a session between its runs: summaries, ways back, copies, rewinds of files.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_agent::{Session, Stop};
use ah_conversation::{Origin, StoreError};
use ah_store::Sessions;

use crate::law::{Fault, unusable};
use crate::plan::Act;
use crate::plant::PlantedFault;
use crate::store::SimulatedStore;
use crate::world::World;

/// Goes on with a copy of the session. Its mail stays with the original.
pub(crate) fn fork(world: &World) -> Result<(), Fault> {
    let paths = world.paths();
    if !paths.database().exists() {
        return Ok(());
    }
    let sessions = Sessions::in_folder(paths.folder());
    let is_empty = world.state().planted(PlantedFault::CopyEmpty, 1);
    let copied = match is_empty {
        true => sessions.fresh(),
        false => sessions.copy(&paths),
    };
    world.hear();
    match copied {
        // The power may have failed when all was done: then the next process finds the original.
        Ok(copy) if !world.disk.is_off() => {
            world.moved(copy);
            let mut state = world.state();
            { &mut state.mail }
                .iter_mut()
                .for_each(|sent| sent.is_acknowledged = false);
            Ok(())
        }
        Err(error) if !world.disk.has_failed() && !world.disk.is_off() => Err(unusable(&error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Does what a process does before its prompt.
pub(crate) async fn perform(
    world: &World,
    act: Act,
    store: &SimulatedStore,
    session: &mut Session,
    stop: &Stop,
) -> Result<(), StoreError> {
    session.files().recover().await?;
    match act {
        Act::Nothing | Act::TakeOver | Act::Fork => Ok(()),
        Act::Summary => session.compact_all(None, stop).await.map(drop),
        Act::Back(part) => back(world, part, store, session).await,
        Act::Rewind(is_redone) => rewind(world, is_redone, session).await,
    }
}

/// Goes on behind the message at this part of a thousand of the way.
async fn back(
    world: &World,
    part: usize,
    store: &SimulatedStore,
    session: &mut Session,
) -> Result<(), StoreError> {
    let messages = session.transcript().messages();
    let Some(message) = messages.get(part * messages.len() / 1_000).cloned() else {
        return Ok(());
    };
    {
        let mut state = world.state();
        let main = state.conversations.entry(None).or_default();
        // What a summary has kept is older than it: behind that, there is no summary.
        let is_summarized = { main.requested.first() }.is_some_and(|first| first.id > message.id);
        let at = { main.requested.iter() }
            .position(|it| it.id == message.id)
            .filter(|_| !is_summarized);
        let mut requested = at.map_or_else(Vec::new, |at| main.requested[..=at].to_vec());
        // An update stands behind what was said later.
        if matches!(message.origin, Origin::Update(_)) {
            requested.retain(|it| it.id <= message.id);
        }
        main.requested = Arc::new(requested);
    }
    store.checkout(message.id.clone()).await?;
    session.reload().await
}

/// Lets all files be what they were when the session began, and what they were before that again.
async fn rewind(world: &World, is_redone: bool, session: &mut Session) -> Result<(), StoreError> {
    let files = session.files();
    let (before, unowned) = {
        let mut state = world.state();
        (state.workspace.now(), state.workspace.forget_owners())
    };
    let way = files.to(0).await?;
    files.go(&way).await?;
    let went = |wanted: &BTreeMap<_, _>| {
        let mut state = world.state();
        state.workspace.restore_owners(unowned.clone());
        if let Err(fault) = state.workspace.check_files(wanted) {
            state.fail(fault);
        }
    };
    went(&BTreeMap::new());
    if !is_redone || before.is_empty() {
        return Ok(());
    }
    world.state().workspace.forget_owners();
    if let Some(way) = files.redo().await? {
        files.go(&way).await?;
    }
    went(&before);
    Ok(())
}
