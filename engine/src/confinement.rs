//! The sandbox policy for commands: from the command line and the user's settings, never from the project.

pub mod command_files;
mod for_check;
mod identity;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use ah_config::overrides::SandboxChoice;
use ah_config::own_folder::OwnFolder;
use ah_config::{Config, Error, ErrorKind, SandboxTier, Sourced};
use ah_conversation::{Environment, Interface, first_of, steering_names};
use ah_sandbox::{Access, Allowlist, Authority, Confinement, Domain, Grant, Proxy, Sandbox, Tier};
use parking_lot::Mutex;

pub(crate) use for_check::for_check;
use identity::git_identity;

/// This executable; valid even after its file was replaced.
pub const LAUNCHER: &str = "/proc/self/exe";
/// Variable with further hosts, separated by commas.
const ALLOW_HOSTS: &str = "AH_ALLOW_HOSTS";
/// Prefix of the temporary folders that replace `/tmp` and the home directory for commands.
const SCRATCH: &str = "ah-scratch-";

/// Grants for confined commands beyond what every command has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Required tier of the sandbox.
    pub tier: Tier,
    /// The workspace, if it is not the project.
    pub workspace: Option<PathBuf>,
    /// Paths; relative ones resolve against the working directory.
    pub paths: Vec<Grant>,
    /// Programs named by the user.
    pub programs: Vec<PathBuf>,
    /// Names of environment variables.
    pub variables: Vec<String>,
    /// Hosts.
    pub hosts: Allowlist,
}

impl SandboxGrants {
    /// Returns the grants of a run's options and of the user's settings.
    fn of(config: &Config, tier: Tier) -> Self {
        let (typed, set) = (&config.run.sandbox, &config.sandbox);
        let folders = config.directories.iter().map(|folder| Grant {
            path: folder.value.clone(),
            access: Access::ALL,
        });
        let unveiled = set.unveil.iter().map(|grant| grant.value.clone());
        let variables = set.env.iter().map(|name| name.value.clone());
        let is_set_used = !typed.are_hosts_complete;
        let set_hosts = |list: &[Sourced<Authority>]| -> Vec<_> {
            let list = list.iter().filter(|_| is_set_used);
            list.map(|host| host.value.clone()).collect()
        };
        let mut hosts = Allowlist {
            tunnels: typed
                .allow_hosts
                .iter()
                .cloned()
                .chain(set_hosts(&set.allow_hosts))
                .collect(),
            http: { typed.allow_http.iter().cloned() }
                .chain(set_hosts(&set.allow_http))
                .collect(),
            ..Allowlist::default()
        };
        let domains = |list: &[Sourced<Domain>]| -> Vec<_> {
            list.iter().map(|domain| domain.value.clone()).collect()
        };
        if is_set_used {
            hosts.domains = domains(&set.allow_domains);
        }
        hosts.denied = domains(&set.deny_domains);
        hosts.is_complete = set.is_strict || typed.are_hosts_complete;
        Self {
            tier,
            workspace: None,
            // A configured folder may not exist any more.
            paths: folders
                .chain(unveiled)
                .filter(|grant| config.environment.cwd().join(&grant.path).exists())
                .chain(typed.unveil.iter().cloned())
                .collect(),
            programs: { config.run.tools.commands.iter() }
                .filter_map(|tool| Some(tool.split_once('=')?.1.into()))
                .collect(),
            variables: variables.chain(typed.env.iter().cloned()).collect(),
            hosts,
        }
    }
}

/// Whether the sandbox is required, preferred or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SandboxWish {
    /// Off.
    No,
    /// Of this tier, or the strongest below it that can be built.
    IfPossible(Tier),
    /// Of this tier; without it there is no run.
    Required(Tier),
}

