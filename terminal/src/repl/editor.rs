//! The line that is typed: reedline's editing, keys and undo, without its painting.
//!
//! Reedline paints a prompt of one line and prints above it as if there were no more; ours has lines that move, and asks
//! the terminal nothing. So the engine is driven by hand: an edit mode reads the keys, the engine changes the buffer, and
//! what is left of the events (history, panels, the end of the line) is [`update`](super::update)'s to do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossterm::event::Event;
use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, Keybindings, PromptEditMode, PromptViMode,
    Reedline, ReedlineEvent, ReedlineRawEvent, Vi, default_emacs_keybindings,
    default_vi_insert_keybindings, default_vi_normal_keybindings, default_vi_visual_keybindings,
};

use ah_config::settings::conversation::EditorMode;

/// The line that is typed.
pub struct Editor {
    engine: Reedline,
    mode: Shared,
}

impl Editor {
    /// An empty line.
    pub fn new(keys: EditorMode) -> Self {
        let mode: Box<dyn EditMode> = match keys {
            EditorMode::Emacs => Box::new(Emacs::new(own(default_emacs_keybindings()))),
            EditorMode::Vi => Box::new(Vi::new(
                own(default_vi_insert_keybindings()),
                own(default_vi_normal_keybindings()),
                own(default_vi_visual_keybindings()),
            )),
        };
        let mode = Shared(Arc::new(Mutex::new(mode)));
        let engine = Reedline::create().with_edit_mode(Box::new(mode.clone()));
        Self { engine, mode }
    }

    /// What is typed.
    pub fn text(&self) -> &str {
        self.engine.current_buffer_contents()
    }

    /// The byte of [`Editor::text`] before which the next character comes.
    pub fn cursor(&self) -> usize {
        self.engine.current_insertion_point()
    }

    /// Whether nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Whether keys are typed text; in vi's normal mode they are commands.
    pub fn takes_text(&self) -> bool {
        !matches!(
            self.mode.edit_mode(),
            PromptEditMode::Vi(PromptViMode::Normal | PromptViMode::Visual)
        )
    }

    /// vi's mode, in vi's words; `None` with other keys.
    pub fn vi_mode(&self) -> Option<&'static str> {
        match self.mode.edit_mode() {
            PromptEditMode::Vi(PromptViMode::Normal) => Some("NORMAL"),
            PromptEditMode::Vi(PromptViMode::Visual) => Some("VISUAL"),
            PromptEditMode::Vi(PromptViMode::Insert) => Some("INSERT"),
            _ => None,
        }
    }

    /// Whether Esc has a meaning of its own.
    pub fn needs_esc(&self) -> bool {
        matches!(
            self.mode.edit_mode(),
            PromptEditMode::Vi(PromptViMode::Insert | PromptViMode::Visual)
        )
    }

    /// What a key means.
    pub fn read(&mut self, event: Event) -> ReedlineEvent {
        match ReedlineRawEvent::try_from(event) {
            Ok(event) => self.mode.parse_event(event),
            Err(()) => ReedlineEvent::None,
        }
    }

    /// Edits.
    pub fn edit(&mut self, commands: &[EditCommand]) {
        self.engine.run_edit_commands(commands);
    }

    /// Types `text`.
    pub fn insert(&mut self, text: impl Into<String>) {
        self.edit(&[EditCommand::InsertString(text.into())]);
    }

    /// Puts `text` in the place of all that is typed; can be undone.
    pub fn set(&mut self, text: &str) {
        self.edit(&[
            EditCommand::Clear,
            EditCommand::InsertString(text.to_owned()),
        ]);
    }

    /// Puts `text` in the place of the bytes from `from` to the cursor.
    pub fn complete(&mut self, from: usize, text: &str) {
        let typed = self.text();
        let cursor = self.cursor();
        let count = typed
            .get(from..cursor)
            .map_or(0, |word| word.chars().count());
        let mut commands = vec![EditCommand::Backspace; count];
        commands.push(EditCommand::InsertString(text.to_owned()));
        self.edit(&commands);
    }

    /// Takes all that is typed.
    pub fn take(&mut self) -> String {
        let text = self.text().to_owned();
        self.edit(&[EditCommand::Clear]);
        text
    }

    /// Whether the cursor is in the first line.
    pub fn is_at_first_line(&self) -> bool {
        !self.text()[..self.cursor()].contains('\n')
    }

    /// Whether the cursor is in the last line.
    pub fn is_at_last_line(&self) -> bool {
        !self.text()[self.cursor()..].contains('\n')
    }
}

/// Our keys besides reedline's. What they do is said in [`keys`](super::keys).
fn own(mut keys: Keybindings) -> Keybindings {
    let newline = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, newline());
    keys.add_binding(
        KeyModifiers::CONTROL,
        KeyCode::Char('g'),
        ReedlineEvent::OpenEditor,
    );
    keys
}

/// The edit mode, which the engine and the reader of keys both look at.
#[derive(Clone)]
struct Shared(Arc<Mutex<Box<dyn EditMode>>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Box<dyn EditMode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EditMode for Shared {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        self.lock().parse_event(event)
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.lock().edit_mode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completing_replaces_the_word_before_the_cursor() {
        let mut editor = Editor::new(EditorMode::Emacs);
        editor.set("read @sr now");
        editor.edit(&[EditCommand::MoveToPosition {
            position: 8,
            select: false,
        }]);
        editor.complete(5, "@src/ünï.rs");
        assert_eq!(editor.text(), "read @src/ünï.rs now");
        assert_eq!(&editor.text()[..editor.cursor()], "read @src/ünï.rs");
    }
}
