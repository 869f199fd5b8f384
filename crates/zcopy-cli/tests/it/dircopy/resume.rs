//! `--resume`: runs that end in the midst of a long file, and the run that goes on inside it.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::Child;
use std::sync::LazyLock;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::*;
use crate::bad_disk::{BLOCK, BadDisk, words, zeroed};
use crate::child::{end_of, with_default_signals};
use crate::mounts::mount_tmpfs;
use crate::skip::has_program;
use file_systems::FileSystem;
use traced::traced;

mod changed;
mod errors;
mod interrupted;
mod options;

const MIB: usize = 1 << 20;

/// The length of the file: room for two checkpoints, and no multiple of a block.
const LEN: usize = 132 * MIB + 777;

/// A rate at which a checkpoint is made in each second, after 66 MiB.
const SLOW: &str = "--bwlimit=66MiB";

/// How long something may take that takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes of which no page is like another.
fn contents(seed: u8) -> Vec<u8> {
    let page: Vec<u8> = (0..4096_u64)
        .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as u8 ^ seed)
        .collect();
    let mut bytes = page.repeat(LEN.div_ceil(page.len()));
    for (n, page) in bytes.chunks_mut(page.len()).enumerate() {
        page[..8].copy_from_slice(&(n as u64 + u64::from(seed)).to_le_bytes());
    }
    bytes.truncate(LEN);
    bytes
}

/// The contents of the long file.
static LONG: LazyLock<Vec<u8>> = LazyLock::new(|| contents(0));

/// Asserts that a copy of the long file is exact.
#[track_caller]
fn assert_exact(path: &Path) {
    let is_exact = facts::blake3(path) == *blake3::hash(&LONG).as_bytes();
    assert!(is_exact, "{} differs", path.display());
}

/// A tree with a long file, in memory.
fn tree() -> Trees {
    let trees = Trees::within(Path::new("/dev/shm"));
    trees.put("a", "short").put("d/long", &*LONG);
    trees
}

/// Tries the cases, three at the same time: each waits for a rate or a checkpoint most of the time.
fn for_each<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    for some in cases.chunks(3) {
        std::thread::scope(|scope| {
            for case in some {
                scope.spawn(|| check(case));
            }
        });
    }
}

/// The options of a run with `--resume`: these, and a function that takes little time, unless they
/// choose one.
fn options_of<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let chooses = |option: &&str| {
        let choices = ["--hash", "--no-hash", "--manifest"];
        choices.iter().any(|choice| option.starts_with(choice))
    };
    let quick: &[&str] = if options.iter().any(chooses) {
        &[]
    } else {
        &["--hash=blake3"]
    };
    [&["--resume", "--lanes=never"], quick, options].concat()
}

/// A run with `--resume` that is under way.
fn begin(trees: &Trees, options: &[&str]) -> Child {
    let mut command = with_default_signals(&trees.command(&options_of(options)));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// A partial copy, and its log.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    log: PathBuf,
    /// The offsets of its checkpoints.
    offsets: Vec<u64>,
}

impl Partial {
    /// All that a tree has.
    fn all_in(tree: &Path) -> Vec<Self> {
        // A run may be at work.
        let entries = walkdir::WalkDir::new(tree).into_iter().flatten();
        let names = entries.map(walkdir::DirEntry::into_path);
        let is_hidden = |path: &PathBuf| path.to_string_lossy().contains("/.zc-dircopy-");
        let logs = names.filter(is_hidden).filter_map(|log| {
            let mut head = vec![0; 4096];
            let n = fs::File::open(&log).ok()?.read_at(&mut head, 0).ok()?;
            let text = String::from_utf8_lossy(&head[..n]);
            let lines = text.strip_prefix("# zc-dircopy partial, version 1\n")?;
            let words = lines.lines().map(|line| line.split(' ').collect());
            let words: Vec<Vec<_>> = words.collect();
            let path = log.with_file_name(words.first()?[2]);
            let offsets = words[1..].iter().map(|words| words[2].parse().unwrap());
            let offsets = offsets.collect();
            path.exists().then_some(Self { path, log, offsets })
        });
        logs.collect()
    }

