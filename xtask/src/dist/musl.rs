//! Builds the binary for Linux without a C library of the system: linked with musl, with everything inside.
//!
//! Zig, from PyPI, compiles the C sources of SQLite, Lua and the cryptography for each platform; the linker is Rust's
//! own. So nothing is needed of the machine but Rust and Python. No path of the machine gets into the binary, and two
//! builds of one commit are equal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::archive::read;
use super::release::{Platform, Release};
use crate::layout;
use crate::suites::cache;
use crate::workspace::{COMMAND_LINE, PUBLISHED_FEATURES, cargo, output, root, run};

/// The pinned version of Zig.
const PINS: &str = "interop/zig/requirements.txt";
/// Calls Zig as the C compiler of the platform in its own name, `x86_64-cc`. Zig has other names for platforms than those
/// that its callers give, and without optimization it adds checks that need a library of its own.
const COMPILER: &str = r#"#!/bin/sh
here=$(dirname "$0")
name=$(basename "$0")
for argument do
  shift
  case $argument in
    --target=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
export ZIG_GLOBAL_CACHE_DIR="$here/../zig"
exec "$here/python" -m ziglang cc -target "${name%-cc}-linux-musl" -fno-sanitize=undefined "$@"
"#;
/// The linker does not go by its usual name, which would say what it is.
const LINKING: &str = "-C link-self-contained=yes -C linker-flavor=ld.lld";
const ARCHIVER: &str = "#!/bin/sh\nexec \"$(dirname \"$0\")/python\" -m ziglang ar \"$@\"\n";
const ARCHIVER_NAME: &str = "zig-ar";

/// Where and how to build.
pub struct Build<'a> {
    /// Cargo's profile.
    pub profile: &'a str,
    /// Folder for cargo's output.
    pub target: PathBuf,
}

impl Build<'_> {
    /// Builds the binary for a platform; returns its path.
    pub fn binary(&self, release: &Release, platform: Platform, zig: &Path) -> Result<PathBuf> {
        let triple = platform.target();
        let name = triple.replace('-', "_");
        let linking = format!("CARGO_TARGET_{}", name.to_uppercase());
        let architecture = platform.architecture;
        let mut build = cargo();
        build
            .args(["build", "--locked", "--package", COMMAND_LINE])
            .args(PUBLISHED_FEATURES)
            .args(["--bin", "ah", "--profile", self.profile])
            .args(["--target", &triple, "--target-dir"])
            .arg(&self.target)
            .env("SOURCE_DATE_EPOCH", release.time.to_string())
            .env(
                format!("CC_{name}"),
                zig.join(format!("bin/{architecture}-cc")),
            )
            .env(format!("AR_{name}"), zig.join("bin").join(ARCHIVER_NAME))
            .env(format!("CFLAGS_{name}"), self.flags("-ffile-prefix-map")?)
            .env(
                format!("{linking}_LINKER"),
                layout::linker("rust-lld", &self.target)?,
            )
            .env(
                format!("{linking}_RUSTFLAGS"),
                format!(
                    "{LINKING} {} {}",
                    layout::FLAGS,
                    self.flags("--remap-path-prefix")?
                ),
            )
            // It would replace the flags above.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        run(&mut build)?;
        let binary = self.target.join(&triple).join(folder(self.profile));
        Ok(binary.join("ah"))
    }

    /// Returns a compiler's options that replace paths of this machine; of several that match, the last one counts.
    fn flags(&self, option: &str) -> Result<String> {
        let home = match std::env::var_os("CARGO_HOME") {
            Some(home) => PathBuf::from(home),
            None => std::env::home_dir()
                .context("no home directory")?
                .join(".cargo"),
        };
        let places = [
            (home.as_path(), "/cargo"),
            (root(), "/ah"),
            (&self.target, "/target"),
        ];
        let flags = places.map(|(path, name)| {
            let path = path.display().to_string();
            // Both compilers take the options from variables that separate them by spaces.
            ensure!(
                !path.contains(' '),
                "cannot build in `{path}`, which has a space"
            );
            Ok(format!("{option}={path}={name}"))
        });
        let flags: Vec<String> = flags.into_iter().collect::<Result<_>>()?;
        Ok(flags.join(" "))
    }
}

/// Returns the folder that cargo has for a profile.
fn folder(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

/// Installs Zig if necessary, and Rust's libraries for the platforms; returns the folder of Zig.
pub fn tools(platforms: &[Platform]) -> Result<PathBuf> {
    let pins = root().join(PINS);
    let version = cache::python_version()?;
    let contents = [
        &read(&pins)?,
        version.as_bytes(),
        COMPILER.as_bytes(),
        ARCHIVER.as_bytes(),
    ];
    let zig = cache::installed("zig", &contents, |folder| {
        cache::install_python(folder, &pins)?;
        let script = |name: &str, text: &str| {
            let path = folder.join("bin").join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        };
        for platform in super::release::PLATFORMS {
            script(&format!("{}-cc", platform.architecture), COMPILER)?;
        }
        Ok(script(ARCHIVER_NAME, ARCHIVER)?)
    })?;
    for platform in platforms {
        libraries(*platform)?;
    }
    Ok(zig)
}

/// Lets rustup install Rust's libraries for a platform, unless they are there.
fn libraries(platform: Platform) -> Result<()> {
    let triple = platform.target();
    let mut rustc = std::process::Command::new("rustc");
    rustc
        .args(["--print", "target-libdir", "--target", &triple])
        .current_dir(root());
    if Path::new(output(&mut rustc)?.trim()).is_dir() {
        return Ok(());
    }
    let mut rustup = std::process::Command::new("rustup");
    run(rustup.args(["target", "add", &triple]).current_dir(root()))
}
