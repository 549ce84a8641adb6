//! Finds the project's files that are code, or decide where data is sent, except its settings, to name them when they
//! are ignored. New kinds of loaded files must be added here.

use std::fs;
use std::path::{Path, PathBuf};

use ah_agent::agents::Agent;
use ah_agent::commands::SlashCommand;
use ah_conversation::Layer;

use crate::found_file;
use crate::untrusted;

/// Folders with tools, skills and commands, in any folder of a project.
const LAYERS: [&str; 3] = [".ah", ".claude", ".agents"];
/// Subfolders of those in which each file is code.
const CODE: [&str; 2] = ["tools", "bin"];
/// Files that name servers, prices or programs, in any folder of a project.
const FILES: [&str; 2] = [".mcp.json", ".ah/models.json"];
/// Start of a line in a command file that runs when the file is used as a prompt.
const COMMAND: &str = "!`";
/// Maximum number of files to look at.
const LOOKED_AT: usize = 1000;

/// Calls `found` with each code file or folder of the project.
pub fn find(project: &[PathBuf], mut found: impl FnMut(PathBuf)) {
    for folder in project {
        let files = FILES.iter().map(|name| folder.join(name));
        files.filter(|path| path.exists()).for_each(&mut found);
        for layer in LAYERS.map(|name| folder.join(name)) {
            code_folders(&layer).into_iter().for_each(&mut found);
            for skill in entries(&layer.join("skills")) {
                code_folders(&skill).into_iter().for_each(&mut found);
            }
            let agents = texts(&layer.join("agents"))
                .into_iter()
                .filter(|path| widens(path));
            agents.for_each(&mut found);
            for kind in ["commands", "skills"] {
                let texts = texts(&layer.join(kind))
                    .into_iter()
                    .filter(|path| is_code(path));
                texts.for_each(&mut found);
            }
        }
    }
}

fn code_folders(layer: &Path) -> Vec<PathBuf> {
    let folders = CODE.iter().map(|name| layer.join(name));
    folders
        .filter(|folder| !entries(folder).is_empty())
        .collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the Markdown files in a folder and its subfolders.
fn texts(folder: &Path) -> Vec<PathBuf> {
    let mut texts = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut left = LOOKED_AT;
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            let Some(still) = left.checked_sub(1) else {
                return texts;
            };
            left = still;
            // A link may lead back up.
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") && path.is_file() {
                texts.push(path);
            }
        }
    }
    texts
}

/// Returns whether a text runs commands, or names a file as its model.
fn is_code(path: &Path) -> bool {
    let Ok(text) = found_file::instructions(path) else {
        return false;
    };
    let name = Path::new(path.file_name().unwrap_or_default());
    let command = || SlashCommand::parse(&text, name, path, Layer::Project).ok();
    let model = || command()?.model;
    text.contains(COMMAND) || model().is_some_and(|model| untrusted::is_file(&model))
}

/// Returns whether a subagent's definition allows calls, has a memory, or names a file as its model.
fn widens(path: &Path) -> bool {
    let agent = || Agent::parse(&found_file::instructions(path).ok()?, path, Layer::Project).ok();
    agent().is_some_and(|agent| {
        let model = agent.model.as_deref();
        let allows = agent.permission_mode.is_some() || agent.memory.is_some();
        allows || model.is_some_and(untrusted::is_file)
    })
}
