//! `--steer` and `--followup`: messages for a session of another process.

use ah_conversation::MailKind;

use crate::args::options::MailOptions;
use ah_config::Config;
use ah_config::Error;
use ah_engine::sessions::plan::SessionPlan;

/// Queues the messages for the chosen session; they are durable on return.
pub fn run(config: &Config, plan: &SessionPlan, options: &MailOptions) -> Result<u8, Error> {
    let paths = super::place::existing(plan, config)?;
    let queue = super::place::queue(&paths)?;
    let steering = options.steer.iter().map(|text| (MailKind::Steer, text));
    let followups = options
        .followup
        .iter()
        .map(|text| (MailKind::FollowUp, text));
    let letters: Vec<_> = steering.chain(followups).collect();
    if letters.iter().any(|(_, text)| text.trim().is_empty()) {
        return Err(Error::usage("the message is empty"));
    }
    for (kind, text) in letters {
        queue.send(kind, text)?;
    }
    let session = paths.id().map_or_else(
        || paths.database().display().to_string(),
        |id| id.to_string(),
    );
    ah_terminal::note(&format!("queued for session {session}"));
    Ok(0)
}
