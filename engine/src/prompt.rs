//! What the model is told: the system prompt, and a typed prompt with its commands, files and pictures.

pub mod expand;
pub mod instructions;
pub mod mentions;
pub mod pictures;
pub mod served;
mod today;
