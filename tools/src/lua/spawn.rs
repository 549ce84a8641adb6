//! The module `spawn`: runs programs through `ah-process`, as every tool does.
//!
//! A program ends when its handle is collected or its call is dropped.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_process::{Behind, Child, Command, Ending, Keep, ShellLine};
use mlua::{Lua, LuaString, MetaMethod, Table, UserData, UserDataFields, UserDataMethods, Value};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;

use super::env;
use super::json;
use super::leash::Leash;
use super::module::{Module, ModuleResult};
use super::surroundings::{LuaSurroundings, surroundings};
use super::wait::block_on;
use crate::withheld;

/// Interval of checks whether the program has ended, while other processes hold its pipes.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time for which the output of other processes is read after the program has ended.
const DRAIN: Duration = Duration::from_millis(100);
const BUFFER: usize = 64 * 1024;

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    let spawn = lua.create_function(spawn)?;
    module.function(&["run"], lua.create_function(run)?)?;
    module.function(&["spawn", "start"], spawn.clone())?;
    let metatable = lua.create_table()?;
    let call = lua.create_function(
        move |_, (_, program, options): (Value, Value, Option<Table>)| {
            spawn.call::<(Value, Value)>((program, options))
        },
    )?;
    metatable.set(MetaMethod::Call.name(), call)?;
    module.set_metatable(Some(metatable))?;
    Ok(module)
}

/// A program and its output so far.
struct Running {
    child: Arc<Child>,
    stdin: Option<Input>,
    stdout: Stream,
    stderr: Stream,
}

/// Standard input of a program, with the bytes that it has not read.
struct Input {
    pipe: PipeWriter,
    waiting: Vec<u8>,
    is_whole: bool,
}

/// An output stream of a program, with the bytes that the script has not read.
struct Stream {
    pipe: Option<PipeReader>,
    read: Vec<u8>,
}

/// Output stream of a program.
#[derive(Clone, Copy)]
enum Which {
    Out,
    Errors,
}

/// The handle of a program in scripts.
struct Handle(Arc<Mutex<Running>>);

/// A stream of a program; `None` is standard input.
struct Pipe(Arc<Mutex<Running>>, Option<Which>);

fn spawn(
    lua: &Lua,
    (program, options): (Value, Option<Table>),
) -> mlua::Result<ModuleResult<Handle>> {
    Ok(match start(lua, program, options)? {
        Ok(running) => (Some(Handle(Arc::new(Mutex::new(running)))), None),
        Err(fault) => (None, Some(fault)),
    })
}

/// Runs a program to its end.
fn run(lua: &Lua, (program, options): (Value, Option<Table>)) -> mlua::Result<ModuleResult<Table>> {
    let mut running = match start(lua, program, options)? {
        Ok(running) => running,
        Err(fault) => return Ok((None, Some(fault))),
    };
    let ending = running.finish(lua)?;
    let outcome = lua.create_table()?;
    outcome.set("ok", ending == Ending::Exited(0))?;
    outcome.set("code", ending.code())?;
    outcome.set("timed_out", matches!(ending, Ending::TimedOut(_)))?;
    outcome.set("stdout", lua.create_string(&running.stdout.read)?)?;
    outcome.set("stderr", lua.create_string(&running.stderr.read)?)?;
    Ok((Some(outcome), None))
}

