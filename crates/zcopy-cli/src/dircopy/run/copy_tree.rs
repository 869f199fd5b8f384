//! Copies a tree with several threads.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, Scope};

use anyhow::anyhow;

use super::free_space::SharedSpace;
use super::lock::{self, RunLock};
use super::manifest::{
    End, Reported, begin_manifest, finish_manifest, manifest_directory, open_archive,
    refuse_linked_payload, report_unreadable_manifests,
};
use super::write_back::write_back;
use super::{delete, free_space};
use crate::common::parallel::{OrderedJobs, in_order};
use crate::common::threads;
use crate::dircopy::copy::granularity::Granularities;
use crate::dircopy::copy::reflink_support::ReflinkSupport;
use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::copy::symlinks::Symlinks;
use crate::dircopy::copy::write_back::WriteBackThread;
use crate::dircopy::copy::{self, Copier, EntryResult};
use crate::dircopy::counts::Counts;
use crate::dircopy::finisher::Finisher;
use crate::dircopy::folded_names::FoldedNames;
use crate::dircopy::hash::pool::HashPool;
use crate::dircopy::hash::reader::Reader;
use crate::dircopy::interrupt::Interrupt;
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::write::update::{Carrying, Line, OnChange, RecordChange};
use crate::dircopy::policy::Policy;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::schedule::batches::Batches;
use crate::dircopy::schedule::fd_budget::FdBudget;
use crate::dircopy::schedule::lead::Follower;
use crate::dircopy::schedule::lookup::Lookup;
use crate::dircopy::schedule::semaphore::Semaphore;
use crate::dircopy::schedule::threads::{self as sizes, CopyThreads, Syncs};
use crate::dircopy::settings::Settings;
use crate::dircopy::shared_reads::Member;
use crate::dircopy::stop_flag::{StopFlag, StopOnDrop};
use crate::dircopy::walk::Root;
use crate::dircopy::walk::prescan::{Total, prescan};
use crate::dircopy::walk::scan::ScanOptions;
use crate::dircopy::walk::{self, DirectoryAttributes, GivenTo, PartialFiles};
use crate::dircopy::write::atomic_file::Durability;
use crate::dircopy::write::unwritten_files::UnwrittenFiles;

/// The objects that all parts of a run share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) reporter: &'a Reporter<'a>,
    pub(crate) counts: &'a Counts,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) budget: FdBudget,
    /// `/dev/null`, the sink of files that are only hashed.
    pub(crate) null: &'a File,
    /// Its part in a copy to several destinations.
    pub(crate) part: Option<Part<'a>>,
}

/// The part of a run in a copy to several destinations.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) follower: &'a Follower<'a>,
    pub(crate) member: &'a Member<'a>,
    pub(crate) space: &'a SharedSpace,
    /// Begins to show the progress of all runs.
    pub(crate) progress: &'a StopFlag,
}

/// A destination that can be copied to.
pub(crate) struct Opened {
    pub(crate) settings: Settings,
    pub(crate) root: Root,
    /// The directory of the manifest.
    pub(crate) directory: Arc<OwnedFd>,
    /// Whether the destination did not exist before.
    is_new: bool,
}

impl Opened {
    /// Opens the source and the destination, which is made if it does not exist.
    pub(crate) fn new(settings: Settings, reporter: &Reporter<'_>) -> Result<Self, Reported> {
        let is_new = !settings.destination.exists();
        let root = open_root(&settings, reporter)?;
        let directory = manifest_directory(&settings, reporter, &root)?;
        Ok(Self {
            settings,
            root,
            directory,
            is_new,
        })
    }

    /// Removes the destination if it was made for the copy.
    pub(crate) fn remove_if_new(&self) {
        let destination = &self.settings.destination;
        if self.root.is_new() {
            // It fails if another process has made a file in it.
            let _ = rustix::fs::rmdir(self.settings.manifest.payload(destination));
            if self.is_new {
                let _ = rustix::fs::rmdir(destination);
            }
        }
    }
}

