//! Analyzes a command line for the permission rules: which programs it would run, and which files it touches.
//!
//! An error here would let a command escape a rule, so a line that `parser` does not understand has no known commands.

mod builtins;
mod effect;
mod expansion;
mod git_reading;
mod made;
mod options;
mod parser;
mod places;
mod proposal;
mod repository;
mod tar;
mod variables;
mod word;
mod wrapper;

use std::path::{Path, PathBuf};

use ah_conversation::{CommandLine, Effect, PossibleFiles, SimpleCommand, may_hold_steering};

pub(super) use expansion::Files;
use expansion::behind_links;
use made::{Renamed, makers_of_files, makers_of_links, renames};
use parser::{Move, ParsedCommand, ParsedLine};
use places::{
    Directories, file_of_address, further_names, is_address_pattern, named, pattern,
    reaches_processes,
};
use proposal::proposal;
pub(super) use repository::stays_in_repository;
use word::Word;

/// Analysis of a command line.
pub(super) struct Analysis {
    /// The line and its commands.
    pub line: CommandLine,
    /// Whether git only looks at the repository, in which it starts nothing.
    pub looks_at_repository: bool,
    /// Whether it consists of plain words and sets no variable, so that no shell reads it in another way.
    is_plain: bool,
    /// Files that redirections read.
    pub reads: Vec<PathBuf>,
    /// Files that redirections and options write.
    pub writes: Vec<PathBuf>,
}

