//! The `grep` tool: files by what is in them, on the libraries that `rg` is made of.

mod search;

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use bstr::ByteSlice;
use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use self::search::Search;
use crate::blocking::{self, Stop};
use crate::details;
use crate::file::Fault;
use crate::naming::describe;
use crate::walk::{self, Walk};
use crate::workspace::Workspace;

/// The tool.
pub struct Grep {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(rename = "type")]
    file_type: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    #[serde(default, rename = "-A", deserialize_with = "blocking::count")]
    after: Option<u64>,
    #[serde(default, rename = "-B", deserialize_with = "blocking::count")]
    before: Option<u64>,
    #[serde(
        default,
        rename = "-C",
        alias = "context",
        deserialize_with = "blocking::count"
    )]
    around: Option<u64>,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    #[serde(rename = "-o")]
    matches_only: Option<bool>,
    multiline: Option<bool>,
    #[serde(default, deserialize_with = "blocking::count")]
    head_limit: Option<u64>,
    #[serde(default, deserialize_with = "blocking::count")]
    offset: Option<u64>,
}

/// What is told of the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    /// Each line that matches.
    Content,
    /// The path of each file that has one.
    #[default]
    FilesWithMatches,
    /// How many there are in each file.
    Count,
}

impl Grep {
    /// The tool, for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let count = |what: &str| json!({ "type": "integer", "minimum": 0, "description": what });
        let switch = |what: &str| json!({ "type": "boolean", "description": what });
        let text = |what: &str| json!({ "type": "string", "description": what });
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": text("The regular expression to search for"),
                "path": text("File or folder to search (default: the working directory)"),
                "glob": text("Only files that match this, as \"*.js\" or \"!**/vendor/**\""),
                "type": text("Only files of this type, as \"rust\", \"py\" or \"js\""),
                "output_mode": {
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                    "description": "What to show of the matches (default files_with_matches)",
                },
                "-A": count("Lines to show after each match, in mode content"),
                "-B": count("Lines to show before each match, in mode content"),
                "-C": count("Lines to show around each match, in mode content"),
                "-n": switch("Number the lines, in mode content (default true)"),
                "-i": switch("Ignore case"),
                "-o": switch("Show only what matches, each match on a line of its own, in mode content"),
                "multiline": switch("Let a match span lines"),
                "head_limit": count("Show at most so many lines of output; absent or 0: all"),
                "offset": count("Pass over so many lines of output first"),
            },
            "required": ["pattern"],
        });
        let spec = ToolSpec {
            name: interface.pick("grep", "Grep").into(),
            description: describe(interface, include_str!("grep.md")),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Text("pattern".into())),
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

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let workspace = self.workspace.clone();
        blocking::answer(call, move |arguments, stop| {
            grep(&workspace, &arguments, stop)
        })
        .await
    }
}

fn grep(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<Output, String> {
    let typed = arguments.path.as_deref().unwrap_or_default();
    let root = workspace.resolve(typed);
    workspace.check_readable(&root)?;
    let is_single_file = match workspace.check_regular(&root) {
        Ok(_) => true,
        Err(Fault::Directory) => false,
        Err(fault) => return Err(fault.tell(workspace, typed, &root)),
    };
    let search = Search::new(arguments, is_single_file)?;
    let Walk { files, faults } = files(workspace, arguments, &root, stop)?;
    let offset = arguments.offset.unwrap_or(0);
    let limit = arguments.head_limit.filter(|limit| *limit > 0);
    let wanted = limit.map(|limit| offset.saturating_add(limit));
    let mut found = search.search(workspace, &files, wanted, stop);
    stop.check()?;
    found.faults.splice(0..0, faults);
    Ok(report(&found, arguments.output_mode, offset, limit))
}

/// The files that are to be searched; a file named outright is, whatever it is called.
fn files(
    workspace: &Workspace,
    arguments: &Arguments,
    root: &Path,
    stop: &Stop,
) -> Result<Walk, String> {
    let overrides = overrides(workspace, arguments.glob.as_deref())?;
    let types = types(arguments.file_type.as_deref())?;
    if let Some(embedded) = workspace.embedded_at(root) {
        let is_named = |path: &Path| {
            let is_left_out = overrides.matched(path, false).is_ignore();
            path == root || !(is_left_out || types.matched(path, false).is_ignore())
        };
        let files = embedded.files(root).map(|(path, _)| path);
        return Ok(Walk {
            files: files.filter(|path| is_named(path)).collect(),
            faults: Vec::new(),
        });
    }
    let mut builder = WalkBuilder::new(root);
    builder.overrides(overrides).types(types);
    Ok(walk::walk(&builder, stop, |entry| {
        entry.file_type().is_some_and(|kind| kind.is_file())
    }))
}

fn overrides(workspace: &Workspace, glob: Option<&str>) -> Result<Override, String> {
    let Some(glob) = glob.filter(|glob| !glob.is_empty()) else {
        return Ok(Override::empty());
    };
    let mut builder = OverrideBuilder::new(workspace.cwd());
    let built = builder.add(glob).and_then(|builder| builder.build());
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

/// The lines of the page, and a remark on what else there is.
fn report(found: &search::Found, mode: OutputMode, offset: u64, limit: Option<u64>) -> Output {
    let lines = found.text.lines().count() as u64;
    let first = offset.min(lines);
    let last = limit.map_or(lines, |limit| (first + limit).min(lines));
    let page = found.text.lines_with_terminator();
    let page = page.skip(first as usize).take((last - first) as usize);
    let mut text = page.collect::<Vec<_>>().concat();
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    let is_cut = last < lines || found.more;
    let mut details = told(mode, &text.to_str_lossy());
    if let Some(limit) = limit.filter(|_| is_cut) {
        details["appliedLimit"] = json!(limit);
    }
    if offset > 0 {
        details["appliedOffset"] = json!(offset);
    }
    let remark = match (lines, last - first) {
        (0, _) => "no matches".to_owned(),
        (_, 0) => format!("[no output behind line {lines}]"),
        _ if is_cut && limit.is_some() => format!("\n[more: set offset to {last}]"),
        _ if found.more => "\n[more: narrow the search, or set head_limit and offset]".to_owned(),
        _ => String::new(),
    };
    text.extend_from_slice(remark.as_bytes());
    text.extend_from_slice(walk::remark(&found.faults).as_bytes());
    Output {
        content: ah_conversation::Content::Bytes(text),
        is_error: false,
        details: Some(details),
    }
}

/// What is told to programs of a page of output.
fn told(mode: OutputMode, page: &str) -> Value {
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
