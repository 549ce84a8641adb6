//! Precedence of the sources of tools, skills and commands: an item of a later layer replaces one of the same name
//! from an earlier layer.

use std::fmt;

/// Source of an item that can be replaced by name. Greater layers take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Built into the program.
    BuiltIn,
    /// Embedded in this copy of the program.
    Embedded,
    /// The user's folder for another agent.
    ForeignUser,
    /// The user's folder.
    User,
    /// The project's folder for another agent.
    ForeignProject,
    /// The project's folder.
    Project,
    /// A skill in use.
    Skill,
    /// A command-line option.
    CommandLine,
}

impl Layer {
    /// Whether it came with the project. Code from such a layer requires trust in the project.
    pub fn is_of_project(self) -> bool {
        matches!(self, Self::ForeignProject | Self::Project)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BuiltIn => "built in",
            Self::Embedded => "embedded",
            Self::ForeignUser => "user (other agent)",
            Self::User => "user",
            Self::ForeignProject => "project (other agent)",
            Self::Project => "project",
            Self::Skill => "skill",
            Self::CommandLine => "command line",
        })
    }
}
