//! What `zc-dircopy` does: a tree is copied, file by file, and its sums are left behind.
//!
//! Everything here goes by directory descriptors and names in them, never by paths, so that whatever somebody
//! renames or replaces during the run, nothing is read or written outside of the two trees. Names are bytes.
//!
//! One thread at a time walks; as many as there are jobs copy; others hash. What has become of entries is taken in the order of
//! the tree, so that the manifest is sorted, and a link is made when what it leads to has its name.
//!
//! - `budget`: how many descriptors each part may open.
//! - `batches`: which entries one job takes; `gate`: limits the threads that create short files.
//! - `copier`: copies or leaves one entry; `reading` and `hashing`: hash it; `ledger`: does what has to be done in order.
//! - `lookup`: what earlier runs recorded of an entry; `journaling`: the journal of this run; `run_lock`: one run at a time.
//! - `folded_names`: names that the destination does not tell apart; `spelling`: how directories find and list names.
//! - `granularity` and `time`: how file systems round times; `symlinks`, `file_system` and `limitation`: what they lack.
//! - `damage_map`: which bytes of a damaged file are missing.
//! - `interrupt`: signals that end a run early; `written_back`: writes that fail late.
//! - `verify`: `--check`; `amend`: changes records without a copy.
//! - [`containment`]: that the destination does not lie in the source.
//! - [`tree`]: walks the source and mirrors its directories.
//! - [`policy`]: which files are copied.
//! - [`place`]: files under construction, which get their names once they are whole.
//! - [`attributes`]: owners, modes, extended attributes, access lists and times.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use rustix::fs::Mode;

pub use args::Args;

use batches::Batches;
use budget::{Budget, Descriptors};
use copier::{Copier, Done};
use counts::Counts;
use end::End;
use face::{Face, Manner};
use folded_names::FoldedNames;
use gate::Gate;
use granularity::Granularities;
use hashing::Hashers;
use interrupt::{Interrupt, Interrupted};
use journaling::Journaling;
use ledger::Ledger;
use lookup::Lookup;
use manifest::archive::{Archive, DamagedFile, Verify};
use manifest::copied::manifests_in_source;
use manifest::name::Name;
use manifest::update::{Carrying, Update};
use place::Durability;
use prescan::{Total, prescan};
use reading::Reader;
use run_lock::RunLock;
use settings::Settings;
use sharing::Sharing;
use symlinks::Symlinks;
use tree::Root;
use tree::scan::ScanOptions;
use written_back::{UnwrittenFiles, write_back};

use crate::order::{Workshop, in_order};
use crate::{exit, sys};

pub mod containment;
pub mod tree;

pub mod policy;

pub mod place;

pub mod attributes;

pub mod manifest;

mod amend;
mod args;
mod settings;

mod batches;
mod budget;
mod copier;
mod folded_names;
mod gate;
mod granularity;
mod hashing;
mod interrupt;
mod journaling;
mod ledger;
mod links;
mod lookup;
mod reading;
mod run_lock;
mod sharing;
mod spelling;
mod symlinks;
mod time;
mod written_back;

mod file_system;
mod limitation;

mod counts;
mod damage_map;
mod end;
mod face;
mod prescan;
mod progress;
mod summary;

mod verify;

mod listed;
mod listing;

#[cfg(test)]
mod ground;

/// The status after a usage error.
pub const MISUSE: u8 = 2;

/// What came of a run. What failed has been complained of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was done.
    Complete,
    /// Something could not be copied or verified.
    Incomplete,
    /// The command line makes no sense.
    Misused,
}

/// Copies a tree, or verifies some.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    if args.check {
        return verify::verify(args);
    }
    match Settings::of(args, current_mask()) {
        Ok(settings) => copy(settings, args.manner()),
        Err(message) => {
            exit::say(&message);
            exit::refer_to_help();
            Outcome::Misused
        }
    }
}

