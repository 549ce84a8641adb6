//! Loads the tools in folders and those that are given on the command line.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Layer, Tool};

use crate::bash::Shell;
use crate::executable::{About, Executable, ExecutableSource, HelpCache, Program};
use crate::layered::ToolOrigin;
use crate::lua::LuaFiles;
use crate::workspace::Workspace;

/// Extensions of files in tool folders that are no programs.
const NO_PROGRAMS: [&str; 4] = ["md", "json", "lua", "tl"];

/// Loads tools from files.
#[derive(Clone)]
pub struct ToolLoader {
    /// Workspace of the tools.
    pub workspace: Arc<Workspace>,
    /// Shell that runs programs.
    pub shell: Shell,
    /// Cache of what programs print for `--help`.
    pub help: HelpCache,
    /// Loader of Lua files.
    pub lua: LuaFiles,
    /// Folders in which Lua files of skills look for modules, after their own. Other Lua files do not, since these folders
    /// may hold anybody's files.
    pub modules: Vec<PathBuf>,
    /// Tools that are loaded though they are not loaded by default.
    pub asked_for: Vec<String>,
}

/// Tools that were loaded.
#[derive(Default)]
pub struct LoadedTools {
    /// The tools with their origins, by ascending precedence.
    pub tools: Vec<(Arc<dyn Tool>, ToolOrigin)>,
    /// Files that could not be loaded, and why.
    pub warnings: Vec<String>,
}

/// A program whose description may still be missing.
struct Candidate {
    name: String,
    program: Program,
    origin: ToolOrigin,
    about: About,
}

impl ToolLoader {
    /// Loads the tools in `folders`, by ascending precedence, and then the `given` ones: pairs of name and command. In one
    /// folder a Lua file takes precedence over a program.
    pub async fn load(&self, folders: &[ToolOrigin], given: &[(String, String)]) -> LoadedTools {
        let mut found = LoadedTools::default();
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
        // The folder of a tool comes before its kind in the precedence.
        let position = |origin: &ToolOrigin| {
            let parent = origin.path.as_deref().and_then(Path::parent);
            folders
                .iter()
                .rposition(|folder| {
                    folder.layer == origin.layer && folder.path.as_deref() == parent
                })
                .unwrap_or(folders.len())
        };
        found.tools.sort_by_key(|(_, origin)| position(origin));
        found
    }

    fn finished(&self, candidate: Candidate) -> (Arc<dyn Tool>, ToolOrigin) {
        let source = ExecutableSource {
            name: &candidate.name,
            program: &candidate.program,
            shell: self.shell.clone(),
            workspace: self.workspace.clone(),
        };
        let tool = Executable::new(source, candidate.about);
        (Arc::new(tool), candidate.origin)
    }

    /// Adds the Lua files of a folder.
    fn add_scripts(&self, folder: &ToolOrigin, found: &mut LoadedTools) {
        let Some(path) = &folder.path else { return };
        let modules = if folder.layer == Layer::Skill {
            &self.modules[..]
        } else {
            &[]
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

    /// Adds a Lua file of the command line.
    #[cfg_attr(
        not(feature = "lua"),
        expect(
            unreachable_code,
            unused_variables,
            reason = "a Lua tool cannot exist then"
        )
    )]
    fn add_script(&self, name: &str, path: &str, found: &mut LoadedTools) {
        let path = self.workspace.resolve(path);
        match check_name(name).and_then(|()| self.lua.file(&path, &[])) {
            Ok(tool) => {
                let origin = ToolOrigin {
                    layer: Layer::CommandLine,
                    path: Some(path),
                };
                found.tools.push((Arc::new(tool.named(name)), origin));
            }
            Err(error) => found.warnings.push(format!("--tool {name}: {error}")),
        }
    }

    fn in_folder(
        &self,
        path: PathBuf,
        layer: Layer,
        warnings: &mut Vec<String>,
    ) -> Option<Candidate> {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        if let Err(error) = check_name(&name) {
            warnings.push(format!("{}: {error}", path.display()));
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

    /// Returns a program of the command line: a file, or the start of a shell command.
    fn given(&self, name: &str, command: &str, warnings: &mut Vec<String>) -> Option<Candidate> {
        if let Err(error) = check_name(name) {
            warnings.push(format!("--tool {name}: {error}"));
            return None;
        }
        let path = self.workspace.resolve(command);
        let is_file = path.is_file();
        Some(Candidate {
            name: name.to_owned(),
            about: About::beside(&path, warnings)?,
            program: if is_file {
                Program::File(path.clone())
            } else {
                Program::Line(command.to_owned())
            },
            origin: ToolOrigin {
                layer: Layer::CommandLine,
                path: is_file.then_some(path),
            },
        })
    }

    /// Runs programs without a description with `--help`. Those in the folders of other agents are left out: they were not
    /// made for this, and might do anything.
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

/// Returns the programs in `folder`, sorted by name.
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
    let mut programs: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_program(path))
        .collect();
    programs.sort();
    programs
}

fn is_program(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    !name.starts_with('.')
        && !NO_PROGRAMS.contains(&&*ending)
        && fs::metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Refuses a name that the models' servers do not accept for a tool.
fn check_name(name: &str) -> Result<(), String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if (1..=64).contains(&name.len()) && name.chars().all(is_known) {
        Ok(())
    } else {
        Err(format!(
            "`{name}` cannot be the name of a tool: up to 64 letters, digits, `-` and `_` can"
        ))
    }
}
