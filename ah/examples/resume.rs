//! A conversation that survives the death of its process: start it, kill it at any moment, and start it again.
//!
//! `cargo run -p ah --example resume -- chat.db sonnet`

use std::path::Path;

use ah::{Agent, Error, Options};

/// Begins the conversation in the database `file`, or continues what a kill has left unfinished, or else with another prompt;
/// returns the number of earlier messages and the answer.
///
/// # Errors
///
/// If the model cannot be asked, or the database cannot be opened.
pub async fn run(file: &Path, model: &str) -> Result<(usize, String), Error> {
    let options = Options::new().model(model);
    let mut agent = Agent::with(options).store_file(file).open().await?;
    let earlier = agent.messages().len();
    let outcome = match agent.resume().await? {
        Some(outcome) => outcome,
        None if earlier == 0 => agent.run("Write a poem.").await?,
        None => agent.run("Go on.").await?,
    };
    agent.close().await?;
    Ok((earlier, outcome.answer))
}

#[expect(clippy::print_stdout, reason = "an example shows its outcome")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "chat.db".to_owned());
    let model = arguments.next().unwrap_or_else(|| "sonnet".to_owned());
    let (earlier, answer) = run(Path::new(&file), &model).await?;
    println!("{earlier} earlier messages\n{answer}");
    Ok(())
}
