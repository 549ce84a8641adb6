//! The list of all that can be found: commands, sessions, files.

use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::super::menu::mention;
use super::super::picker::{Entry, Picker, Subject};
use super::super::slash::COMMANDS;
use super::lists::{add, pick};

/// Opens the list with the commands and the files that are known; sessions and other files are added when they are.
pub fn open(app: &mut App) -> Vec<Effect> {
    let named = app.suggestions.known();
    let named = named.map(|(name, about)| (name.as_str(), about.as_str()));
    let own = COMMANDS.iter().map(|command| (command.name, command.about));
    let entries = own.chain(named).map(|(name, about)| Entry {
        label: format!("/{name:<14} {about}"),
        value: format!("/{name}"),
    });
    let picker = Picker::new(Subject::All, entries.collect());
    pick(app, picker);
    let mut effects = Vec::new();
    if !app.is_remote {
        effects.push(Effect::Task(Task::List(Subject::All)));
    }
    match app.suggestions.files.take() {
        Some(files) => {
            add_files(app, &files);
            app.suggestions.files = Some(files);
        }
        None => {
            app.suggestions.files = Some(Vec::new());
            effects.push(Effect::ListFiles);
        }
    }
    effects
}

/// Adds files to the list, if it is open.
pub fn add_files(app: &mut App, files: &[String]) {
    let entries = files.iter().map(|path| Entry {
        label: format!("@{path}"),
        value: mention(path),
    });
    add(app, Subject::All, entries.collect(), false);
}
