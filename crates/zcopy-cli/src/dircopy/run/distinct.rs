//! Refuses destinations that are one directory, or lie one inside the other, also through symbolic
//! links. A mount of a part of one destination is not found.

use std::borrow::Borrow;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use super::copy_tree::Opened;
use crate::common::cli::message;
use crate::common::cli::quote::argument;
use crate::dircopy::settings::Settings;
use crate::dircopy::stat::identity;
use crate::dircopy::walk::containment::{self, Contained, Place};

/// Compares the paths before anything is created.
///
/// A path that cannot be examined passes: its copy reports why it cannot begin.
///
/// # Errors
///
/// The message about a wrong command line.
pub(super) fn check_paths(destinations: &[Settings]) -> Result<(), String> {
    let source = destinations.first().and_then(|settings| {
        let stat = rustix::fs::stat(&settings.source).ok()?;
        Some((&settings.source, stat))
    });
    for settings in destinations {
        if let Some((_, source)) = &source
            && let Err(error) = containment::check(source, &settings.destination)
            && error.kind() == io::ErrorKind::InvalidInput
        {
            let destination = argument(settings.destination.as_os_str());
            return Err(format!("{destination}: {}", message::worded(&error)));
        }
    }
    let places = destinations
        .iter()
        .map(|settings| Place::of(&settings.destination).ok());
    let places: Vec<_> = places.collect();
    for_each_pair(destinations.len(), |one, other| {
        let (Some(upper), Some(lower)) = (&places[one], &places[other]) else {
            return Ok(());
        };
        let found = relation(upper, lower).unwrap_or_default();
        refuse(destinations, one, other, found)
    })
}

/// Compares the directories that were opened, some of which may have been created meanwhile.
///
/// # Errors
///
/// The message about a wrong command line.
pub(super) fn check_opened(opened: &[&Opened]) -> Result<(), String> {
    let settings: Vec<_> = opened.iter().map(|opened| &opened.settings).collect();
    for_each_pair(opened.len(), |one, other| {
        let upper = rustix::fs::fstat(&opened[one].directory);
        let lower = opened[other].directory.as_fd();
        let found = upper.map_err(io::Error::from);
        let found = found.and_then(|upper| containment::relation(identity(&upper), lower));
        refuse(&settings, one, other, found.unwrap_or_default())
    })
}

/// Calls `check` with the indices of each two of `n`, in both orders.
fn for_each_pair(
    n: usize,
    check: impl Fn(usize, usize) -> Result<(), String>,
) -> Result<(), String> {
    let pairs = (0..n).flat_map(|one| (0..n).map(move |other| (one, other)));
    pairs
        .filter(|(one, other)| one != other)
        .try_for_each(|(one, other)| check(one, other))
}

/// Whether `lower` is the directory `upper` or would lie beneath it.
fn relation(upper: &Place, lower: &Place) -> io::Result<Option<Contained>> {
    let stat = rustix::fs::fstat(&upper.ancestor)?;
    let found = containment::relation(identity(&stat), lower.ancestor.as_fd())?;
    Ok(match found {
        Some(Contained::Same) if upper.names == lower.names => Some(Contained::Same),
        Some(Contained::Same) if lower.names.starts_with(&upper.names) => Some(Contained::Beneath),
        Some(Contained::Beneath) if upper.names.is_empty() => Some(Contained::Beneath),
        _ => None,
    })
}

fn refuse<S: Borrow<Settings>>(
    destinations: &[S],
    one: usize,
    other: usize,
    found: Option<Contained>,
) -> Result<(), String> {
    let name = |index: usize| {
        let path: &Path = &destinations[index].borrow().destination;
        argument(path.as_os_str())
    };
    match found {
        None => Ok(()),
        Some(Contained::Same) => {
            let (first, second) = (name(one.min(other)), name(one.max(other)));
            Err(format!(
                "the destinations {first} and {second} are one directory"
            ))
        }
        Some(Contained::Beneath) => {
            let (upper, lower) = (name(one), name(other));
            Err(format!(
                "the destination {lower} is inside the destination {upper}"
            ))
        }
    }
}
