//! The built-in tools, each a [`Tool`] in a file of its own with its description for the model in a file beside it; and the
//! tools that are loaded from files.
//!
//! A tool knows neither the loop that calls it nor whether it is allowed to run: it says what a call would touch, runs
//! the call and returns the result. Its names and its description are in its own file and nowhere else.

use std::sync::Arc;

use ah_conversation::{Interface, Store, Tasks, Tool};

mod arguments;
mod ask;
mod ask_model;
mod bash;
mod blocking;
mod blocks;
mod details;
#[cfg_attr(not(feature = "docx"), path = "absent/docx.rs")]
mod docx;
mod edit;
mod executable;
mod file;
mod file_tool;
mod folder;
mod glob;
mod grep;
mod held;
#[cfg_attr(not(feature = "image"), path = "absent/image.rs")]
mod image;
mod jobs;
mod layered;
#[cfg_attr(not(feature = "lua"), path = "absent/lua.rs")]
mod lua;
mod missing;
mod naming;
mod notebook;
mod notebook_edit;
mod patch;
mod pattern;
#[cfg_attr(not(feature = "pdf"), path = "absent/pdf.rs")]
mod pdf;
mod plan;
mod read;
mod seen;
mod stored;
mod tasks;
mod todo;
mod walk;
#[cfg_attr(not(feature = "web"), path = "absent/web.rs")]
mod web;
mod web_options;
mod withheld;
mod workspace;
mod write;

pub use ask::Ask;
pub use ask_model::{Answer, NoAnswer, answer, ask_model};
pub use bash::{Bash, Shell};
pub use edit::Edit;
pub use executable::{Executable, HelpCache};
pub use folder::{LoadedTools, ToolLoader};
pub use glob::Glob;
pub use grep::Grep;
pub use image::{checked_picture, in_base64 as picture_in_base64, picture};
pub use layered::{Layered, LayeredTool, ToolOrigin};
pub use lua::{LuaFiles, LuaSurroundings, LuaTool, LuaTools, script};
pub use notebook_edit::NotebookEdit;
pub use plan::{EnterPlan, ExitPlan};
pub use read::Read;
pub use stored::Stored;
pub use tasks::{TaskOutput, TaskStop};
pub use todo::Todo;
#[cfg(feature = "web")]
pub use web::{SearchTool, WebFetch};
pub use web_options::{BRAVE, Search, Web};
pub use withheld::{found as denied_files, kept_from};
pub use workspace::Workspace;
pub use write::Write;

/// Name of the provider under which scripts of the model answer.
pub const SCRIPTS: &str = "lua";

/// A set of built-in tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// The default tool set.
    #[default]
    Default,
    /// Four tools: `read`, `write`, `edit` and `bash`.
    Minimal,
    /// The tools of the official Agent SDKs.
    Sdk,
    /// Three tools: `read`, `write` and `bash`.
    Plain,
    /// The four of `Minimal`, described briefly, for small models.
    Small,
}

/// Dependencies of the built-in tools.
pub struct ToolDeps {
    /// Workspace of the file tools.
    pub workspace: Arc<Workspace>,
    /// Shell that runs commands.
    pub shell: Shell,
    /// Store of whole outputs.
    pub store: Arc<dyn Store>,
    /// Whether a person can be asked; if not, the tools that ask are left out.
    pub has_person: bool,
    /// Access to the web.
    pub web: Web,
    /// Background tasks other than commands.
    pub tasks: Vec<Arc<dyn Tasks>>,
}

/// Returns the built-in tools of `profile`, in the order in which they are sent to the model.
pub fn builtin(profile: Profile, interface: Interface, deps: ToolDeps) -> Vec<Arc<dyn Tool>> {
    let ToolDeps {
        workspace,
        shell,
        store,
        has_person,
        web,
        tasks,
    } = deps;
    let mut bash = Bash::new(workspace.clone(), shell, interface);
    let mut read = Read::new(workspace.clone(), interface);
    let mut write = Write::new(workspace.clone(), interface);
    let mut edit = Edit::new(workspace.clone(), interface);
    if profile == Profile::Small {
        (bash, read, write, edit) = (bash.brief(), read.brief(), write.brief(), edit.brief());
    }
    let mut task_tools: Vec<Arc<dyn Tool>> = Vec::new();
    let notebook = NotebookEdit::new(workspace.clone(), &read);
    if interface == Interface::AgentSdk {
        write = write.after(&read);
        edit = edit.after(&read);
        let tasks: Vec<_> = tasks.into_iter().chain(bash.extras().tasks).collect();
        task_tools.push(Arc::new(TaskOutput::new(tasks.clone())));
        task_tools.push(Arc::new(TaskStop::new(tasks)));
    }
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(read), Arc::new(write)];
    if profile != Profile::Plain {
        tools.push(Arc::new(edit));
    }
    tools.push(Arc::new(bash));
    if matches!(profile, Profile::Minimal | Profile::Plain | Profile::Small) {
        return tools;
    }
    tools.extend(task_tools);
    tools.push(Arc::new(Grep::new(workspace.clone(), interface)));
    tools.push(Arc::new(Glob::new(workspace, interface)));
    if profile == Profile::Sdk {
        tools.push(Arc::new(notebook));
    }
    tools.push(Arc::new(Todo::new(interface)));
    tools.push(Arc::new(Stored::new(store)));
    tools.extend(web::tools(web, interface));
    if has_person {
        tools.push(Arc::new(Ask::new(interface)));
        tools.push(Arc::new(EnterPlan::new(interface)));
        tools.push(Arc::new(ExitPlan::new(interface)));
    }
    tools
}