/// Copies the tree. Returns the paths of the manifests that it has written.
pub(crate) fn copy_tree(opened: Opened, context: Context<'_>) -> Result<Vec<PathBuf>, Reported> {
    let Context {
        reporter,
        counts,
        interrupt,
        budget,
        null,
        ..
    } = context;
    let _lock = lock(&opened, context)?;
    ensure_space(&opened, context)?;
    let Opened {
        mut settings,
        root,
        directory,
        ..
    } = opened;
    let archive = open_archive(&mut settings, reporter, root.source().as_fd(), &directory)?;
    delete::check_journals(&settings, reporter, &archive)?;
    let (settings, destination) = (&settings, Arc::clone(root.destination()));
    let on_change = |path: &[u8], change: RecordChange| {
        reporter.report_change(Path::new(OsStr::from_bytes(path)), &change.to_string());
    };
    let carrying = Carrying {
        root: destination.as_fd(),
        forgets_missing: settings.forgets_missing,
        accepted: settings.accepted.clone(),
        algorithm: settings.algorithm,
        reading: ReadOptions {
            null,
            interrupt: Some(interrupt),
            rate_limiter: settings.rate_limiter.as_ref(),
        },
        on_change: OnChange(&on_change),
    };
    // From here on there are files to finish.
    interrupt.catch_signals();
    let (manifest, journal) =
        begin_manifest(settings, reporter, &root, &directory, &archive, carrying);
    if manifest.is_none() && journal.name().is_none() && !archive.is_empty() {
        let error = anyhow!("nothing is copied, as files would differ from their records");
        reporter.report_error("".as_ref(), &error);
        return Err(Reported);
    }
    let lookup = Lookup::new(&archive, &settings.accepted, root.directory());
    let lookup = lookup.map_err(|error| report_unreadable_manifests(settings, reporter, error))?;
    let names = FoldedNames::new(&archive, &settings.exclude);
    let moved = if settings.deletes {
        move_gone(settings, context, &root, &archive, &journal)
    } else {
        Vec::new()
    };
    let mut finisher = Finisher::new(settings, reporter, counts, &root, manifest, &journal);
    finisher.add_lines(moved);
    let unwritten = UnwrittenFiles::new(budget.n_unwritten_files());
    let entries = Entries {
        settings,
        context,
        root: &root,
        names: &names,
        journal: &journal,
        unwritten: &unwritten,
    };
    let (stop, total) = (StopFlag::default(), Total::default());
    thread::scope(|scope| {
        show_progress(scope, settings, context, &root, &stop, &total);
        let _stop = StopOnDrop(&stop);
        entries.copy(lookup, &mut finisher);
    });
    let is_durable = settings.durability == Durability::Synced;
    let write_back = || {
        let durability = settings.durability;
        write_back(
            reporter,
            counts,
            &destination,
            &journal,
            &unwritten,
            durability,
        );
    };
    if is_durable || !interrupt.is_requested() {
        write_back();
    }
    let manifest = finisher.into_manifest().and_then(|manifest| {
        let end = End {
            directory: directory.as_fd(),
            most_open: budget.levels(),
            interrupt,
            counts,
        };
        finish_manifest(settings, reporter, archive, manifest, &journal, end)
    });
    if let Err(error) = root.done() {
        reporter.report_walk_error(&error);
    }
    if is_durable {
        // The manifest has its name now, and directories have their attributes.
        write_back();
    }
    let paths = manifest.unwrap_or_default().into_iter();
    Ok(paths.map(|path| settings.destination.join(path)).collect())
}

/// Opens both trees. Refuses a source that `--delete` would move.
fn open_root(settings: &Settings, reporter: &Reporter<'_>) -> Result<Root, Reported> {
    let attributes = directory_attributes(settings);
    let payload = settings.manifest.payload(&settings.destination);
    refuse_linked_payload(settings, reporter, &payload)?;
    let root = Root::open_with(&settings.source, &payload, attributes);
    let root = root.map_err(|error| {
        reporter.report_walk_error(&error);
        Reported
    })?;
    if settings.deletes {
        let destination = root.destination().as_fd();
        delete::check_source(settings, root.source(), destination).map_err(|error| {
            reporter.report_destination_error(&settings.source, &error);
            Reported
        })?;
    }
    Ok(root)
}

