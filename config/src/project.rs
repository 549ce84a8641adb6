//! Influence of a project: whether it is trusted, and the settings of an untrusted one that count.

use ah_conversation::{Environment, Interface, PermissionMode};

use crate::config::leaves_mode_open;
use crate::error::Error;
use crate::first::First;
use crate::layers::{Folders, Layer, Sources};
use crate::origin::{Origin, Sourced};
use crate::trust::{Grounds, Memory, Reason, Trust};
use crate::untrusted;

/// Returns the permission mode. An untrusted project may choose a stricter one, unless the user has typed a mode.
pub(crate) fn permission_mode(
    typed: Option<PermissionMode>,
    interface: Interface,
    layers: &[Layer],
    trust: &mut Trust,
) -> Sourced<PermissionMode> {
    let managed = First { layers }.managed();
    if let Some(managed) = managed.value(|settings| settings.permissions.default_mode) {
        return managed;
    }
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
        // The default mode asks less if commands are confined.
        let is_open = leaves_mode_open(interface, &held);
        // Without a sandbox, which is not known here, nobody may be asked.
        let least = match held.value {
            PermissionMode::Sandboxed => PermissionMode::DontAsk,
            mode => mode,
        };
        match (untrusted::stricter(least, wanted.value), &wanted.origin) {
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

/// Returns the trust in the project by options, the user's settings and remembered answers.
pub(crate) fn trust(
    given: Option<Reason>,
    folders: &Folders,
    layers: &[Layer],
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Trust {
    let (memory, error) = Memory::read(folders.home.as_deref());
    warnings.extend(error);
    let named = layers
        .iter()
        .filter(|layer| !layer.is_of_project)
        .flat_map(|layer| &layer.settings.trusted_folders);
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

/// Returns the errors that end the program; those of an untrusted project become warnings.
pub(crate) fn counting(
    errors: Vec<(bool, Error)>,
    trust: &Trust,
    warnings: &mut Vec<String>,
) -> Vec<Error> {
    let (left_out, errors): (Vec<_>, Vec<_>) = errors
        .into_iter()
        .partition(|(is_of_project, _)| *is_of_project && !trust.is_given());
    let warning = |(_, error): (_, Error)| format!("{}; the file is ignored", error.message);
    warnings.extend(left_out.into_iter().map(warning));
    errors.into_iter().map(|(_, error)| error).collect()
}

/// Keeps only the sandbox settings of a project that make a run safer, even if it is trusted, and warns of the rest. Of
/// an untrusted project, other harmless settings stay too.
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
            format!(
                "{origin}: `{key}` has an effect only in your own settings, or if it is stricter"
            )
        }));
    }
    restrict(layers, trust, sources, folders);
    warnings
}

/// Removes the settings of an untrusted project that need trust.
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
