//! The typed text: editing, keys and undo of reedline, without its painting.
//!
//! Reedline paints a prompt of one line and nothing around it; this terminal has several live lines. So the engine is
//! driven by hand: an edit mode reads the keys, the engine changes the buffer, and the remaining events (history,
//! lists, submit) are left to [`update`](super::update).

use std::ops::Range;
use std::sync::Arc;

use crossterm::event::Event;
use parking_lot::Mutex;
use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, Keybindings, PromptEditMode, PromptViMode,
    Reedline, ReedlineEvent, ReedlineRawEvent, Vi, default_emacs_keybindings,
    default_vi_insert_keybindings, default_vi_normal_keybindings, default_vi_visual_keybindings,
};

use ah_config::settings::conversation::EditorMode;

/// The text being typed.
pub struct Editor {
    engine: Reedline,
    mode: Shared,
    keys: EditorMode,
}

impl Editor {
    /// Returns an empty editor.
    pub fn new(keys: EditorMode) -> Self {
        let mode = Shared(Arc::new(Mutex::new(edit_mode(keys))));
        let engine = Reedline::create().with_edit_mode(Box::new(mode.clone()));
        Self { engine, mode, keys }
    }

    /// Empties it for another text, in vi's first mode. The engine stays: where one is dropped, it takes the terminal out
    /// of raw mode.
    pub fn renew(&mut self) {
        self.take();
        *self.mode.0.lock() = edit_mode(self.keys);
    }

    /// Returns the typed text.
    pub fn text(&self) -> &str {
        self.engine.current_buffer_contents()
    }

    /// Returns the byte offset of the cursor in [`Editor::text`].
    pub fn cursor(&self) -> usize {
        self.engine.current_insertion_point()
    }

    /// Returns whether nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Returns whether keys insert text; in vi's normal mode they are commands.
    pub fn takes_text(&self) -> bool {
        !matches!(
            self.mode.edit_mode(),
            PromptEditMode::Vi(PromptViMode::Normal | PromptViMode::Visual)
        )
    }

    /// Returns vi's mode under vi's name; `None` with other key bindings.
    pub fn vi_mode(&self) -> Option<&'static str> {
        match self.mode.edit_mode() {
            PromptEditMode::Vi(PromptViMode::Normal) => Some("NORMAL"),
            PromptEditMode::Vi(PromptViMode::Visual) => Some("VISUAL"),
            PromptEditMode::Vi(PromptViMode::Insert) => Some("INSERT"),
            _ => None,
        }
    }

    /// Returns whether Esc changes the edit mode.
    pub fn needs_esc(&self) -> bool {
        matches!(
            self.mode.edit_mode(),
            PromptEditMode::Vi(PromptViMode::Insert | PromptViMode::Visual)
        )
    }

    /// Returns the event of a key.
    pub fn read(&mut self, event: Event) -> ReedlineEvent {
        match ReedlineRawEvent::try_from(event) {
            Ok(event) => self.mode.parse_event(event),
            Err(()) => ReedlineEvent::None,
        }
    }

    /// Applies edit commands.
    pub fn edit(&mut self, commands: &[EditCommand]) {
        self.engine.run_edit_commands(commands);
    }

    /// Inserts `text` at the cursor.
    pub fn insert(&mut self, text: impl Into<String>) {
        self.edit(&[EditCommand::InsertString(text.into())]);
    }

    /// Replaces the typed text; can be undone.
    pub fn set(&mut self, text: &str) {
        self.edit(&[
            EditCommand::Clear,
            EditCommand::InsertString(text.to_owned()),
        ]);
    }

    /// Replaces the text from byte `from` to the cursor.
    pub fn complete(&mut self, from: usize, text: &str) {
        self.replace(from..self.cursor(), text);
    }

    /// Replaces these bytes, and leaves the cursor behind what takes their place.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        let at = |position, select| EditCommand::MoveToPosition { position, select };
        let mut commands = vec![at(range.start, false)];
        if !range.is_empty() {
            commands.push(at(range.end, true));
        }
        // It takes the place of what is selected.
        commands.push(EditCommand::InsertString(text.to_owned()));
        self.edit(&commands);
    }

    /// Removes the typed text and returns it.
    pub fn take(&mut self) -> String {
        let text = self.text().to_owned();
        self.edit(&[EditCommand::Clear]);
        text
    }

    /// Returns whether the cursor is in the first line.
    pub fn is_at_first_line(&self) -> bool {
        !self.text()[..self.cursor()].contains('\n')
    }

    /// Returns whether the cursor is in the last line.
    pub fn is_at_last_line(&self) -> bool {
        !self.text()[self.cursor()..].contains('\n')
    }
}

fn edit_mode(keys: EditorMode) -> Box<dyn EditMode> {
    match keys {
        EditorMode::Emacs => Box::new(Emacs::new(own(default_emacs_keybindings()))),
        EditorMode::Vi => Box::new(Vi::new(
            own(default_vi_insert_keybindings()),
            own(default_vi_normal_keybindings()),
            own(default_vi_visual_keybindings()),
        )),
    }
}

/// Adds key bindings to reedline's own.
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

/// Edit mode, shared by the engine and the key reader.
#[derive(Clone)]
struct Shared(Arc<Mutex<Box<dyn EditMode>>>);

impl EditMode for Shared {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        self.0.lock().parse_event(event)
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.lock().edit_mode()
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

    /// A sign that people see may consist of several characters.
    #[test]
    fn completing_leaves_the_text_before_the_word_whatever_the_signs_are() {
        for keys in [EditorMode::Emacs, EditorMode::Vi] {
            for word in ["@हिन्दी", "@한글", "@🇩🇪no", "@e\u{301}tude", "@", ""]
            {
                let mut editor = Editor::new(keys);
                editor.set(&format!("see the foo {word}"));
                editor.complete(12, "@file ");
                assert_eq!(editor.text(), "see the foo @file ", "{word}");
                assert_eq!(editor.cursor(), editor.text().len());
                editor.edit(&[EditCommand::Undo]);
                assert_eq!(editor.text(), format!("see the foo {word}"));
                editor.edit(&[EditCommand::Redo]);
                editor.insert("x");
                assert_eq!(editor.text(), "see the foo @file x", "{word}");
            }
        }
    }
}
