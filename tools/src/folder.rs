//! The tools that lie in folders, and those that are given on a command line.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Layer, Tool};

use crate::bash::Shell;
use crate::executable::{About, Executable, HelpCache, Origin, Program};
use crate::layered::ToolOrigin;
use crate::lua::LuaFiles;
use crate::workspace::Workspace;

/// Endings of files that lie beside tools and are none.
const BESIDE: [&str; 4] = ["md", "json", "lua", "tl"];

/// What tools from files need.
#[derive(Clone)]
pub struct Bench {
    /// Where they work.
    pub workspace: Arc<Workspace>,
    /// What runs them.
    pub shell: Shell,
    /// Where it is kept what programs say of themselves.
    pub help: HelpCache,
    /// What makes tools of Lua files.
    pub lua: LuaFiles,
    /// Where the Lua files of a skill look for others, after their own folder. Those of nobody else do, for what lies
    /// there may be anybody's.
    pub modules: Vec<PathBuf>,
    /// Names of tools that are there only for who asks for them by name.
    pub asked_for: Vec<String>,
}

/// What folders have given.
#[derive(Default)]
pub struct Found {
    /// The tools, those that count more last.
    pub tools: Vec<(Arc<dyn Tool>, ToolOrigin)>,
    /// What could not be loaded.
    pub warnings: Vec<String>,
}

/// A program that was found, before it is known what it does.
struct Candidate {
    name: String,
    program: Program,
    origin: ToolOrigin,
    about: About,
}

impl Bench {
    /// The tools in `folders`, of which later ones count more, and then the `given` ones: name and command. Of a program
    /// and a Lua file in one folder, the latter counts more.
    pub async fn load(&self, folders: &[ToolOrigin], given: &[(String, String)]) -> Found {
        let mut found = Found::default();
        let mut candidates = Vec::new();
        for folder in folders {
            let Some(path) = &folder.path else { continue };
            for program in programs(path, &mut found.warnings) {
                candidates.extend(self.in_folder(program, folder.layer, &mut found.warnings));
            }
        }
        let (scripts, commands): (Vec<_>, Vec<_>) = given
            .iter()
            .partition(|(_, command)| command.ends_with(".lua"));
        for (name, command) in commands {
            candidates.extend(self.given(name, command, &mut found.warnings));
        }
        self.ask_for_help(&mut candidates).await;
        for candidate in candidates {
            found.tools.push(self.finished(candidate));
        }
        for folder in folders {
            self.add_scripts(folder, &mut found);
        }
        for (name, path) in scripts {
            self.add_script(name, path, &mut found);
        }
        // Places count before kinds: which folder a tool lies in, and only then what it is.
        let place = |origin: &ToolOrigin| {
            let parent = origin.path.as_deref().and_then(Path::parent);
            folders
                .iter()
                .rposition(|folder| {
                    folder.layer == origin.layer && folder.path.as_deref() == parent
                })
                .unwrap_or(folders.len())
        };
        found.tools.sort_by_key(|(_, origin)| place(origin));
        found
    }

    fn finished(&self, candidate: Candidate) -> (Arc<dyn Tool>, ToolOrigin) {
        let origin = Origin {
            name: &candidate.name,
            program: &candidate.program,
            shell: self.shell.clone(),
            workspace: self.workspace.clone(),
        };
        let tool = Executable::new(origin, candidate.about);
        (Arc::new(tool), candidate.origin)
    }

    /// The Lua files of a folder.
    fn add_scripts(&self, folder: &ToolOrigin, found: &mut Found) {
        let Some(path) = &folder.path else { return };
        let modules = match folder.layer == Layer::Skill {
            true => &self.modules[..],
            false => &[],
        };
        let loaded = self.lua.folder(path, modules);
        found.warnings.extend(loaded.warnings);
        for tool in loaded.tools {
            let name = &tool.spec().name;
            let is_asked_for = || {
                self.asked_for
                    .iter()
                    .any(|asked| asked.eq_ignore_ascii_case(name))
            };
            if tool.is_autoloaded() || is_asked_for() {
                let origin = ToolOrigin {
                    layer: folder.layer,
                    path: Some(tool.path().to_owned()),
                };
                found.tools.push((Arc::new(tool), origin));
            }
        }
    }

    /// A Lua file of the command line.
    fn add_script(&self, name: &str, path: &str, found: &mut Found) {
        let path = self.workspace.resolve(path);
        match check_name(name).and_then(|()| self.lua.file(&path, &[])) {
            Ok(tool) => {
                let origin = ToolOrigin {
                    layer: Layer::CommandLine,
                    path: Some(path),
                };
                found.tools.push((Arc::new(tool.named(name)), origin));
            }
            Err(fault) => found.warnings.push(format!("--tool {name}: {fault}")),
        }
    }

    fn in_folder(
        &self,
        path: PathBuf,
        layer: Layer,
        warnings: &mut Vec<String>,
    ) -> Option<Candidate> {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        if let Err(fault) = check_name(&name) {
            warnings.push(format!("{}: {fault}", path.display()));
            return None;
        }
        Some(Candidate {
            name,
            about: About::beside(&path, warnings)?,
            program: Program::File(path.clone()),
            origin: ToolOrigin {
                layer,
                path: Some(path),
            },
        })
    }

    /// A tool of the command line: a file, or the beginning of a command line.
    fn given(&self, name: &str, command: &str, warnings: &mut Vec<String>) -> Option<Candidate> {
        if let Err(fault) = check_name(name) {
            warnings.push(format!("--tool {name}: {fault}"));
            return None;
        }
        let path = self.workspace.resolve(command);
        let is_file = path.is_file();
        Some(Candidate {
            name: name.to_owned(),
            about: About::beside(&path, warnings)?,
            program: match is_file {
                true => Program::File(path.clone()),
                false => Program::Line(command.to_owned()),
            },
            origin: ToolOrigin {
                layer: Layer::CommandLine,
                path: is_file.then_some(path),
            },
        })
    }

    /// Asks programs what they do that say it nowhere. Those in another agent's folder were not put there for us, and who
    /// knows what they do when they are started.
    async fn ask_for_help(&self, candidates: &mut [Candidate]) {
        let is_ours = |layer| !matches!(layer, Layer::ForeignUser | Layer::ForeignProject);
        let (silent, paths): (Vec<_>, Vec<_>) = candidates
            .iter_mut()
            .filter(|candidate| {
                candidate.about.description.is_none() && is_ours(candidate.origin.layer)
            })
            .filter_map(|candidate| match &candidate.program {
                Program::File(path) => Some((&mut candidate.about, path.clone())),
                Program::Line(_) => None,
            })
            .unzip();
        let cwd = self.workspace.cwd();
        let help = self.help.of(&paths, &self.shell, cwd).await;
        for (about, help) in silent.into_iter().zip(help) {
            about.description = help;
        }
    }
}

/// The programs in `folder`, by name.
fn programs(folder: &Path, warnings: &mut Vec<String>) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Vec::new();
        }
        Err(error) => {
            warnings.push(format!("cannot read `{}`: {error}", folder.display()));
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut programs: Vec<_> = paths.filter(|path| is_program(path)).collect();
    programs.sort();
    programs
}

fn is_program(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    !name.starts_with('.')
        && !BESIDE.contains(&&*ending)
        && fs::metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// What the models' servers take for the name of a tool.
fn check_name(name: &str) -> Result<(), String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match (1..=64).contains(&name.len()) && name.chars().all(is_known) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` cannot be the name of a tool: up to 64 letters, digits, `-` and `_` can"
        )),
    }
}
