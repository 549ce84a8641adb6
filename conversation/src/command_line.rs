//! A shell command line as the permission rules see it: the programs that it would start, including indirect ones.
//! The tool that runs a line parses it; the rules judge the result.

use std::path::PathBuf;

/// A parsed command line, as far as it was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The line as it will run.
    pub line: String,
    /// Whether every word of it was understood and none can change anything.
    pub harmless: bool,
    /// Whether its words only read, though a program in it may be configured to start others.
    pub looks: bool,
    /// All simple commands that the line would run, including those in substitutions; `None` if something in it was
    /// not understood, so it may run anything.
    pub commands: Option<Vec<SimpleCommand>>,
}

impl CommandLine {
    /// Returns a line of which nothing is known.
    pub fn opaque(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            harmless: false,
            looks: false,
            commands: None,
        }
    }
}

/// One program with its arguments, or an assignment that stands alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Text as written, with quotes and assignments but without redirections, separated by single spaces.
    pub text: String,
    /// Length in bytes of assignments at its beginning that do not change what the program does, such as
    /// `RUST_BACKTRACE=1 `: a rule that allows the rest allows all of it.
    pub settings: usize,
    /// The program and its arguments after expansion; `None` for a word known only at run time.
    pub words: Vec<Option<String>>,
    /// Files that the arguments may name.
    pub operands: Vec<PathBuf>,
    /// Further files that the command may touch.
    pub files: PossibleFiles,
    /// Effect of the command.
    pub effect: Effect,
    /// Whether its arguments may name programs that it starts in a way that is not known.
    pub may_start: bool,
    /// Whether some of its options are not known, so that it may start any program and touch any file. A rule allows
    /// it only if it reaches behind them.
    pub unknown_options: bool,
    /// Whether the line sets variables, or changes to a folder, by which the program may do something else than elsewhere: no
    /// rule for a command allows it.
    pub steered: bool,
    /// Commands that it starts in turn, as `env`, `xargs` and `bash -c` do.
    pub inner: Vec<SimpleCommand>,
    /// Length in bytes of `text` up to the end of the last program started and of the last unknown option; the whole
    /// length if that is no plain word.
    pub reach: usize,
    /// Whether it adds nothing to the commands it starts, so that rules for those are enough.
    pub transparent: bool,
    /// Rule content that would allow this command and similar ones.
    pub proposal: String,
}

/// Files that a command may touch besides its operands, since a pattern, a folder or a value known only at run time
/// stands for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PossibleFiles {
    /// Absolute paths with `*`, `?` and `[…]` as in a shell; `**` stands for any number of folders.
    pub patterns: Vec<PathBuf>,
    /// Files and folders that the command looks at, patterns included; `folder/**` for all that is in a folder. Only
    /// known of commands that change nothing.
    pub seen: Vec<PathBuf>,
    /// Whether the command may show the content of such files.
    pub shows: bool,
    /// Whether the command may change such files.
    pub changes: bool,
}

/// Effect of a command, as far as its words show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    None,
    /// Creates, copies, moves or removes the files named by its operands, and nothing else.
    Files,
    /// Unknown effect.
    #[default]
    Any,
}
