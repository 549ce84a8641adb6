//! What the model may do.

mod blocking;
mod edit;
mod file;
mod missing;
mod naming;
mod read;
mod workspace;
mod write;

pub use edit::Edit;
pub use naming::Naming;
pub use read::Read;
pub use workspace::Workspace;
pub use write::Write;
