//! `--dry-run`: tells what a copy would do, and writes nothing.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::anyhow;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::copy_tree::{Context, scan_options};
use super::delete::{self, Gone};
use super::manifest::{Reported, open_archive};
use crate::dircopy::counts::Counts;
use crate::dircopy::folded_names::FoldedNames;
use crate::dircopy::forecast::{Action, Forecast, forecast};
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::policy::{Policy, is_newer_version};
use crate::dircopy::reporter::Reporter;
use crate::dircopy::reporter::plan::{Plan, PlannedEntry, Word};
use crate::dircopy::reporter::summary::State;
use crate::dircopy::settings::Settings;
use crate::dircopy::stat::{file_type, is_directory, is_regular, size};
use crate::dircopy::walk::scan::{Failure, Next};
use crate::dircopy::walk::{CollisionCheck as _, containment};

/// An entry that waits for the others of its directory.
struct Pending {
    path: Vec<u8>,
    action: Action,
    kind: FileType,
    bytes: u64,
    resumed_bytes: u64,
}

/// Writes what the copy would do with each entry, directory by directory in the order of their
/// paths.
///
/// # Errors
///
/// The copy would not begin.
pub(crate) fn plan(mut settings: Settings, context: Context<'_>) -> Result<Plan, Reported> {
    let Context {
        reporter,
        counts,
        budget,
        ..
    } = context;
    let source = open_source(&settings).map_err(|(path, error)| {
        reporter.report_destination_error(path, &error);
        Reported
    })?;
    let open = |path: &Path| {
        open_if_there(path).map_err(|error| {
            let error = anyhow!(error).context("cannot use destination directory");
            reporter.report_destination_error(path, &error);
            Reported
        })
    };
    let directory = open(&settings.destination)?;
    let destination = open(&settings.manifest.payload(&settings.destination))?;
    if settings.deletes
        && let Some(destination) = &destination
    {
        delete::check_source(&settings, source.as_fd(), destination.as_fd()).map_err(|error| {
            reporter.report_destination_error(&settings.source, &error);
            Reported
        })?;
    }
    let archive = match &directory {
        Some(directory) => Some(open_archive(
            &mut settings,
            reporter,
            source.as_fd(),
            directory,
        )?),
        None => None,
    };
    if let Some(archive) = &archive {
        delete::check_journals(&settings, reporter, archive)?;
    }
    let settings = &settings;
    let names = archive
        .as_ref()
        .map(|archive| FoldedNames::new(archive, &settings.exclude));
    let records = archive.as_ref().zip(names.as_ref());
    let n_levels = budget
        .prescan_levels()
        .unwrap_or(std::num::NonZeroUsize::MIN);
    let options = scan_options(settings, n_levels);
    let mut planner = Planner {
        reporter,
        plan: Plan::default(),
        directory: Vec::new(),
        pending: Vec::new(),
    };
    let copy = destination.as_ref().map(OwnedFd::as_fd);
    forecast(source.as_fd(), copy, settings, options, |shown| {
        planner.take(shown, settings, records)
    });
    planner.flush();
    if settings.deletes
        && let (Some(destination), Some(archive)) = (copy, &archive)
    {
        let most_open = n_levels.get();
        for gone in delete::find(
            settings,
            source.as_fd(),
            destination,
            archive,
            most_open,
            reporter,
        ) {
            planner.add_move(&gone);
        }
    }
    Ok(planner.finish(free_bytes(&settings.destination), counts))
}

/// Opens the source, and refuses a destination in it.
fn open_source(settings: &Settings) -> Result<OwnedFd, (&Path, anyhow::Error)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&settings.source, flags, Mode::empty());
    let opened = opened.and_then(|opened| {
        let stat = rustix::fs::fstat(&opened)?;
        Ok((opened, stat))
    });
    let (opened, stat) = opened.map_err(|errno| {
        let error = anyhow!(io::Error::from(errno)).context("cannot open directory");
        (&*settings.source, error)
    })?;
    containment::check(&stat, &settings.destination).map_err(|error| {
        let error = anyhow!(error).context("cannot use destination directory");
        (&*settings.destination, error)
    })?;
    Ok(opened)
}

