//! Completions of the word at the cursor: names of commands after a slash, paths after an `@`.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::ServerPrompt;
use ah_ignored::{Ignored, Sources, Taken};

use super::editor::Editor;
use super::effect::{Effect, Task, Wish};
use super::{picker, slash};

/// Number of completions shown at once.
const SHOWN: usize = 8;
/// Largest number of completions.
const MOST: usize = 200;
/// Largest number of files listed.
const FILES: usize = 50_000;

/// Completions of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    /// Byte offset of the word.
    from: usize,
    /// Completions, each with its description.
    pub items: Vec<(String, String)>,
    /// Index of the marked one.
    pub at: usize,
}

impl Menu {
    /// Returns the completions around the marked one that fit into `rows`, and whether each is that.
    pub fn window(&self, rows: usize) -> impl Iterator<Item = (&(String, String), bool)> {
        let most = rows.clamp(1, SHOWN);
        let first = (self.at + 1).saturating_sub(most);
        let shown = self.items.iter().enumerate().skip(first).take(most);
        shown.map(|(at, item)| (item, at == self.at))
    }
}

/// The sources of completions, and the open menu.
#[derive(Debug, Default)]
pub struct Suggestions {
    /// The menu, while it is open.
    pub menu: Option<Menu>,
    /// Files of the project, once they were listed.
    pub files: Option<Vec<String>>,
    /// Commands and skills of the user and the project, each with its description.
    pub named: Vec<(String, String)>,
    /// Prompts of MCP servers, likewise.
    pub served: Vec<(String, String)>,
    /// The prompts themselves.
    pub prompts: Vec<ServerPrompt>,
    /// Names of the MCP servers.
    pub servers: Vec<String>,
    /// What commands take, by their names.
    pub hints: Vec<(String, String)>,
    /// The name of a file that was accepted last: nothing is offered for it while it stands as it is.
    accepted: String,
}

impl Suggestions {
    /// Opens the menu for the word at the cursor, if there are completions; the files are listed first if need be.
    pub fn look(&mut self, editor: &Editor) -> Vec<Effect> {
        self.menu = None;
        if !editor.takes_text() {
            return Vec::new();
        }
        let before = &editor.text()[..editor.cursor()];
        let from = before.rfind(char::is_whitespace).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        let word = &before[from..];
        if !word.is_empty() && word == self.accepted {
            return Vec::new();
        }
        let items = if let Some(name) = word.strip_prefix('/').filter(|_| from == 0) {
            self.commands(name)
        } else if let Some(wish) = self.wish(before, word) {
            return vec![Effect::Task(Task::Complete(before.to_owned(), wish))];
        } else if let Some(path) = word.strip_prefix('@') {
            match &self.files {
                Some(files) => paths(files, path.trim_start_matches('"')),
                None => {
                    self.files = Some(Vec::new());
                    return vec![Effect::ListFiles];
                }
            }
        } else {
            Vec::new()
        };
        if !items.is_empty() {
            self.menu = Some(Menu { from, items, at: 0 });
        }
        Vec::new()
    }

    /// Returns what a server completes: the argument of a prompt, or a resource.
    fn wish(&self, before: &str, word: &str) -> Option<Wish> {
        let named = word.strip_prefix('@').and_then(|word| word.split_once(':'));
        if let Some((server, _)) = named {
            let is_known = self.servers.iter().any(|known| known == server);
            return is_known.then(|| Wish::Resource(server.to_owned()));
        }
        let (name, typed) = before.strip_prefix('/')?.split_once(' ')?;
        let prompt = self
            .prompts
            .iter()
            .find(|prompt| prompt.command() == name)?;
        prompt.completion(typed).map(Wish::Argument)
    }

    /// Opens the menu with what a server proposes, if that is still what is being typed.
    pub fn propose(&mut self, editor: &Editor, before: &str, items: Vec<(String, String)>) {
        if !editor.takes_text() || &editor.text()[..editor.cursor()] != before {
            return;
        }
        let from = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let new = items
            .into_iter()
            .filter(|(text, _)| *text != before[from..]);
        let items: Vec<_> = new.take(MOST).collect();
        self.menu = (!items.is_empty()).then_some(Menu { from, items, at: 0 });
    }

