//! Where the bytes of the binary and of a run go, as a page of the documentation; and the list of functions that runs call,
//! for their order in the binary (`layout.rs`).
//!
//! The linker's map says where each function is, and Valgrind which instructions ran, so the binary needs no names in it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use super::answer::{runs, says};
use super::process::{Agent, time};
use super::rows::long_session;
use super::server::Server;
use crate::layout::{self, MAP};
use crate::workspace::root;

/// The page, below the root.
const PAGE: &str = "docs/lean.md";
/// Crates and functions with a line of their own.
const CRATES: usize = 40;
/// The sections of the binary that have one.
const SECTIONS: [&str; 8] = [
    ".text",
    ".rodata",
    ".eh_frame",
    ".eh_frame_hdr",
    ".gcc_except_table",
    ".rela.dyn",
    ".data.rel.ro",
    ".data",
];

/// Measures `binary`, and writes the page and the list.
pub fn profile(binary: &Path) -> Result<()> {
    let map = binary.with_file_name("deps").join(MAP);
    let map = fs::read_to_string(&map)
        .with_context(|| format!("reading {}, which a new build writes", map.display()))?;
    let map = Map::of(&map);
    let traced = Traced::new(binary)?;
    let version = traced.functions(&map, |agent| {
        let folder = agent.folder()?;
        time(&mut agent.command(&folder, "unused", &["--version"])?).map(|_| ())
    })?;
    let one = traced.functions(&map, |agent| {
        agent
            .run(&agent.folder()?, 1, Arc::new(|_| says("Done.")))
            .map(|_| ())
    })?;
    let turns = traced.functions(&map, |agent| {
        let folder = agent.folder()?;
        let script = |turn| match turn {
            3 => says("Done."),
            _ => runs(turn, [format!("true {turn}").as_str()]),
        };
        agent.run(&folder, 4, Arc::new(script))?;
        agent
            .go_on(&folder, &[], 1, Arc::new(|_| says("Done.")))
            .map(|_| ())
    })?;
    let ordered = [&version, &one, &turns].into_iter().flatten();
    let names: Vec<String> = ordered.map(|at| map.functions[*at].name.clone()).collect();
    layout::write(&names)?;

    let mut page = String::from(
        "# Where the bytes go\n\nMade by `cargo xtask bench --profile`, of the binary that is measured there (the profile \
         `dist`, for the C library of the system). Code that\nstands together is mapped together: what a run calls is at the \
         front of the binary (`xtask/src/layout.rs`).\n\n",
    );
    sections(&mut page, &map, binary)?;
    starts(&mut page, &map, binary, [&version, &one, &turns])?;
    allocations(&mut page, binary)?;
    crates(&mut page, &map);
    let path = root().join(PAGE);
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}

/// What the linker's map says.
struct Map {
    sections: HashMap<String, u64>,
    /// By address.
    functions: Vec<Function>,
}

struct Function {
    address: u64,
    size: u64,
    name: String,
}

impl Map {
    /// Reads lines of address, load address, size and alignment; then a section, its parts, or their symbols, indented more
    /// and more.
    fn of(text: &str) -> Self {
        let (mut sections, mut functions, mut is_code) = (HashMap::new(), Vec::new(), false);
        for line in text.lines().skip(1) {
            let Some((head, rest)) = line.split_at_checked(48) else {
                continue;
            };
            let mut numbers = head.split_whitespace();
            let mut hexadecimal = || u64::from_str_radix(numbers.next()?, 16).ok();
            let (Some(address), Some(_), Some(size)) =
                (hexadecimal(), hexadecimal(), hexadecimal())
            else {
                continue;
            };
            let name = rest.trim_start();
            match rest.len() - name.len() {
                0 | 1 => {
                    is_code = name == ".text";
                    *sections.entry(name.to_owned()).or_default() += size;
                }
                16 | 17 if is_code && size > 0 => functions.push(Function {
                    address,
                    size,
                    name: name.to_owned(),
                }),
                _ => {}
            }
        }
        functions.sort_by_key(|function| function.address);
        // Several names of one.
        functions.dedup_by_key(|function| function.address);
        Self {
            sections,
            functions,
        }
    }

    /// Returns the place in the list of the function with the instruction at `address`.
    fn at(&self, address: u64) -> Option<usize> {
        let after = self
            .functions
            .partition_point(|function| function.address <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address < function.address + function.size).then_some(after - 1)
    }