/// Opens a directory, unless it does not exist.
fn open_if_there(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The bytes that the file system of the destination, or of what is to hold it, has free.
fn free_bytes(destination: &Path) -> Option<u64> {
    let place = std::path::absolute(destination).ok()?;
    let found = place
        .ancestors()
        .find_map(|place| rustix::fs::statvfs(place).ok())?;
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Collects the entries of a directory, and writes them in order.
struct Planner<'a> {
    reporter: &'a Reporter<'a>,
    plan: Plan,
    /// The path of the directory.
    directory: Vec<u8>,
    pending: Vec<Pending>,
}

impl Planner<'_> {
    fn take(
        &mut self,
        shown: Result<Forecast<'_>, Failure>,
        settings: &Settings,
        records: Option<(&Archive, &FoldedNames<'_>)>,
    ) -> Next {
        let shown = match shown {
            Ok(shown) => shown,
            Err(Failure { path, error }) => {
                self.fail(
                    &path,
                    &anyhow!(error).context("cannot examine it or its copy"),
                );
                return Next::Pass;
            }
        };
        let directory = shown.found.directory_path();
        if directory != self.directory {
            self.flush();
            self.directory = directory;
        }
        let path = shown.found.path();
        if let Some(refusal) = refusal(&shown) {
            self.fail(&path, &anyhow!(refusal));
            return Next::Pass;
        }
        let kind = file_type(&shown.stat);
        let whole_path = Path::new(OsStr::from_bytes(&path));
        if kind != FileType::Directory
            && let Some(refusal) = settings.manifest.refusal(whole_path, kind)
        {
            self.fail(&path, &anyhow!(refusal));
            return Next::Pass;
        }
        let action = with_records(&shown, &path, settings, records);
        if action != Action::EnterDirectory {
            let bytes = if is_regular(&shown.stat) {
                size(&shown.stat)
            } else {
                0
            };
            self.pending.push(Pending {
                path,
                action,
                kind,
                bytes,
                resumed_bytes: match shown.begun {
                    Some(begun) if settings.resumes => begun.bytes,
                    _ => 0,
                },
            });
        }
        Next::Enter
    }

    fn fail(&mut self, path: &[u8], error: &anyhow::Error) {
        let path = Path::new(OsStr::from_bytes(path));
        self.reporter.report_error(path, error);
    }

    /// Writes the entries of the directory.
    fn flush(&mut self) {
        self.pending.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        for pending in self.pending.drain(..) {
            let entry = PlannedEntry {
                path: Path::new(OsStr::from_bytes(&pending.path)),
                action: pending.action.into(),
                kind: pending.kind.into(),
                bytes: pending.bytes,
                resumed_bytes: pending.resumed_bytes,
            };
            self.plan.add(&entry);
            self.reporter.tell_plan(&entry);
        }
    }

    fn add_move(&mut self, gone: &Gone) {
        let entry = PlannedEntry {
            path: Path::new(OsStr::from_bytes(&gone.path)),
            action: Word::Move,
            kind: gone.kind.into(),
            bytes: 0,
            resumed_bytes: 0,
        };
        self.plan.add(&entry);
        self.reporter.tell_plan(&entry);
    }

    fn finish(self, free_bytes: Option<u64>, counts: &Counts) -> Plan {
        let failed = counts.failed.get();
        Plan {
            state: if failed > 0 {
                State::Failed
            } else {
                State::Done
            },
            free_bytes,
            failed,
            ..self.plan
        }
    }
}

/// Why a run would fail to copy the entry, as far as `stat(2)` tells.
fn refusal(shown: &Forecast<'_>) -> Option<&'static str> {
    let kind = file_type(&shown.stat);
    match (
        kind,
        shown.existing.as_ref().map(is_directory),
        shown.action,
    ) {
        (FileType::Socket, ..) => Some("it is a socket, which is not copied"),
        (FileType::Unknown, ..) => Some("it is of an unknown kind"),
        (FileType::Directory, Some(false), _) => {
            Some("the destination has a file of this name, and needs a directory")
        }
        (_, Some(true), Action::Replace) if kind != FileType::Directory => {
            Some("the destination has a directory of this name, which is not replaced")
        }
        _ => None,
    }
}

/// The action that the records of the destination leave.
fn with_records(
    shown: &Forecast<'_>,
    path: &[u8],
    settings: &Settings,
    records: Option<(&Archive, &FoldedNames<'_>)>,
) -> Action {
    let is_in_root = !path.contains(&b'/');
    if is_in_root && is_journal(path) {
        return Action::Skip;
    }
    let Some((archive, names)) = records else {
        return shown.action;
    };
    if is_in_root && archive.owns(path) {
        return Action::Skip;
    }
    let is_recorded = || names.has_record(Path::new(OsStr::from_bytes(path)));
    match (shown.action, &shown.existing) {
        // A recorded file is replaced by a newer version, or by the one that was recorded.
        (Action::Replace, Some(existing))
            if settings.policy != Policy::Always
                && !is_newer_version(&shown.stat, existing)
                && is_recorded() =>
        {
            Action::Compare
        }
        (action, _) => action,
    }
}
