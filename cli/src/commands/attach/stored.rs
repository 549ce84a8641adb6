//! What is stored of a session that is attached to.

use ah_config::{Config, Error};
use ah_conversation::{Message, Model, Verdicts};
use ah_store::{Paths, Tree};

/// Messages from before that are shown.
const SHOWN: usize = 100;
/// Context window of a model that the catalogue does not know.
const WINDOW: u64 = 200_000;

/// Returns the last messages of a session, the number of all, and what the checks of its runs have shown.
pub fn past(paths: &Paths) -> Result<(Vec<Message>, usize, Verdicts), Error> {
    let tree = Tree::open(paths)?;
    let mut past = Vec::new();
    let mut next = tree.current()?;
    let mut number = 0;
    while let Some(id) = next.take().filter(|_| past.len() < SHOWN) {
        if let Some(message) = tree.message(&id)? {
            number = number.max(message.seq as usize + 1);
            next = message.parent.clone();
            past.push(message);
        }
    }
    past.reverse();
    Ok((past, number, tree.verdicts()?))
}

/// Returns the model of a session: `told`, which its run asks, else the one that was chosen for it, else the one that has
/// answered last.
pub fn model(told: Option<String>, paths: &Paths, past: &[Message], config: &Config) -> Model {
    let chosen = Tree::open(paths).and_then(|tree| tree.model());
    let answered = || {
        let responses = past.iter().rev();
        responses
            .filter_map(|message| message.response.as_ref())
            .map(|response| response.model.clone())
            .find(|model| !model.is_empty())
    };
    let mut config = config.clone();
    if let Some(name) = told.or_else(|| chosen.ok().flatten()).or_else(answered) {
        config.model.value = name;
    }
    let known = ah_engine::model::model(&config, &mut Vec::new());
    known.map_or_else(
        |_| Model {
            name: config.model.value.clone(),
            context_window: WINDOW,
            provider: String::new(),
            max_output: 0,
            price: None,
            long_price: None,
        },
        |known| known.model().clone(),
    )
}