/// Locks the destination. While another process has it, other destinations are not waited for, and
/// a signal, which they may have begun to catch, ends this run.
fn lock(opened: &Opened, context: Context<'_>) -> Result<RunLock, Reported> {
    let directory = &opened.directory;
    let note = || {
        let destination = &opened.settings.destination;
        context
            .reporter
            .note_destination(destination, lock::WAITING);
    };
    let Some(part) = context.part else {
        return Ok(RunLock::acquire(directory, note));
    };
    let on_wait = || {
        part.follower.stand_aside();
        note();
    };
    let lock = RunLock::acquire_unless(context.interrupt, directory, on_wait);
    part.follower.come_back();
    lock.ok_or(Reported)
}

/// Refuses a copy that has too little space. A destination that was made for it is removed.
fn ensure_space(opened: &Opened, context: Context<'_>) -> Result<(), Reported> {
    let Opened { settings, root, .. } = opened;
    if !settings.checks_space {
        return Ok(());
    }
    let Some(n_levels) = context.budget.prescan_levels() else {
        return Ok(());
    };
    let shared = context.part.map(|part| part.space);
    let options = scan_options(settings, n_levels);
    free_space::check(settings, root, options, shared).map_err(|error| {
        let (reporter, destination) = (context.reporter, &settings.destination);
        reporter.report_destination_error(destination, &error);
        opened.remove_if_new();
        Reported
    })
}

/// Moves what the source lacks. Returns the lines that the manifest gets for it.
fn move_gone(
    settings: &Settings,
    context: Context<'_>,
    root: &Root,
    archive: &Archive,
    journal: &RunJournal<'_>,
) -> Vec<(Vec<u8>, Line)> {
    let Context {
        reporter, budget, ..
    } = context;
    let most_open = budget.prescan_levels().map_or(1, NonZeroUsize::get);
    let (source, destination) = (root.source(), root.destination().as_fd());
    let gone = delete::find(settings, source, destination, archive, most_open, reporter);
    let moved = delete::move_all(&gone, root, archive, journal, context, settings.durability);
    moved.unwrap_or_else(|error| {
        let error = anyhow!(error).context("cannot move what is gone from the source");
        reporter.report_destination_error(&settings.destination, &error);
        Vec::new()
    })
}

/// The options of a scan of the source.
pub(super) fn scan_options(settings: &Settings, n_levels: NonZeroUsize) -> ScanOptions {
    ScanOptions {
        follows_symlinks: settings.follows_symlinks,
        one_file_system: settings.one_file_system,
        most_open: n_levels.get(),
    }
}

/// Starts the threads that show the progress and count the files of the source. The progress of
/// several destinations is shown together.
fn show_progress<'scope>(
    scope: &'scope Scope<'scope, '_>,
    settings: &'scope Settings,
    context: Context<'scope>,
    root: &'scope Root,
    stop: &'scope StopFlag,
    total: &'scope Total,
) {
    let Context {
        reporter,
        budget,
        part,
        ..
    } = context;
    if let Some(part) = part {
        part.progress.stop();
        return;
    }
    if !reporter.shows_progress() {
        return;
    }
    // If a thread cannot be started, no progress is shown.
    let draw = move || reporter.draw_until(stop, total);
    let _ = threads::spawn_scoped(scope, draw);
    if let Some(n_levels) = budget.prescan_levels() {
        let options = scan_options(settings, n_levels);
        let count = move || prescan(root.source(), options, &settings.exclude, total, stop);
        let _ = threads::spawn_scoped(scope, count);
    }
}

/// The entries of a tree, all but directories, which the walk makes.
struct Entries<'a> {
    settings: &'a Settings,
    context: Context<'a>,
    root: &'a Root,
    names: &'a FoldedNames<'a>,
    journal: &'a RunJournal<'a>,
    unwritten: &'a UnwrittenFiles,
}

