//! Contents of the repository that the server has.

/// Owner and name of the repository.
pub const REPOSITORY: &str = "octo/greet";

/// An issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issue {
    /// Title.
    pub title: String,
    /// Description.
    pub body: String,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// Texts of its comments, oldest first.
    pub comments: Vec<String>,
    /// Whether it was closed.
    pub is_closed: bool,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// Branch with the commits.
    pub head: String,
    /// Branch to merge into.
    pub base: String,
    /// Title.
    pub title: String,
    /// Description.
    pub body: String,
}
