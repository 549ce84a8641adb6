//! Pictures in the typed text: a file that is pasted or dropped, or the content of the clipboard. A picture stands as a
//! short token in the text and is sent to the model with it.

use std::path::PathBuf;
use std::time::Duration;

use ah_conversation::{Environment, Image};

use super::bang;
use super::editor::Editor;
use ah_config::Config;
use ah_engine::prompt::pictures;

/// Timeout of reading the clipboard.
const DEADLINE: Duration = Duration::from_secs(5);
/// Prints the picture in the clipboard with the first of the usual tools that is installed; nothing if there is none.
const CLIPBOARD: &str = "
if [ -n \"$WAYLAND_DISPLAY\" ] && command -v wl-paste >/dev/null; then exec wl-paste --no-newline --type image/png; fi
if [ -n \"$DISPLAY\" ] && command -v xclip >/dev/null; then exec xclip -selection clipboard -target image/png -out; fi
if command -v pngpaste >/dev/null; then exec pngpaste -; fi";

/// Source of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, and the text that was pasted for it.
    File(PathBuf, String),
    /// The clipboard.
    Clipboard,
}

/// Outcome of loading a picture.
#[derive(Debug)]
pub enum Attached {
    /// It was loaded.
    Shown(Image),
    /// It could not be loaded: error, and the pasted text to insert in its place.
    Not(String, Option<String>),
}

/// Returns the source of the picture that a paste stands for, if it does; terminals paste a picture as an empty text.
pub fn source(text: &str) -> Option<Source> {
    match pictures::path_in(text) {
        Some(path) => Some(Source::File(path, text.to_owned())),
        None => text.is_empty().then_some(Source::Clipboard),
    }
}

/// Pictures of the typed text, in order.
#[derive(Debug, Default)]
pub struct Pictures(Vec<Image>);

impl Pictures {
    /// Inserts the token of a picture at the cursor.
    pub fn insert(&mut self, image: Image, editor: &mut Editor) {
        self.0.push(image);
        let before = &editor.text()[..editor.cursor()];
        let is_apart = before.is_empty() || before.ends_with([' ', '\n']);
        let blank = if is_apart { "" } else { " " };
        editor.insert(format!("{blank}{} ", token(self.0.len())));
    }

    /// Removes all pictures and returns those whose token is in `typed`.
    pub fn take(&mut self, typed: &str) -> Vec<Image> {
        self.0
            .drain(..)
            .enumerate()
            .filter(|(at, _)| typed.contains(&token(at + 1)))
            .map(|(_, image)| image)
            .collect()
    }

    /// Returns whether the token of a picture is in `typed`.
    pub fn has_any(&self, typed: &str) -> bool {
        self.tokens().any(|token| typed.contains(&token))
    }

    /// Returns the tokens of the pictures.
    pub fn tokens(&self) -> impl Iterator<Item = String> {
        (1..=self.0.len()).map(token)
    }

    /// Removes all pictures.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns the token of a picture, by its 1-based number.
fn token(number: usize) -> String {
    format!("[Image #{number}]")
}

/// Loads a picture.
pub async fn load(source: Source, config: Config) -> Attached {
    match source {
        Source::File(path, text) => {
            let environment: Environment = config.environment;
            let read = tokio::task::spawn_blocking(move || pictures::read(&path, &environment));
            match read.await {
                Ok(Ok(image)) => Attached::Shown(image),
                Ok(Err(error)) => Attached::Not(error, Some(text)),
                Err(error) => Attached::Not(error.to_string(), Some(text)),
            }
        }
        Source::Clipboard => match bang::bytes(CLIPBOARD, &config.environment, DEADLINE).await {
            Ok(bytes) if bytes.is_empty() => Attached::Not(
                "cannot read the clipboard: install wl-paste, xclip or pngpaste, or name a file with @PATH".to_owned(),
                None,
            ),
            Ok(bytes) => match ah_tools::picture(&bytes) {
                Ok(image) => Attached::Shown(image),
                Err(error) => Attached::Not(format!("the content of the clipboard {error}"), None),
            },
            Err(_) => Attached::Not("the clipboard holds no picture".to_owned(), None),
        },
    }
}