/// Copies the tree, and tells what came of it.
fn copy(settings: Settings, manner: Manner) -> Outcome {
    let begun = Instant::now();
    if let Err(error) = sys::hold_closed_descriptors() {
        exit::complain(&anyhow!(error));
        return Outcome::Incomplete;
    }
    let budget = match Budget::of(Descriptors::of_process()) {
        Ok(budget) => budget,
        Err(error) => {
            exit::complain(&anyhow!(error));
            return Outcome::Incomplete;
        }
    };
    // Whoever stops listening does not stop the copying.
    sys::ignore_sigpipe();
    let counts = Counts::default();
    let face = match Face::new(manner, &counts) {
        Ok(face) => face,
        Err(error) => {
            exit::complain(&anyhow!(error));
            return Outcome::Incomplete;
        }
    };
    let mode = mode_of_manifest();
    let interrupt = Interrupt::default();
    let manifests = match copy_tree(settings, &face, (&counts, budget), &interrupt, mode) {
        Ok(manifests) => manifests,
        Err(Stopped::Told) => return Outcome::Incomplete,
        Err(Stopped::By(error)) => {
            exit::complain(&error);
            return Outcome::Incomplete;
        }
    };
    if let Some(signal) = interrupt.signal() {
        face.report_interrupt(interrupt::name(signal));
    }
    let told = face.summarize(begun.elapsed(), &manifests, &interrupt);
    if let Err(error) = told.and_then(|()| sys::close_stdout()) {
        exit::complain(&anyhow!(error).context("write error"));
        return Outcome::Incomplete;
    }
    if let Some(signal) = interrupt.signal() {
        // The caller learns what ended the run.
        sys::by_default(signal);
        return Outcome::Incomplete;
    }
    if counts.failed.get() == 0 {
        Outcome::Complete
    } else {
        Outcome::Incomplete
    }
}

/// Why nothing was copied.
enum Stopped {
    /// It has been said.
    Told,
    By(anyhow::Error),
}

/// Copies the tree. Returns the paths of the manifests that it has written.
fn copy_tree(
    mut settings: Settings,
    face: &Face<'_>,
    (counts, budget): (&Counts, Budget),
    interrupt: &Interrupt,
    mode: Mode,
) -> Result<Vec<PathBuf>, Stopped> {
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.context("/dev/null").map_err(Stopped::By)?;
    let attributes = settings.directory_attributes();
    let root = Root::open_with(&settings.source, &settings.destination, attributes);
    let root = root.map_err(|trouble| {
        face.complain_of(&trouble);
        Stopped::Told
    })?;
    let on_wait = || face.remark_on_destination(&settings.destination, run_lock::WAITING);
    let _lock = RunLock::acquire(root.destination(), on_wait);
    let archive = open_archive(&mut settings, face, &root)?;
    let (settings, destination) = (&settings, Arc::clone(root.destination()));
    let carrying = Carrying {
        root: destination.as_fd(),
        forgets_missing: settings.forgets_missing,
        accepted: settings.accepted.clone(),
        algorithm: settings.algorithm,
        null: &nowhere,
    };
    // There is something to finish from now on.
    interrupt.catch_signals();
    let (manifest, journaling) = begin_manifest(settings, face, &root, &archive, carrying, mode);
    if manifest.is_none() && journaling.name().is_none() && !archive.is_empty() {
        let error = anyhow!("nothing is copied, as files would differ from their records");
        face.complain("".as_ref(), &error);
        return Err(Stopped::Told);
    }
    let lookup = Lookup::new(&archive, &settings.accepted, root.directory());
    let lookup = lookup
        .map_err(|error| stop_at_destination(settings, face, error, "cannot read its manifests"))?;
    let names = FoldedNames::new(&archive, &settings.exclude);
    let mut ledger = Ledger::new((settings, face, counts), &root, manifest, &journaling);
    let (end, total) = (End::default(), Total::default());
    let unwritten = UnwrittenFiles::new(budget.unwritten_files());
    thread::scope(|scope| {
        if face.shows_progress() {
            // Without threads to be had there is nothing to see.
            let draw = || face.draw_until(&end, &total);
            let _ = thread::Builder::new().spawn_scoped(scope, draw);
            if let Some(n_levels) = budget.levels_of_the_prescan() {
                let options = ScanOptions {
                    follows_symlinks: settings.follows_symlinks,
                    one_file_system: settings.one_file_system,
                    most_open: n_levels.get(),
                };
                let (source, exclude) = (root.source(), &settings.exclude);
                let (total, end) = (&total, &end);
                let count = move || prescan(source, options, exclude, total, end);
                let _ = thread::Builder::new().spawn_scoped(scope, count);
            }
        }
        let _rings = RungAtLast(&end);
        let context = (counts, &nowhere, lookup, &journaling, interrupt, &unwritten);
        copy_entries(
            settings,
            face,
            context,
            (&root, budget),
            &names,
            &mut ledger,
        );
    });
    let is_durable = settings.durability == Durability::Synced;
    if is_durable || !interrupt.is_requested() {
        let durability = settings.durability;
        write_back(
            face,
            counts,
            &destination,
            &journaling,
            &unwritten,
            durability,
        );
    }
    let manifest = ledger.into_manifest().and_then(|manifest| {
        finish_manifest(settings, face, archive, manifest, &journaling, interrupt)
    });
    if let Err(trouble) = root.done() {
        face.complain_of(&trouble);
    }
    if is_durable {
        // Directories have their attributes now.
        write_back(
            face,
            counts,
            &destination,
            &journaling,
            &unwritten,
            settings.durability,
        );
    }
    let names = manifest.unwrap_or_default().into_iter();
    Ok(names
        .map(|name| settings.destination.join(name.to_string()))
        .collect())
}

