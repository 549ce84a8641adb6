//! What a check is made of: tests, the configuration of the programs that run them, and the files that its command names.
//! They are taken as they are when the session begins. A run may change them; the check then has to pass with the old ones,
//! too, and the user sees the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ah_beneath::{Folder, Status};
use ah_conversation::ChangedSeal;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::copy::{Entry, ProjectCopy};
use crate::kept::Kept;
use crate::links::{Links, plain};
use crate::shadow::is_shadow;
use crate::tree::Tree;

/// Most bytes of all sealed files together.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Largest file that is searched for the names of others, and whose difference is shown, in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// Tests, in the places and by the names that the runners of common languages look for.
const TESTS: [&str; 26] = [
    "**/{test,tests,spec,specs,__tests__,__mocks__,__snapshots__,testdata,fixtures,e2e}/**",
    "**/test_*",
    "**/*_test.*",
    "**/*_tests.*",
    "**/*.{test,tests,spec,specs,e2e}.*",
    "**/*_spec.*",
    "**/*{Test,Tests,Spec,IT}.{java,kt,kts,scala,groovy,cs,fs,vb,php,swift}",
    "**/conftest.py",
    "**/*.{bats,feature,t}",
    "**/doctest*",
    // Loaded before any test of Python.
    "**/{sitecustomize,usercustomize}.py",
    "**/*.{pth,egg-link}",
    // In the copy of the modules that run tests.
    "**/{pytest,_pytest,pluggy,unittest,nose,nose2,tox,nox,hypothesis,coverage,xdist}{,.py,/**}",
    "**/.{env,env.*,envrc}",
    "**/.{npmrc,yarnrc,yarnrc.yml,pnp.*,nycrc,nycrc.*,mocharc.*,babelrc,babelrc.*,swcrc,rspec,coveragerc}",
    "**/.{jestrc,ava,taprc,testcaferc,cypress}*",
    "**/.{cargo,config,husky,github,gitlab-ci.yml,circleci}/**",
    "**/.{python-version,nvmrc,node-version,ruby-version,tool-versions}",
    "**/{jest,vitest,vite,karma,playwright,cypress,babel,webpack,rollup,ava,mocha,wallaby,nightwatch}.{config,conf,setup}*",
    "**/{setupTests,setup-tests,test-setup,testSetup}*",
    "**/{phpunit,testng,nunit,xunit}*.{xml,dist,json,config,runsettings}",
    "**/rust-toolchain*",
    "**/test{util,utils,helpers,support}/**",
    "**/test{_,-}{util,utils,helpers,support,data}/**",
    // What tools believe of files that they have seen before.
    "**/{*.tsbuildinfo,.eslintcache,.stylelintcache,.prettiercache}",
    // What the copy is made of.
    "**/.{gitignore,ignore,dockerignore}",
];
/// What the runners of tests read.
const RUNNERS: [&str; 6] = [
    "**/{package,package-lock,tsconfig,tsconfig.*,deno,deno.*,bunfig,lerna,nx,turbo}.{json,jsonc,toml,yaml}",
    "**/{pyproject.toml,pytest.ini,.pytest.ini,tox.ini,setup.cfg,setup.py,noxfile.py,Pipfile,manage.py}",
    "**/{Makefile,makefile,GNUmakefile,*.mk,justfile,Justfile,.justfile,Taskfile.*,Rakefile,SConstruct,BUILD,BUILD.bazel,WORKSPACE}",
    "**/{Cargo.toml,build.rs,clippy.toml,go.mod,go.work,Gemfile,composer.json,mix.exs,dune-project}",
    "**/{pom.xml,build.gradle,build.gradle.kts,settings.gradle,settings.gradle.kts,gradle.properties,gradlew,mvnw,build.sbt}",
    "**/{CMakeLists.txt,CTestTestfile.cmake,meson.build,*.csproj,*.sln,Directory.Build.*,global.json,Package.swift}",
];
/// Folders with programs of a project for itself: sealed if the command or the configuration of a runner names them.
const TOOLS: [&str; 9] = [
    "scripts", "script", "tools", "tool", "bin", "ci", ".ci", "hack", "build",
];

