//! Keys with a meaning outside of the editor.

use super::question::Choosing;
use ah_conversation::PermissionMode;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Meaning of a key outside of the editor.
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
    /// Ctrl-V, if the terminal does not paste itself.
    Paste,
    /// Ctrl-O.
    Output,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-_.
    Undo,
    /// Ctrl-P.
    Find,
    /// Ctrl-B.
    Background,
}

/// Returns whether a key is not to wait for what was asked for.
pub fn gives_up(event: &Event) -> bool {
    let Event::Key(key) = event else {
        return false;
    };
    key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd' | 'z'))
}

/// Returns the meaning of a key outside of the editor, if it has one.
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
        (KeyModifiers::CONTROL, KeyCode::Char('p')) => Some(Own::Find),
        (KeyModifiers::CONTROL, KeyCode::Char('z')) => Some(Own::Suspend),
        (KeyModifiers::CONTROL, KeyCode::Char('b')) => Some(Own::Background),
        // Terminals send the same byte for all of these.
        (KeyModifiers::CONTROL, KeyCode::Char('_' | '7' | '/')) => Some(Own::Undo),
        (KeyModifiers::NONE, KeyCode::Tab) => Some(Own::Turn),
        (_, KeyCode::BackTab) | (KeyModifiers::SHIFT, KeyCode::Tab) => Some(Own::Mode),
        _ => None,
    }
}

/// Returns what a key chooses while a question waits; with text typed already, a blank belongs to it.
pub fn choosing(event: &KeyEvent, has_text: bool) -> Option<Choosing> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    match (event.modifiers, event.code) {
        (KeyModifiers::CONTROL, KeyCode::Char('o')) => Some(Choosing::Page),
        (KeyModifiers::NONE, KeyCode::Up) | (KeyModifiers::CONTROL, KeyCode::Char('p')) => {
            Some(Choosing::Up)
        }
        (KeyModifiers::NONE, KeyCode::Down) | (KeyModifiers::CONTROL, KeyCode::Char('n')) => {
            Some(Choosing::Down)
        }
        (KeyModifiers::NONE, KeyCode::Char(' ')) if !has_text => Some(Choosing::Toggle),
        _ => None,
    }
}

/// Meaning of a key as part of a sequence of two, as in shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chord {
    /// Ctrl-X: another key follows.
    Prefix,
    /// Ctrl-X Ctrl-E.
    OpenEditor,
    /// The key stands alone.
    None,
}

/// Returns the meaning of a key after a prefix, or as one.
pub fn chord(had_prefix: bool, event: &KeyEvent) -> Chord {
    match (event.modifiers, event.code) {
        (KeyModifiers::CONTROL, KeyCode::Char('e')) if had_prefix => Chord::OpenEditor,
        (KeyModifiers::CONTROL, KeyCode::Char('x')) => Chord::Prefix,
        _ => Chord::None,
    }
}

/// Returns the next permission mode in turn: sandboxed where a sandbox confines the session, default, accept edits, plan, and
/// bypass where that was agreed to.
pub fn next_mode(mode: PermissionMode, is_sandboxed: bool, may_bypass: bool) -> PermissionMode {
    match mode {
        PermissionMode::Sandboxed => PermissionMode::Default,
        PermissionMode::Default => PermissionMode::AcceptEdits,
        PermissionMode::AcceptEdits => PermissionMode::Plan,
        PermissionMode::Plan if may_bypass => PermissionMode::BypassPermissions,
        PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::Delegate
        | PermissionMode::BypassPermissions
            if is_sandboxed =>
        {
            PermissionMode::Sandboxed
        }
        PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::Delegate
        | PermissionMode::BypassPermissions => PermissionMode::Default,
    }
}
