//! What the model may do.

mod blocking;
mod edit;
mod file;
mod glob;
mod grep;
mod missing;
mod naming;
mod read;
mod walk;
mod workspace;
mod write;

pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use naming::Naming;
pub use read::Read;
pub use workspace::Workspace;
pub use write::Write;
