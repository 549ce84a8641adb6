//! Effects that the terminal's state asks for; the driver carries them out.

use ah_conversation::{Completion, Environment, Goal, Image, MailKind, PermissionMode, SkipDelay};

use super::attach;
use super::ending::{Queued, Then};
use super::notify::NotificationKind;
use super::output::Wanted;
use super::picker::Subject;
use crate::undo::Direction;

/// An effect on the terminal or the session.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Prints lines above the live ones.
    Print(String),
    /// Prints the output of commands above the live lines; its lines stay whole.
    Output(String),
    /// Clears the screen by scrolling its content away.
    ScrollAway,
    /// Gives the session a task.
    Task(Task),
    /// Opens the user's editor with the typed text.
    OpenEditor,
    /// Lists the files of the project.
    ListFiles,
    /// Lets a subcommand of the program use the terminal, and then gives the session a task.
    Lend(Box<Lent>),
    /// Refreshes the user's status line.
    Status,
    /// Writes a notification sequence to the terminal.
    Ring(String),
    /// Puts a text into the clipboard.
    Copy(String),
    /// Ends the delay before a retry.
    Skip(SkipDelay),
    /// Stops the program until the shell continues it.
    Suspend,
    /// Takes the terminal again after a stop.
    Continue,
    /// Ends the program.
    Quit,
}

impl Effect {
    /// Returns whether it leads to output above the live lines.
    pub fn prints(&self) -> bool {
        match self {
            Self::Print(_) | Self::Output(_) => true,
            Self::Task(task) => !matches!(
                task,
                Task::List(_)
                    | Task::View
                    | Task::Send(..)
                    | Task::End(_)
                    | Task::Complete(..)
                    | Task::Interrupt
                    | Task::Leave(_)
                    | Task::Queued(_)
            ),
            Self::ScrollAway
            | Self::OpenEditor
            | Self::Lend(..)
            | Self::ListFiles
            | Self::Status
            | Self::Ring(_)
            | Self::Copy(_)
            | Self::Skip(_)
            | Self::Suspend
            | Self::Continue
            | Self::Quit => false,
        }
    }

    /// Returns whether it leads to a list to choose from, in a moment.
    pub fn opens_list(&self) -> bool {
        // What is known of all that can be found is shown at once.
        matches!(self, Self::Task(Task::List(subject)) if *subject != Subject::All)
    }

    /// Returns whether it is a prompt to the model, which is printed where it begins.
    pub fn is_prompt(&self) -> bool {
        match self {
            Self::Task(Task::Prompt(_) | Task::Show(..) | Task::Aside(_)) => true,
            Self::Task(Task::Goal(words)) => matches!(Goal::of(words), Goal::Is(..)),
            _ => false,
        }
    }
}

/// A subcommand of the program that talks with the user itself.
#[derive(Debug, PartialEq)]
pub struct Lent {
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Environment with the keys that it knows.
    pub environment: Environment,
    /// The task that follows it.
    pub then: Task,
}

/// A word that a server completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// The value of a prompt's argument.
    Argument(Completion),
    /// A resource of this server.
    Resource(String),
}

/// A task of the session.
#[derive(Debug, PartialEq)]
pub enum Task {
    /// Runs a prompt.
    Prompt(String),
    /// Runs a prompt with pictures.
    Show(String, Vec<Image>),
    /// Works until a check passes, or says what it is: what was typed after `/goal`.
    Goal(String),
    /// Asks a side question, which does not become part of the conversation.
    Aside(String),
    /// A side question while something else runs.
    Beside(String),
    /// Runs the messages that other processes have queued.
    TakeMail,
    /// Loads a picture.
    Attach(attach::Source),
    /// Queues a message for the current run.
    Send(MailKind, String),
    /// Completes a word by what a server knows; the text is what stands before the cursor.
    Complete(String, Wish),
    /// Takes messages from the queue.
    Withdraw(Vec<Queued>, Then),
    /// Stops the current task.
    Interrupt,
    /// Leaves the current run to a process in the background; the flag says whether at once, and not after its step.
    Leave(bool),
    /// Leaves the session to a process in the background, which runs this prompt.
    HandOver(String),
    /// What is queued here goes along with the run that was left.
    Queued(Vec<String>),
    /// Lists choices.
    List(Subject),
    /// Prints a report on the session.
    Report(About),
    /// Changes the model.
    Model(String),
    /// Replaces the conversation with a summary; the text says what to keep.
    Compact(String),
    /// Opens another session, by its id or name.
    Resume(String),
    /// Continues from an earlier message.
    GoTo(String),
    /// Continues in a copy of the session.
    Fork,
    /// Opens a new session.
    New,
    /// Writes the session to a Markdown file.
    Export(String),
    /// Prints the changes that tools have made to files.
    Changes,
    /// Undoes or redoes file changes.
    Rewind(Direction),
    /// Prints the full output of tool calls.
    Output(Wanted),
    /// Reads the transcript for the viewer.
    View,
    /// Asks for another key or server with this subcommand, or forgets them.
    LogIn(&'static [&'static str]),
    /// Takes over what that has kept since.
    LoggedIn,
    /// Prints what a task beside the conversation has written, by its id, below a line that says which it is.
    Look(String, String),
    /// Stops a task beside the conversation, by its id.
    End(String),
    /// Runs a subcommand of the program with these arguments and prints its output.
    Own(Vec<String>),
    /// Changes the reasoning effort.
    Effort(String),
    /// Changes a rule: the list, or `remove`, and the rule.
    Rule(String, String),
    /// Adds a working directory.
    AddDirectory(String),
    /// Keeps the command of the user's status line.
    StatusLine(String),
    /// Names the session.
    Rename(String),
    /// Copies the last answer to the clipboard.
    Copy,
    /// Runs a command of the user's; the flag says whether the model gets its output.
    Shell(String, bool),
    /// Changes the permission mode.
    Mode(PermissionMode),
    /// Runs the user's notification command.
    Notify(NotificationKind, String),
    /// Opens the connection for a prompt that is being typed.
    Expect,
    /// Ends the session.
    Quit,
}

impl Task {
    /// Returns whether it is done at once, also during a run.
    pub fn is_immediate(&self) -> bool {
        matches!(
            self,
            Self::Send(..)
                | Self::Withdraw(..)
                | Self::Interrupt
                | Self::Leave(_)
                | Self::Mode(_)
                | Self::Model(_)
                | Self::Notify(..)
                | Self::Attach(_)
                | Self::Output(_)
                | Self::View
                | Self::List(Subject::Model | Subject::All | Subject::Output)
                | Self::Look(..)
                | Self::Beside(_)
                | Self::End(_)
                | Self::Complete(..)
        )
    }
}

/// Subject of a report on the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Tokens and cost.
    Cost,
    /// Use of the context window.
    Context,
    /// Permission mode and rules.
    Permissions,
    /// Tools of the model.
    Tools,
    /// MCP servers.
    Servers,
    /// Skills.
    Skills,
    /// Subagents.
    Agents,
    /// Version, session, model, folder and sandbox.
    Status,
    /// Instruction files.
    Memory,
    /// Hooks.
    Hooks,
}