impl Analysis {
    /// Returns that of a line which may do anything.
    fn opaque(line: &str) -> Self {
        Self {
            line: CommandLine::opaque(line),
            looks_at_repository: false,
            is_plain: false,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// Returns the analysis for where nothing keeps a command to what it was judged to do: unless the line is plain, it may do
    /// anything.
    #[must_use]
    pub fn unkept(mut self) -> Self {
        if !self.is_plain {
            self.line.harmless = false;
            self.line
                .commands
                .iter_mut()
                .flatten()
                .for_each(raise_effect);
        }
        self
    }
}

/// Analyzes `line`, which names some of the `files`.
pub(super) fn analyze(line: &str, files: &dyn Files) -> Analysis {
    let mut parsed = parser::parse(line);
    let directories = Directories::of(&parsed);
    if directories.name_too_much(line, &parsed) {
        return Analysis::opaque(line);
    }
    let links = parsed.commands.iter().map(makers_of_links).sum();
    let stays = |step: &Move| matches!(step, Move::To(name) if stays_here(name, files, links));
    parsed.moves.retain(|step| !stays(step));
    let looks_at_repository = looks_at_repository(&parsed, files);
    let directories = Directories::of(&parsed);
    let renamed = Renamed::of(&parsed, |name| resolved(&directories, name, files));
    let resolver = Resolver {
        looks_at_repository,
        files,
        links,
        makers: makers_of_files(&parsed),
        directories,
        renamed,
        steers: parsed
            .set
            .iter()
            .any(|name| variables::may_mean_something(name)),
    };
    let redirected = |is_write: bool| -> Vec<PathBuf> {
        let redirections = parsed.redirections.iter();
        redirections
            .filter(|redirection| redirection.is_write == is_write)
            .flat_map(|redirection| resolver.places(&redirection.file))
            .collect()
    };
    let (reads, mut writes) = (redirected(false), redirected(true));
    let named = { parsed.redirections.iter() }.map(|redirection| Path::new(&redirection.file));
    let mut reached = reads.iter().map(PathBuf::as_path).chain(named);
    let reads_process = reached.any(reaches_processes);
    let mut names = parsed.redirections.iter();
    let are_files_known = names.all(|redirection| {
        let name = &redirection.file;
        resolver.directories.knows(name) && !resolver.renamed.lead_to(&resolver.places(name))
    });
    let written = written_by_options(&parsed.commands);
    let has_writes = !writes.is_empty();
    for name in &written {
        writes.extend(resolver.places(name));
    }
    let looks = parsed.moves.is_empty() && is_read_only(&parsed, true);
    let is_read_only = is_read_only(&parsed, looks_at_repository);
    let has_syntax = parsed.has_syntax;
    let is_plain = parsed.is_plain();
    let is_known = parsed.is_understood && are_files_known;
    let commands = is_known.then(|| {
        let commands = parsed.commands.into_iter();
        let mut commands: Vec<_> = commands.map(|command| resolver.command(command)).collect();
        if reads_process {
            commands.iter_mut().for_each(raise_effect);
        }
        if has_syntax || has_writes || !moves_last(&commands) {
            raise_effects_around_moved_files(&mut commands);
        }
        if !commands.iter().all(changes_nothing) {
            // A program with a relative path, or that inspects its working directory, differs in another directory.
            let moves = commands.iter_mut();
            moves.for_each(|command| raise_effect_of_moves(command, files, links));
        }
        commands
    });
    let is_harmless = { commands.iter() }.all(|commands| commands.iter().all(changes_nothing));
    Analysis {
        line: CommandLine {
            line: line.to_owned(),
            harmless: is_read_only && is_harmless,
            looks,
            commands,
        },
        looks_at_repository,
        is_plain,
        reads,
        writes,
    }
}

/// Returns the paths that a name may mean.
fn resolved(directories: &Directories, name: &str, files: &dyn Files) -> Vec<PathBuf> {
    let names = directories.places(name);
    names.iter().map(|name| files.resolve(name)).collect()
}

/// Returns the files that options of the commands write.
fn written_by_options(commands: &[ParsedCommand]) -> Vec<String> {
    let mut files = Vec::new();
    for command in commands {
        files.extend(options::read(command.invocation()).written);
        files.extend(written_by_options(&command.inner));
    }
    files
}

/// Whether nothing makes or writes files after a command that moves some: it may move a symbolic link to where the
/// paths of later commands were resolved.
fn moves_last(commands: &[SimpleCommand]) -> bool {
    let is_move_of_files = |command: &SimpleCommand| is_of(command, "mv");
    let first = commands.iter().position(is_move_of_files);
    first.is_none_or(|at| commands[at + 1..].iter().all(changes_nothing))
}

/// Unless no command moves files, lets no command count as one that only works on files.
fn raise_effects_around_moved_files(commands: &mut [SimpleCommand]) {
    fn moves_files(command: &SimpleCommand) -> bool {
        is_of(command, "mv") || command.inner.iter().any(moves_files)
    }
    if commands.iter().any(moves_files) {
        let works_on_files = |command: &&mut SimpleCommand| command.effect == Effect::Files;
        commands
            .iter_mut()
            .filter(works_on_files)
            .for_each(raise_effect);
    }
}

fn is_of(command: &SimpleCommand, program: &str) -> bool {
    matches!(command.words.first(), Some(Some(name)) if name == program)
}

fn raise_effect(command: &mut SimpleCommand) {
    command.effect = Effect::Any;
    command.inner.iter_mut().for_each(raise_effect);
}

/// Whether the line consists of read-only commands and nothing else: they may run side by side, and again.
fn is_read_only(parsed: &ParsedLine, looks_at_repository: bool) -> bool {
    let reads = |words: &[Word]| {
        effect::is_read_only(words) || (looks_at_repository && git_reading::only_reads(words))
    };
    let mut commands = parsed.commands.iter();
    parsed.is_understood
        && !parsed.has_syntax
        && !parsed.commands.is_empty()
        && commands.all(|command| command.assignments == 0 && reads(&command.words))
}

/// Whether the line changes nothing, and its commands of git only look at the repository in which it begins, where they have
/// nothing started.
fn looks_at_repository(parsed: &ParsedLine, files: &dyn Files) -> bool {
    let mut commands = parsed.commands.iter();
    parsed.moves.is_empty()
        && commands.any(|command| git_reading::only_reads(&command.words))
        && is_read_only(parsed, true)
        && files.repository_starts_nothing()
}

fn changes_nothing(command: &SimpleCommand) -> bool {
    command.effect == Effect::None && command.inner.iter().all(changes_nothing)
}

fn raise_effect_of_moves(command: &mut SimpleCommand, files: &dyn Files, links: usize) {
    let stays = match command.words.as_slice() {
        [Some(program), Some(name)] => program == "cd" && stays_here(name, files, links),
        _ => false,
    };
    if let Some(Some(program)) = command.words.first()
        && parser::is_move(program)
        && !stays
    {
        command.effect = Effect::Any;
    }
    let inner = command.inner.iter_mut();
    inner.for_each(|command| raise_effect_of_moves(command, files, links));
}

/// Whether `cd` to this folder stays in the one in which the line starts. `links` says how many commands of the line
/// may make links.
fn stays_here(name: &str, files: &dyn Files, links: usize) -> bool {
    let here = files.resolve(".");
    let is_there = || Path::new(name) == here || (links == 0 && files.resolve(name) == here);
    name == "." || (name.starts_with('/') && is_there())
}

/// Resolves the files of parsed commands.
struct Resolver<'a> {
    /// Whether git only looks at the repository of the line.
    looks_at_repository: bool,
    files: &'a dyn Files,
    /// Number of commands in the line that may make symbolic links.
    links: usize,
    /// Number of commands and redirections in the line that may make files.
    makers: usize,
    /// Working directories that the commands of the line may have.
    directories: Directories,
    /// Names that the line makes lead elsewhere.
    renamed: Renamed,
    /// Whether the line sets variables that mean something to programs.
    steers: bool,
}

impl Resolver<'_> {
    fn command(&self, parsed: ParsedCommand) -> SimpleCommand {
        let text = source(&parsed.words);
        let invocation = parsed.invocation();
        let expands = self.expands_to_options(invocation);
        let unknown_options = parsed.has_unknown_options || expands;
        let reach = if expands {
            text.len()
        } else {
            source(&parsed.words[..parsed.reach]).len()
        };
        let words: Vec<Option<String>> = invocation.iter().map(|word| word.text.clone()).collect();
        let directories = self.directories.with(folder_of(&words));
        let arguments = words.iter().skip(1).flatten();
        let mut is_behind = false;
        let names = arguments.filter_map(|argument| {
            let name = named(argument, is_behind);
            is_behind |= argument == "--";
            name
        });
        let mut named: Vec<String> = names.flat_map(|name| directories.places(name)).collect();
        let texts = words.iter().skip(1).flatten();
        named.extend(texts.filter_map(|text| file_of_address(text)));
        // What is behind a link of a process is a place of its own.
        let names_process = { named.iter() }.any(|name| reaches_processes(Path::new(name)));
        let mut operands: Vec<PathBuf> = { named.iter() }
            .map(|name| self.files.resolve(name))
            .collect();
        let below = self.links_below(invocation, &directories);
        let mut files = self.possible_files(invocation, &directories, below.as_deref());
        let all = || operands.iter().chain(&files.patterns);
        let mut effect =
            if unknown_options || names_process || all().any(|path| reaches_processes(path)) {
                Effect::Any
            } else {
                self.effect_of_words(&parsed, &words)
            };
        if !renames(&parsed) && self.renamed.lead_to(&operands) {
            files.patterns.push("/**".into());
        }
        if effect == Effect::Files {
            match effect::made_in_folder(invocation) {
                Some(made) => operands.extend(made.iter().map(|name| self.files.resolve(name))),
                None => effect = Effect::Any,
            }
            // A folder that is moved brings all that is in it.
            let mut moved = operands.iter().filter(|_| effect::is_of(invocation, "mv"));
            if moved.any(|path| may_hold_steering(path)) {
                effect = Effect::Any;
            }
        }
        if effect == Effect::None {
            files.seen = self.seen(invocation, &directories, below);
        }
        let assignments = &parsed.words[..parsed.assignments];
        let (settings, ruled) =
            match !invocation.is_empty() && variables::are_harmless_settings(assignments) {
                true => (text.len() - source(invocation).len(), invocation),
                false => (0, &parsed.words[..]),
            };
        let proposal = proposal(ruled, &text[settings..]);
        let steered =
            self.steers || (self.directories.has_moved && effect::is_of(invocation, "git"));
        let may_start = parsed.inner.is_empty() && effect::may_start_arguments(invocation);
        let inner = parsed.inner.into_iter();
        SimpleCommand {
            proposal,
            text,
            settings,
            words,
            operands,
            files,
            effect,
            may_start,
            unknown_options,
            steered,
            reach,
            transparent: parsed.transparent,
            inner: inner.map(|inner| self.command(inner)).collect(),
        }
    }

