//! `/goal`: a check says when the work of a session is done.

use agent_client_protocol::Error;
use ah_agent::Session;
use ah_agent::prompt::about_check;
use ah_conversation::{Goal, NOTE};
use ah_desk::Prompt;

use crate::fault::refused;
use crate::held::Held;

impl Held {
    /// Sets the check of a prompt that is a goal to work for; returns the prompt for the model, if there is one. What else was typed
    /// after `/goal` is answered at once.
    pub(crate) async fn aimed(
        &self,
        session: &mut Session,
        mut prompt: Prompt,
    ) -> Result<Option<Prompt>, Error> {
        let is_taken = self.commands.iter().any(|own| own.name == Goal::NAME);
        let typed = std::mem::take(&mut prompt.text);
        match Goal::in_prompt(&typed).filter(|_| !is_taken) {
            None => Ok(Some(Prompt {
                text: typed,
                ..prompt
            })),
            Some(Goal::Which) => {
                let check = session.settings().check.get();
                self.editor.say(&match check {
                    Some(check) => format!("Runs continue until `{}` passes.", check.command()),
                    None => format!("There is no goal: `/goal {}`", Goal::HINT),
                });
                Ok(None)
            }
            Some(Goal::Off) => {
                self.place.end_check().map_err(refused)?;
                session.set_check(None);
                self.editor.say("Runs end when the model ends its turn.");
                Ok(None)
            }
            Some(Goal::Is(words, command)) => {
                if !session.has_check(command) {
                    let tell = |text: &str| self.editor.notice(text);
                    let mode = session.settings().permissions.mode;
                    let check = self.place.check(command, mode, &tell).await;
                    let check = check.map_err(refused)?;
                    if !words.is_empty() {
                        let note = format!("{NOTE} {}", about_check(check.command()));
                        prompt.attached.insert(0, note);
                    }
                    session.set_check(Some(check));
                }
                Ok(Some(Prompt {
                    text: words.into_owned(),
                    ..prompt
                }))
            }
        }
    }
}
