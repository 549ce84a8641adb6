//! Lists to choose from: opened over the typed text, and closed.

use super::super::app::App;
use super::super::picker::{Entry, Picker, Subject};

/// Opens a list to choose from. The typed text is put aside.
pub fn pick(app: &mut App, mut picker: Picker) {
    if let Some(former) = app.picker.take() {
        // Another list of the same kind, which the typed text filters too.
        picker.narrow(app.editor.text());
        picker.typed_before = former.typed_before;
        app.picker = Some(picker);
        return;
    }
    let typed = app.editor.take();
    if picker.subject == Subject::History {
        app.editor.insert(typed.clone());
        picker.narrow(&typed);
    }
    app.suggestions.close();
    picker.typed_before = typed;
    app.picker = Some(picker);
}

/// Adds entries to the list, if it is open and about this.
pub fn add(app: &mut App, subject: Subject, entries: Vec<Entry>, replaces: bool) {
    if let Some(picker) = &mut app.picker
        && picker.subject == subject
    {
        picker.add(entries, replaces, app.editor.text());
    }
}

/// Closes the list and restores the typed text.
pub fn close_picker(app: &mut App) {
    if let Some(picker) = app.picker.take() {
        app.editor.set(&picker.typed_before);
    }
}
