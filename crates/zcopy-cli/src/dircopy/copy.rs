//! Copies a tree.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, anyhow};
use rustix::fs::Mode;

use super::RungAtLast;
use super::batches::Batches;
use super::budget::Budget;
use super::copier::{self, Copier, Done};
use super::counts::Counts;
use super::end::End;
use super::face::Face;
use super::folded_names::FoldedNames;
use super::gate::Gate;
use super::granularity::Granularities;
use super::hashing::Hashers;
use super::interrupt::Interrupt;
use super::journaling::Journaling;
use super::ledger::Ledger;
use super::lookup::Lookup;
use super::manifest::update::Carrying;
use super::place::Durability;
use super::prescan::{Total, prescan};
use super::reading::Reader;
use super::run_lock::{self, RunLock};
use super::run_manifest::{begin_manifest, finish_manifest, open_archive};
use super::settings::Settings;
use super::sharing::Sharing;
use super::symlinks::Symlinks;
use super::tree::Root;
use super::tree::scan::ScanOptions;
use super::written_back::{UnwrittenFiles, write_back};
use crate::order::{Workshop, in_order};

/// Why nothing was copied.
pub(super) enum Stopped {
    /// It has been said.
    Told,
    By(anyhow::Error),
}

/// Copies the tree. Returns the paths of the manifests that it has written.
pub(super) fn copy_tree(
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
pub(super) fn stop_at_destination(
    settings: &Settings,
    face: &Face<'_>,
    error: io::Error,
    what: &'static str,
) -> Stopped {
    let error = anyhow!(error).context(what);
    face.complain_of_destination(&settings.destination, &error);
    Stopped::Told
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