impl SandboxWish {
    fn of(config: &Config) -> Self {
        match config.run.sandbox.wanted {
            Some(SandboxChoice::Off) => return Self::No,
            Some(SandboxChoice::Required(tier)) => return Self::Required(tier.into()),
            None => {}
        }
        let set = &config.sandbox;
        let tier = set
            .tier
            .as_ref()
            .map_or_else(SandboxTier::default, |tier| tier.value);
        // For the Agent SDKs' users, the sandbox is off unless the settings enable it.
        let is_enabled = set.enabled.as_ref().map(|enabled| enabled.value);
        if !is_enabled.unwrap_or(config.interface == Interface::Native) {
            Self::No
        } else if set.must_hold {
            Self::Required(tier.into())
        } else {
            Self::IfPossible(tier.into())
        }
    }
}

/// Returns whether options and settings ask for a sandbox with a network of its own.
pub fn is_wanted(config: &Config) -> bool {
    match SandboxWish::of(config) {
        SandboxWish::No => false,
        SandboxWish::IfPossible(tier) | SandboxWish::Required(tier) => tier == Tier::Full,
    }
}

/// Sandbox status of a run.
#[derive(Clone)]
pub enum SandboxStatus {
    /// Commands run in a sandbox.
    Inside(Confined),
    /// Disabled by choice: commands run with the user's permissions.
    Off,
    /// Preferred, but it cannot be built here: the reason, and the remedy.
    Unavailable(Obstacle),
}

/// The reason why a sandbox cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The missing feature.
    pub reason: String,
    /// Advice for the user.
    pub remedy: String,
}

impl Obstacle {
    fn of(reason: String) -> Self {
        Self {
            reason,
            remedy: ah_sandbox::remedy(),
        }
    }
}

impl SandboxStatus {
    /// Returns the sandbox, if there is one.
    pub fn confined(&self) -> Option<&Confined> {
        match self {
            Self::Inside(confined) => Some(confined),
            Self::Off | Self::Unavailable(_) => None,
        }
    }

    /// Returns what commands and tools may reach, in one line for the model.
    pub fn summary(&self) -> String {
        let Some(confined) = self.confined() else {
            return "none; commands have all permissions of the user".to_owned();
        };
        let confinement = confined.sandbox.confinement();
        let writable = confinement.grants.iter().filter(|grant| grant.access.write);
        let writable: Vec<_> = std::iter::once("the project".to_owned())
            .chain(writable.map(|grant| grant.path.display().to_string()))
            .collect();
        let list = confined.sandbox.proxy().allowlist();
        let hosts = list
            .tunnels
            .iter()
            .chain(&list.http)
            .map(ToString::to_string);
        let hosts = hosts.chain(list.domains.iter().map(ToString::to_string));
        let hosts: Vec<_> = if confinement.tier.has_namespaces() {
            hosts.collect()
        } else {
            Vec::new()
        };
        format!(
            "only {} and temporary folders are writable; the home directory is hidden; {}",
            first_of(writable.iter().cloned()),
            if hosts.is_empty() {
                "no network".to_owned()
            } else {
                format!("network only to {}", first_of(hosts.iter().cloned()))
            }
        )
    }
}

/// The sandbox of a run.
#[derive(Clone)]
pub struct Confined {
    /// The sandbox.
    pub sandbox: Arc<Sandbox>,
    /// All variables visible to commands.
    pub variables: Vec<(String, String)>,
    /// Why it is not of the preferred tier.
    pub fallback: Option<Fallback>,
}

/// The reason why a run has a sandbox of a weaker tier than it prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// The run is inside another sandbox, which applies to its commands as well.
    Nested,
    /// The preferred tier cannot be built here.
    Unavailable(Obstacle),
}

impl Confined {
    /// Returns whether it is a fallback without namespaces: commands can write protected files of the project, and
    /// there is no network.
    pub fn is_weak(&self) -> bool {
        let is_fallback = matches!(self.fallback, Some(Fallback::Unavailable(_)));
        is_fallback && !self.sandbox.confinement().tier.has_namespaces()
    }
}

/// The sandbox of a run, set up in the background.
pub struct SandboxProbe {
    outcome: OnceLock<SandboxStatus>,
    thread: Mutex<Option<JoinHandle<SandboxStatus>>>,
}

