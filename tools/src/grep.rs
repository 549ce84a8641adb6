//! The `grep` tool: searches the content of files, with the libraries of ripgrep.

mod around;
mod capped;
mod search;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Access, Content, Context, DisplayKey, HiddenFiles, Input, Interface, Output, Tool, ToolExtras,
    ToolSpec, ToolUse,
};
use ah_ignored::Taken;
use async_trait::async_trait;
use bstr::ByteSlice;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::search::{FileSearch, SearchResult};
use crate::arguments::{self, Count};
use crate::blocking::{self, Stop};
use crate::details;
use crate::file::FileError;
use crate::naming::describe;
use crate::pattern;
use crate::walk::{self, Walk};
use crate::workspace::Workspace;

/// The `grep` tool.
pub struct Grep {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(rename = "type")]
    file_type: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    #[serde(rename = "-A")]
    after: Option<Count>,
    #[serde(rename = "-B")]
    before: Option<Count>,
    #[serde(rename = "-C", alias = "context")]
    around: Option<Count>,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    #[serde(rename = "-o")]
    matches_only: Option<bool>,
    multiline: Option<bool>,
    head_limit: Option<Count>,
    offset: Option<Count>,
}

// Without doc comments at the variants, which would be sent with the schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    // Each line that matches.
    Content,
    // The path of each file with a match.
    #[default]
    FilesWithMatches,
    // The number of matching lines in each file.
    Count,
}

impl Grep {
    /// Returns the tool for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let name = interface.tool_name("grep");
        let description = describe(interface, include_str!("grep.md"));
        let mut schema = arguments::schema::<Arguments>();
        if interface == Interface::Native {
            // `-C` and `glob` do for these, and each costs bytes in every request.
            for name in ["type", "-A", "-B", "-n", "-o", "offset"] {
                arguments::leave_out(&mut schema, "", name);
            }
        }
        let spec = ToolSpec {
            key: Some(DisplayKey::Text("pattern".into())),
            ..arguments::spec(&name, &description, schema)
        };
        Self { spec, workspace }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let path = input.text("path").unwrap_or_default();
        self.workspace.touched(path, Access::Read)
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let workspace = self.workspace.clone();
        let hidden = context.hidden.clone();
        blocking::answer(call, move |arguments, stop| {
            grep(&workspace, &arguments, &hidden, stop)
        })
        .await
    }
}

fn grep(
    workspace: &Workspace,
    arguments: &Arguments,
    rules: &HiddenFiles,
    stop: &Stop,
) -> Result<Output, String> {
    let typed = arguments.path.as_deref().unwrap_or_default();
    let root = workspace.resolve(typed);
    workspace.check_readable(&root)?;
    let is_single_file = match workspace.check_regular(&root) {
        Ok(_) => true,
        Err(FileError::Directory) => false,
        Err(error) => return Err(error.explain(workspace, typed, &root)),
    };
    let search = FileSearch::new(arguments, is_single_file)?;
    let Walk {
        files,
        errors,
        hidden,
    } = files(workspace, arguments, &root, stop)?.without(rules);
    let offset = arguments.offset.map_or(0, |Count(lines)| lines);
    let limit = arguments
        .head_limit
        .map(|Count(lines)| lines)
        .filter(|lines| *lines > 0);
    let wanted = limit.map(|limit| offset.saturating_add(limit));
    let mut result = search.search(workspace, &files, wanted, stop);
    stop.check()?;
    if result.text.is_empty() && !is_single_file && workspace.embedded_at(&root).is_none() {
        let overrides = overrides(workspace, &root, arguments.glob.as_deref())?;
        let is_named = |path: &Path| overrides.matched(path, path.is_dir()).is_whitelist();
        let left_out = walk::left_out(&root, stop);
        let is_told = |path: &&PathBuf| !is_named(path) && !rules.hides(path);
        let left_out = left_out.iter().filter(is_told);
        result.left_out = left_out.map(|path| workspace.show(path)).collect();
        stop.check()?;
    }
    result.errors.splice(0..0, errors);
    result.hidden = hidden;
    Ok(report(&result, arguments.output_mode, offset, limit))
}

/// Returns the files to be searched; a file that `path` names is searched whatever its name.
fn files(
    workspace: &Workspace,
    arguments: &Arguments,
    root: &Path,
    stop: &Stop,
) -> Result<Walk, String> {
    let overrides = overrides(workspace, root, arguments.glob.as_deref())?;
    let types = types(arguments.file_type.as_deref())?;
    if let Some(embedded) = workspace.embedded_at(root) {
        let is_named = |path: &Path| {
            let is_left_out = overrides.matched(path, false).is_ignore();
            path == root || !(is_left_out || types.matched(path, false).is_ignore())
        };
        let files = embedded.files(root).map(|(path, _)| path);
        return Ok(Walk {
            files: files.filter(|path| is_named(path)).collect(),
            ..Walk::default()
        });
    }
    let taken = Taken {
        globs: overrides,
        kinds: types,
        ..Taken::default()
    };
    Ok(walk::walk(root, taken, stop, |entry| {
        entry.file_type().is_some_and(|kind| kind.is_file())
    }))
}

