//! Where the Agent SDKs keep the program that they start, and whether a file there is the one they came with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ah_config::{Error, found_file};
use ah_conversation::json;
use serde_json::{Value, json};

/// The program in the wheel, below the folder of packages.
pub const WHEEL: &str = "claude_agent_sdk/_bundled/claude";
/// Beginning of the names of the packages with the program of one platform.
const PLATFORMS: &str = "claude-agent-sdk-";
/// The npm scope of the SDK.
const SCOPE: &str = "@anthropic-ai";
/// In the manifest of a package that we have made.
const OURS: &str = "ahShim";

/// A program of an installed SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its path.
    pub program: PathBuf,
    /// Whether the package around it is ours.
    pub is_stub: bool,
    /// What tells its original.
    pub kind: Kind,
}

/// The package around a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// In a wheel; with the lists of files of the package's versions.
    Python {
        /// Their paths.
        records: Vec<PathBuf>,
    },
    /// In an npm package for a platform, of this version.
    Node {
        /// As its manifest says.
        version: String,
    },
}

/// Returns the program of the Python SDK in a virtual environment.
pub fn of_python(folder: &Path) -> Result<Vec<Place>, Error> {
    // `VENV/bin/python` names the environment, too.
    let environment = match folder.parent().filter(|_| folder.is_file()) {
        Some(bin) => bin.parent().unwrap_or(bin),
        None => folder,
    };
    let mut packages = vec![environment.to_owned()];
    for library in ["lib", "lib64"] {
        for version in entries(&environment.join(library)) {
            packages.extend(["site-packages", "dist-packages"].map(|name| version.join(name)));
        }
    }
    let mut places = Vec::new();
    for packages in packages {
        let program = packages.join(WHEEL);
        let Ok(real) = fs::canonicalize(program.parent().unwrap_or(&packages)) else {
            continue;
        };
        let records = entries(&packages).into_iter().filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("claude_agent_sdk-") && name.ends_with(".dist-info")
        });
        let place = Place {
            program: real.join("claude"),
            is_stub: false,
            kind: Kind::Python {
                records: records.map(|path| path.join("RECORD")).collect(),
            },
        };
        // `lib64` is often a link to `lib`.
        let is_known = places
            .iter()
            .any(|known: &Place| known.program == place.program);
        if !is_known
            && (place.program.symlink_metadata().is_ok()
                || place.program.with_extension("original").exists())
        {
            places.push(place);
        }
    }
    if places.is_empty() {
        return Err(Error::failure(format!(
            "there is no Python package claude-agent-sdk with a program of its own in `{}`",
            folder.display()
        ))
        .hint(
            "without one, the SDK starts the `claude` in PATH: link `ah` there under that name",
        ));
    }
    Ok(places)
}

/// Returns the program of the TypeScript SDK below a folder with `node_modules`.
pub fn of_node(folder: &Path) -> Result<Vec<Place>, Error> {
    let modules = if folder.ends_with("node_modules") {
        folder.to_owned()
    } else {
        folder.join("node_modules")
    };
    let mut scopes = vec![modules.join(SCOPE)];
    // pnpm keeps each package in a folder of its own.
    for package in entries(&modules.join(".pnpm")) {
        scopes.push(package.join("node_modules").join(SCOPE));
    }
    let mut places: Vec<Place> = Vec::new();
    for package in scopes.iter().flat_map(|scope| entries(scope)) {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        let Some(real) = fs::canonicalize(&package)
            .ok()
            .filter(|_| name.starts_with(PLATFORMS))
        else {
            continue;
        };
        let manifest = manifest(&real);
        let program = real.join("claude");
        if manifest["name"] == format!("{SCOPE}/{name}")
            && !places.iter().any(|place| place.program == program)
        {
            places.push(Place {
                program,
                is_stub: manifest[OURS] == true,
                kind: Kind::Node {
                    version: manifest["version"].as_str().unwrap_or_default().to_owned(),
                },
            });
        }
    }
    if places.is_empty() {
        places.extend(missing_platform(&modules));
    }
    if places.is_empty() {
        return Err(Error::failure(format!(
            "there is no package @anthropic-ai/claude-agent-sdk in `{}`",
            modules.display()
        ))
        .hint("run `npm install` first, or name the folder with `node_modules`"));
    }
    Ok(places)
}

/// Returns the package for this platform that belongs beside the SDK, if it was installed without.
fn missing_platform(modules: &Path) -> Option<Place> {
    let sdk = fs::canonicalize(modules.join(SCOPE).join("claude-agent-sdk")).ok()?;
    let version = manifest(&sdk)["version"].as_str()?.to_owned();
    let system = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    let processor = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    let package = sdk
        .parent()?
        .join(format!("{PLATFORMS}{system}-{processor}"));
    Some(Place {
        program: package.join("claude"),
        is_stub: true,
        kind: Kind::Node { version },
    })
}

impl Place {
    /// Makes the package around the program.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or the place is in no npm package.
    pub fn make_stub(&self) -> io::Result<()> {
        let (Kind::Node { version }, Some(package)) = (&self.kind, self.program.parent()) else {
            return Err(io::Error::other("there is no program to stand in for"));
        };
        if !self.is_stub {
            return Err(io::Error::other("the package has no program"));
        }
        fs::create_dir_all(package)?;
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        let manifest = json!({"name": format!("{SCOPE}/{name}"), "version": version, OURS: true});
        fs::write(package.join("package.json"), format!("{manifest:#}\n"))
    }

    /// Removes the package that was made.
    ///
    /// # Errors
    ///
    /// If it cannot be removed, or contains more than what was made.
    pub fn remove_stub(&self) -> io::Result<()> {
        let package = self.program.parent().unwrap_or(&self.program);
        fs::remove_file(&self.program)?;
        fs::remove_file(package.join("package.json"))?;
        fs::remove_dir(package)
    }
}

fn manifest(package: &Path) -> Value {
    let text = found_file::text(&package.join("package.json"));
    text.ok()
        .and_then(|text| json::from_str(&text).ok())
        .unwrap_or_default()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}