impl SandboxProbe {
    /// Starts to build the sandbox that options and settings ask for. Warns of grants that have no effect without one.
    ///
    /// # Errors
    ///
    /// If a required sandbox cannot be built here, or a grant makes no sense.
    pub fn begin(config: &Config, warnings: &mut Vec<String>) -> Result<Self, Error> {
        let no_sandbox = |obstacle: Obstacle| {
            let further = "`ah sandbox check` shows details; `--no-sandbox` runs without it";
            Error::failure(obstacle.reason)
                .hint(format!("{}; {further}", obstacle.remedy))
                .with_kind(ErrorKind::SandboxUnavailable)
        };
        let pending = |tier| PendingSandbox::of(config, SandboxGrants::of(config, tier));
        match SandboxWish::of(config) {
            SandboxWish::No => {
                let grants = &config.run.sandbox;
                let has_hosts = !grants.allow_hosts.is_empty() || !grants.allow_http.is_empty();
                if has_hosts || !grants.unveil.is_empty() || !grants.env.is_empty() {
                    let warning = "commands run with your full permissions, so the grants for the sandbox have no effect";
                    warnings.push(warning.to_owned());
                }
                Ok(SandboxStatus::Off.into())
            }
            SandboxWish::Required(tier) => {
                let confined = pending(tier)?.finish().map_err(no_sandbox)?;
                Ok(SandboxStatus::Inside(confined).into())
            }
            SandboxWish::IfPossible(tier) => {
                let wanted = pending(tier)?;
                Ok(Self {
                    outcome: OnceLock::new(),
                    thread: Mutex::new(Some(thread::spawn(move || wanted.strongest()))),
                })
            }
        }
    }

    /// Returns whether commands run in a sandbox with a network of its own; waits until it is known.
    pub fn has_network(&self) -> bool {
        let confined = self.status().confined();
        confined.is_some_and(|confined| confined.sandbox.confinement().tier == Tier::Full)
    }

    /// Returns the status; waits until it is known.
    pub fn status(&self) -> &SandboxStatus {
        self.outcome.get_or_init(|| {
            let mut thread = self.thread.lock();
            let joined = thread.take().map(JoinHandle::join);
            let failed = || SandboxStatus::Unavailable(Obstacle::of("the probe failed".to_owned()));
            joined.and_then(Result::ok).unwrap_or_else(failed)
        })
    }
}

impl From<SandboxStatus> for SandboxProbe {
    fn from(status: SandboxStatus) -> Self {
        Self {
            outcome: OnceLock::from(status),
            thread: Mutex::new(None),
        }
    }
}

/// A sandbox that is not yet built.
#[derive(Clone)]
struct PendingSandbox {
    confinement: Confinement,
    hosts: Allowlist,
    grants: SandboxGrants,
    environment: Environment,
    journal: Option<PathBuf>,
}

impl PendingSandbox {
    fn of(config: &Config, grants: SandboxGrants) -> Result<Self, Error> {
        let (confinement, hosts) = policy(config, &grants)?;
        Ok(Self {
            confinement,
            hosts,
            grants,
            environment: config.environment.clone(),
            journal: config.journal(),
        })
    }

    /// Builds the sandbox of this tier, or of the strongest below it that works here.
    fn strongest(&self) -> SandboxStatus {
        let preferred = self.confinement.tier;
        let mut fallback = None;
        for tier in Tier::ALL.into_iter().skip_while(|tier| *tier != preferred) {
            let mut pending = self.clone();
            pending.confinement.tier = tier;
            match pending.finish() {
                Ok(confined) => {
                    return SandboxStatus::Inside(Confined {
                        fallback: fallback.map(|obstacle| match ah_sandbox::is_confined() {
                            true => Fallback::Nested,
                            false => Fallback::Unavailable(obstacle),
                        }),
                        ..confined
                    });
                }
                // The first reason is about the preferred tier.
                Err(obstacle) => fallback = fallback.or(Some(obstacle)),
            }
        }
        SandboxStatus::Unavailable(fallback.expect("one tier at least was tried"))
    }

