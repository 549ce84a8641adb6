//! Files whose names come from data: rows of a database, parcels, manifests, what a command has left.
//!
//! A path that was checked may lead elsewhere when it is used: another process renames a folder, or puts a symbolic link into
//! the way. So everything here is relative to an open [`Folder`], follows no link, and cannot leave the folder. Which files may
//! be touched, and how, is decided by the callers.

mod folder;
mod names;
mod status;

pub use self::folder::{Folder, LinkInPath, has_link};
pub use self::names::{names, way};
pub use self::status::Status;

/// Where another process may act: before folders are opened and names are checked. Tests do it here.
fn between_calls() {
    #[cfg(test)]
    tests::interfered::interfere();
}

#[cfg(test)]
mod tests;