/// Words before the name of a folder in which the rest of a command runs.
const ENTERING: [&str; 6] = ["cd", "pushd", "-C", "--prefix", "--directory", "--cwd"];

/// Folders whose scripts are the product.
const PRODUCT: [&str; 3] = ["src", "lib", "app"];

/// The sealed files of a project, and which others would be.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    patterns: GlobSet,
    /// Those of [`RUNNERS`] alone.
    runners: GlobSet,
    exceptions: GlobSet,
    links: Arc<Links>,
    /// Folders in which words of the command mean files, and Python its modules.
    bases: Vec<PathBuf>,
    /// Folders in which programs are looked for.
    programs: BTreeSet<PathBuf>,
    pub(crate) named: Arc<BTreeSet<PathBuf>>,
    /// Those that the command itself names, and that are there.
    of_command: BTreeSet<PathBuf>,
    /// Files of the project that have the name of a module of Python or stand where programs are looked for, and did before.
    pub(crate) modules: Arc<BTreeSet<PathBuf>>,
    pub(crate) files: Arc<BTreeMap<PathBuf, Entry>>,
}

impl Sealed {
    /// Takes the files of a project that the command is made of, if it runs in the folder `cwd` of it. `programs` are the folders
    /// of the project in which programs are looked for.
    ///
    /// # Errors
    ///
    /// If a pattern is none, a file cannot be read, or they are too big; the text says which.
    pub(crate) fn take(
        project: &Path,
        tree: &Tree,
        (command, cwd): (&str, &Path),
        programs: &BTreeSet<PathBuf>,
        further: &[String],
    ) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot seal the files of the check: {error}");
        let top = Folder::follow(project).map_err(failed)?;
        let (exceptions, more): (Vec<_>, Vec<_>) =
            further.iter().partition(|pattern| pattern.starts_with('!'));
        let usual = TESTS.iter().chain(&RUNNERS).copied();
        let mut sealed = Self {
            patterns: set(usual.chain(more.iter().map(|pattern| pattern.as_str())))?,
            runners: set(RUNNERS.iter().copied())?,
            exceptions: set(exceptions.iter().map(|pattern| &pattern[1..]))?,
            links: Arc::new(Links::of(&top, tree)),
            bases: bases(command, cwd, tree),
            programs: programs.clone(),
            named: Arc::default(),
            of_command: BTreeSet::new(),
            modules: Arc::default(),
            files: Arc::default(),
        };
        let among = || sealed.bases.iter().chain(programs);
        let meant = words(command).flat_map(|word| sealed.found(word, among(), tree));
        sealed.of_command = meant.collect();
        let taken = tree.0.keys().filter(|path| sealed.is_taken(path));
        sealed.modules = Arc::new(taken.cloned().collect());
        sealed.named = Arc::new(named(&top, tree, command, &sealed));
        let (mut files, mut bytes) = (BTreeMap::new(), 0_u64);
        for (path, status) in tree.0.iter().filter(|(path, _)| sealed.has(path)) {
            bytes = bytes.saturating_add(status.length);
            if bytes > MAX_BYTES {
                return Err(format!(
                    "the files that the check is made of are more than {} MiB; leave some out with `--seal '!PATTERN'`",
                    MAX_BYTES >> 20
                ));
            }
            let entry = Entry::read(&top, path, status).map_err(failed)?;
            files.insert(path.clone(), entry);
        }
        sealed.files = Arc::new(files);
        Ok(sealed)
    }

    /// Returns these with what was sealed before in their place: of files that were there then and are meant only now, and of
    /// those that only this command names, what is there counts. What else is new was made by the run, and so was what a test or
    /// a module has become whose name a command happens to have.
    pub(crate) fn continued(mut self, before: &Kept) -> Self {
        let now = Arc::unwrap_or_clone(std::mem::take(&mut self.files));
        let is_new_name = |path: &PathBuf| {
            let is_of_tests = self.patterns.is_match(path) || self.is_taken(path);
            self.of_command.contains(path) && !before.named.contains(path) && !is_of_tests
        };
        let is_meant = |path: &PathBuf| before.known.contains(path) || is_new_name(path);
        let mut files: BTreeMap<_, _> = now.into_iter().filter(|it| is_meant(&it.0)).collect();
        let kept = before.files.iter();
        let kept = kept.filter(|(path, _)| !self.exceptions.is_match(path));
        files.extend(kept.map(|(path, entry)| (path.clone(), entry.clone())));
        self.files = Arc::new(files);
        self.named = Arc::new(self.named.union(&before.named).cloned().collect());
        self.modules = Arc::new(before.modules.clone());
        self
    }

    /// Whether a path is, or would be, one of a sealed file.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let is_meant = |name: &PathBuf| self.patterns.is_match(name) || self.named.contains(name);
        let is_new_module = || self.is_taken(path) && !self.modules.contains(path);
        (self.links.names(path).iter().any(is_meant) || is_new_module())
            && !self.exceptions.is_match(path)
    }

    /// Whether what stands there is taken for something else, by its place: a module of Python, a program.
    fn is_taken(&self, path: &Path) -> bool {
        let is_module = |base: &PathBuf| path.strip_prefix(base).is_ok_and(is_shadow);
        self.bases.iter().any(is_module)
            || path.parent().is_some_and(|it| self.programs.contains(it))
    }

    /// Returns the files that a word means in one of these folders, also through links.
    fn found<'a>(
        &self,
        word: &str,
        bases: impl Iterator<Item = &'a PathBuf>,
        tree: &Tree,
    ) -> Vec<PathBuf> {
        let paths = bases.filter_map(|base| plain(&base.join(word)));
        let paths = paths.flat_map(|path| self.links.ends(&path));
        paths.filter(|path| tree.0.contains_key(path)).collect()
    }

    /// Returns the paths of the sealed files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Returns the sealed files that differ in the copy: changed, removed, or new.
    pub(crate) fn changed(&self, copy: &ProjectCopy) -> Vec<ChangedSeal> {
        let mut changed = Vec::new();
        for (path, before) in &*self.files {
            if copy.hash(path) != Some(before.hash()) {
                let now = copy.hash(path).and_then(|_| copy.read(path));
                changed.push(difference(path, Some(before), now.as_ref()));
            }
        }
        let is_new = |path: &&PathBuf| self.has(path) && !self.files.contains_key(*path);
        for path in copy.paths().filter(is_new) {
            changed.push(difference(path, None, copy.read(path).as_ref()));
        }
        changed
    }

    /// Makes them in the copy what they were.
    pub(crate) fn put(&self, copy: &mut ProjectCopy) -> io::Result<()> {
        let new: Vec<_> = { copy.paths() }
            .filter(|path| self.has(path) && !self.files.contains_key(*path))
            .cloned()
            .collect();
        for path in new {
            copy.replace(&path, None)?;
        }
        for (path, before) in &*self.files {
            if copy.hash(path) != Some(before.hash()) {
                copy.replace(path, Some(before))?;
            }
        }
        Ok(())
    }
}

