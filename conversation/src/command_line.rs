//! A shell command line as the permission rules see it: which programs it would start, whatever hides them. Taking a
//! line apart is the business of the tool that runs it; what it gives is judged here.

use std::path::PathBuf;

/// A command line, as far as it was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The line as it will run.
    pub line: String,
    /// Whether every word of it was understood and none can change anything.
    pub harmless: bool,
    /// Every simple command that it would run, those in substitutions too; `None`: something in it was not understood,
    /// so it may run anything.
    pub commands: Option<Vec<SimpleCommand>>,
}

impl CommandLine {
    /// A line of which nothing is known.
    pub fn opaque(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            harmless: false,
            commands: None,
        }
    }
}

/// One program with its arguments, or an assignment that stands alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Its words as they are written, quotes and assignments included and redirections not, with one blank between.
    pub text: String,
    /// The program and its arguments as it will see them; `None`: known only when it runs.
    pub words: Vec<Option<String>>,
    /// The files that its arguments may name.
    pub operands: Vec<PathBuf>,
    /// What it does.
    pub effect: Effect,
    /// The commands that it starts in turn, as `env`, `xargs` and `bash -c` do.
    pub inner: Vec<SimpleCommand>,
    /// How many bytes of the text end with the last program that is started; all where that is no plain word.
    pub reach: usize,
    /// Whether it adds nothing of its own to what it starts, so that rules for that are enough.
    pub transparent: bool,
    /// What a rule would say that allows it and its like.
    pub proposal: String,
}

/// What a command does, as far as that is known from its words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    None,
    /// It creates, copies, moves or removes the files that its operands name, and no more.
    Files,
    /// Who knows.
    #[default]
    Any,
}
