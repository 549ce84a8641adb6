//! What the word before the cursor may become: names of commands behind a slash, paths behind an `@`.

use std::path::Path;

use super::app::{App, Effect};
use super::{picker, slash};

/// So many suggestions are shown.
const SHOWN: usize = 8;
/// So many files of a project are known at most.
const FILES: usize = 50_000;

/// What a word may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    /// The byte at which the word begins.
    from: usize,
    /// What it may become, and what that is.
    pub items: Vec<(String, String)>,
    /// Which is marked.
    pub at: usize,
}

/// Looks what the word before the cursor may become.
pub fn look(app: &mut App) -> Vec<Effect> {
    app.menu = None;
    if app.is_answering || app.picker.is_some() || !app.editor.takes_text() {
        return Vec::new();
    }
    let before = &app.editor.text()[..app.editor.cursor()];
    let from = before.rfind(char::is_whitespace).map_or(0, |at| {
        at + before[at..].chars().next().map_or(1, char::len_utf8)
    });
    let word = &before[from..];
    let items = if let Some(name) = word.strip_prefix('/').filter(|_| from == 0) {
        named(app, name)
    } else if let Some(path) = word.strip_prefix('@') {
        match &app.files {
            Some(files) => paths(files, path),
            None => {
                app.files = Some(Vec::new());
                return vec![Effect::ListFiles];
            }
        }
    } else {
        Vec::new()
    };
    if !items.is_empty() {
        app.menu = Some(Menu { from, items, at: 0 });
    }
    Vec::new()
}

fn named(app: &App, name: &str) -> Vec<(String, String)> {
    let own = slash::COMMANDS.iter();
    let own = own.map(|command| (command.name.to_owned(), command.about.to_owned()));
    let all = own.chain(app.named.iter().cloned());
    let mut items: Vec<_> = all
        .filter(|(known, _)| known.starts_with(name))
        .map(|(known, about)| (format!("/{known}"), about))
        .collect();
    items.truncate(SHOWN);
    items
}

fn paths(files: &[String], typed: &str) -> Vec<(String, String)> {
    let best = match typed {
        "" => (0..files.len()).collect(),
        typed => picker::best(typed, files),
    };
    let best = best.into_iter().take(SHOWN);
    best.map(|at| (format!("@{}", files[at]), String::new()))
        .collect()
}

/// Takes the marked suggestion.
pub fn accept(app: &mut App) -> bool {
    let Some(menu) = app.menu.take() else {
        return false;
    };
    let (text, _) = &menu.items[menu.at];
    app.editor.complete(menu.from, &format!("{text} "));
    true
}

/// Marks another suggestion; `false` where there are none.
pub fn step(app: &mut App, down: bool) -> bool {
    let Some(menu) = &mut app.menu else {
        return false;
    };
    let count = menu.items.len();
    menu.at = match down {
        true => (menu.at + 1) % count,
        false => (menu.at + count - 1) % count,
    };
    true
}

/// The files and folders of the project, without those that git ignores; folders end with a slash.
pub fn files(folder: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(folder).require_git(false).build();
    let relative = |entry: ignore::DirEntry| {
        let path = entry.path().strip_prefix(folder).ok()?.to_str()?.to_owned();
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let end = if is_folder { "/" } else { "" };
        (!path.is_empty()).then(|| format!("{path}{end}"))
    };
    let mut files: Vec<_> = walk.flatten().filter_map(relative).take(FILES).collect();
    files.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    files
}
