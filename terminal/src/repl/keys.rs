//! Keys that mean something to the conversation, and not to the line.

use ah_conversation::PermissionMode;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Effect, Task};
use super::status;

/// What a key means to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Ctrl-C.
    Interrupt,
    /// Esc.
    Escape,
    /// Alt+Enter.
    FollowUp,
    /// Tab.
    Turn,
    /// Shift+Tab.
    Mode,
    /// Ctrl-V, where the terminal does not paste itself.
    Paste,
    /// Ctrl-O.
    Output,
}

/// What a key means to the conversation, if it means something.
pub fn own(event: &KeyEvent) -> Option<Own> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    match (event.modifiers, event.code) {
        (KeyModifiers::CONTROL, KeyCode::Char('c')) => Some(Own::Interrupt),
        (KeyModifiers::NONE, KeyCode::Esc) => Some(Own::Escape),
        (KeyModifiers::ALT, KeyCode::Enter) => Some(Own::FollowUp),
        (KeyModifiers::CONTROL, KeyCode::Char('v')) => Some(Own::Paste),
        (KeyModifiers::CONTROL, KeyCode::Char('o')) => Some(Own::Output),
        (KeyModifiers::NONE, KeyCode::Tab) => Some(Own::Turn),
        (_, KeyCode::BackTab) | (KeyModifiers::SHIFT, KeyCode::Tab) => Some(Own::Mode),
        _ => None,
    }
}

/// Two keys that mean something together, as in shells; `None` where this one means what it means alone.
pub fn chord(app: &mut App, event: &KeyEvent) -> Option<Vec<Effect>> {
    let had_prefix = std::mem::take(&mut app.has_prefix);
    match (event.modifiers, event.code) {
        (KeyModifiers::CONTROL, KeyCode::Char('e')) if had_prefix => Some(vec![Effect::OpenEditor]),
        (KeyModifiers::CONTROL, KeyCode::Char('x')) => {
            app.has_prefix = true;
            Some(Vec::new())
        }
        _ => None,
    }
}

/// The next mode in turn: asking, editing unasked, planning, and all unasked where that was agreed to.
pub fn next_mode(app: &mut App) -> Vec<Effect> {
    let Some(session) = &mut app.session else {
        return Vec::new();
    };
    session.mode = match session.mode {
        PermissionMode::Default => PermissionMode::AcceptEdits,
        PermissionMode::AcceptEdits => PermissionMode::Plan,
        PermissionMode::Plan if session.may_bypass => PermissionMode::BypassPermissions,
        PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::Delegate
        | PermissionMode::BypassPermissions => PermissionMode::Default,
    };
    let mode = Effect::Task(Task::Mode(session.mode));
    [Some(mode), status::news(app)]
        .into_iter()
        .flatten()
        .collect()
}
