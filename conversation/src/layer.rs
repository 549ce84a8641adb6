//! Where a tool, a skill or a command comes from: what a later layer says takes the place of what an earlier one says
//! under the same name.

use std::fmt;

/// Where something that can be replaced by name comes from. A greater one counts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The program.
    BuiltIn,
    /// What was put into this copy of the program.
    Embedded,
    /// The user's folder of another agent.
    ForeignUser,
    /// The user's folder.
    User,
    /// The project's folder for another agent.
    ForeignProject,
    /// The project's folder.
    Project,
    /// A skill that is in use.
    Skill,
    /// An option.
    CommandLine,
}

impl Layer {
    /// Whether it came with the project, so that it counts only where the project is trusted if it is code.
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
