//! Where the other programs keep their sessions.

use std::fs;
use std::path::{Path, PathBuf};

use ah_config::Config;
use ah_conversation::{Environment, encoding, json};
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::session::Program;

/// Name of the database of opencode, which has its sessions since 2026.
const DATABASE: &str = "opencode.db";
/// Deepest folder that is searched.
const MAX_DEPTH: usize = 6;
/// Most bytes of a file in which its working directory is looked for.
const HEAD: usize = 256 * 1024;

/// Returns the database that a path leads into, and the id of the session there.
pub(super) fn in_database(path: &Path) -> Option<(&Path, &str)> {
    let database = path.parent()?;
    let is_database = database
        .extension()
        .is_some_and(|extension| extension == "db");
    let id = path.file_name()?.to_str()?;
    (is_database && database.is_file()).then_some((database, id))
}

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program that it is of.
    pub program: Program,
    /// Its file.
    pub path: PathBuf,
}

/// Returns the sessions of the working directory that other programs have kept, in the order of their names.
pub fn found(config: &Config) -> Vec<Found> {
    let cwd = config.environment.cwd();
    let cwd = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let mut found = Vec::new();
    for (program, folder) in folders(&config.environment, config.foreign_home.as_deref(), &cwd) {
        for path in session_files(&folder) {
            if folder_of(program, &path, &cwd).is_some_and(|folder| is_same(&folder, &cwd)) {
                found.push(Found { program, path });
            }
        }
    }
    found
}

/// Returns the folders with sessions of each program.
fn folders(
    environment: &Environment,
    foreign_home: Option<&Path>,
    cwd: &Path,
) -> Vec<(Program, PathBuf)> {
    let home = environment.home();
    let below = |variable: &str, name: &str| {
        let given = environment.get(variable).filter(|given| !given.is_empty());
        given
            .map(PathBuf::from)
            .or_else(|| Some(home.as_ref()?.join(name)))
    };
    let mut folders = Vec::new();
    if let Some(home) = foreign_home {
        let transcript = ah_transcript::transcript_path(home, cwd, "");
        folders.extend(
            transcript
                .parent()
                .map(|folder| (Program::Claude, folder.to_owned())),
        );
    }
    if let Some(codex) = below("CODEX_HOME", ".codex") {
        folders.push((Program::Codex, codex.join("sessions")));
        folders.push((Program::Codex, codex.join("archived_sessions")));
    }
    if let Some(pi) = below("PI_CODING_AGENT_DIR", ".pi/agent") {
        folders.push((Program::Pi, pi.join("sessions")));
    }
    if let Some(data) = below("XDG_DATA_HOME", ".local/share") {
        folders.push((Program::OpenCode, data.join("opencode/storage/session")));
        folders.push((Program::OpenCode, data.join("opencode").join(DATABASE)));
    }
    if let Some(home) = &home {
        // It names the folder of a project by the hash of its path, or by a name that is listed elsewhere.
        folders.push((Program::Gemini, home.join(".gemini/tmp")));
        folders.push((Program::Qwen, home.join(".qwen/projects")));
    }
    folders
}

/// Returns the files with sessions below a folder, or the file itself. Transcripts of subagents are parts of others.
pub fn session_files(place: &Path) -> Vec<PathBuf> {
    if place.extension().is_some_and(|extension| extension == "db") {
        let listed = ah_store::opencode::sessions(place).unwrap_or_default();
        return listed
            .into_iter()
            .map(|session| place.join(session.id))
            .collect();
    }
    if place.is_file() || in_database(place).is_some() {
        return vec![place.to_owned()];
    }
    let mut files = Vec::new();
    // In a storage folder of opencode, only these files are sessions.
    let storage = place.join("storage");
    let start = [place.join("session"), storage.join("session")];
    let start = start.into_iter().find(|folder| folder.is_dir());
    walk(start.as_deref().unwrap_or(place), MAX_DEPTH, &mut files);
    files
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type();
        let is_folder = kind.as_ref().is_ok_and(fs::FileType::is_dir);
        // What a link leads to is not of the sessions.
        let is_file = kind.is_ok_and(|kind| kind.is_file());
        if is_folder && depth > 1 && name != "subagents" {
            walk(&path, depth - 1, files);
        }
        let is_session =
            name.ends_with(".jsonl") && !name.starts_with("agent-") && name != "history.jsonl";
        let is_compressed = name.starts_with("rollout-") && name.ends_with(".jsonl.zst");
        let is_of_opencode = name.starts_with("ses_") && name.ends_with(".json");
        let is_of_gemini = name.starts_with("session-") && name.ends_with(".json");
        if is_file && (is_session || is_compressed || is_of_opencode || is_of_gemini) {
            files.push(path);
        }
    }
}

/// Returns the working directory of a session, from the beginning of its file.
fn folder_of(program: Program, path: &Path, cwd: &Path) -> Option<PathBuf> {
    if let Some((database, id)) = in_database(path) {
        let listed = ah_store::opencode::sessions(database).ok()?;
        let session = listed.into_iter().find(|session| session.id == id)?;
        return Some(session.directory.into());
    }
    if program == Program::Gemini {
        let content = fs::read_to_string(path).ok()?;
        // A log says it in its first line.
        let known = match path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            true => content.lines().next()?,
            false => &content,
        };
        let document: Value = json::from_str(known).ok()?;
        if document["kind"] == "subagent" {
            return None;
        }
        let hash = Sha256::digest(cwd.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        return (document["projectHash"] == hash).then(|| cwd.to_owned());
    }
    let content = head(path)?;
    if program == Program::OpenCode {
        let info: Value = json::from_str(&content).ok()?;
        return info["directory"].as_str().map(PathBuf::from);
    }
    let lines = content
        .lines()
        .filter_map(|line| json::from_str::<Value>(line).ok());
    let mut folders = lines.filter_map(|line| {
        let cwd = line["cwd"]
            .as_str()
            .or_else(|| line["payload"]["cwd"].as_str());
        cwd.map(PathBuf::from)
    });
    folders.next()
}

fn head(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut file = fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|extension| extension == "zst") {
        let plain = StreamingDecoder::new(file).ok()?;
        plain.take(HEAD as u64).read_to_end(&mut bytes).ok()?;
    } else {
        let length = metadata.len().min(HEAD as u64);
        (&mut file).take(length).read_to_end(&mut bytes).ok()?;
    }
    Some(encoding::text_of(&bytes))
}

fn is_same(folder: &Path, cwd: &Path) -> bool {
    folder == cwd || fs::canonicalize(folder).is_ok_and(|folder| folder == cwd)
}