fn difference(path: &Path, before: Option<&Entry>, now: Option<&Entry>) -> ChangedSeal {
    let text = |entry: Option<&Entry>| match entry {
        None => Some(String::new()),
        Some(entry) => { entry.text() }
            .filter(|text| text.len() <= MAX_TEXT)
            .map(str::to_owned),
    };
    let name = path.display().to_string();
    let diff = text(before).zip(text(now)).map(|(before, now)| {
        ah_diff::unified(
            (&format!("a/{name}"), &before),
            (&format!("b/{name}"), &now),
        )
    });
    ChangedSeal {
        path: path.to_owned(),
        diff,
    }
}

fn set<'a>(patterns: impl Iterator<Item = &'a str>) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern);
        set.add(glob.map_err(|error| format!("`{pattern}` is not a valid path pattern: {error}"))?);
    }
    set.build().map_err(|error| error.to_string())
}

/// Returns the folders in which the words of a command can mean files: the project, that in which it runs, those that it enters.
fn bases(command: &str, cwd: &Path, tree: &Tree) -> Vec<PathBuf> {
    let mut bases = vec![PathBuf::new()];
    bases.extend((cwd != Path::new("")).then(|| cwd.to_owned()));
    let folders = words(command).zip(words(command).skip(1));
    for (_, folder) in folders.filter(|(before, _)| ENTERING.contains(before)) {
        let entered: Vec<_> = { bases.iter() }
            .filter_map(|base| plain(&base.join(folder)))
            .filter(|path| !bases.contains(path) && tree.0.get(path).is_none_or(Status::is_link))
            .collect();
        bases.extend(entered);
    }
    bases
}

