//! The files of a session that goes to another machine: a repository and a commit that others have too, and layers since.
//! A layer is a bundle of git with the commits that are new and the state of all files, committed or not. Layers are kept
//! with the session, so a writer that has lost it cannot add one.
//!
//! States are commits that are the same wherever they are made, so whether a folder has one is a comparison.

mod files;
mod files_first;
mod folder;
mod shadow;
mod workspace;

#[cfg(test)]
mod tests;

pub use files::{Files, Layer};
pub use files_first::FilesFirst;
pub use folder::{Captured, capture};
pub use workspace::{Home, Workspace, place};
