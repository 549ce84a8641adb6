//! What a command or a script says of files: its words, the folders that it enters, patterns, modules of Python.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use ah_beneath::Status;
use globset::GlobBuilder;

use crate::links::{Links, plain};
use crate::tree::Tree;

/// Folders with programs of a project for itself: sealed if the command or the configuration of a runner names them.
const TOOLS: [&str; 9] = [
    "scripts", "script", "tools", "tool", "bin", "ci", ".ci", "hack", "build",
];

/// Words before the name of a folder in which the rest of a command runs.
const ENTERING: [&str; 6] = ["cd", "pushd", "-C", "--prefix", "--directory", "--cwd"];

/// Folders whose scripts are the product.
const PRODUCT: [&str; 3] = ["src", "lib", "app"];

/// Returns the folders in which the words of a text can mean files: the project, that in which it counts, those that it enters.
pub(crate) fn bases(text: &str, beside: &Path, tree: &Tree) -> Vec<PathBuf> {
    let mut bases = vec![PathBuf::new()];
    bases.extend((beside != Path::new("")).then(|| beside.to_owned()));
    let first = bases.len();
    let is_folder = |path: &PathBuf| tree.0.get(path).is_none_or(Status::is_link);
    let folders = words(text).zip(words(text).skip(1));
    for (_, folder) in folders.filter(|(before, _)| ENTERING.contains(before)) {
        let entered: Vec<_> = { bases.iter().enumerate() }
            .filter_map(|(at, base)| Some((at, plain(&base.join(folder))?)))
            // What is not there yet can be anything: not each of these in each other.
            .filter(|(at, path)| *at < first || tree.has(path))
            .map(|(_, path)| path)
            .filter(|path| !bases.contains(path) && is_folder(path))
            .collect();
        bases.extend(entered);
    }
    bases
}

/// Returns the files in these folders that are the modules of Python that a command names, with the packages around them. Those
/// that are there are meant if it runs them: what it measures (`--cov=calc`) is the product.
pub(crate) fn modules_of(
    command: &str,
    bases: &[PathBuf],
    is_there: impl Fn(&Path) -> bool,
) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for command in command.split([';', '&', '|', '\n']) {
        let (mut before, mut is_of_unittest) = ("", false);
        for word in words(command) {
            let is_run = before == "-m" || is_of_unittest;
            // What it is to discover, it calls by the folder.
            is_of_unittest &= word != "discover";
            is_of_unittest |= before == "-m" && word == "unittest";
            before = word;
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            let is_file = bases.iter().any(|base| is_there(&base.join(word)));
            if is_file || !word.chars().all(is_part) || word.starts_with('.') {
                continue;
            }
            let files: Vec<_> = bases.iter().flat_map(|base| module(base, word)).collect();
            if is_run || !files.iter().any(|file| is_there(file)) {
                found.extend(files);
            }
        }
    }
    found
}

/// Returns the files that can be this module in a folder, or a package around it.
fn module(base: &Path, name: &str) -> Vec<PathBuf> {
    let (mut path, mut files) = (base.to_owned(), Vec::new());
    for part in name.split('.').filter(|part| !part.is_empty()) {
        path.push(part);
        files.extend([path.with_extension("py"), path.join("__init__.py")]);
    }
    files.push(path.join("__main__.py"));
    files
}

/// Returns the source of Python in whose place this file would be imported: what was compiled from it.
pub(crate) fn source_of(path: &Path) -> Option<PathBuf> {
    path.extension().filter(|it| *it == "so" || *it == "pyc")?;
    let module = path.file_name()?.to_str()?.split('.').next()?;
    Some(path.with_file_name(format!("{module}.py")))
}

/// Returns the scripts that the patterns of a command or a script stand for in these folders: `checks/*.sh`. Those at the top, and
/// in folders of the product, can be what is checked.
pub(crate) fn scripts_of(
    text: &str,
    bases: &[PathBuf],
    tree: &Tree,
    links: &Links,
) -> BTreeSet<PathBuf> {
    let is_between = |c: char| c.is_whitespace() || "\"'`;()&|<>=,$".contains(c);
    let patterns = text.split(is_between);
    let is_of_tests = |word: &&str| {
        let folder = Path::new(word.trim_start_matches("./")).parent();
        let first = folder.and_then(|folder| folder.components().next());
        let first = first.map(Component::as_os_str);
        first.is_some_and(|first| PRODUCT.iter().all(|known| first != *known))
    };
    let patterns = patterns.filter(|word| word.contains('*') && is_script(Path::new(word)));
    let patterns = patterns.filter(is_of_tests);
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let pattern = pattern.trim_start_matches("./");
        for pattern in bases.iter().map(|base| base.join(pattern)) {
            let glob = GlobBuilder::new(&pattern.to_string_lossy())
                .literal_separator(true)
                .build();
            let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else {
                continue;
            };
            let names = tree.0.keys().flat_map(|path| links.names(path));
            found.extend(names.filter(|name| glob.is_match(name)));
        }
    }
    found
}

/// Returns the files that a makefile includes, whatever their names.
pub(crate) fn included<'a>(text: &'a str, beside: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let lines = text.lines().filter_map(|line| {
        let (verb, files) = line.trim().split_once(char::is_whitespace)?;
        ["include", "-include", "sinclude"]
            .contains(&verb)
            .then_some(files)
    });
    let files = lines.flat_map(str::split_whitespace);
    let files = files.flat_map(|file| [Path::new(file).to_owned(), beside.join(file)]);
    files.filter_map(|file| plain(&file))
}

/// Whether a file stands where projects have programs for themselves.
pub(crate) fn is_tool(path: &Path) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components);
    let mut names = folders.map(Component::as_os_str);
    names.any(|name| TOOLS.iter().any(|known| name == *known))
}

pub(crate) fn is_script(path: &Path) -> bool {
    path.extension()
        .is_some_and(|it| it == "sh" || it == "bash")
}

/// Returns the words of a command or a script that could be paths.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "._-/@+".contains(c);
    let words = text.split(move |c| !is_part(c));
    words.filter(|word| !word.is_empty() && word.len() < 256)
}