/// Returns the files that are searched whatever else: those that match the glob, from the working directory or from the
/// folder that is searched. Folders that it names are searched also where they are hidden or ignored.
fn overrides(workspace: &Workspace, root: &Path, glob: Option<&str>) -> Result<Override, String> {
    let Some(glob) = glob.filter(|glob| !glob.is_empty()) else {
        return Ok(Override::empty());
    };
    let cwd = workspace.cwd();
    let base = if root.starts_with(cwd) { cwd } else { root };
    let mut globs = vec![glob.to_owned()];
    globs.extend(pattern::with_literal_brackets(glob));
    if let Ok(below) = root.strip_prefix(base)
        && below.components().next().is_some()
        && root.is_dir()
        && glob.trim_start_matches('!').contains('/')
    {
        let below = pattern::escaped(&below.to_string_lossy());
        let within = |glob: &String| match glob.strip_prefix('!') {
            Some(glob) => format!("!/{below}/{}", glob.trim_start_matches('/')),
            None => format!("/{below}/{}", glob.trim_start_matches('/')),
        };
        let within: Vec<_> = globs.iter().map(within).collect();
        globs.extend(within);
    }
    let mut builder = OverrideBuilder::new(base);
    let mut bad = None;
    for (at, glob) in globs.iter().enumerate() {
        match builder.add(glob) {
            // Brackets that are a part of a name need not be a class.
            Err(error) if at == 0 => bad = Some(error),
            Err(_) => {}
            Ok(_) if at == 1 => bad = None,
            Ok(_) => {}
        }
        for folder in pattern::named_folders(glob)
            .into_iter()
            .filter(|_| !glob.starts_with('!'))
        {
            let anchor = if folder.starts_with(['/', '*']) {
                ""
            } else {
                "/"
            };
            let _ = builder.add(&format!("{anchor}{folder}/"));
        }
    }
    let built = bad.map_or_else(|| builder.build(), Err);
    built.map_err(|error| format!("bad glob `{glob}`: {error}"))
}

fn types(name: Option<&str>) -> Result<Types, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(Types::empty());
    };
    let mut builder = TypesBuilder::new();
    let built = builder.add_defaults().select(name).build();
    built.map_err(|error| format!("{error}; `glob` takes any pattern"))
}

/// Returns the requested page of the output, with a remark on the rest.
fn report(found: &SearchResult, mode: OutputMode, offset: u64, limit: Option<u64>) -> Output {
    let lines = found.text.lines().count() as u64;
    let first = offset.min(lines);
    let last = limit.map_or(lines, |limit| (first + limit).min(lines));
    let page = found
        .text
        .lines_with_terminator()
        .skip(first as usize)
        .take((last - first) as usize);
    let mut text = page.collect::<Vec<_>>().concat();
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    let is_cut = last < lines || found.more;
    let mut details = page_details(mode, &text.to_str_lossy());
    if let Some(limit) = limit.filter(|_| is_cut) {
        details["appliedLimit"] = json!(limit);
    }
    if offset > 0 {
        details["appliedOffset"] = json!(offset);
    }
    let remark = match (lines, last - first) {
        (0, _) => format!("no matches{}", not_searched(found)),
        (_, 0) => format!("[no output after line {lines}]"),
        _ if is_cut && limit.is_some() => format!("\n[more: set offset to {last}]"),
        _ if found.more => "\n[more: narrow the search, or set head_limit and offset]".to_owned(),
        _ => String::new(),
    };
    text.extend_from_slice(remark.as_bytes());
    text.extend_from_slice(walk::remark(&found.errors, found.hidden).as_bytes());
    Output {
        content: Content::Bytes(text),
        is_error: false,
        details: Some(details),
    }
}

/// Returns what was not searched, where nothing was found.
fn not_searched(found: &SearchResult) -> String {
    let binary = match found.binary {
        0 => String::new(),
        1 => "\n[1 binary file was not searched: name it in path]".to_owned(),
        count => format!("\n[{count} binary files were not searched: name one in path]"),
    };
    walk::left_out_remark(&found.left_out, "path or glob") + &binary
}

/// Returns the details of a page of output, for programs.
fn page_details(mode: OutputMode, page: &str) -> Value {
    let lines: Vec<_> = page.lines().collect();
    let counts = || {
        let counts = lines.iter().filter_map(|line| line.rsplit(':').next());
        counts.filter_map(|count| count.parse::<u64>().ok())
    };
    match mode {
        OutputMode::FilesWithMatches => {
            let (names, _) = details::lines(&lines);
            json!({ "mode": "files_with_matches", "filenames": names, "numFiles": lines.len() })
        }
        OutputMode::Content => json!({
            "mode": "content",
            "filenames": [],
            "numFiles": 0,
            "content": details::start(page),
            "numLines": lines.len(),
        }),
        OutputMode::Count => json!({
            "mode": "count",
            "filenames": [],
            "numFiles": lines.len(),
            "content": details::start(page),
            "numMatches": counts().sum::<u64>(),
        }),
    }
}