    /// Returns the effect of the command as far as its words tell it.
    fn effect_of_words(&self, parsed: &ParsedCommand, words: &[Option<String>]) -> Effect {
        let invocation = parsed.invocation();
        let assignments = &parsed.words[..parsed.assignments];
        if invocation.is_empty() && variables::sets_own_variables(assignments) {
            return Effect::None;
        }
        if !variables::are_harmless_settings(assignments)
            && !variables::splits_for_read(assignments, invocation)
        {
            return Effect::Any;
        }
        let may_work_on_files = !self.directories.has_moved && !self.removes_here(words);
        let is_harmless = effect::is_read_only(invocation)
            || variables::reads_own_variables(invocation)
            || variables::shows_variables(invocation)
            || (self.looks_at_repository && git_reading::only_reads(invocation));
        if is_harmless {
            Effect::None
        } else if may_work_on_files && effect::is_file_work(invocation) {
            Effect::Files
        } else {
            Effect::Any
        }
    }

    /// Whether a pattern among the arguments of a program whose options are listed may stand for an option.
    fn expands_to_options(&self, words: &[Word]) -> bool {
        let is_end = |word: &&Word| word.text.as_deref() == Some("--");
        let mut patterns = words.iter().take_while(|word| !is_end(word));
        // What is made before may be named like an option.
        let are_known = self.makers <= usize::from(effect::may_make_files(words));
        options::are_known_of(words)
            && patterns.any(|word| {
                // Of a pattern with quotes or expansions, it is not looked up what it stands for.
                word.text.is_none()
                    && word.begins_wild
                    && (!are_known
                        || pattern(word).is_none()
                        || expansion::may_be_option(&word.raw, &self.places("."), self.files))
            })
    }

