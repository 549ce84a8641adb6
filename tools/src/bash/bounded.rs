//! A command runs within what the verdict about its line has foreseen, as far as the kernel can keep it there.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ah_conversation::{Content, Context, Output, Reach};
use ah_process::{Bounds, Command, Ending};
use tempfile::TempDir;

use crate::withheld;

/// Variable that names the folder of temporary files.
const TEMPORARY: &str = "TMPDIR";
/// What programs say of a call that the kernel refuses.
const REFUSALS: [&str; 3] = [
    "Permission denied",
    "Operation not permitted",
    "PermissionError",
];

/// A folder for temporary files of commands that may change no others; made for the first of them. `None` if it cannot be made.
#[derive(Default)]
pub(super) struct Scratch(OnceLock<Option<TempDir>>);

impl Scratch {
    /// Gives the command the bounds of its call: a command that may do anything is still kept from what rules deny.
    pub(super) fn bounded(&self, mut command: Command, context: &Context) -> Command {
        let withheld = withheld::from(&command, &context.denied);
        let folders = match &context.reach {
            Reach::Anything => return withheld::anything_but(command, withheld),
            _ if !Bounds::can_be_kept() => return withheld::anything_but(command, withheld),
            Reach::ReadOnly => &[][..],
            Reach::Edits(folders) => folders,
        };
        let mut writable = folders.to_vec();
        writable.extend(self.place(&mut command));
        // What does not exist needs no hiding, and where files can be made, each new one would be hidden as well.
        let hidden = context.hidden.paths().into_iter();
        let hidden = hidden.filter_map(|path| path.canonicalize().ok());
        let is_apart = |path: &PathBuf| {
            !withheld.reading.contains(path)
                && !folders.iter().any(|folder| path.starts_with(folder))
        };
        let bounds = Bounds {
            anything_else: false,
            writable,
            changes_attributes: !folders.is_empty(),
            hidden: hidden.filter(is_apart).collect(),
            withheld,
        };
        Command {
            bounds: Some(bounds),
            ..command
        }
    }

    /// Names a folder for temporary files to the command, and returns its path as the command sees it. In a sandbox, it is below
    /// the folder that stands for `/tmp`, in which the project may be.
    fn place(&self, command: &mut Command) -> Option<PathBuf> {
        let shared = Path::new("/tmp");
        let backing = match &command.sandbox {
            Some(sandbox) => Some(sandbox.confinement().backing_path(shared)?),
            None => None,
        };
        let make = || match &backing {
            Some(folder) => tempfile::tempdir_in(folder).ok(),
            None => tempfile::tempdir().ok(),
        };
        let made: &Path = self.0.get_or_init(make).as_ref()?.path();
        let is_set = command
            .environment
            .iter()
            .any(|(name, _)| name == TEMPORARY);
        // Where `/tmp` cannot be replaced, the variable names the folder that stands for it.
        let path = match &backing {
            Some(folder) if !is_set => shared.join(made.strip_prefix(folder).ok()?),
            _ => made.to_owned(),
        };
        command.environment.retain(|(name, _)| name != TEMPORARY);
        let variable = (TEMPORARY.to_owned(), path.to_string_lossy().into_owned());
        command.environment.push(variable);
        Some(path)
    }
}

/// Adds to the output of a command that may have failed at its bounds which verdict was kept, and how to be asked.
pub(super) fn told(output: Output, ending: Ending, reach: &Reach) -> Output {
    let verdict = match reach {
        Reach::Anything => return output,
        Reach::ReadOnly => "judged to only read, so it could change no file and reach no network",
        Reach::Edits(_) => {
            "judged to only change files of the working directories, so it could change no others and reach no network"
        }
    };
    let Content::Bytes(bytes) = &output.content else {
        return output;
    };
    let text = String::from_utf8_lossy(bytes);
    let is_refused = REFUSALS.iter().any(|words| text.contains(words));
    if ending == Ending::Exited(0) || !is_refused || !Bounds::can_be_kept() {
        return output;
    }
    let text = format!(
        "{}\n[the command was {verdict}. If it needs more, run it as `bash -c '…'`, which needs permission]",
        text.trim_end()
    );
    Output {
        content: Content::Bytes(text.into_bytes()),
        ..output
    }
}