impl Entries<'_> {
    /// Copies them with several threads. The finisher takes the results in the order of the tree.
    fn copy(&self, lookup: Lookup<'_>, finisher: &mut Finisher<'_>) {
        let Self {
            settings,
            names,
            journal,
            unwritten,
            ..
        } = *self;
        let Context {
            reporter,
            counts,
            interrupt,
            budget,
            null,
            part,
        } = self.context;
        let (reflink_support, symlinks) = (ReflinkSupport::default(), Symlinks::default());
        let granularities = Granularities::default();
        let syncs = Syncs::of(settings, self.root.destination());
        let threads = CopyThreads::new(settings, self.root.destination(), syncs);
        let n_jobs = budget.jobs(threads.n_jobs);
        let n_creators = n_jobs.min(threads.n_creators);
        let group_size = budget.group_size(n_jobs, n_creators, sizes::together(settings, syncs));
        let creators = Semaphore::new(n_creators);
        let directory_weight = budget.deferred_dir_weight();
        let options = walk_options(settings, interrupt).most_open(budget.levels());
        let on_error = |error| reporter.report_walk_error(&error);
        let walk = self.root.walk_with(options, names, on_error);
        let mut batches = Batches::new(walk, lookup, sizes::max_short(settings), syncs);
        thread::scope(|scope| {
            let write_back = WriteBackThread::start(scope, budget.n_write_backs(), reporter);
            let hash_pool = HashPool::start(
                scope,
                settings.algorithm,
                settings.backend,
                sizes::n_hashers(settings),
                settings.queue,
            );
            let copier = || Copier {
                settings,
                reporter,
                counts,
                reflink_support: &reflink_support,
                granularities: &granularities,
                symlinks: &symlinks,
                creators: &creators,
                reader: Reader {
                    client: hash_pool.client(),
                    algorithm: settings.algorithm,
                    null,
                    block_size: settings.queue.block_size,
                    interrupt,
                    rate_limiter: settings.rate_limiter.as_ref(),
                },
                group_size,
                syncs,
                names,
                deferred_dirs: budget.deferred_dirs(),
                journal,
                interrupt,
                unwritten,
                write_back: &write_back,
                shared_reads: part.map(|part| part.member),
                journal_queue: Vec::new(),
            };
            let mut copier_of_links = copier();
            let ordered_jobs = OrderedJobs {
                next: || {
                    let batch = batches.next();
                    if let Some(part) = part {
                        match &batch {
                            Some(batch) => part.follower.take(batch, interrupt),
                            None => part.follower.end(),
                        }
                    }
                    batch
                },
                start: || {
                    let mut copier = copier();
                    move |batch| copier.copy_batch(batch)
                },
                weigh: |results: &Vec<EntryResult>| copy::weight(results, directory_weight),
                deliver: |due: &mut dyn Iterator<Item = Vec<EntryResult>>| {
                    finisher.take(&mut due.flatten(), &mut copier_of_links);
                    Ok::<(), Infallible>(())
                },
            };
            let Ok(()) = in_order(n_jobs, ordered_jobs);
        });
        if let Some(part) = part {
            part.member.end();
        }
    }
}

/// The attributes that directories of the destination get.
fn directory_attributes(settings: &Settings) -> DirectoryAttributes {
    DirectoryAttributes {
        preserve: settings.preserve,
        given_to: match settings.policy {
            Policy::Never => GivenTo::New,
            Policy::Default | Policy::Always | Policy::Update => GivenTo::All,
        },
    }
}

/// The options of the walk.
fn walk_options(settings: &Settings, interrupt: &Interrupt) -> walk::Options {
    walk::Options::new()
        .follow_symlinks(settings.follows_symlinks)
        .one_file_system(settings.one_file_system)
        .exclude(settings.exclude.clone())
        .partial_files(if settings.resumes {
            PartialFiles::Offered
        } else {
            PartialFiles::Removed
        })
        .stop(Arc::clone(interrupt.flag()))
}