    /// Returns the paths that a name may mean.
    fn places(&self, name: &str) -> Vec<PathBuf> {
        resolved(&self.directories, name, self.files)
    }

    /// Returns the files that the command may touch besides its operands. `below` is what [`Self::links_below`] returns.
    fn possible_files(
        &self,
        words: &[Word],
        directories: &Directories,
        below: Option<&[PathBuf]>,
    ) -> PossibleFiles {
        let (shows, changes) = effect::touches(words);
        let mut found = PossibleFiles {
            patterns: Vec::new(),
            seen: Vec::new(),
            shows,
            changes,
        };
        if !shows && !changes && !effect::lists(words) {
            return found;
        }
        let mut names: Vec<String> = Vec::new();
        let (mut is_anything, mut is_behind) = (false, false);
        for word in words.iter().skip(1) {
            let (text, is_pattern) = match (&word.text, pattern(word)) {
                (Some(text), _) => (text.as_str(), false),
                (None, Some(pattern)) => (pattern, true),
                (None, None) => {
                    is_anything |= shows || changes || word.raw.contains(['*', '?', '[']);
                    continue;
                }
            };
            if is_pattern {
                let led = self.behind_links(words, text, directories);
                is_anything |= led.is_none();
                found.patterns.extend(led.into_iter().flatten());
            }
            is_anything |= effect::is_of(words, "curl") && is_address_pattern(text);
            let own = named(text, is_behind);
            is_behind |= text == "--";
            is_anything |= own.is_some_and(|name| !directories.knows(name));
            names.extend(own.filter(|_| is_pattern).map(str::to_owned));
            names.extend(further_names(text).into_iter().map(str::to_owned));
            names.extend(file_of_address(text));
            if effect::searches_folders(words) {
                // What the line makes before may be a folder.
                let may_be_folder = |name: &&str| {
                    let mut places = directories.places(name).into_iter();
                    self.makers > 0
                        || places.any(|name| self.files.may_be_folder(&self.files.resolve(&name)))
                };
                let folders = own.filter(may_be_folder);
                names.extend(folders.map(|name| format!("{name}/**")));
            }
        }
        if effect::searches_folders(words) {
            let below: Vec<_> = found.patterns.iter().map(|path| path.join("**")).collect();
            found.patterns.extend(below);
        }
        if effect::searches_here(words) || effect::rewrites_here(words) {
            names.push("**".to_owned());
        }
        // What is unpacked into a folder may be any file there.
        let is_tar = effect::is_of(words, "tar") || effect::is_of(words, "bsdtar");
        let is_folder = |name: &String| is_tar || name == ".";
        let written = options::read(words).written.into_iter().filter(is_folder);
        names.extend(written.map(|name| format!("{name}/**")));
        let all = names.iter().flat_map(|name| directories.places(name));
        found
            .patterns
            .extend(all.map(|name| self.files.resolve(&name)));
        found.patterns.extend(below.into_iter().flatten().cloned());
        if is_anything || below.is_none() {
            found.patterns.push("/**".into());
        }
        found
    }

