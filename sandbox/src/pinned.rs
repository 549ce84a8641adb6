//! Folders that commands can neither move nor replace.

use std::path::Path;

use crate::confinement::Confinement;
use crate::plan::Layout;

impl Layout {
    /// Pins the folders above what is read-only or hidden by its place in a folder that commands can write: moved away with
    /// one of them, it would be neither any more. What is protected by its name is so wherever it goes.
    pub(crate) fn pin_above(&mut self, confinement: &Confinement) {
        let writable: Vec<_> = { confinement.in_order().into_iter() }
            .filter(|grant| grant.access.write)
            .map(|grant| grant.path)
            .collect();
        let read_only = self
            .mounts
            .iter()
            .filter(|mount| mount.access.is_read_only());
        let guarded = read_only.map(|mount| &mount.path).chain(&self.masked);
        let above = guarded
            .filter(|path| !is_by_name(path, confinement))
            .flat_map(|path| {
                let top = writable.iter().find(|top| path.starts_with(top));
                let above = path.ancestors().skip(1);
                let below = move |above: &&Path| {
                    top.is_some_and(|top| *above != top && above.starts_with(top))
                };
                above.take_while(below).map(Path::to_owned)
            });
        let above: Vec<_> = above.filter(|folder| !confinement.hides(folder)).collect();
        self.pinned.extend(above);
        self.pinned
            .sort_by_key(|folder| (folder.components().count(), folder.clone()));
        self.pinned.dedup();
    }
}

/// Returns whether a path is protected by a name in it, or as part of a repository.
fn is_by_name(path: &Path, confinement: &Confinement) -> bool {
    path.iter().any(|name| name == ".git") || confinement.is_steering(path)
}