    /// Returns the commands that begin so. One that is called so comes first: who has typed a name whole means that one.
    fn commands(&self, name: &str) -> Vec<(String, String)> {
        let own = slash::COMMANDS
            .iter()
            .map(|command| (command.name.to_owned(), command.about.to_owned()));
        let others = slash::ALIASES.iter().map(|(alias, of)| {
            let about = format!("the same as /{of}");
            ((*alias).to_owned(), about)
        });
        let others = others.filter(|(alias, _)| alias == name);
        let all = own.chain(others).chain(self.known().cloned());
        let mut items: Vec<_> = all.filter(|(known, _)| known.starts_with(name)).collect();
        items.sort_by_key(|(known, _)| known != name);
        let items = items.into_iter().take(MOST);
        items
            .map(|(known, about)| (format!("/{known}"), about))
            .collect()
    }

    /// Returns all that is not of the terminal's own.
    pub fn known(&self) -> impl Iterator<Item = &(String, String)> {
        self.named.iter().chain(&self.served)
    }

    /// Closes the menu and returns whether it was open.
    pub fn close(&mut self) -> bool {
        self.menu.take().is_some()
    }

    /// Inserts the marked completion; returns whether there was one.
    pub fn accept(&mut self, editor: &mut Editor) -> bool {
        let Some(menu) = self.menu.take() else {
            return false;
        };
        let (text, _) = &menu.items[menu.at];
        // Its lines may follow, or what is in the folder.
        let is_file = text.starts_with('@');
        let behind = editor.text()[editor.cursor()..].chars().next();
        let is_end = behind.is_none_or(char::is_whitespace);
        let blank = if is_file && is_end { "" } else { " " };
        editor.complete(menu.from, &format!("{text}{blank}"));
        if is_file {
            self.accepted.clone_from(text);
        }
        true
    }

    /// Returns what the command takes that is all that is typed.
    pub fn hint(&self, typed: &str) -> Option<&str> {
        let name = typed.strip_prefix('/')?.strip_suffix(' ')?;
        let mut hints = self.hints.iter();
        let (_, hint) = hints.find(|(command, _)| command == name)?;
        Some(hint)
    }

    /// Marks the next completion, or the one before; returns whether there are any.
    pub fn step(&mut self, down: bool) -> bool {
        let Some(menu) = &mut self.menu else {
            return false;
        };
        let count = menu.items.len();
        let step = if down { 1 } else { count - 1 };
        menu.at = (menu.at + step) % count;
        true
    }
}

fn paths(files: &[String], typed: &str) -> Vec<(String, String)> {
    let best = match typed {
        "" => (0..files.len()).collect(),
        typed => picker::best(typed, files),
    };
    best.into_iter()
        .take(MOST)
        .map(|at| (mention(&files[at]), String::new()))
        .collect()
}

/// Returns the words that name a file in a prompt.
pub fn mention(path: &str) -> String {
    match path.contains(char::is_whitespace) {
        true => format!("@\"{path}\""),
        false => format!("@{path}"),
    }
}

/// Returns the files and folders of the project that git does not ignore; folders end with a slash.
pub fn files(folder: &Path) -> Vec<String> {
    let ignored = Arc::new(Ignored::new(Sources {
        without_git: true,
        ..Sources::default()
    }));
    let walk = ignored.walk(folder, Taken::default()).build();
    let relative = |entry: ah_ignored::DirEntry| {
        let path = entry.path().strip_prefix(folder).ok()?.to_str()?.to_owned();
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let end = if is_folder { "/" } else { "" };
        (!path.is_empty()).then(|| format!("{path}{end}"))
    };
    let mut files: Vec<_> = walk.flatten().filter_map(relative).take(FILES).collect();
    files.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    files
}