/// Returns the paths that the command names, and the programs of the project's own that these and the configuration of the
/// runners name in turn: what a test names is the product. A word of the command that is the name of a module is one, too, so
/// that no new file takes its place.
fn named(top: &Folder, tree: &Tree, command: &str, sealed: &Sealed) -> BTreeSet<PathBuf> {
    let bases = &sealed.bases;
    let mut named = sealed.of_command.clone();
    let mut waiting: Vec<_> = { named.iter() }
        .filter(|path| !sealed.patterns.is_match(path))
        .cloned()
        .collect();
    for word in words(command) {
        let is_there = !sealed.found(word, bases.iter(), tree).is_empty();
        let is_module = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if !is_there && word.chars().all(is_module) && !word.starts_with('.') {
            let module = word.replace('.', "/");
            for module in bases.iter().map(|base| base.join(&module)) {
                named.insert(module.with_extension("py"));
                named.insert(module.join("__init__.py"));
                named.insert(module.join("__main__.py"));
            }
        }
    }
    let configured = tree.0.keys().filter(|path| sealed.runners.is_match(path));
    waiting.extend(configured.cloned());
    let scripts = bases
        .iter()
        .flat_map(|base| scripts_of(command, base, tree));
    let scripts: BTreeSet<_> = scripts.collect();
    waiting.extend(scripts.iter().cloned());
    named.extend(scripts);
    while let Some(path) = waiting.pop() {
        let Some(text) = read(top, tree, &path) else {
            continue;
        };
        let beside = path.parent().unwrap_or(Path::new(""));
        for found in included(&text, beside).chain(scripts_of(&text, beside, tree)) {
            if tree.0.contains_key(&found) && named.insert(found.clone()) {
                waiting.push(found);
            }
        }
        for word in words(&text) {
            let around = bases.iter().cloned().chain([beside.to_owned()]);
            let around: Vec<_> = around.collect();
            for found in sealed.found(word, around.iter(), tree) {
                if is_tool(&found) || is_script(&found) {
                    let is_test = sealed.patterns.is_match(&found);
                    if named.insert(found.clone()) && !is_test {
                        waiting.push(found);
                    }
                }
            }
        }
    }
    named
}

/// Returns the scripts that the patterns of a command or a script stand for: `checks/*.sh`. Those at the top, and in folders of
/// the product, can be what is checked.
fn scripts_of(text: &str, beside: &Path, tree: &Tree) -> BTreeSet<PathBuf> {
    let is_between = |c: char| c.is_whitespace() || "\"'`;()&|<>=,$".contains(c);
    let patterns = text.split(is_between);
    let is_of_tests = |word: &&str| {
        let folder = Path::new(word.trim_start_matches("./")).parent();
        let first = folder.and_then(|folder| folder.components().next());
        let first = first.map(Component::as_os_str);
        first.is_some_and(|first| PRODUCT.iter().all(|known| first != *known))
    };
    let patterns = patterns.filter(|word| word.contains('*') && is_script(Path::new(word)));
    let patterns = patterns.filter(is_of_tests);
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let pattern = pattern.trim_start_matches("./");
        for pattern in [Path::new(pattern).to_owned(), beside.join(pattern)] {
            let glob = GlobBuilder::new(&pattern.to_string_lossy())
                .literal_separator(true)
                .build();
            let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else {
                continue;
            };
            found.extend(tree.0.keys().filter(|path| glob.is_match(path)).cloned());
        }
    }
    found
}

/// Returns the files that a makefile includes, whatever their names.
fn included<'a>(text: &'a str, beside: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let lines = text.lines().filter_map(|line| {
        let (verb, files) = line.trim().split_once(char::is_whitespace)?;
        ["include", "-include", "sinclude"]
            .contains(&verb)
            .then_some(files)
    });
    let files = lines.flat_map(str::split_whitespace);
    let files = files.flat_map(|file| [Path::new(file).to_owned(), beside.join(file)]);
    files.filter_map(|file| plain(&file))
}

