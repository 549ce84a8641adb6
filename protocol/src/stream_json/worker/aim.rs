//! `/goal`: a check says when the work of the session is done.

use ah_agent::prompt::about_check;
use ah_conversation::{ContentBlock, Goal, NOTE};
use ah_desk::Refusal;

use super::Worker;
use crate::Engaged;
use crate::stream_json::goal;
use crate::stream_json::local::{Local, LocalCommand};
use crate::stream_json::wire::Prompt;

impl Worker {
    /// Sets the check of a prompt that is a goal to work for, and leaves its words for the model; returns any other command.
    pub(super) async fn aimed(
        &self,
        engaged: &mut Engaged,
        command: Option<LocalCommand>,
        prompt: &mut Prompt,
    ) -> Result<Option<LocalCommand>, Refusal> {
        let typed = command.as_ref().and_then(|command| match &command.task {
            Local::Goal(typed) => Some(typed),
            _ => None,
        });
        let Some(Goal::Is(words, command_line)) = typed.map(|typed| Goal::of(typed)) else {
            return Ok(command);
        };
        // Pictures and attached texts stay where they are.
        let content = &mut prompt.content;
        let at = content.iter().rposition(|block| block.as_text().is_some());
        let at = at.unwrap_or_default();
        if words.is_empty() && content.len() > 1 {
            content.remove(at);
        } else if let Some(text) = content.get_mut(at) {
            *text = ContentBlock::text(&*words);
        }
        if !engaged.session.has_check(command_line) {
            let tell = |text: &str| self.speaker.notice(text);
            let mode = engaged.session.settings().permissions.mode;
            let check = engaged.place.check(command_line, mode, &tell).await?;
            if !words.is_empty() {
                let note = format!("{NOTE} {}", about_check(check.command()));
                content.insert(at, ContentBlock::text(note));
            }
            engaged.session.set_check(Some(check));
        }
        Ok(None)
    }

    /// Ends the goal of the session, or says what it is.
    pub(super) fn goal(&self, engaged: &mut Engaged, typed: &str) -> String {
        let check = engaged.session.settings().check.get();
        match (Goal::of(typed), check) {
            (Goal::Off, _) => {
                if let Err(refusal) = engaged.place.end_check() {
                    return refusal.text;
                }
                engaged.session.set_check(None);
                self.speaker.say(goal::none());
                "Runs end when the model ends its turn".to_owned()
            }
            (_, Some(check)) => format!("Runs continue until `{}` passes", check.command()),
            (_, None) => format!("There is no goal. Usage: /goal {}", Goal::HINT),
        }
    }
}