    /// Builds the sandbox.
    fn finish(self) -> Result<Confined, Obstacle> {
        if let Err(reason) = self.confinement.validate() {
            let remedy = "use a separate folder for the project".to_owned();
            return Err(Obstacle { reason, remedy });
        }
        let sandbox = look_around(self.confinement, self.hosts, self.journal);
        if let Some(path) = sandbox.confinement().second_name() {
            let path = path.display();
            return Err(Obstacle {
                reason: format!(
                    "`{path}` has another name (a hard link), through which a command could write it"
                ),
                remedy: format!(
                    "replace it with a copy: `cp -p {path} {path}.new && mv {path}.new {path}`"
                ),
            });
        }
        let kept = OwnFolder::make(SCRATCH).and_then(|folder| {
            let path = folder.path().to_owned();
            sandbox.with_scratch(&path, folder)
        });
        let sandbox = kept.map_err(|error| Obstacle {
            reason: format!("cannot make a temporary folder: {error}"),
            remedy: "set TMPDIR to a folder that can be written".to_owned(),
        })?;
        let probed = sandbox.probe();
        probed.map_err(|error| Obstacle::of(error.to_string()))?;
        Ok(Confined {
            variables: variables(&self.environment, &self.grants, &sandbox),
            sandbox: Arc::new(sandbox),
            fallback: None,
        })
    }
}

/// Returns a sandbox with this policy; this program launches the commands in it.
///
/// # Errors
///
/// If the workspace is no folder, a granted path does not exist, or `AH_ALLOW_HOSTS` names no hosts.
pub fn sandbox(config: &Config, grants: &SandboxGrants) -> Result<Sandbox, Error> {
    let (confinement, hosts) = policy(config, grants)?;
    Ok(look_around(confinement, hosts, config.journal()))
}

/// Builds the sandbox after scanning the project, which may take a while.
fn look_around(confinement: Confinement, hosts: Allowlist, journal: Option<PathBuf>) -> Sandbox {
    let sandbox = Sandbox::new(confinement, Proxy::new(hosts), LAUNCHER.into());
    match journal {
        Some(folder) => sandbox.with_journal(folder),
        None => sandbox,
    }
}

/// Returns the configuration files of git that apply in all repositories.
fn git_configuration(environment: &Environment) -> Vec<PathBuf> {
    let set = |name| environment.get(name).map(PathBuf::from);
    let system = set("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig"));
    let home = environment.home();
    let below_home = |name| home.as_ref().map(|home| home.join(name));
    let folder = set("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    let usual = folder.map(|folder| folder.join("git/config")).into_iter();
    let usual = usual.chain(below_home(".gitconfig"));
    match set("GIT_CONFIG_GLOBAL") {
        Some(global) => vec![system, global],
        None => std::iter::once(system).chain(usual).collect(),
    }
}

/// Fails if one of the granted paths does not exist.
fn require(grants: &[Grant], cwd: &Path) -> Result<(), Error> {
    let mut paths = grants.iter().map(|grant| grant.path.as_path());
    let Some(path) = paths.find(|path| !cwd.join(path).exists()) else {
        return Ok(());
    };
    let missing = format!("cannot unveil `{}`: it does not exist", path.display());
    Err(Error::usage(missing))
}