    #[track_caller]
    fn only_in(tree: &Path) -> Self {
        let mut all = Self::all_in(tree);
        assert_eq!(all.len(), 1, "{all:?}: {:?}", hidden_names(tree));
        all.remove(0)
    }

    fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    fn last(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Changes the byte at an offset.
    fn flip(&self, at: u64) {
        let mut options = fs::File::options();
        let file = options.read(true).write(true).open(&self.path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
}

/// Waits until it is so.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A run that ends by a signal once its partial copies have so many checkpoints in all.
#[track_caller]
fn ended_after(
    trees: &Trees,
    options: &[&str],
    n_checkpoints: usize,
    signal: Signal,
) -> Vec<Partial> {
    let options = [&[SLOW], options].concat();
    let run = begin(trees, &options);
    wait_until("no checkpoint", || {
        let all = Partial::all_in(&trees.copy());
        all.iter().map(|it| it.offsets.len()).sum::<usize>() >= n_checkpoints
    });
    kill_process(Pid::from_child(&run), signal).unwrap();
    let status = end_of(run);
    assert_eq!(status.signal(), Some(signal.as_raw()));
    Partial::all_in(&trees.copy())
}

/// A run that is killed behind a checkpoint, and what it leaves.
#[track_caller]
fn killed(trees: &Trees, options: &[&str]) -> Partial {
    ended_after(trees, options, 1, Signal::KILL);
    Partial::only_in(&trees.copy())
}

/// Copies the tree with `--resume`. Returns how many bytes of each file were taken over.
#[track_caller]
fn resumed(trees: &Trees, options: &[&str]) -> u64 {
    let options = [&["--json"], options].concat();
    let run = trees.run_aloud(&options_of(&options));
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run:?}");
    let events = run.stdout.lines();
    let events: Vec<Value> = events
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |event: &str| -> Vec<u64> {
        let events = events.iter().filter(|it| it["event"] == event);
        events
            .map(|it| it["resumed_bytes"].as_u64().unwrap())
            .collect()
    };
    let n: u64 = of("file").iter().sum();
    assert_eq!(of("summary"), [n]);
    n
}

/// The copy is exact, has its record, and nothing is left over.
#[track_caller]
fn is_complete(trees: &Trees) {
    facts::assert_same(&trees.source(), &trees.copy());
    hides_nothing(&trees.copy());
    assert_eq!(trees.check(&["--silent", "--strict"]).status, 0);
}

fn cut(path: &Path, len: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

#[track_caller]
fn goes_on_with_holes(trees: &Trees, left: &Partial) {
    let len = left.len();
    let usable = left.offsets.iter().filter(|offset| **offset <= len);
    let usable = usable.max().copied().unwrap_or(0);
    assert_eq!(resumed(trees, &[]), usable);
    hides_nothing(&trees.copy());
    let [original, copy] = [trees.original("sparse"), trees.copied("sparse")];
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
    // A run that ends within a hole writes its last byte.
    assert!(blocks(&copy) <= blocks(&original) + 8);
    let compared = Command::new("cmp").arg(&original).arg(&copy).status();
    assert!(compared.unwrap().success());
}

/// A run that goes on inside the partial copy, whose calls that contain this path fail as told.
fn meddled_with(trees: &Trees, path: &Path, calls: &str, fault: &str) -> traced::Traced {
    let path = path.to_str().unwrap().to_owned();
    let trace = format!("--trace={calls}");
    let inject = format!("--inject={calls}:{fault}");
    let command = trees.command(&options_of(&["--jobs=1", "--explain"]));
    traced(&command, &["-P".to_owned(), path, trace, inject])
}

const PREADS: &str = "pread64,preadv,preadv2";

/// A run of the tree, the calls of which fail as told.
fn failing(trees: &Trees, options: &[&str], calls: &str, fault: &str) -> traced::Traced {
    let options = options_of(&[&["--jobs=1"], options].concat());
    traced::meddled(&trees.command(&options), calls, &format!("{calls}:{fault}"))
}
