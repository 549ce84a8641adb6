//! Changes of the conversation tree: the current message, branches, messages.

use ah_config::{Config, Error};
use ah_conversation::MessageId;
use ah_engine::sessions::plan::SessionPlan;
use ah_store::SessionStore;

use super::missing;
use crate::commands::output::print;
use crate::commands::place::change;

/// Makes a message current.
pub fn checkout(config: &Config, plan: &SessionPlan, number: u32) -> Result<u8, Error> {
    change(plan, config, async |session| {
        let id = find(session, number).await?;
        Ok(session.checkout(id).await?)
    })?;
    print(&format!("the next prompt continues from @{number}\n"))
}

/// Deletes a message and its descendants.
pub fn remove_branch(config: &Config, plan: &SessionPlan, number: u32) -> Result<u8, Error> {
    let count = change(plan, config, async |session| {
        let id = find(session, number).await?;
        Ok(session.delete_subtree(id).await?)
    })?;
    print(&deleted(count))
}

/// Deletes single messages.
pub fn remove(config: &Config, plan: &SessionPlan, numbers: &[u32]) -> Result<u8, Error> {
    let count = change(plan, config, async |session| {
        // All are looked up before any is deleted: deleting may renumber others.
        let mut ids = Vec::with_capacity(numbers.len());
        for number in numbers {
            ids.push(find(session, *number).await?);
        }
        let mut count = 0;
        for id in ids {
            count += usize::from(session.delete(id).await?);
        }
        Ok(count)
    })?;
    print(&deleted(count))
}

fn deleted(count: usize) -> String {
    match count {
        1 => "deleted 1 message\n".to_owned(),
        _ => format!("deleted {count} messages\n"),
    }
}

async fn find(session: &SessionStore, number: u32) -> Result<MessageId, Error> {
    let found = session.read(move |tree| tree.numbered(number)).await?;
    found.ok_or_else(|| missing(number))
}
