//! What the model may do: the built-in tools, each a [`Tool`] in a file of its own, with what it says of itself in a
//! file beside it.
//!
//! A tool knows neither the loop that calls it nor whether it is allowed to run: it says what a call would touch, runs
//! it, and gives what came of it. Its names and its description stand in its own file and nowhere else.

use std::sync::Arc;

use ah_conversation::{Interface, Store, Tasks, Tool};

mod ask;
mod bash;
mod blocking;
mod blocks;
mod details;
mod edit;
mod executable;
mod file;
mod folder;
mod glob;
mod grep;
mod held;
mod image;
mod jobs;
mod layered;
mod lua;
mod missing;
mod naming;
mod notebook;
mod notebook_edit;
mod patch;
mod pdf;
mod plan;
mod read;
mod seen;
mod stored;
mod task_output;
mod task_stop;
mod todo;
mod walk;
mod web;
mod workspace;
mod write;

pub use ask::Ask;
pub use bash::{Bash, Shell};
pub use edit::Edit;
pub use executable::{Executable, HelpCache};
pub use folder::{Bench, Found};
pub use glob::Glob;
pub use grep::Grep;
pub use image::picture;
pub use layered::{Layered, LayeredTool, ToolOrigin};
pub use lua::{LuaFiles, LuaSurroundings, LuaTool, LuaTools};
pub use notebook_edit::NotebookEdit;
pub use plan::{EnterPlan, ExitPlan};
pub use read::Read;
pub use stored::Stored;
pub use task_output::TaskOutput;
pub use task_stop::TaskStop;
pub use todo::Todo;
pub use web::{BRAVE, Search, SearchTool, Web, WebFetch};
pub use workspace::Workspace;
pub use write::Write;

/// Which tools there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Those that work of our own is done with.
    #[default]
    Default,
    /// The four that suffice: files are read, written and edited, and the shell does the rest.
    Minimal,
    /// All that users of the official Agent SDKs expect.
    Sdk,
    /// The three that a plain loop has: files are read and written whole.
    Plain,
}

/// What the built-in tools need.
pub struct Surroundings {
    /// Where they work.
    pub workspace: Arc<Workspace>,
    /// What runs commands.
    pub shell: Shell,
    /// Where whole outputs are found again.
    pub store: Arc<dyn Store>,
    /// Whether there is somebody who can be asked; without, no tool offers to.
    pub has_person: bool,
    /// How the web is reached.
    pub web: Web,
    /// What goes on beside the conversation and is no command.
    pub tasks: Option<Arc<dyn Tasks>>,
}

/// The built-in tools of `profile`, in the order in which the model is told of them.
pub fn builtin(profile: Profile, interface: Interface, around: Surroundings) -> Vec<Arc<dyn Tool>> {
    let Surroundings {
        workspace,
        shell,
        store,
        has_person,
        web,
        tasks,
    } = around;
    let bash = Bash::new(workspace.clone(), shell, interface);
    let read = Read::new(workspace.clone(), interface);
    let mut write = Write::new(workspace.clone(), interface);
    let mut edit = Edit::new(workspace.clone(), interface);
    let mut of_jobs: Vec<Arc<dyn Tool>> = Vec::new();
    let notebook = NotebookEdit::new(workspace.clone(), &read);
    if interface == Interface::AgentSdk {
        write = write.after(&read);
        edit = edit.after(&read);
        let tasks: Vec<_> = tasks.into_iter().chain(bash.tasks()).collect();
        of_jobs.push(Arc::new(TaskOutput::new(tasks.clone())));
        of_jobs.push(Arc::new(TaskStop::new(tasks)));
    }
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(read), Arc::new(write)];
    if profile != Profile::Plain {
        tools.push(Arc::new(edit));
    }
    tools.push(Arc::new(bash));
    if matches!(profile, Profile::Minimal | Profile::Plain) {
        return tools;
    }
    tools.extend(of_jobs);
    tools.push(Arc::new(Grep::new(workspace.clone(), interface)));
    tools.push(Arc::new(Glob::new(workspace, interface)));
    if profile == Profile::Sdk {
        tools.push(Arc::new(notebook));
    }
    tools.push(Arc::new(Todo::new(interface)));
    tools.push(Arc::new(Stored::new(store)));
    let search = web.search.clone();
    let search = search.map(|search| SearchTool::new(search, web.clone(), interface));
    tools.push(Arc::new(WebFetch::new(web, interface)));
    tools.extend(search.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    if has_person {
        tools.push(Arc::new(Ask::new(interface)));
        tools.push(Arc::new(EnterPlan::new(interface)));
        tools.push(Arc::new(ExitPlan::new(interface)));
    }
    tools
}