/// Reports what is wrong with the destination as a whole.
fn stop_at_destination(
    settings: &Settings,
    face: &Face<'_>,
    error: io::Error,
    what: &'static str,
) -> Stopped {
    let error = anyhow!(error).context(what);
    face.complain_of_destination(&settings.destination, &error);
    Stopped::Told
}

/// Finds the manifests of the destination, which all have to be whole.
fn open_archive(settings: &mut Settings, face: &Face<'_>, root: &Root) -> Result<Archive, Stopped> {
    let destination = root.destination().as_fd();
    let archive = Archive::open(destination, Verify::Needed, true)
        .map_err(|error| stop_at_destination(settings, face, error, "cannot read its manifests"))?;
    for DamagedFile { name, damage } in archive.damaged() {
        let error = anyhow!("{damage}");
        let error = error.context(
            "the manifest is damaged, and nothing is copied before it is repaired or removed",
        );
        face.complain(name.as_ref(), &error);
    }
    if !archive.damaged().is_empty() {
        return Err(Stopped::Told);
    }
    if let (false, Some(algorithm)) = (settings.has_chosen_algorithm, archive.algorithm()) {
        settings.algorithm = algorithm;
    }
    Ok(archive)
}

/// Ends the drawing, even if the work panics.
struct RungAtLast<'a>(&'a End);

impl Drop for RungAtLast<'_> {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// Copies everything but directories, which the walk makes.
fn copy_entries(
    settings: &Settings,
    face: &Face<'_>,
    (counts, nowhere, lookup, journaling, interrupt, unwritten): (
        &Counts,
        &File,
        Lookup<'_>,
        &Journaling<'_>,
        &Interrupt,
        &UnwrittenFiles,
    ),
    (root, budget): (&Root, Budget),
    names: &FoldedNames<'_>,
    ledger: &mut Ledger<'_>,
) {
    let (sharing, symlinks) = (Sharing::default(), Symlinks::default());
    let granularities = Granularities::default();
    let destination = root.destination();
    let crowd = settings.crowd_into(destination);
    let n_jobs = budget.jobs(crowd.n_jobs);
    let n_makers = n_jobs.min(crowd.n_makers);
    let most_ahead = budget.ahead(n_jobs, n_makers, settings.lanes());
    let gate = Gate::new(n_makers);
    let of_directory = budget.weight_of_directory();
    let options = settings.walk(interrupt).most_open(budget.levels());
    let walk = root.walk_apart(options, names, |trouble| face.complain_of(&trouble));
    let mut batches = Batches::of(walk, lookup, settings.longest_short(), settings.durability);
    thread::scope(|scope| {
        let hashers = Hashers::start(
            scope,
            (settings.algorithm, settings.way),
            settings.n_hashers(),
            settings.queue,
        );
        let copier = || Copier {
            settings,
            face,
            counts,
            sharing: &sharing,
            granularities: &granularities,
            symlinks: &symlinks,
            gate: &gate,
            reader: Reader {
                tap: hashers.tap(),
                algorithm: settings.algorithm,
                nowhere,
                block_size: settings.queue.block_size,
                interrupt,
            },
            most_ahead,
            names,
            while_waiting: budget.while_waiting(),
            journaling,
            interrupt,
            unwritten,
            news: Vec::new(),
        };
        let mut copier_of_links = copier();
        let workshop = Workshop {
            next: || batches.next(),
            start: || {
                let mut copier = copier();
                move |batch| copier.work(batch)
            },
            weigh: |done: &Vec<Done>| copier::weight(done, of_directory),
            deliver: |due: &mut dyn Iterator<Item = Vec<Done>>| {
                ledger.take(&mut due.flatten(), &mut copier_of_links);
                Ok::<(), std::convert::Infallible>(())
            },
        };
        let Ok(()) = in_order(n_jobs, workshop);
    });
}

