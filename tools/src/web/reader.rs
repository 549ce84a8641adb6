//! Lets a small model read a page, so that the main model gets an answer and not the page. The reader has no tools: all
//! that a page can make it do is answer wrongly, and its answer is quoted too.

use ah_conversation::{ModelUsage, Provider};

use super::quote::introduced;
use crate::ask_model;

/// Limit for an answer in tokens.
const LONGEST: u64 = 4_096;
const INSTRUCTIONS: &str = include_str!("reader.md");

/// Returns the answer of `reader` to `question` from the page `text` at `address`, with its usage and cost.
pub async fn answer(
    reader: &dyn Provider,
    address: &str,
    text: &str,
    question: &str,
) -> Result<(String, ModelUsage), String> {
    let prompt = format!(
        "{}\n\nAnswer from it: {question}",
        introduced(address, text)
    );
    let (answer, share) = ask_model(reader, INSTRUCTIONS, prompt, LONGEST).await?;
    match answer.trim() {
        "" => Err("the answer is empty".to_owned()),
        answer => Ok((answer.to_owned(), share)),
    }
}