fn start(
    lua: &Lua,
    program: Value,
    options: Option<Table>,
) -> mlua::Result<Result<Running, String>> {
    let around = surroundings(lua)?;
    let options = match options {
        Some(options) => options,
        None => lua.create_table()?,
    };
    let mut stdin = Vec::new();
    let mut words: Vec<OsString> = match program {
        Value::String(line) => {
            let shell = &around.shell.program;
            let line = ShellLine::new(shell, &line.to_string_lossy(), Behind::Input);
            stdin = line.stdin;
            let words = std::iter::once(shell.clone().into());
            words.chain(line.arguments).collect()
        }
        other => match lua.convert::<Vec<OsString>>(other) {
            Ok(words) if !words.is_empty() => words,
            Ok(_) | Err(_) => {
                return Err(mlua::Error::runtime(
                    "a program is a list of words, or a line for the shell",
                ));
            }
        },
    };
    let environment = variables(lua, options.get("env")?)?;
    let name = words.remove(0);
    let Some(path) = find(&name, &around, &environment) else {
        return Ok(Err(format!("command not found: {}", name.display())));
    };
    let cwd = options.get::<Option<PathBuf>>("cwd")?;
    let timeout: Option<u64> = options.get("timeout_ms")?;
    let command = Command {
        program: path,
        arguments: words,
        cwd: cwd.map_or_else(|| around.cwd.clone(), |cwd| around.cwd.join(cwd)),
        environment,
        stdin: Vec::new(),
        deadline: timeout.map(Duration::from_millis),
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: around.shell.sandbox.clone(),
        bounds: None,
        note: |_| None,
    };
    let command = withheld::kept_from(command, &around.denied);
    let leash = Leash::of(lua)?;
    let (child, pipes) = match block_on(lua, command.converse())? {
        Ok(started) => started,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let child = Arc::new(child);
    leash.owns(&child);
    ioctl_fionbio(&pipes.stdin, true).map_err(mlua::Error::external)?;
    let given: Option<LuaString> = options.get("stdin")?;
    if let Some(text) = &given {
        stdin.extend_from_slice(&text.as_bytes());
    }
    let input = Input {
        pipe: pipes.stdin,
        is_whole: given.is_some(),
        waiting: stdin,
    };
    let mut running = Running {
        child,
        stdin: Some(input),
        stdout: Stream::new(pipes.stdout),
        stderr: Stream::new(pipes.stderr),
    };
    running.feed();
    Ok(Ok(running))
}

/// Returns the program's variables: those given as a table or as `NAME=value` lines, else those of the script.
fn variables(lua: &Lua, given: Value) -> mlua::Result<Vec<(String, String)>> {
    let given = match given {
        Value::Nil => return Ok(env::variables(lua)?.into_iter().collect()),
        given => json::from_lua(lua, given).map_err(mlua::Error::runtime)?,
    };
    let pairs: Option<Vec<_>> = match &given {
        serde_json::Value::Object(map) => map
            .iter()
            .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        serde_json::Value::Array(lines) => lines
            .iter()
            .map(|line| {
                let (name, value) = line.as_str()?.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            })
            .collect(),
        _ => None,
    };
    pairs.ok_or_else(|| mlua::Error::runtime("`env` is a table of names and values"))
}

/// Finds a program by its path, or by its name in `PATH`.
fn find(
    name: &OsString,
    around: &LuaSurroundings,
    environment: &[(String, String)],
) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(around.cwd.join(name));
    }
    let (_, folders) = environment.iter().find(|(name, _)| name == "PATH")?;
    std::env::split_paths(folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

impl Stream {
    fn new(pipe: PipeReader) -> Self {
        Self {
            pipe: Some(pipe),
            read: Vec::new(),
        }
    }

    /// Reads once from a pipe that is ready.
    fn take(&mut self, limit: usize) -> Result<(), String> {
        let mut buffer = [0; BUFFER];
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(length) => self.read.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.pipe = None,
        }
        if self.read.len() > limit {
            return Err(format!("the program wrote more than {limit} bytes"));
        }
        Ok(())
    }
}

impl Running {
    fn stream(&mut self, which: Which) -> &mut Stream {
        match which {
            Which::Out => &mut self.stdout,
            Which::Errors => &mut self.stderr,
        }
    }

