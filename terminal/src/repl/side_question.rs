//! A side question: its answer is printed when it comes, and is no part of the conversation.

use std::sync::Arc;
use std::time::Instant;

use ah_agent::SideQuestions;
use ah_conversation::{CallReason, Cost, ModelUsage, Record, StopReason, Store as _, neutralise};
use ah_render::{Line, Markdown, Palette, Style};
use ah_store::SessionStore;
use ah_tools::NoAnswer;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::asked::paid;
use super::frontend::Link;
use super::terminal::Terminal;

/// Side questions beside what runs that are not answered yet.
pub type Asking = Arc<Mutex<JoinSet<()>>>;

/// Gives up the side questions that are not answered yet: they keep the session open.
pub async fn give_up(asking: &Asking) {
    let mut asked = std::mem::take(&mut *asking.lock());
    asked.shutdown().await;
}

/// A question, and whom it is asked.
pub struct SideQuestion {
    /// What was typed.
    pub text: String,
    /// Asks it.
    pub questions: SideQuestions,
    /// Store of the session.
    pub store: Arc<SessionStore>,
    /// Connection to the terminal.
    pub link: Link,
    /// Cost of the session at which it is not asked any more.
    pub most: Option<Cost>,
}

impl SideQuestion {
    /// Asks it, and prints the answer.
    ///
    /// # Errors
    ///
    /// If there is no answer; the text says why.
    pub async fn ask(self) -> Result<(), String> {
        let failed = |error: &str| format!("/btw {}: {error}", self.text);
        if self
            .most
            .is_some_and(|most| self.link.totals().cost >= most)
        {
            return Err(failed(
                "not asked: the budget (--max-budget-usd) is used up",
            ));
        }
        let begun = Instant::now();
        let request = self.questions.request(&self.text).await;
        let Some(request) = request.map_err(|error| failed(&error.to_string()))? else {
            crate::note("/btw is about the conversation, and nothing has been said yet");
            return Ok(());
        };
        let answered = ah_tools::answer(self.questions.model(), request).await;
        let api_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answered = match answered {
            Ok(answered) => answered,
            Err(NoAnswer { reason, share }) => {
                if let Some(share) = share {
                    self.pay(share, api_ms)
                        .await
                        .map_err(|error| failed(&error))?;
                }
                return Err(failed(&reason));
            }
        };
        let paid = self.pay(answered.share, api_ms).await;
        paid.map_err(|error| failed(&error))?;
        if !answered.text.trim().is_empty() {
            let columns = match self.link.is_drawn {
                true => Terminal::size().0,
                false => self.link.size.width,
            };
            let text = laid_out(&self.text, &answered.text, columns, self.link.palette());
            let _ = self.link.inputs.send(super::input::Input::Written(text));
        }
        match lack(&answered.text, answered.stop.as_ref()) {
            Some(lack) => Err(failed(&lack)),
            None => Ok(()),
        }
    }

    /// Counts what an answer has used.
    async fn pay(&self, share: ModelUsage, api_ms: u64) -> Result<(), String> {
        let event = Record::Event(paid(CallReason::SideQuestion, &share, api_ms));
        let stored = self.store.append(vec![event]).await;
        self.link.spend(share, api_ms);
        stored.map(drop).map_err(|error| error.to_string())
    }
}

/// Returns what an answer lacks.
fn lack(answer: &str, stop: Option<&StopReason>) -> Option<String> {
    match stop {
        Some(StopReason::ToolUse) => {
            Some("the model tried to call a tool, which a side question does not allow".to_owned())
        }
        Some(StopReason::EndTurn | StopReason::StopSequence) | None => {
            let is_empty = answer.trim().is_empty();
            is_empty.then(|| "the model gave no answer".to_owned())
        }
        Some(stop) => Some(format!("the answer is not complete ({})", stop.as_str())),
    }
}

/// Returns the text of an answer, with its question, since others may have been printed meanwhile.
fn laid_out(question: &str, answer: &str, columns: usize, palette: Palette) -> String {
    let head = Line::of(&format!("/btw {question}").replace('\n', " "), Style::DIM);
    let mut markdown = Markdown::new(columns.saturating_sub(2).max(1));
    let mut rows = markdown.feed(&neutralise(answer));
    rows.extend(markdown.finish());
    let rows = rows.iter().map(|row| row.indented(2));
    let rows = std::iter::once(head.cut(columns)).chain(rows);
    let text: String = rows.map(|row| row.paint(palette) + "\n").collect();
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_complete_says_so() {
        use StopReason::{EndTurn, MaxTokens, Refusal, ToolUse};
        for (answer, stop, says) in [
            ("Yes.", EndTurn, None),
            (" ", EndTurn, Some("no answer")),
            ("", ToolUse, Some("call a tool")),
            ("I look.", ToolUse, Some("call a tool")),
            ("Ye", MaxTokens, Some("not complete (max_tokens)")),
            ("", Refusal, Some("not complete (refusal)")),
        ] {
            let lack = lack(answer, Some(&stop));
            match says {
                None => assert_eq!(lack, None),
                Some(says) => assert!(lack.is_some_and(|lack| lack.contains(says)), "{says}"),
            }
        }
    }
}
