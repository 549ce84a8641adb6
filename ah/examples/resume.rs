//! A conversation that survives the death of its process: start it, kill it at any moment, and start it again.
//!
//! `cargo run -p ah --example resume -- chat.db sonnet`

use std::path::Path;

use ah::{Agent, Error};

/// Begins the conversation in the database `file`, or resumes it; returns the number of earlier messages and the answer.
///
/// # Errors
///
/// If the model cannot be asked, or the database cannot be opened.
pub async fn run(file: &Path, model: &str) -> Result<(usize, String), Error> {
    let mut agent = Agent::builder()
        .model(model)
        .store_file(file)
        .build()
        .await?;
    let earlier = agent.transcript().messages().len();
    let prompt = if earlier == 0 {
        "Write a poem."
    } else {
        "Go on."
    };
    let answer = agent.run(prompt).await?.answer;
    agent.close().await?;
    Ok((earlier, answer))
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
