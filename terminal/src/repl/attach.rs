//! Pictures in what is typed: a file that is pasted or dropped, or what the clipboard holds. One stands as a few words in
//! the line, and is shown to the model with what is said.

use std::path::PathBuf;
use std::time::Duration;

use ah_conversation::{Environment, Image};

use super::app::{App, Effect, Task};
use super::bang;
use ah::pictures;
use ah_config::Config;

/// So long a clipboard may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// The clipboard's picture, as each of the usual tools gives it; where there is none of them, nothing at all.
const CLIPBOARD: &str = "
if [ -n \"$WAYLAND_DISPLAY\" ] && command -v wl-paste >/dev/null; then exec wl-paste --no-newline --type image/png; fi
if [ -n \"$DISPLAY\" ] && command -v xclip >/dev/null; then exec xclip -selection clipboard -target image/png -out; fi
if command -v pngpaste >/dev/null; then exec pngpaste -; fi";

/// Where a picture comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, and the text that was pasted for it.
    File(PathBuf, String),
    /// The clipboard.
    Clipboard,
}

/// What became of a picture.
#[derive(Debug)]
pub enum Attached {
    /// It can be shown.
    Shown(Image),
    /// It cannot, for this reason; what was pasted is a text then.
    Not(String, Option<String>),
}

/// Takes a paste as a picture, if it names one; a paste of nothing is what terminals make of a picture.
pub fn begin(text: &str) -> Option<Vec<Effect>> {
    let source = match pictures::path_in(text) {
        Some(path) => Source::File(path, text.to_owned()),
        None if text.is_empty() => Source::Clipboard,
        None => return None,
    };
    Some(vec![Effect::Task(Task::Attach(source))])
}

/// Takes in what became of it.
pub fn update(app: &mut App, attached: Attached) {
    match attached {
        Attached::Shown(image) => {
            app.images.push(image);
            let blank = match app.editor.text()[..app.editor.cursor()].ends_with([' ', '\n']) {
                false if app.editor.cursor() > 0 => " ",
                _ => "",
            };
            let token = token(app.images.len());
            app.editor.insert(format!("{blank}{token} "));
        }
        Attached::Not(fault, text) => {
            app.hint = Some(fault);
            app.editor.insert(text.unwrap_or_default());
        }
    }
}

/// The words that stand for the picture of this number.
fn token(number: usize) -> String {
    format!("[Image #{number}]")
}

/// The pictures for which words stand in what was typed.
pub fn take(app: &mut App, typed: &str) -> Vec<Image> {
    let images = std::mem::take(&mut app.images);
    let images = images.into_iter().enumerate();
    let named = images.filter(|(at, _)| typed.contains(&token(at + 1)));
    named.map(|(_, image)| image).collect()
}

/// Whether words for a picture stand in what is typed.
pub fn has_any(app: &App, typed: &str) -> bool {
    (1..=app.images.len()).any(|number| typed.contains(&token(number)))
}

/// Gets the picture.
pub async fn load(source: Source, config: Config) -> Attached {
    match source {
        Source::File(path, text) => {
            let environment: Environment = config.environment;
            let read = tokio::task::spawn_blocking(move || pictures::read(&path, &environment));
            match read.await {
                Ok(Ok(image)) => Attached::Shown(image),
                Ok(Err(fault)) => Attached::Not(fault, Some(text)),
                Err(fault) => Attached::Not(fault.to_string(), Some(text)),
            }
        }
        Source::Clipboard => match bang::bytes(CLIPBOARD, &config, DEADLINE).await {
            Ok(bytes) if bytes.is_empty() => Attached::Not(
                "no picture from the clipboard: wl-paste, xclip or pngpaste is needed; @PATH names a file".to_owned(),
                None,
            ),
            Ok(bytes) => match ah_tools::picture(&bytes) {
                Ok(image) => Attached::Shown(image),
                Err(fault) => Attached::Not(format!("what the clipboard holds {fault}"), None),
            },
            Err(_) => Attached::Not("the clipboard holds no picture".to_owned(), None),
        },
    }
}
