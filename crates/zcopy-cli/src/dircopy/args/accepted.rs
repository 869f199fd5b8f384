//! The paths of `--accept`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use super::Args;
use crate::common::cli::quote::argument;

/// The paths of `--accept`, relative to `destination`. An absolute path may begin with the path of
/// the destination.
///
/// # Errors
///
/// A message, if a path leads out of the destination.
pub(crate) fn accepted(args: &Args, destination: &Path) -> Result<BTreeSet<Vec<u8>>, String> {
    let of_each = accepted_in_each(args, &[destination])?;
    Ok(of_each.into_iter().next().unwrap_or_default())
}

/// The paths of `--accept`, relative to each destination. A relative path is one of each
/// destination. An absolute path is one of the destination whose path it begins with.
///
/// # Errors
///
/// A message, if a path leads out of all destinations.
pub(crate) fn accepted_in_each(
    args: &Args,
    destinations: &[impl AsRef<Path>],
) -> Result<Vec<BTreeSet<Vec<u8>>>, String> {
    let mut accepted = vec![BTreeSet::new(); destinations.len()];
    for path in &args.accept {
        let mut is_below_one = false;
        for (destination, accepted) in destinations.iter().zip(&mut accepted) {
            let relative = below(path, destination.as_ref());
            let is_name = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if relative.components().all(is_name) && !normalized(&relative).is_empty() {
                is_below_one = true;
                accepted.insert(normalized(&relative));
            }
        }
        if !is_below_one {
            let path = argument(path.as_os_str());
            return Err(format!(
                "{path} is not a path below the destination; give it relative to that"
            ));
        }
    }
    Ok(accepted)
}

/// An absolute path relative to the destination, if it begins with the path of that, as it was
/// given or without symbolic links. Other paths stay as they are.
fn below<'a>(path: &'a Path, destination: &Path) -> Cow<'a, Path> {
    if path.is_absolute() {
        let given = std::path::absolute(destination);
        for destination in [given, destination.canonicalize()].into_iter().flatten() {
            if let Ok(relative) = path.strip_prefix(destination) {
                return relative.into();
            }
        }
    }
    path.into()
}

/// A path as manifests write it.
fn normalized(path: &Path) -> Vec<u8> {
    // This drops `.` and repeated slashes.
    let path: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    path.into_os_string().into_vec()
}