    fn size(&self, functions: &BTreeSet<usize>) -> u64 {
        functions.iter().map(|at| self.functions[*at].size).sum()
    }
}

/// The binary under Valgrind.
struct Traced {
    agent: Agent,
    binary: PathBuf,
    outputs: tempfile::TempDir,
}

impl Traced {
    fn new(binary: &Path) -> Result<Self> {
        let outputs = tempfile::tempdir()?;
        let tool = format!(
            "--tool=callgrind --dump-instr=yes --compress-pos=no --compress-strings=no \
             --callgrind-out-file='{}/%p'",
            outputs.path().display()
        );
        let script = under_valgrind(&outputs.path().join("ah"), &tool, binary)?;
        Ok(Self {
            agent: Agent::new(&script, Server::start()?)?,
            binary: binary.to_path_buf(),
            outputs,
        })
    }

    /// Returns the functions that `act` calls.
    fn functions(
        &self,
        map: &Map,
        act: impl FnOnce(&Agent) -> Result<()>,
    ) -> Result<BTreeSet<usize>> {
        act(&self.agent)?;
        let mut called = BTreeSet::new();
        for entry in fs::read_dir(self.outputs.path())? {
            let path = entry?.path();
            if path.extension().is_some() || path.ends_with("ah") {
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            let addresses = addresses(&text, &self.binary);
            called.extend(addresses.filter_map(|address| map.at(address)));
            fs::remove_file(path)?;
        }
        ensure!(!called.is_empty(), "Valgrind saw none of our functions");
        Ok(called)
    }
}

/// Writes a script that runs the binary under a tool of Valgrind; returns its path.
fn under_valgrind(path: &Path, tool: &str, binary: &Path) -> Result<PathBuf> {
    let script = format!(
        "#!/bin/sh\nexec valgrind {tool} '{}' \"$@\"\n",
        binary.display()
    );
    fs::write(path, script)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(path.to_owned())
}

/// Returns the addresses of instructions of `binary` in an output of Callgrind.
fn addresses<'a>(text: &'a str, binary: &Path) -> impl Iterator<Item = u64> + 'a {
    let ours = format!("ob={}", binary.display());
    let mut is_ours = false;
    text.lines().filter_map(move |line| {
        if line.starts_with("ob=") {
            is_ours = line == ours;
        }
        let address = line.strip_prefix("0x").filter(|_| is_ours)?;
        u64::from_str_radix(address.split(' ').next()?, 16).ok()
    })
}

#[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

fn sections(page: &mut String, map: &Map, binary: &Path) -> Result<()> {
    let size = megabytes(fs::metadata(binary)?.len());
    writeln!(
        page,
        "## The binary: {size}\n\n| section | bytes |\n| --- | --- |"
    )?;
    for name in SECTIONS {
        if let Some(size) = map.sections.get(name) {
            writeln!(page, "| `{name}` | {} |", megabytes(*size))?;
        }
    }
    Ok(())
}

fn starts(
    page: &mut String,
    map: &Map,
    binary: &Path,
    called: [&BTreeSet<usize>; 3],
) -> Result<()> {
    let agent = Agent::new(binary, Server::start()?)?;
    let faults = |act: &dyn Fn() -> Result<()>| -> Result<i64> {
        let before = getrusage(UsageWho::RUSAGE_CHILDREN)?.minor_page_faults();
        act()?;
        Ok(getrusage(UsageWho::RUSAGE_CHILDREN)?.minor_page_faults() - before)
    };
    let version = faults(&|| {
        let folder = agent.folder()?;
        time(&mut agent.command(&folder, "unused", &["--version"])?).map(|_| ())
    })?;
    let one = faults(&|| {
        let folder = agent.folder()?;
        agent
            .run(&folder, 1, Arc::new(|_| says("Done.")))
            .map(|_| ())
    })?;
    let all: BTreeSet<usize> = (0..map.functions.len()).collect();
    writeln!(
        page,
        "\n## What a run calls\n\n| | functions | their bytes | page faults |\n| --- | --- | --- | --- |"
    )?;
    let rows = [
        ("`--version`", called[0], version.to_string()),
        ("one prompt, one answer", called[1], one.to_string()),
        ("commands, and resuming", called[2], "–".to_owned()),
        ("all there are", &all, "–".to_owned()),
    ];
    for (what, functions, faults) in rows {
        let size = megabytes(map.size(functions));
        writeln!(page, "| {what} | {} | {size} | {faults} |", functions.len())?;
    }
    Ok(())
}

