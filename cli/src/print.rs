//! What people and programs see of a run. Each frontend shows the same events in its own form; nothing else in the
//! program writes to standard output while a run is on.

pub mod events;
pub mod json;
mod neutral;
mod number;
mod screen;
pub mod table;
pub mod text;
mod tool_block;

pub use neutral::neutralise;
pub use number::count;
pub use screen::{Look, Screen};