/// Begins the manifest and the journal, if there are to be any. A run that makes no digests has
/// them if it may change records.
fn begin_manifest<'a>(
    settings: &Settings,
    face: &'a Face<'a>,
    root: &Root,
    archive: &Archive,
    carrying: Carrying<'a>,
    mode: Mode,
) -> (Option<Update<'a>>, Journaling<'a>) {
    if !settings.leaves_sums && archive.is_empty() {
        return (None, Journaling::none(face));
    }
    let mut copied = match manifests_in_source(root.source()) {
        Ok(copied) => copied,
        Err(error) => {
            ledger::complain_of_manifest(face, error);
            return (None, Journaling::none(face));
        }
    };
    copied.retain(|copied| !archive.owns(copied.name.to_string().as_bytes()));
    let source = settings.source.as_os_str().as_bytes().to_vec();
    let mut header = archive.next_header(source, copied);
    let directory = root.destination();
    let journaling = Journaling::begin(face, directory, &header, settings.durability);
    header
        .journals
        .extend(journaling.name().map(<[u8]>::to_vec));
    let manifest = Update::begin(directory, archive, header, mode, carrying)
        .map_err(|error| ledger::complain_of_manifest(face, error))
        .ok();
    (manifest, journaling)
}

/// Gives the manifest its name, and removes the journals, which are no longer needed.
fn finish_manifest(
    settings: &Settings,
    face: &Face<'_>,
    mut archive: Archive,
    mut manifest: Update<'_>,
    journaling: &Journaling<'_>,
    interrupt: &Interrupt,
) -> Option<Vec<Name>> {
    if interrupt.is_requested() {
        for path in manifest.skip_accepted() {
            let error = anyhow!(Interrupted).context("cannot accept it");
            face.complain(Path::new(OsStr::from_bytes(&path)), &error);
        }
    }
    let failures = manifest
        .complete()
        .map_err(|error| ledger::complain_of_manifest(face, error))
        .ok()?;
    for (path, error) in failures {
        face.complain(Path::new(OsStr::from_bytes(&path)), &error);
    }
    let is_wanted = if settings.leaves_sums {
        // An empty tree has an empty manifest.
        manifest.has_lines()
            || archive.is_empty()
            || manifest.has_changed()
            || archive.has_journals()
    } else {
        manifest.has_changed() || archive.has_journals() || manifest.tells_copied(&archive)
    };
    let root = manifest.root();
    if !is_wanted {
        journaling.remove();
        archive.remove_stale_journals(root);
        return None;
    }
    let manifests = manifest
        .finish()
        .map_err(|error| ledger::complain_of_manifest(face, error))
        .ok()?;
    journaling.remove();
    archive.remove_journals(root);
    for manifest in &manifests {
        face.report_exclusivity(manifest.exclusivity);
    }
    let names = manifests.into_iter().map(|manifest| manifest.name);
    Some(names.collect())
}

/// The mode of a new manifest. To be asked before there are threads: the mask is the process's.
fn mode_of_manifest() -> Mode {
    Mode::from_raw_mode(0o666) - current_mask()
}

/// What new files are not allowed. To be asked before there are threads: the mask is the process's.
fn current_mask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}