    /// Returns where symbolic links lead among the paths that a pattern may stand for; `None` if it may be anything.
    fn behind_links(
        &self,
        words: &[Word],
        pattern: &str,
        directories: &Directories,
    ) -> Option<Vec<PathBuf>> {
        // What the command itself makes comes after the shell has replaced its patterns.
        let links = self.links > usize::from(effect::may_make_links(words));
        let places = directories.places(pattern);
        let led: Option<Vec<_>> = { places.iter() }
            .map(|place| behind_links(place, self.files, links))
            .collect();
        led.map(|led| led.concat())
    }

    /// Returns where symbolic links lead that the command follows in the folders which it names; `None` if they may lead
    /// anywhere.
    fn links_below(&self, words: &[Word], directories: &Directories) -> Option<Vec<PathBuf>> {
        if !effect::follows_links(words) {
            return Some(Vec::new());
        }
        let texts: Option<Vec<&str>> = words.iter().skip(1).map(|it| it.text.as_deref()).collect();
        // What the command itself makes comes after.
        let links = self.links > usize::from(effect::may_make_links(words));
        let texts = texts.filter(|_| !links)?;
        let is_here =
            effect::searches_here(words) || texts.iter().all(|text| text.starts_with('-'));
        // An argument that is no folder has nothing below it.
        let names = texts.iter().filter_map(|text| named(text, true));
        let names = names.chain(is_here.then_some("."));
        let folders = names.flat_map(|name| directories.places(name));
        let folders = folders.map(|name| self.files.resolve(&name)).collect();
        expansion::links_below(folders, self.files)
    }

    /// Returns what a command that changes nothing looks at; `/**` if that is not known. `below` is what
    /// [`Self::links_below`] returns.
    fn seen(
        &self,
        words: &[Word],
        directories: &Directories,
        below: Option<Vec<PathBuf>>,
    ) -> Vec<PathBuf> {
        let Some(has_folders) = effect::looks(words) else {
            return Vec::new();
        };
        let searched = effect::searched(words);
        let (mut names, mut led) = (Vec::new(), Vec::new());
        let (mut is_behind, mut has_operand) = (false, false);
        let mut is_known = below.is_some();
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.text.as_deref().or_else(|| pattern(word));
            let Some(text) = text.filter(|_| searched != Some(at)) else {
                is_known &= searched == Some(at);
                continue;
            };
            if word.text.is_none() {
                let paths = self.behind_links(words, text, directories);
                is_known &= paths.is_some();
                led.extend(paths.into_iter().flatten());
            }
            names.extend(named(text, is_behind));
            let is_operand = is_behind || !text.starts_with('-');
            has_operand |= is_operand;
            names.extend(is_operand.then_some(text));
            names.extend(further_names(text));
            is_behind |= text == "--";
        }
        if !has_operand && !effect::is_going(words) {
            names.push(".");
        }
        is_known &= names.iter().all(|name| directories.knows(name));
        let all = names.iter().flat_map(|name| directories.places(name));
        let whole = |path: PathBuf| match has_folders {
            true => path.join("**"),
            false => path,
        };
        let all = all.map(|name| self.files.resolve(&name));
        let mut seen: Vec<_> = all
            .chain(led)
            .map(whole)
            .chain(below.unwrap_or_default())
            .collect();
        seen.extend((!is_known).then(|| PathBuf::from("/**")));
        seen
    }

    /// Whether the command would remove the working directory itself.
    fn removes_here(&self, words: &[Option<String>]) -> bool {
        let here = self.files.resolve(".");
        let removes = matches!(words.first(), Some(Some(program)) if program == "rm");
        let mut names = words.iter().skip(1).flatten();
        removes && names.any(|name| here.starts_with(self.files.resolve(name)))
    }
}

/// Returns the words as they are written, separated by one blank.
fn source(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    words.join(" ")
}

/// Returns the folder in which an option tells the program to look for its files.
fn folder_of(words: &[Option<String>]) -> Option<&str> {
    let texts = || words.iter().skip(1).flatten();
    let position = texts().position(|text| text == "-C" || text == "--directory");
    let apart = position.and_then(|at| texts().nth(at + 1));
    let joined = texts().find_map(|text| text.strip_prefix("--directory="));
    apart.map(String::as_str).or(joined)
}

#[cfg(test)]
mod tests;
