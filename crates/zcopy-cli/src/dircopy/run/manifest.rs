//! Begins and finishes the manifest of a run.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use rustix::fs::{Mode, OFlags};

use super::accepted_maps::{Failure, remove_maps};
use crate::common::digest::AlgorithmSet;
use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::counts::Counts;
use crate::dircopy::finisher;
use crate::dircopy::interrupt::{Interrupt, Interrupted};
use crate::dircopy::manifest::bag::PathBase;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl::write::MissingOptions;
use crate::dircopy::manifest::read::archive::{Archive, DamagedFile, FileState, Verify};
use crate::dircopy::manifest::read::copied_manifests::manifests_in_source;
use crate::dircopy::manifest::write::output::Place;
use crate::dircopy::manifest::write::update::{Carrying, Update};
use crate::dircopy::reporter::Reporter;
use crate::dircopy::settings::Settings;
use crate::dircopy::walk::{Exclude, Root, Rule};

/// The error of a run that copied nothing. Its cause has been reported.
#[derive(Debug)]
pub(crate) struct Reported;

/// Fails if a symbolic link takes the place of the directory below the destination that the files
/// are copied to: what it leads to is no part of the bag.
pub(crate) fn refuse_linked_payload(
    settings: &Settings,
    reporter: &Reporter<'_>,
    payload: &Path,
) -> Result<(), Reported> {
    let is_below = payload != settings.destination;
    if is_below && payload.is_symlink() {
        let error = anyhow!("it is a symbolic link; the files of a bag are in a directory");
        reporter.report_destination_error(payload, &error);
        return Err(Reported);
    }
    Ok(())
}

/// Opens the directory of the manifest and the journals: the root of the destination, which is
/// above the files of a bag.
pub(crate) fn manifest_directory(
    settings: &Settings,
    reporter: &Reporter<'_>,
    root: &Root,
) -> Result<Arc<OwnedFd>, Reported> {
    if settings.manifest.payload(&settings.destination) == settings.destination {
        return Ok(Arc::clone(root.destination()));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&settings.destination, flags, Mode::empty());
    opened.map(Arc::new).map_err(|errno| {
        let error = anyhow!(io::Error::from(errno)).context("cannot use destination directory");
        reporter.report_destination_error(&settings.destination, &error);
        Reported
    })
}

/// Reads the manifests of the destination. Fails if one of them is damaged.
///
/// Without `--hash` the algorithm becomes that of the newest manifest.
pub(crate) fn open_archive(
    settings: &mut Settings,
    reporter: &Reporter<'_>,
    source: BorrowedFd<'_>,
    directory: &OwnedFd,
) -> Result<Archive, Reported> {
    let (kind, base, source) = (settings.manifest, PathBase::Payload, Some(source));
    let directory = directory.as_fd();
    let archive = Archive::open_kind(kind, directory, Verify::Needed, true, base, source)
        .map_err(|error| report_unreadable_manifests(settings, reporter, error))?;
    for damaged in archive.damaged() {
        let DamagedFile {
            name,
            damage,
            is_in_source,
        } = damaged;
        let path = if *is_in_source {
            settings.source.join(name)
        } else {
            name.into()
        };
        let error = anyhow!("{damage}").context(match damaged.state() {
            FileState::Damaged => {
                "the manifest is damaged, and nothing is copied before it is repaired or removed"
            }
            FileState::Denied => "the manifest cannot be read, and nothing is copied",
            FileState::Unfinished => "the manifest is not finished",
            FileState::Unverifiable => "the manifest cannot be verified, and nothing is copied",
        });
        reporter.report_error(&path, &error);
    }
    if !archive.damaged().is_empty() {
        return Err(Reported);
    }
    match (settings.has_chosen_algorithm, archive.algorithm()) {
        (false, Some(algorithm)) => settings.algorithm = algorithm,
        // A new digest stands beside one that the history has.
        (true, Some(algorithm)) if settings.manifest.keeps_first_digest() => {
            if !AlgorithmSet::from(settings.algorithm).intersects(algorithm.into()) {
                let mut known = AlgorithmSet::from(algorithm).iter();
                add_algorithm(settings, reporter, |set| {
                    known.find_map(|known| set.with(known))
                })?;
            }
        }
        (_, None) | (true, Some(_)) => {}
    }
    for algorithm in archive.compared_algorithms().iter() {
        add_algorithm(settings, reporter, |set| set.with(algorithm))?;
    }
    if !archive.kept_histories().is_empty() {
        let kept = archive.kept_histories().iter();
        let kept = kept.map(|path| Rule::exclude_directory(path));
        let filters: Vec<_> = kept.chain(settings.filters.iter().cloned()).collect();
        settings.exclude = Exclude::from_rules(&filters).map_err(|error| {
            reporter.report_destination_error(&settings.destination, &error.into());
            Reported
        })?;
    }
    let conflicts = archive.conflicts();
    let conflicts =
        conflicts.map_err(|error| report_unreadable_manifests(settings, reporter, error))?;
    for (path, conflict) in conflicts {
        reporter.report_error(Path::new(OsStr::from_bytes(&path)), &conflict.into());
    }
    Ok(archive)
}

/// Adds a function of a history to those of the run. Fails if there is no room for it.
fn add_algorithm(
    settings: &mut Settings,
    reporter: &Reporter<'_>,
    with: impl FnOnce(AlgorithmSet) -> Option<AlgorithmSet>,
) -> Result<(), Reported> {
    let Some(set) = with(settings.algorithm.into()) else {
        let error =
            anyhow!("--hash leaves no room for a function of its history; name fewer functions");
        reporter.report_destination_error(&settings.destination, &error);
        return Err(Reported);
    };
    settings.algorithm = set.into();
    Ok(())
}

