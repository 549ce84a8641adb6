//! What was said in a session that is opened again, printed as it was then.

use std::sync::Arc;

use ah_config::Error;
use ah_conversation::{Message, Origin};
use ah_render::{Line, Style};
use ah_store::Tree;

use super::super::input::Input;
use super::super::terminal::Terminal;
use super::SessionWorker;
use crate::print::text::View;

/// Largest number of messages that are printed.
const MOST: usize = 200;

impl SessionWorker {
    /// Prints the messages of the open session; of a long one the last, with the way to the others. One at a time is in
    /// memory, besides those that the model sees.
    pub(super) async fn tell_past(&self) -> Result<(), Error> {
        let messages = self.session.transcript().messages();
        let first = first_shown(messages);
        let id = self.store.id();
        let mut head = vec![format!("session {id}, {} messages", messages.len())];
        if first > 0 {
            head.push(format!(
                "… {first} earlier messages; `/export` writes them all"
            ));
        }
        let palette = self.factory.link.palette();
        let rows = head.iter().map(|text| Line::of(text, Style::DIM));
        let head: String = rows.map(|row| row.paint(palette) + "\n").collect();
        self.tell(Input::Written(head + "\n"));
        let mut link = self.factory.link.clone();
        (link.size.width, link.size.height) = Terminal::size();
        let config = &self.factory.opening.config;
        let frontend = link.frontend(View {
            shows_work: config.interface.shows_work(),
            model: self.session.model().clone(),
            tools: self.session.tools().specs().clone(),
            cwd: config.environment.cwd().to_owned(),
            session: None,
            group: None,
            asks: None,
            is_conversation: true,
            elsewhere: None,
        });
        let mut replay = frontend.replay();
        let verdicts = self.store.read(Tree::verdicts).await?;
        for message in &messages[first..] {
            if message.content.is_empty() {
                // It is from before the last summary.
                let id = message.id.clone();
                if let Some(message) = self.store.read(move |tree| tree.message(&id)).await? {
                    replay.show(&message);
                }
            } else {
                replay.show(message);
            }
            replay.recorded(verdicts.get(&message.id));
        }
        replay.finish();
        self.tell(Input::Written("\n".to_owned()));
        Ok(())
    }
}

/// Returns the position of the first message that is printed: a prompt, if there is one among the last.
fn first_shown(messages: &[Arc<Message>]) -> usize {
    let first = messages.len().saturating_sub(MOST);
    if first == 0 {
        return 0;
    }
    let mut behind = messages[first..].iter();
    let prompt = behind.position(|message| message.origin == Origin::Prompt);
    first + prompt.unwrap_or(0)
}
