//! Lists over the input line, and the one of all that can be found: commands, sessions, files.

use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::super::picker::{Entry, Picker, Subject};
use super::super::slash::COMMANDS;

/// Opens a list to choose from. The typed text is put aside.
pub fn pick(app: &mut App, mut picker: Picker) {
    let typed = app.editor.take();
    if picker.subject == Subject::History {
        app.editor.insert(typed.clone());
        picker.narrow(&typed);
    }
    app.suggestions.close();
    picker.typed_before = typed;
    app.picker = Some(picker);
}

/// Opens the list with the commands and the files that are known; sessions and other files are added when they are.
pub fn open(app: &mut App) -> Vec<Effect> {
    let named = app.suggestions.named.iter();
    let named = named.map(|(name, about)| (name.as_str(), about.as_str()));
    let own = COMMANDS.iter().map(|command| (command.name, command.about));
    let entries = own.chain(named).map(|(name, about)| Entry {
        label: format!("/{name:<14} {about}"),
        value: format!("/{name}"),
    });
    let picker = Picker::new(Subject::All, entries.collect());
    pick(app, picker);
    let mut effects = vec![Effect::Task(Task::List(Subject::All))];
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

/// Adds entries to the list, if it is open and about this.
pub fn add(app: &mut App, subject: Subject, entries: Vec<Entry>, replaces: bool) {
    if let Some(picker) = &mut app.picker
        && picker.subject == subject
    {
        picker.add(entries, replaces, app.editor.text());
    }
}

/// Adds files to the list, if it is open.
pub fn add_files(app: &mut App, files: &[String]) {
    let entries = files.iter().map(|path| Entry {
        label: format!("@{path}"),
        value: format!("@{path}"),
    });
    add(app, Subject::All, entries.collect(), false);
}