/// Returns the confinement and the hosts that may be reached.
fn policy(config: &Config, grants: &SandboxGrants) -> Result<(Confinement, Allowlist), Error> {
    let environment = &config.environment;
    let cwd = environment.cwd();
    let workspace = match &grants.workspace {
        Some(folder) => fs::canonicalize(cwd.join(folder)).map_err(|error| {
            Error::failure(format!("cannot work in `{}`: {error}", folder.display()))
        })?,
        None => project(&config.environment, &config.project_root),
    };
    require(&grants.paths, cwd)?;
    let mut confinement = Confinement::new(workspace, environment.home());
    confinement.tier = grants.tier;
    confinement.grant_tool_chains(|name| environment.get(name));
    let paths = grants.paths.iter().map(|grant| Grant {
        path: cwd.join(&grant.path),
        ..grant.clone()
    });
    let folders = config.layer_folders().into_iter();
    let own = {
        folders
            .map(|folder| folder.path)
            .chain(config.unpacked.clone())
    }
    .flat_map(|folder| ["bin", "tools", "skills"].map(|name| folder.join(name)));
    let plugins = config.plugins.iter().map(|plugin| plugin.root.clone());
    let own = own
        .chain(plugins)
        .filter(|path| path.is_dir())
        .map(|path| Grant {
            path,
            access: Access::RUN,
        });
    let workspace = &confinement.workspace;
    let programs = grants
        .programs
        .iter()
        .filter_map(|path| fs::canonicalize(cwd.join(path)).ok())
        .filter(|path| path.is_file() && !path.starts_with(workspace))
        .map(|path| Grant {
            path,
            access: Access::RUN,
        });
    let further: Vec<_> = own.chain(programs).chain(paths).collect();
    confinement.grants.extend(further);
    let real_cwd = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    confinement.protect_names(steering_names(), &real_cwd);
    confinement.git_configuration = git_configuration(environment);
    protect_and_hide(&mut confinement, config);
    let mut hosts = grants.hosts.clone();
    for host in environment
        .get(ALLOW_HOSTS)
        .filter(|_| !config.run.sandbox.are_hosts_complete)
        .into_iter()
        .flat_map(|list| list.split(','))
    {
        let host = host.trim().parse::<Authority>();
        hosts
            .tunnels
            .push(host.map_err(|error| Error::usage(format!("{ALLOW_HOSTS}: {error}")))?);
    }
    Ok((confinement, hosts))
}

/// Protects and hides the paths that settings and rules name: what rules deny to tools is kept from all programs.
fn protect_and_hide(confinement: &mut Confinement, config: &Config) {
    let cwd = config.environment.cwd();
    let rules = config.permissions();
    let named = config.protected_folders().into_iter();
    let set = config.sandbox.protect.iter().map(|path| path.value.clone());
    let protected = named.map(|path| cwd.join(path)).chain(set);
    for path in protected.chain(rules.unwritable().paths()) {
        // Paths outside of the workspace are not writable anyway.
        if let Ok(name) = real(&path).strip_prefix(&confinement.workspace) {
            confinement.protected.push(name.to_owned());
        }
    }
    let hidden = config.sandbox.hide.iter().map(|path| path.value.clone());
    let hidden = hidden
        .chain(config.key_file())
        .chain(ah_tools::denied_files(&rules.hidden()));
    // A path that does not exist needs no hiding.
    confinement.hidden = hidden
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
}

/// Returns the path with the links of its parents resolved; the last component need not exist.
fn real(path: &Path) -> PathBuf {
    let Some((folder, name)) = path.parent().zip(path.file_name()) else {
        return path.to_owned();
    };
    fs::canonicalize(folder)
        .unwrap_or_else(|_| real(folder))
        .join(name)
}

/// Returns the workspace: the project's top, because a commit writes there also from a subfolder; but never a folder of
/// another user, or one that contains the home directory.
fn project(environment: &Environment, project_root: &Path) -> PathBuf {
    let cwd = environment.cwd();
    let owner = |folder: &Path| fs::metadata(folder).ok().map(|metadata| metadata.uid());
    let folder = if !environment.has_home_in(project_root) && owner(cwd) == owner(project_root) {
        project_root
    } else {
        cwd
    };
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Returns the variables visible to a command in the sandbox.
pub fn variables(
    environment: &Environment,
    grants: &SandboxGrants,
    sandbox: &Sandbox,
) -> Vec<(String, String)> {
    let seen = environment
        .for_children()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut variables = ah_sandbox::variables(seen, &grants.variables, sandbox.proxy_port());
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
