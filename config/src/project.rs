//! How far the project has a say: whether it is trusted, and what counts of its settings where it is not.

use ah_conversation::{Environment, Interface, PermissionMode};

use crate::error::Error;
use crate::layers::{Folders, Layer, Sources};
use crate::origin::{Origin, Sourced};
use crate::trust::{Grounds, Memory, Reason, Trust};
use crate::untrusted;

/// The mode that holds. A project that is not trusted may ask for a stricter one, unless the user has typed one.
pub(crate) fn permission_mode(
    typed: Option<PermissionMode>,
    interface: Interface,
    layers: &[Layer],
    trust: &mut Trust,
) -> Sourced<PermissionMode> {
    if let Some(typed) = typed {
        return Sourced::typed(typed);
    }
    let (held, wanted): (Vec<_>, Vec<_>) = layers
        .iter()
        .filter_map(|layer| {
            let value = layer.settings.permissions.default_mode?;
            let origin = layer.origin.clone();
            Some((layer.is_of_project, Sourced { value, origin }))
        })
        .partition(|(is_of_project, _)| trust.is_given() || !is_of_project);
    let held = held.into_iter().map(|(_, mode)| mode).next();
    let mut held = held.unwrap_or_else(|| Sourced::built_in(PermissionMode::Default));
    for (_, wanted) in wanted {
        // What is built in asks about less where commands are confined.
        let is_open = interface == Interface::Native && held.origin == Origin::BuiltIn;
        match (
            untrusted::stricter(held.value, wanted.value),
            &wanted.origin,
        ) {
            (Some(_), _) => held = wanted,
            (None, _) if is_open && wanted.value == held.value => held = wanted,
            (None, Origin::File(path)) if wanted.value != held.value => {
                trust.skip(path.clone(), Some("permissions.defaultMode"));
            }
            (None, _) => {}
        }
    }
    held
}

/// Whether the project is trusted, as far as options, the user's settings and what they have answered say.
pub(crate) fn trust(
    given: Option<Reason>,
    folders: &Folders,
    layers: &[Layer],
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Trust {
    let (memory, fault) = Memory::read(folders.home.as_deref());
    warnings.extend(fault);
    let named = layers.iter().filter(|layer| !layer.is_of_project);
    let named = named.flat_map(|layer| &layer.settings.trusted_folders);
    let home = environment.home();
    let named: Vec<_> = named
        .map(|folder| match (folder.strip_prefix("~"), &home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => folder.clone(),
        })
        .filter(|folder| folder.is_absolute())
        .collect();
    Trust::decide(&Grounds {
        project: &folders.project,
        given,
        folders: &named,
        memory: &memory,
    })
}

/// The faults that keep the program from working; those of a project that is not trusted do not, and are told.
pub(crate) fn counting(
    faults: Vec<(bool, Error)>,
    trust: &Trust,
    warnings: &mut Vec<String>,
) -> Vec<Error> {
    let (left_out, faults): (Vec<_>, Vec<_>) = faults
        .into_iter()
        .partition(|(is_of_project, _)| *is_of_project && !trust.is_given());
    let told = |(_, fault): (_, Error)| format!("{}; the file does not count", fault.message);
    warnings.extend(left_out.into_iter().map(told));
    faults.into_iter().map(|(_, fault)| fault).collect()
}

/// Leaves of what a project says of the sandbox what makes a run safer, also where it is trusted, and warns of the rest;
/// of one that is not trusted, what counts all the same.
pub(crate) fn tighten(
    layers: &mut [Layer],
    trust: &mut Trust,
    sources: Sources,
    folders: &Folders,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for layer in layers.iter_mut().filter(|layer| layer.is_of_project) {
        let loose = layer.settings.sandbox.keep_what_tightens().into_iter();
        let origin = &layer.origin;
        warnings.extend(loose.map(|key| {
            format!("{origin}: `{key}` counts only in your own settings, or where it tightens")
        }));
    }
    restrict(layers, trust, sources, folders);
    warnings
}

/// Leaves of the project's settings what counts though it is not trusted, if it is not.
fn restrict(layers: &mut [Layer], trust: &mut Trust, sources: Sources, folders: &Folders) {
    if trust.is_given() {
        return;
    }
    if sources.project {
        trust.skip_code(&folders.project);
    }
    for layer in layers.iter_mut().filter(|layer| layer.is_of_project) {
        for key in untrusted::restrict(&mut layer.settings) {
            if let Origin::File(path) = &layer.origin {
                trust.skip(path.clone(), Some(key));
            }
        }
    }
}
