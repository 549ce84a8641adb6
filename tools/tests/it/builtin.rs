//! The tools of each profile, with their names.

use std::sync::Arc;

use ah_conversation::{Environment, Interface};
use ah_testkit::world::SessionStore;
use ah_tools::{Profile, Shell, ToolDeps, Web, builtin};

use crate::folder::Folder;

/// Whether questions can be asked: in these tests only by hosts of the Agent SDKs.
fn has_person(interface: Interface) -> bool {
    interface == Interface::AgentSdk
}

#[tokio::test]
async fn profiles_have_their_tools() {
    let folder = Folder::new();
    for (profile, interface, expected) in [
        (
            Profile::Default,
            Interface::Native,
            "read(path) write(path, content) edit(path, old_string, new_string) bash(command) \
             grep(pattern) glob(pattern) todo(todos) result(tool_use_id) \
             web_fetch(url, prompt)",
        ),
        (
            Profile::Sdk,
            Interface::AgentSdk,
            "Read(file_path) Write(file_path, content) Edit(file_path, old_string, new_string) \
             Bash(command) TaskOutput(task_id) TaskStop(task_id) Grep(pattern) Glob(pattern) \
             NotebookEdit(notebook_path, new_source) TodoWrite(todos) result(tool_use_id) \
             WebFetch(url, prompt) AskUserQuestion(questions) EnterPlanMode() ExitPlanMode()",
        ),
        (
            Profile::Minimal,
            Interface::AgentSdk,
            "Read(file_path) Write(file_path, content) Edit(file_path, old_string, new_string) Bash(command)",
        ),
        (
            Profile::Plain,
            Interface::Native,
            "read(path) write(path, content) bash(command)",
        ),
        (
            Profile::Minimal,
            Interface::Native,
            "read(path) write(path, content) edit(path, old_string, new_string) bash(command)",
        ),
    ] {
        let deps = ToolDeps {
            workspace: folder.workspace(),
            shell: Shell::new(&Environment::default()),
            store: Arc::new(SessionStore::in_memory(&folder.path("")).unwrap()),
            has_person: has_person(interface),
            web: Web::default(),
            tasks: Vec::new(),
        };
        let tools = builtin(profile, interface, deps);
        let signatures = tools.iter().map(|tool| {
            let spec = tool.spec();
            let required = spec.input_schema["required"].as_array().unwrap();
            let required: Vec<_> = required.iter().map(|name| name.as_str().unwrap()).collect();
            format!("{}({})", spec.name, required.join(", "))
        });
        assert_eq!(signatures.collect::<Vec<_>>().join(" "), expected);
    }
}
