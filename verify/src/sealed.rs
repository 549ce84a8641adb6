//! What a check is made of: tests, the configuration of the programs that run them, and the files that its command names.
//! They are taken as they are when the session begins. A run may change them; the check then has to pass with the old ones,
//! too, and the user sees the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::{Folder, Status};
use ah_conversation::ChangedSeal;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::copy::{Entry, ProjectCopy};
use crate::kept::Kept;
use crate::links::{Links, plain};
use crate::mentioned::{
    bases, included, is_script, is_tool, modules_of, scripts_of, source_of, words,
};
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
/// Stands for any file in a folder.
const ANY: &str = "any file";
/// A module that runners of tests import.
const A_MODULE: &str = "abc.py";

/// What stands at a path, as far as it says what that is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    File,
    Program,
    Link,
}

impl Shape {
    fn of(status: &Status) -> Self {
        match (status.is_link(), status.mode & 0o111) {
            (true, _) => Self::Link,
            (false, 0) => Self::File,
            (false, _) => Self::Program,
        }
    }

    fn of_entry(entry: &Entry) -> Self {
        match entry {
            Entry::Link(_) => Self::Link,
            Entry::File(_, false) => Self::File,
            Entry::File(_, true) => Self::Program,
        }
    }
}

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
        let meant = words(command).flat_map(|word| sealed.found(word, sealed.places(), tree));
        sealed.of_command = meant.collect();
        let taken = { tree.0.iter() }.filter(|it| sealed.is_taken(it.0, Shape::of(it.1)));
        sealed.modules = Arc::new(taken.map(|it| it.0.clone()).collect());
        sealed.named = Arc::new(named(&top, tree, command, &sealed));
        sealed.named = Arc::new(sealed.with_ways(tree));
        let (mut files, mut bytes) = (BTreeMap::new(), 0_u64);
        for (path, status) in tree.0.iter().filter(|it| sealed.has(it.0, it.1)) {
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
        let is_new_name = |path: &PathBuf, entry: &Entry| {
            let is_of_tests =
                self.patterns.is_match(path) || self.is_taken(path, Shape::of_entry(entry));
            self.of_command.contains(path) && !before.named.contains(path) && !is_of_tests
        };
        let is_meant =
            |path: &PathBuf, entry: &Entry| before.known.contains(path) || is_new_name(path, entry);
        let now = now.into_iter().filter(|it| is_meant(&it.0, &it.1));
        let mut files: BTreeMap<_, _> = now.collect();
        let kept = before.files.iter();
        let kept = kept.filter(|(path, _)| !self.is_exception(path));
        files.extend(kept.map(|(path, entry)| (path.clone(), entry.clone())));
        let links = Arc::make_mut(&mut self.links);
        for (path, entry) in &before.files {
            links.add(path, entry);
        }
        self.files = Arc::new(files);
        self.named = Arc::new(self.named.union(&before.named).cloned().collect());
        self.modules = Arc::new(before.modules.clone());
        self
    }

    /// Whether a path, at which something of this kind stands, is or would be that of a sealed file, or of a link on the way to one.
    pub(crate) fn has(&self, path: &Path, status: &Status) -> bool {
        let is_meant = |name: &PathBuf| self.is_meant(name, status.is_link());
        let is_new = || self.is_taken(path, Shape::of(status)) && !self.modules.contains(path);
        (self.links.names(path).iter().any(is_meant) || is_new()) && !self.is_exception(path)
    }

    fn is_exception(&self, path: &Path) -> bool {
        self.exceptions.is_match(path) || self.exceptions.is_match(path.join(ANY))
    }

    /// Whether this name is one of a sealed file. A link is one if files below it would be.
    fn is_meant(&self, name: &Path, is_link: bool) -> bool {
        let named = &self.named;
        let is_source = |source: PathBuf| named.contains(&source);
        let below = || named.range(name.to_owned()..).next();
        let is_way = || {
            self.patterns.is_match(name.join(ANY)) || below().is_some_and(|it| it.starts_with(name))
        };
        self.patterns.is_match(name)
            || named.contains(name)
            || source_of(name).is_some_and(is_source)
            || is_link && is_way()
    }

    /// Whether what stands there is taken for something else, by its place: a module of Python, a program.
    fn is_taken(&self, path: &Path, shape: Shape) -> bool {
        let is_module = |name: &Path| {
            let below = self.bases.iter().map(|base| name.strip_prefix(base));
            below.flatten().any(is_shadow)
        };
        let is_at_top = |name: &Path| name.parent() == Some(Path::new("")) && shape != Shape::File;
        let is_way = |name: &Path| {
            is_module(&name.join(A_MODULE)) || self.programs.iter().any(|it| it.starts_with(name))
        };
        self.links.names(path).iter().any(|name| {
            is_module(name)
                || self.is_program(name)
                || self.programs.contains(Path::new("")) && is_at_top(name)
                || shape == Shape::Link && is_way(name)
        })
    }

    /// Whether a file stands in a folder in which programs are looked for. At the top anything can stand.
    fn is_program(&self, name: &Path) -> bool {
        let around = name.parent().filter(|around| *around != Path::new(""));
        around.is_some_and(|around| self.programs.contains(around))
    }

    /// Returns the folders in which a word of the command can mean a file.
    fn places(&self) -> impl Iterator<Item = &PathBuf> {
        self.bases.iter().chain(&self.programs)
    }

    /// Returns the files that a word means in one of these folders.
    fn found<'a>(
        &self,
        word: &str,
        bases: impl Iterator<Item = &'a PathBuf>,
        tree: &Tree,
    ) -> Vec<PathBuf> {
        let paths = bases.filter_map(|base| plain(&base.join(word)));
        paths.flat_map(|path| self.ends(&path, tree)).collect()
    }

    /// Returns a path and those that links lead it to, if a file is there, or may be where the project has no files.
    fn ends(&self, path: &Path, tree: &Tree) -> Vec<PathBuf> {
        let mut ends = self.links.ends(path);
        let is_there = |end: &PathBuf| tree.0.contains_key(end) || self.links.leads_out(end, tree);
        if !ends.iter().any(is_there) {
            ends.clear();
        }
        ends
    }

    /// Returns what is named, and the links on the way to each sealed file.
    fn with_ways(&self, tree: &Tree) -> BTreeSet<PathBuf> {
        let meant = tree.0.iter().flat_map(|(path, status)| {
            let names = self.links.names(path);
            let is_led = names.len() > 1 || status.is_link();
            let names = names.into_iter().filter(move |_| is_led);
            names.filter(|name| self.is_meant(name, status.is_link()))
        });
        let paths = meant.chain(self.named.iter().chain(self.places()).cloned());
        let ways: BTreeSet<_> = paths.flat_map(|path| self.links.way(&path)).collect();
        self.named.union(&ways).cloned().collect()
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
        for path in self.added(copy) {
            changed.push(difference(path, None, copy.read(path).as_ref()));
        }
        changed
    }

    /// Returns the paths of the copy that would be sealed, and were not there.
    fn added<'a>(&'a self, copy: &'a ProjectCopy) -> impl Iterator<Item = &'a PathBuf> {
        let new = { copy.originals() }.filter(|(path, _)| !self.files.contains_key(*path));
        new.filter(|(path, status)| self.has(path, status))
            .map(|(path, _)| path)
    }

    /// Makes them in the copy what they were.
    pub(crate) fn put(&self, copy: &mut ProjectCopy) -> io::Result<()> {
        let new: Vec<_> = self.added(copy).cloned().collect();
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

/// Returns the paths that the command names, and the programs of the project's own that these and the configuration of the
/// runners name in turn: what a test names is the product. A word of the command that is the name of a module is one, too, so
/// that no new file takes its place.
fn named(top: &Folder, tree: &Tree, command: &str, sealed: &Sealed) -> BTreeSet<PathBuf> {
    let mut named = sealed.of_command.clone();
    let mut waiting: Vec<_> = { named.iter() }
        .filter(|path| !sealed.patterns.is_match(path))
        .cloned()
        .collect();
    let is_there = |path: &Path| !sealed.ends(path, tree).is_empty();
    named.extend(modules_of(command, &sealed.bases, is_there));
    let configured = tree.0.keys().filter(|path| sealed.runners.is_match(path));
    waiting.extend(configured.cloned());
    let ends = |paths: BTreeSet<PathBuf>| {
        let ends = paths.into_iter().map(|path| sealed.ends(&path, tree));
        ends.flatten().collect::<Vec<_>>()
    };
    let scripts = ends(scripts_of(command, &sealed.bases, tree, &sealed.links));
    waiting.extend(scripts.iter().cloned());
    named.extend(scripts);
    let is_own = |path: &PathBuf| is_tool(path) || is_script(path) || sealed.is_program(path);
    while let Some(path) = waiting.pop() {
        let Some(text) = read(top, tree, &path) else {
            continue;
        };
        let beside = path.parent().unwrap_or(Path::new(""));
        let entered = bases(&text, beside, tree);
        let mut meant = scripts_of(&text, &entered, tree, &sealed.links);
        meant.extend(included(&text, beside));
        for found in ends(meant) {
            if named.insert(found.clone()) {
                waiting.push(found);
            }
        }
        let around: BTreeSet<_> = sealed.places().chain(&entered).collect();
        for word in words(&text) {
            for found in sealed.found(word, around.iter().copied(), tree) {
                if sealed.links.names(&found).iter().any(is_own) {
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

fn read(top: &Folder, tree: &Tree, path: &Path) -> Option<String> {
    let status = tree.0.get(path)?;
    let is_short = status.length <= MAX_TEXT as u64;
    let entry = Entry::read(top, path, status).ok().filter(|_| is_short)?;
    entry.text().map(str::to_owned)
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
        let programs = ["programs".into()].into();
        let sealed = Sealed::take(project.path(), &tree, command, &programs, &further).unwrap();
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
    fn what_a_script_enters_and_python_runs_is_sealed() {
        let files = [
            (
                "Makefile",
                "test:\n\tcd web && ./check.sh && sh ./t/*.sh\n\tchecker\n",
            ),
            ("web/check.sh", "cd deep; . ./more.sh"),
            ("web/deep/more.sh", ""),
            ("web/t/a.sh", ""),
            ("programs/checker", ". ./other.sh"),
            ("programs/unused", ""),
            ("other.sh", ""),
            ("calc.py", ""),
            ("mod/calc/__init__.py", ""),
            ("checks/__init__.py", ""),
            ("checks/run.py", ""),
        ];
        let made = "Makefile other.sh programs/checker web/check.sh web/deep/more.sh web/t/a.sh";
        for (command, more) in [
            ("make", ""),
            ("pytest --cov=calc; python -m mypy mod.calc", ""),
            ("python -m checks.run", "checks/__init__.py checks/run.py"),
            (
                "python -m unittest -v checks.run.T && mypy calc",
                "checks/__init__.py checks/run.py",
            ),
            ("python -m unittest discover checks", ""),
        ] {
            let expected: BTreeSet<_> = made.split(' ').chain(more.split_whitespace()).collect();
            let found = sealed(command, &files, &[]);
            let found: BTreeSet<_> = found.iter().map(String::as_str).collect();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn every_usual_pattern_is_one() {
        assert!(set(TESTS.iter().chain(&RUNNERS).copied()).is_ok());
        assert!(set(["a["].into_iter()).is_err());
    }
}