fn read(top: &Folder, tree: &Tree, path: &Path) -> Option<String> {
    let status = tree.0.get(path)?;
    let is_short = status.length <= MAX_TEXT as u64;
    let entry = Entry::read(top, path, status).ok().filter(|_| is_short)?;
    entry.text().map(str::to_owned)
}

/// Whether a file stands where projects have programs for themselves.
fn is_tool(path: &Path) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components);
    let mut names = folders.map(Component::as_os_str);
    names.any(|name| TOOLS.iter().any(|known| name == *known))
}

fn is_script(path: &Path) -> bool {
    path.extension()
        .is_some_and(|it| it == "sh" || it == "bash")
}

/// Returns the words of a command or a script that could be paths.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "._-/@+".contains(c);
    let words = text.split(move |c| !is_part(c));
    words.filter(|word| !word.is_empty() && word.len() < 256)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::tree::Extent;

    /// Returns which of these files are sealed for a command.
    fn sealed(command: &str, files: &[(&str, &str)], further: &[&str]) -> Vec<String> {
        let project = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let (path, is_program) = match path.strip_suffix('*') {
                Some(path) => (path, true),
                None => (*path, false),
            };
            let path = project.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let mode = if is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let (_, tree) = Extent::first(project.path(), Vec::new()).unwrap();
        let further: Vec<_> = further.iter().map(|it| (*it).to_owned()).collect();
        let command = (command, Path::new(""));
        let none = BTreeSet::new();
        let sealed = Sealed::take(project.path(), &tree, command, &none, &further).unwrap();
        { sealed.paths() }
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn what_a_pattern_finds_and_a_makefile_includes_is_sealed() {
        let files = [
            ("checks/a.sh", ""),
            ("checks/deep/b.sh", ""),
            ("checks/c.txt", ""),
            ("src/d.sh", ""),
            ("e.sh", ""),
            ("Makefile", "-include rules.inc\n"),
            ("rules.inc", ""),
        ];
        for (command, expected) in [
            (
                "for t in ./checks/*.sh; do sh $t; done",
                "Makefile checks/a.sh rules.inc",
            ),
            ("cat *.sh; shellcheck src/*.sh", "Makefile rules.inc"),
        ] {
            assert_eq!(
                sealed(command, &files, &[]).join(" "),
                expected,
                "{command}"
            );
        }
    }

    #[test]
    fn what_the_check_is_made_of_is_sealed() {
        let files = [
            ("src/app.py", ""),
            ("app.js", ""),
            ("tests/unit/test_a.py", ""),
            ("src/a.test.ts", ""),
            ("conftest.py", ""),
            (
                "package.json",
                r#"{"scripts": {"test": "node tools/run.js"}}"#,
            ),
            ("tools/run.js", "require('../app.js')"),
            ("tools/other.js", ""),
            ("check.sh", ". ./helper.sh; python src/app.py"),
            ("tests/run.sh", ". ./product.sh"),
            ("product.sh", ""),
            ("helper.sh", ""),
            ("unrelated.sh", ""),
            ("Makefile", "test:\n\tsh run-tests.sh; sh tests/run.sh\n"),
            ("run-tests.sh", ""),
            ("probe*", ""),
        ];
        for (command, further, expected) in [
            (
                "pytest -q",
                &[][..],
                "Makefile conftest.py package.json run-tests.sh src/a.test.ts tests/run.sh tests/unit/test_a.py tools/run.js",
            ),
            (
                "./check.sh && ./probe",
                &[],
                "Makefile check.sh conftest.py helper.sh package.json probe run-tests.sh src/a.test.ts tests/run.sh tests/unit/test_a.py tools/run.js",
            ),
            (
                "make",
                &["src/**", "!tests/**", "!**/*.test.ts"],
                "Makefile conftest.py package.json run-tests.sh src/app.py tools/run.js",
            ),
        ] {
            assert_eq!(
                sealed(command, &files, further).join(" "),
                expected,
                "{command}"
            );
        }
    }

    #[test]
    fn every_usual_pattern_is_one() {
        assert!(set(TESTS.iter().chain(&RUNNERS).copied()).is_ok());
        assert!(set(["a["].into_iter()).is_err());
    }
}
