//! Lists to choose from: opened above the typed text, and closed.

use super::super::app::App;
use super::super::picker::{Entry, Picker, Subject};

/// Opens a list to choose from. What is typed from now on filters it; the other texts wait.
pub fn pick(app: &mut App, mut picker: Picker) {
    // In the place of another list of its kind, which the typed text filters too.
    if app.picker.is_none() {
        app.suggestions.close();
        let typed = app.typed().text().to_owned();
        app.filter.renew();
        if picker.subject == Subject::History {
            app.filter.insert(typed);
        }
    }
    picker.narrow(app.filter.text());
    app.picker = Some(picker);
}

/// Adds entries to the list, if it is open and about this.
pub fn add(app: &mut App, subject: Subject, entries: Vec<Entry>, replaces: bool) {
    if let Some(picker) = &mut app.picker
        && picker.subject == subject
    {
        picker.add(entries, replaces, app.filter.text());
    }
}

/// Closes the list.
pub fn close_picker(app: &mut App) {
    app.picker = None;
}
