//! The `glob` tool: finds files by their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_conversation::{
    Access, Context, DisplayKey, HiddenFiles, Input, Interface, Output, Tool, ToolExtras, ToolSpec,
    ToolUse,
};
use ah_ignored::Taken;
use async_trait::async_trait;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::DirEntry;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments;
use crate::blocking::{self, Stop};
use crate::details;
use crate::file::FileError;
use crate::naming::describe;
use crate::pattern;
use crate::walk::{self, Walk};
use crate::workspace::Workspace;

/// Limit for the paths in a result.
const SHOWN: usize = 1000;

/// The `glob` tool.
pub struct Glob {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    interface: Interface,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

impl Glob {
    /// Returns the tool for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let name = interface.tool_name("glob");
        let description = describe(interface, include_str!("glob.md"));
        let spec = ToolSpec {
            key: Some(DisplayKey::Text("pattern".into())),
            ..arguments::spec(&name, &description, arguments::schema::<Arguments>())
        };
        Self {
            spec,
            workspace,
            interface,
        }
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let pattern = input.text("pattern").unwrap_or_default();
        let scope = Scope::of(pattern, input.text("path"));
        self.workspace.touched(&scope.folder, Access::Read)
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let (workspace, interface) = (self.workspace.clone(), self.interface);
        let hidden = context.hidden.clone();
        blocking::answer(call, move |arguments, stop| {
            let started = Instant::now();
            let found = glob(&workspace, &arguments, stop)?.without(&hidden);
            let left_out = match found.files.is_empty() {
                true => left_out(&workspace, &arguments, &hidden, stop),
                false => Vec::new(),
            };
            stop.check()?;
            let time = started.elapsed();
            Ok(report(&workspace, &found, &left_out, interface, time))
        })
        .await
    }
}

fn glob(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<Walk, String> {
    let Arguments { pattern, path } = arguments;
    let scope = Scope::of(pattern, path.as_deref());
    let matcher = scope
        .matcher()
        .map_err(|error| format!("bad pattern `{pattern}`: {}", error.kind()))?;
    let root = workspace.resolve(&scope.folder);
    workspace.check_readable(&root)?;
    let is_match = |path: &Path| {
        let below = path.strip_prefix(&root);
        below.is_ok_and(|below| matcher.is_match(below))
    };
    match workspace.check_regular(&root) {
        Err(FileError::Directory) => {}
        Ok(()) | Err(FileError::Special(_)) => {
            return Err(format!("`{}` is not a folder", scope.folder));
        }
        Err(error) => return Err(error.explain(workspace, &scope.folder, &root)),
    }
    if let Some(embedded) = workspace.embedded_at(&root) {
        let files = embedded.files(&root).map(|(path, _)| path);
        return Ok(Walk {
            files: files.filter(|path| is_match(path)).collect(),
            ..Walk::default()
        });
    }
    let taken = Taken {
        hidden: scope.names_hidden(),
        ..Taken::default()
    };
    let is_file = |entry: &DirEntry| entry.file_type().is_some_and(|kind| !kind.is_dir());
    let mut found = walk::walk(&root, taken, stop, |entry| {
        is_file(entry) && is_match(entry.path())
    });
    if let Some(named) = scope.named_folders() {
        let folders = walk::left_out(&root, stop);
        let is_named = |path: &Path| {
            let below = path.strip_prefix(&root);
            below.is_ok_and(|below| named.is_match(below))
        };
        for folder in folders
            .iter()
            .filter(|path| path.is_dir() && is_named(path))
        {
            let all = ah_ignored::walk_all(folder);
            let inside =
                walk::walk_by(&all, stop, |entry| is_file(entry) && is_match(entry.path()));
            found.files.extend(inside.files);
            found.errors.extend(inside.errors);
        }
        found.files.sort_unstable();
        found.files.dedup();
    }
    stop.check()?;
    Ok(found)
}

/// Returns what was not looked at, because it is hidden or ignored.
fn left_out(
    workspace: &Workspace,
    arguments: &Arguments,
    rules: &HiddenFiles,
    stop: &Stop,
) -> Vec<String> {
    let scope = Scope::of(&arguments.pattern, arguments.path.as_deref());
    let root = workspace.resolve(&scope.folder);
    if workspace.embedded_at(&root).is_some() {
        return Vec::new();
    }
    let matcher = scope.matcher().ok();
    let is_looked_at = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let below = path.strip_prefix(&root).ok().zip(matcher.as_ref());
        let is_match = below.is_some_and(|(below, matcher)| matcher.is_match(below));
        // A file that the pattern does not match is not missed.
        scope.names_hidden() && is_hidden || !path.is_dir() && !is_match
    };
    let left_out = walk::left_out(&root, stop);
    let is_told = |path: &&PathBuf| !is_looked_at(path) && !rules.hides(path);
    let left_out = left_out.iter().filter(is_told);
    left_out.map(|path| workspace.show(path)).collect()
}

