//! The policy for commands: from the command line and the user's settings, never from the project.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ah_conversation::Environment;
use ah_sandbox::{Access, Allowlist, Authority, Confinement, Grant, Proxy, Sandbox, Tier};

use crate::args::options::{Options, SandboxTier};
use crate::config::Config;
use crate::error::{CliError, NO_SANDBOX};

/// This program, also where its file was replaced meanwhile.
pub const LAUNCHER: &str = "/proc/self/exe";
/// The variable that names further hosts, separated by commas.
const ALLOW_HOSTS: &str = "AH_ALLOW_HOSTS";

/// What is granted beyond what every command has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// How much must hold.
    pub tier: Tier,
    /// The workspace, where it is not the project.
    pub workspace: Option<PathBuf>,
    /// Paths, relative ones to the working directory.
    pub paths: Vec<Grant>,
    /// Names of variables.
    pub variables: Vec<String>,
    /// Hosts.
    pub hosts: Allowlist,
}

impl Granted {
    /// What the options of a run grant; nothing where they do not ask for a sandbox.
    pub fn of(options: &Options) -> Option<Self> {
        let wanted = &options.sandbox;
        let further = options.safety.add_dir.iter().map(|folder| Grant {
            path: folder.clone(),
            access: Access::ALL,
        });
        Some(Self {
            tier: wanted.sandbox?.into(),
            workspace: None,
            paths: further.chain(wanted.unveil.iter().cloned()).collect(),
            variables: wanted.env.clone(),
            hosts: wanted.hosts.allowlist(),
        })
    }
}

impl From<SandboxTier> for Tier {
    fn from(tier: SandboxTier) -> Self {
        match tier {
            SandboxTier::Full => Self::Full,
            SandboxTier::Landlock => Self::Landlock,
        }
    }
}

/// A sandbox by this policy, in which this program starts commands.
///
/// # Errors
///
/// Where the workspace is no folder, or `AH_ALLOW_HOSTS` names no hosts.
pub fn sandbox(config: &Config, granted: &Granted) -> Result<Sandbox, CliError> {
    let environment = &config.environment;
    let cwd = environment.cwd();
    let workspace = match &granted.workspace {
        Some(folder) => fs::canonicalize(cwd.join(folder)).map_err(|error| {
            CliError::failure(format!("cannot work in `{}`: {error}", folder.display()))
        })?,
        None => project(config),
    };
    let mut confinement = Confinement::new(workspace, environment.home());
    confinement.tier = granted.tier;
    confinement.grant_tool_chains(|name| environment.get(name));
    let paths = granted.paths.iter().map(|grant| Grant {
        path: cwd.join(&grant.path),
        ..grant.clone()
    });
    let own = config
        .layer_folders()
        .into_iter()
        .flat_map(|folder| ["bin", "tools", "skills"].map(|name| folder.path.join(name)));
    let own = own.filter(|path| path.is_dir()).map(|path| Grant {
        path,
        access: Access::RUN,
    });
    confinement.grants.extend(own.chain(paths));
    confinement.protected.extend(config.protected_folders());
    let mut hosts = granted.hosts.clone();
    for host in environment
        .get(ALLOW_HOSTS)
        .into_iter()
        .flat_map(|list| list.split(','))
    {
        let host = host.trim().parse::<Authority>();
        hosts
            .tunnels
            .push(host.map_err(|error| CliError::usage(format!("{ALLOW_HOSTS}: {error}")))?);
    }
    Ok(Sandbox::new(
        confinement,
        Proxy::new(hosts),
        LAUNCHER.into(),
    ))
}

/// Where the commands of a run are confined.
pub struct Confined {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// All variables that they see.
    pub variables: Vec<(String, String)>,
}

/// The sandbox that the options of a run ask for, tried out.
///
/// # Errors
///
/// Where it cannot be built here.
pub fn of_run(config: &Config, granted: &Granted) -> Result<Confined, CliError> {
    let no_sandbox = |reason: String| {
        CliError::failure(reason)
            .hint("`ah sandbox check` says what is missing; `--no-sandbox` goes on without")
            .code(NO_SANDBOX)
    };
    let kept = sandbox(config, granted)?.with_scratch(&std::env::temp_dir());
    let sandbox =
        kept.map_err(|error| no_sandbox(format!("cannot make a temporary folder: {error}")))?;
    match sandbox.probe() {
        Ok(()) => Ok(Confined {
            variables: variables(&config.environment, granted, &sandbox),
            sandbox,
        }),
        Err(error) => Err(no_sandbox(error.to_string())),
    }
}

/// The project, for a commit writes to its top also where the work is done below; but never what is somebody else's,
/// or holds the home directory.
fn project(config: &Config) -> PathBuf {
    let cwd = config.environment.cwd();
    let owner = |folder: &Path| fs::metadata(folder).ok().map(|metadata| metadata.uid());
    let home = config.environment.home();
    let holds_home = home.is_some_and(|home| home.starts_with(&config.project_root));
    let folder = match !holds_home && owner(cwd) == owner(&config.project_root) {
        true => &config.project_root,
        false => cwd,
    };
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The variables that a command sees in the sandbox.
pub fn variables(
    environment: &Environment,
    granted: &Granted,
    sandbox: &Sandbox,
) -> Vec<(String, String)> {
    let seen = environment
        .for_children()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let has_network = granted.tier == Tier::Full;
    let mut variables = ah_sandbox::variables(seen, &granted.variables, has_network);
    let own = sandbox.confinement().variables();
    variables.retain(|(name, _)| !own.iter().any(|(own, _)| own == name));
    variables.extend(own);
    if let Some((name, address)) = environment.home().and_then(|home| git_identity(&home)) {
        for role in ["AUTHOR", "COMMITTER"] {
            for (what, value) in [("NAME", &name), ("EMAIL", &address)] {
                let variable = format!("GIT_{role}_{what}");
                if !variables.iter().any(|(known, _)| *known == variable) {
                    variables.push((variable, value.clone()));
                }
            }
        }
    }
    variables
}

/// Who commits, as the user has told git: its own settings are in the home, which commands do not see.
fn git_identity(home: &Path) -> Option<(String, String)> {
    let places = [".gitconfig", ".config/git/config"];
    let text = places
        .iter()
        .find_map(|place| fs::read_to_string(home.join(place)).ok())?;
    let lines = text.lines().map(str::trim);
    let section = lines
        .skip_while(|line| !line.eq_ignore_ascii_case("[user]"))
        .skip(1);
    let pairs: Vec<_> = section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| {
            (
                key.trim().to_ascii_lowercase(),
                value.trim().trim_matches('"').to_owned(),
            )
        })
        .collect();
    let value = |key| {
        pairs
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.clone())
    };
    Some((value("name")?, value("email")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_commits_is_read_as_git_writes_it() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(git_identity(home.path()), None);
        let text = "[core]\n\teditor = vi\n[user]\n\tname = A B\n\temail = \"a@b.example\"\n[alias]\n\tname = x\n";
        fs::write(home.path().join(".gitconfig"), text).unwrap();
        assert_eq!(
            git_identity(home.path()),
            Some(("A B".to_owned(), "a@b.example".to_owned()))
        );
    }
}