/// Reports manifests of the destination that cannot be read.
pub(crate) fn report_unreadable_manifests(
    settings: &Settings,
    reporter: &Reporter<'_>,
    error: io::Error,
) -> Reported {
    let error = anyhow!(error).context("cannot read its manifests");
    reporter.report_destination_error(&settings.destination, &error);
    Reported
}

/// Begins the manifest and the journal. A run without digests begins them only if the destination
/// has records, which the run may change, or if the source has manifests: copied without a header
/// that names them, these would pass for manifests of the destination.
pub(crate) fn begin_manifest<'a>(
    settings: &Settings,
    reporter: &'a Reporter<'a>,
    root: &Root,
    directory: &Arc<OwnedFd>,
    archive: &Archive,
    carrying: Carrying<'a>,
) -> (Option<Update<'a>>, RunJournal<'a>) {
    let copied = match settings.manifest {
        ManifestKind::Sums => manifests_in_source(root.source()),
        ManifestKind::Bag | ManifestKind::Mhl => Ok(Vec::new()),
    };
    let copied = match copied {
        Ok(copied) => copied,
        Err(error) => {
            finisher::report_manifest_error(reporter, error);
            return (None, RunJournal::none(reporter));
        }
    };
    if !settings.writes_manifest && archive.is_empty() && copied.is_empty() {
        return (None, RunJournal::none(reporter));
    }
    let source = settings.source.as_os_str().as_bytes().to_vec();
    let mut header = archive.next_header(source, copied);
    let journal = RunJournal::begin(reporter, directory, root.destination(), &header);
    header.journals.extend(journal.name().map(<[u8]>::to_vec));
    let place = Place {
        directory,
        mode: settings.manifest_mode,
        base: PathBase::Payload,
        path: &settings.destination,
    };
    let manifest = Update::begin(place, archive, header, carrying)
        .map_err(|error| finisher::report_manifest_error(reporter, error))
        .ok();
    (manifest, journal)
}

/// The message of a run that leaves its bag to the next one.
const UNFINISHED: &str = "the bag is not finished; the next run continues with it";

/// The end of a run.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    /// The directory of the manifest and the journals.
    pub(crate) directory: BorrowedFd<'a>,
    /// The most levels of the destination that are held open.
    pub(crate) most_open: usize,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) counts: &'a Counts,
}

/// Gives the manifest its name, and removes the journals, which are no longer needed. Returns the
/// paths of the new files.
///
/// A manifest that needs success is not written if anything has failed. The journals stay then, so
/// that the next run has the digests.
pub(crate) fn finish_manifest(
    settings: &Settings,
    reporter: &Reporter<'_>,
    mut archive: Archive,
    mut manifest: Update<'_>,
    journal: &RunJournal<'_>,
    end: End<'_>,
) -> Option<Vec<String>> {
    let End {
        directory,
        most_open,
        interrupt,
        counts,
    } = end;
    if interrupt.is_requested() {
        for path in manifest.skip_accepted() {
            let error = anyhow!(Interrupted).context("cannot accept it");
            reporter.report_error(Path::new(OsStr::from_bytes(&path)), &error);
        }
    }
    let failures = manifest
        .complete()
        .map_err(|error| finisher::report_manifest_error(reporter, error))
        .ok()?;
    for (path, error) in failures {
        reporter.report_error(Path::new(OsStr::from_bytes(&path)), &error);
    }
    let is_wanted = if settings.writes_manifest {
        // An empty tree has an empty manifest.
        manifest.has_lines()
            || archive.is_empty()
            || manifest.has_changed()
            || archive.has_journals()
    } else {
        manifest.has_changed() || archive.has_journals() || manifest.tells_copied(&archive)
    };
    let root = manifest.root();
    let accepted = manifest.take_accepted();
    if settings.manifest != ManifestKind::Sums && interrupt.is_requested() {
        return None;
    }
    let missing = MissingOptions {
        exclude: &settings.exclude,
        // What has failed may be what is missing.
        are_errors: counts.failed.get() == 0,
    };
    let mismatches = manifest
        .compare(most_open, missing)
        .map_err(|error| finisher::report_manifest_error(reporter, error))
        .ok()?;
    if settings.manifest != ManifestKind::Sums && interrupt.is_requested() {
        return None;
    }
    for (path, error) in mismatches {
        reporter.report_error(Path::new(OsStr::from_bytes(&path)), &error);
    }
    if settings.manifest.needs_success() && counts.failed.get() > 0 {
        reporter.note_destination(&settings.destination, UNFINISHED);
        return None;
    }
    if !is_wanted {
        journal.remove();
        archive.remove_stale_journals(directory);
        return None;
    }
    let misread = manifest.misread();
    let manifests = manifest
        .finish()
        .map_err(|error| finisher::report_manifest_error(reporter, error))
        .ok()?;
    match remove_maps(root, &archive, accepted) {
        Ok(kept) => {
            for Failure { path, error } in kept {
                reporter.report_error(Path::new(OsStr::from_bytes(&path)), &error);
            }
        }
        Err(error) => finisher::report_manifest_error(reporter, error),
    }
    journal.remove();
    archive.remove_journals(directory);
    for (path, misreading) in misread.files {
        reporter.report_note(Path::new(OsStr::from_bytes(&path)), &misreading.to_string());
    }
    if misread.n_more > 0 {
        let message = format!("the same is true of {} more files", misread.n_more);
        reporter.report_note("".as_ref(), &message);
    }
    for manifest in &manifests {
        reporter.report_exclusivity(manifest.exclusivity);
    }
    let paths = manifests.into_iter().map(|manifest| manifest.path);
    Some(paths.collect())
}