/// Lists the paths that were found; under the interface of the SDKs absolute, since `Read` takes no others there.
fn report(
    workspace: &Workspace,
    found: &Walk,
    left_out: &[String],
    interface: Interface,
    time: Duration,
) -> Output {
    let shown = found.files.iter().take(SHOWN);
    let show = |path: &PathBuf| match interface {
        Interface::Native => workspace.show(path),
        Interface::AgentSdk => path.to_string_lossy().into_owned(),
    };
    let paths: Vec<_> = shown.map(show).collect();
    let count = found.files.len();
    let mut text = match count {
        0 => "no files match".to_owned() + &walk::left_out_remark(left_out, "path or pattern"),
        _ => paths.join("\n"),
    };
    if count > SHOWN {
        text.push_str(&format!(
            "\n[{} more of {count}: narrow the pattern]",
            count - SHOWN
        ));
    }
    text.push_str(&found.remark());
    let (listed, is_whole) = details::lines(&paths);
    Output::text(text).with_details(json!({
        "durationMs": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        "numFiles": listed.len(),
        "filenames": listed,
        "truncated": count > SHOWN || !is_whole,
        "totalMatches": count,
        "countIsComplete": found.errors.is_empty(),
    }))
}

/// Returns what matches one of the patterns.
fn set<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build()?);
    }
    set.build()
}

/// A pattern taken apart: the folder to walk, and the pattern for the paths below it.
struct Scope {
    folder: String,
    pattern: String,
}

impl Scope {
    /// Splits a pattern. Plain names at its front belong to the folder, which `/etc/*.conf` or `../*` may lead out of `path`.
    fn of(pattern: &str, path: Option<&str>) -> Self {
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        let parts: Vec<_> = pattern.split('/').collect();
        let names = parts[..parts.len() - 1].iter();
        let plain = names.take_while(|part| is_plain(part)).count();
        let (front, rest) = parts.split_at(plain);
        let pattern = match parts.len() {
            1 => format!("**/{pattern}"),
            _ => rest.join("/"),
        };
        // The slash behind each name makes the front of `/*` the root.
        let front: String = front.iter().map(|name| format!("{name}/")).collect();
        let is_anchored = front.starts_with(['/', '~']);
        let folder = match path {
            Some(path) if !path.is_empty() && !is_anchored => format!("{path}/{front}"),
            _ => front,
        };
        Self { folder, pattern }
    }

    /// Returns what matches the pattern, whose brackets may be a class of characters or a part of a name.
    fn matcher(&self) -> Result<GlobSet, globset::Error> {
        let literal = pattern::with_literal_brackets(&self.pattern);
        let both = std::iter::once(&*self.pattern).chain(literal.as_deref());
        // Brackets that are a part of a name need not be a class.
        set(both).or_else(|error| {
            literal
                .as_deref()
                .map_or(Err(error), |literal| set([literal]))
        })
    }

    /// Returns what matches the folders that the pattern names.
    fn named_folders(&self) -> Option<GlobSet> {
        let literal = pattern::with_literal_brackets(&self.pattern);
        let patterns = std::iter::once(&*self.pattern).chain(literal.as_deref());
        let named: Vec<_> = patterns.flat_map(pattern::named_folders).collect();
        let named = set(named.iter().copied()).ok();
        named.filter(|named| !named.is_empty())
    }

    fn names_hidden(&self) -> bool {
        let parts = Path::new(&self.pattern).components();
        parts
            .filter_map(|part| part.as_os_str().to_str())
            .any(|part| part.starts_with('.'))
    }
}
