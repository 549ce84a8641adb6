//! Questions of queued sessions, and answers to them.

use ah_config::Error;
use ah_conversation::{Environment, SessionId, neutralise};
use ah_store::fleet::{Fleet, Waiting};

use super::super::output::print;

/// Prints the questions of a session that wait.
pub async fn list(
    environment: &Environment,
    fleet: &dyn Fleet,
    id: &SessionId,
) -> Result<u8, Error> {
    let waiting = fleet.questions(id).await?;
    if waiting.is_empty() {
        return print("no open questions\n");
    }
    print(
        &waiting
            .iter()
            .map(|it| shown(it, id, environment))
            .collect::<String>(),
    )
}

/// Answers a question.
pub async fn answer(
    fleet: &dyn Fleet,
    id: &SessionId,
    number: i64,
    typed: &[String],
) -> Result<u8, Error> {
    let waiting = fleet.questions(id).await?;
    let gone = || {
        Error::failure(format!("session {id} has no open question {number}"))
            .hint(format!("`ah answer {id}` shows the open questions"))
    };
    let asked = waiting.iter().find(|it| it.number == number);
    let asked = asked.ok_or_else(gone)?;
    let answers = asked.question.answers(typed).map_err(Error::usage)?;
    match fleet.answer(id, number, &answers).await? {
        true => Ok(0),
        false => Err(gone()),
    }
}

/// Returns a question as lines, the last with the command that answers it.
pub fn shown(waiting: &Waiting, id: &SessionId, environment: &Environment) -> String {
    let Waiting { number, question } = waiting;
    let mut lines = format!("? {number}");
    if !question.about.is_empty() {
        lines.push_str(&format!(" {}", question.about));
    }
    lines.push('\n');
    for choice in &question.choices {
        lines.push_str(&format!("  {}\n", choice.question));
        for option in &choice.options {
            let described = match option.description.as_str() {
                "" => String::new(),
                description => format!(" ({description})"),
            };
            lines.push_str(&format!("  - {}{described}\n", option.label));
        }
    }
    lines.push_str(&format!("  ah answer {id} {number} ANSWER\n"));
    neutralise(&environment.redact(&lines)).into_owned()
}