    /// Writes as much as the pipe accepts.
    fn feed(&mut self) {
        let Some(input) = &mut self.stdin else {
            return;
        };
        while !input.waiting.is_empty() {
            match input.pipe.write(&input.waiting) {
                Ok(length) => drop(input.waiting.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The program has closed its input.
                Err(_) => {
                    self.stdin = None;
                    return;
                }
            }
        }
        if input.is_whole {
            self.stdin = None;
        }
    }

    fn close_stdin(&mut self) {
        if let Some(input) = &mut self.stdin {
            input.is_whole = true;
        }
        self.feed();
    }

    /// Moves bytes of all streams for a moment, so that the program never blocks on one that the script does not read.
    fn pump(&mut self, leash: &Leash) -> mlua::Result<()> {
        if let Some(end) = leash.end() {
            return Err(mlua::Error::external(end));
        }
        let input = self
            .stdin
            .as_ref()
            .filter(|input| !input.waiting.is_empty());
        let mut polled = Vec::with_capacity(3);
        polled.extend(
            self.stdout
                .pipe
                .iter()
                .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
        );
        polled.extend(
            self.stderr
                .pipe
                .iter()
                .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
        );
        polled.extend(input.map(|input| PollFd::new(&input.pipe, PollFlags::OUT)));
        let patience = Timespec::try_from(LOOK_EVERY).ok();
        // An interrupted poll reports nothing.
        let _ = poll(&mut polled, patience.as_ref());
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let is_open = [self.stdout.pipe.is_some(), self.stderr.pipe.is_some()];
        let [out, errors] = is_open.map(|is_open| is_open && ready.next() == Some(true));
        drop(ready);
        drop(polled);
        for (is_ready, which) in [(out, Which::Out), (errors, Which::Errors)] {
            if is_ready {
                let taken = self.stream(which).take(leash.memory());
                taken.map_err(mlua::Error::runtime)?;
            }
        }
        self.feed();
        Ok(())
    }

    /// Reads all output until the program ends.
    fn finish(&mut self, lua: &Lua) -> mlua::Result<Ending> {
        let leash = Leash::of(lua)?;
        self.close_stdin();
        let mut ended: Option<Instant> = None;
        while self.stdout.pipe.is_some() || self.stderr.pipe.is_some() {
            self.pump(&leash)?;
            if ended.is_none() && self.child.outcome().is_some() {
                ended = Some(Instant::now());
            }
            if ended.is_some_and(|since| since.elapsed() >= DRAIN) {
                break;
            }
        }
        self.stdout.pipe = None;
        self.stderr.pipe = None;
        let child = self.child.clone();
        Ok(block_on(lua, async move { child.wait().await })?.ending)
    }

    /// Reads up to `size` bytes, as soon as there are any; none at the end.
    fn some(&mut self, lua: &Lua, which: Which, size: usize) -> mlua::Result<Vec<u8>> {
        let leash = Leash::of(lua)?;
        while self.stream(which).read.is_empty() && self.stream(which).pipe.is_some() {
            self.pump(&leash)?;
        }
        let read = &mut self.stream(which).read;
        Ok(read.drain(..size.min(read.len())).collect())
    }
}

impl UserData for Handle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        let streams = [
            ("stdin", None),
            ("stdout", Some(Which::Out)),
            ("stderr", Some(Which::Errors)),
        ];
        for (name, which) in streams {
            fields.add_field_method_get(name, move |_, handle| Ok(Pipe(handle.0.clone(), which)));
        }
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        // Without a size: whether the program succeeded, the rest of its output, and its exit code.
        methods.add_method("read", |lua, handle, size: Option<usize>| {
            let mut running = handle.0.lock();
            if let Some(size) = size {
                let bytes = running.some(lua, Which::Out, size)?;
                return Ok((
                    Value::String(lua.create_string(bytes)?),
                    Value::Nil,
                    Value::Nil,
                ));
            }
            let ending = running.finish(lua)?;
            let output = lua.create_string(std::mem::take(&mut running.stdout.read))?;
            Ok((
                Value::Boolean(ending == Ending::Exited(0)),
                Value::String(output),
                Value::Integer(ending.code().into()),
            ))
        });
        methods.add_method("wait", |lua, handle, ()| {
            Ok(handle.0.lock().finish(lua)?.code())
        });
        for name in ["stop", "kill"] {
            methods.add_method(name, |_, handle, _: Value| {
                handle.0.lock().child.stop();
                Ok(true)
            });
        }
        methods.add_method("running", |_, handle, ()| {
            Ok(handle.0.lock().child.outcome().is_none())
        });
    }
}

impl UserData for Pipe {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("read", |lua, Pipe(running, which), size: Option<usize>| {
            let Some(which) = *which else {
                return Err(mlua::Error::runtime("`stdin` can only be written"));
            };
            let mut running = running.lock();
            let bytes = match size {
                Some(size) => running.some(lua, which, size)?,
                None => {
                    running.finish(lua)?;
                    std::mem::take(&mut running.stream(which).read)
                }
            };
            lua.create_string(bytes)
        });
        methods.add_method("write", |lua, Pipe(running, which), text: LuaString| {
            let mut running = running.lock();
            let (None, Some(input)) = (which, &mut running.stdin) else {
                return Ok((None, Some("the program no longer reads its input")));
            };
            let bytes = text.as_bytes();
            input.waiting.extend_from_slice(&bytes);
            running.feed();
            // The rest is written while its output is read.
            let leash = Leash::of(lua)?;
            while running
                .stdin
                .as_ref()
                .is_some_and(|input| input.waiting.len() > BUFFER)
            {
                running.pump(&leash)?;
            }
            Ok((Some(bytes.len()), None))
        });
        methods.add_method("close", |_, Pipe(running, which), ()| {
            if which.is_none() {
                running.lock().close_stdin();
            }
            Ok(true)
        });
    }
}
