//! Git that obeys no repository. A repository can be anybody's, and its configuration and hooks name programs: what is asked
//! for a prompt is read from its files, and what needs the program runs it with all of that switched off.

mod command;
pub mod own_files;
mod program;
mod repository;

pub use command::{
    Git, GitError, NOT_BELOW, Owner, STAGED, host_of, is_repository, repository_of,
    without_passwords,
};
pub use program::{NoGit, fetch_variables, program};
pub use repository::{Repository, git_directory, repository};
