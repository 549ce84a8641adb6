//! The viewer of the transcript: opened, kept up with the run, given keys, and closed.

use ah_conversation::EventKind;
use crossterm::event::KeyEvent;

use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::super::viewer::{Looked, Section, Viewer};

/// Opens the viewer. It has the keys from now on, though the transcript has yet to be read.
pub fn open(app: &mut App) -> Vec<Effect> {
    app.viewer = Some(Viewer::new(app.size));
    vec![Effect::Task(Task::View)]
}

/// Shows the transcript as it is now, unless the viewer was closed meanwhile.
pub fn show(app: &mut App, sections: Vec<Section>) {
    if let Some(viewer) = &mut app.viewer {
        viewer.renew(sections);
    }
    follow(app);
}

/// Shows what running tools have written by now.
pub fn follow(app: &mut App) {
    if let (Some(viewer), Some(work)) = (&mut app.viewer, &app.work) {
        viewer.follow(&work.tools);
    }
}

/// Reads the transcript once more when something was added that the viewer shows.
pub fn renewal(app: &App, kind: &EventKind) -> Vec<Effect> {
    let has_more = matches!(
        kind,
        EventKind::ApiCallEnd { .. } | EventKind::ToolCallEnd { .. } | EventKind::AgentEnd { .. }
    );
    match has_more && app.viewer.is_some() {
        true => vec![Effect::Task(Task::View)],
        false => Vec::new(),
    }
}

/// Applies a key while the viewer is open.
pub fn press(app: &mut App, key: KeyEvent) -> Vec<Effect> {
    let Some(viewer) = &mut app.viewer else {
        return Vec::new();
    };
    match viewer.press(key) {
        Looked::On => Vec::new(),
        Looked::Copied(text) => vec![Effect::Copy(text)],
        Looked::Closed => {
            app.viewer = None;
            Vec::new()
        }
    }
}
