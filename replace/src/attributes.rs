//! Extended attributes, access lists among them.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::{Errno, Result};

/// The longest that the kernel knows, for a list of names and for a value.
const LONGEST: usize = 64 * 1024;
/// Attributes that tell of a content, and must not outlive it.
const OF_CONTENT: [&[u8]; 3] = [b"security.capability", b"security.ima", b"security.evm"];

/// Gives a file exactly the attributes of another one; returns whether it has them.
pub(crate) fn copy(from: &Path, to: &Path) -> bool {
    let (Ok(wanted), Ok(found)) = (all(from), all(to)) else {
        return false;
    };
    let surplus = found.keys().filter(|name| !wanted.contains_key(*name));
    let removed = surplus.map(|name| lremovexattr(to, &**name).is_ok());
    let missing = { wanted.iter() }.filter(|(name, value)| found.get(*name) != Some(value));
    let set = missing.map(|(name, value)| {
        let flags = XattrFlags::empty();
        lsetxattr(to, &**name, value, flags).is_ok()
    });
    // All of them, even after a failure.
    let failures = removed.chain(set).filter(|is_done| !is_done).count();
    failures == 0
}

/// Returns the attributes of a file by name.
fn all(path: &Path) -> Result<BTreeMap<CString, Vec<u8>>> {
    let mut buffer = vec![0; LONGEST];
    let length = match llistxattr(path, &mut *buffer) {
        // A file system without any.
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = buffer[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty() && !OF_CONTENT.contains(name));
    let names: Vec<_> = names.filter_map(|name| CString::new(name).ok()).collect();
    let mut attributes = BTreeMap::new();
    for name in names {
        match lgetxattr(path, &*name, &mut *buffer) {
            // It is gone meanwhile, or only listed.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            read => {
                let value = buffer[..read?].to_vec();
                attributes.insert(name, value);
            }
        }
    }
    Ok(attributes)
}