/// Has Valgrind count the allocations of a session of 1,000 turns.
fn allocations(page: &mut String, binary: &Path) -> Result<()> {
    let outputs = tempfile::tempdir()?;
    let script = outputs.path().join("ah");
    let script = under_valgrind(&script, "--tool=dhat --dhat-out-file=/dev/null", binary)?;
    let agent = Agent::new(&script, Server::start()?)?;
    let folder = agent.folder()?;
    long_session(&agent, &folder)?;
    let said = fs::read_to_string(folder.join("stderr"))?;
    writeln!(page, "\n## Allocations of 1,000 turns\n")?;
    for (label, what) in [
        ("Total:", "in all"),
        ("At t-gmax:", "alive at once, at most"),
        ("At t-end:", "alive at the end"),
    ] {
        let line = said
            .lines()
            .find_map(|line| Some(line.split_once(label)?.1.trim()));
        writeln!(
            page,
            "- {what}: {}",
            line.context("Valgrind counted nothing")?
        )?;
    }
    Ok(())
}

fn crates(page: &mut String, map: &Map) {
    let mut sizes: HashMap<String, u64> = HashMap::new();
    for function in &map.functions {
        *sizes.entry(owner(&function.name)).or_default() += function.size;
    }
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    *page += "\n## Code by crate\n\nCode that a crate has of another crate's generic functions counts for the other one.\n\n\
              | crate | bytes |\n| --- | --- |\n";
    for (name, size) in sizes.iter().take(CRATES) {
        let _ = writeln!(page, "| {name} | {} |", megabytes(*size));
    }
    let rest: u64 = sizes.iter().skip(CRATES).map(|(_, size)| size).sum();
    let _ = writeln!(page, "| all others | {} |", megabytes(rest));
}

/// Returns the crate of a function: the first one in its name.
fn owner(name: &str) -> String {
    let Ok(readable) = rustc_demangle::try_demangle(name) else {
        return "C".to_owned();
    };
    let readable = format!("{readable:#}");
    let start = readable.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let start = ["dyn ", "mut "]
        .iter()
        .fold(start, |start, word| start.trim_start_matches(word));
    let end = start.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    format!("`{}`", &start[..end.unwrap_or(start.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
             VMA              LMA     Size Align Out     In      Symbol
            1000             1000       80     1 .rodata
            2000             2000       60    16 .text
            2000             2000       20    16         a.o:(.text.f)
            2000             2000       1e     1                 _RNvCs1_1a1f
            2000             2000       1e     1                 another
            2020             2020       40    16         a.o:(.text.g)
            2020             2020       40     1                 g
";

    #[test]
    fn functions_are_found_by_their_instructions() {
        let map = Map::of(TEXT);
        assert_eq!(map.sections[".text"], 0x60);
        assert_eq!(map.sections[".rodata"], 0x80);
        let found = [0x1fff, 0x2000, 0x201d, 0x201e, 0x2040, 0x2060].map(|at| map.at(at));
        assert_eq!(found, [None, Some(0), Some(0), None, Some(1), None]);
        assert_eq!(map.size(&BTreeSet::from([0, 1])), 0x5e);
    }

    #[test]
    fn only_instructions_of_the_binary_count() {
        let text =
            "ob=/lib/c.so\n0x10 0 1\nob=/bin/ah\nfn=x\n0x2000 0 1\ncalls=1 0x5 0\n0x2004 0 9\n";
        let found: Vec<u64> = addresses(text, Path::new("/bin/ah")).collect();
        assert_eq!(found, [0x2000, 0x2004]);
    }

    #[test]
    fn a_function_belongs_to_the_first_crate_in_its_name() {
        assert_eq!(owner("_RNvCs1_4tree3cut"), "`tree`");
        assert_eq!(
            owner("_RNvXCs1_4treeNtB2_4LeafNtNtCs2_4core3fmt5Debug3fmt"),
            "`tree`"
        );
        assert_eq!(owner("sqlite3_step"), "C");
    }
}
