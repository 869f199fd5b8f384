//! `--resume`: runs that end in the midst of a long file, and the run that goes on inside it.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::Child;
use std::sync::LazyLock;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::*;
use crate::bad_disk::{BLOCK, BadDisk, words, zeroed};
use crate::child::end_of;
use crate::mounts::mount_tmpfs;
use crate::skip::has_program;
use file_systems::FileSystem;
use traced::traced;

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
    let mut command = trees.command(&options_of(options));
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

#[test]
fn a_killed_copy_goes_on_behind_the_last_checkpoint() {
    let trees = tree();
    let left = killed(&trees, &[]);
    assert!(left.last() >= 64 << 20 && left.len() >= left.last());
    assert!(!trees.copied("d/long").exists());
    // What is not finished is nobody's file.
    let check = trees.check(&["--silent", "--strict"]);
    assert!(!check.stdout.contains("zc-dircopy"), "{check:?}");
    assert_eq!(resumed(&trees, &[]), left.last());
    trees.are_alike();
    is_complete(&trees);
    // A run that finds all done takes nothing over.
    assert_eq!(resumed(&trees, &[]), 0);
}

#[test]
fn a_signal_leaves_a_checkpoint_at_the_exact_end() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        let trees = tree();
        let run = begin(&trees, &[SLOW]);
        wait_until("nothing is written", || {
            let all = Partial::all_in(&trees.copy());
            all.first().is_some_and(|it| it.len() > 5 << 20)
        });
        kill_process(Pid::from_child(&run), signal).unwrap();
        assert_eq!(end_of(run).signal(), Some(signal.as_raw()));
        let left = Partial::only_in(&trees.copy());
        assert_eq!(left.last(), left.len(), "{left:?}");
        assert!(left.last() < LEN as u64);
        // The manifest lists what was copied, and the check finds no more.
        assert_eq!(trees.check(&["--silent", "--strict"]).status, 0);
        assert_eq!(resumed(&trees, &[]), left.last());
        is_complete(&trees);
    }
}

/// However often a run is killed, each goes on behind what the one before it has noted, and no name
/// ever stands for half a file.
#[test]
fn runs_that_are_killed_again_and_again_come_to_an_end() {
    let trees = tree();
    let (mut n_runs, mut last) = (0, 0);
    loop {
        n_runs += 1;
        let mut run = begin(&trees, &["--bwlimit=100MiB"]);
        // Each run gets a little further than the one before: it reads what is there first.
        let time = Duration::from_millis(900 + 331 * n_runs);
        std::thread::sleep(time);
        if let Some(status) = run.try_wait().unwrap() {
            assert!(status.success(), "{status:?}");
            break;
        }
        kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
        end_of(run);
        if trees.copied("d/long").exists() {
            assert_exact(&trees.copied("d/long"));
        }
        for left in Partial::all_in(&trees.copy()) {
            assert!(left.last() >= last, "what is proven does not get less");
            last = left.last();
        }
        assert!(n_runs < 30);
    }
    assert!(n_runs > 1 && last > 0, "{n_runs} runs, {last} bytes");
    is_complete(&trees);
}

#[test]
fn a_changed_original_is_copied_from_its_start() {
    type Change<'a> = &'a (dyn Fn(&Path) + Sync);
    let other = contents(1);
    let changes: [(&str, Change<'_>); 4] = [
        ("other bytes", &|path| fs::write(path, &other).unwrap()),
        ("one byte", &|path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(b"x", 3).unwrap();
        }),
        ("longer", &|path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(LEN as u64 + 1).unwrap();
        }),
        ("shorter, with its old time", &|path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            let time = file.metadata().unwrap().modified().unwrap();
            file.set_len(LEN as u64 - 1).unwrap();
            file.set_modified(time).unwrap();
        }),
    ];
    for_each(&changes, |(what, change)| {
        let trees = tree();
        killed(&trees, &[]);
        change(&trees.original("d/long"));
        assert_eq!(resumed(&trees, &[]), 0, "{what}");
        is_complete(&trees);
    });
}

#[test]
fn an_original_that_is_gone_or_replaced_leaves_nothing_behind() {
    let trees = tree();
    killed(&trees, &[]);
    fs::remove_file(trees.original("d/long")).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
    let trees = tree();
    killed(&trees, &[]);
    fs::remove_file(trees.original("d/long")).unwrap();
    trees.put("d/long/a", "a directory");
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
}

#[test]
fn a_partial_copy_that_was_changed_serves_up_to_the_last_checkpoint_that_it_agrees_with() {
    type Change = fn(&Partial);
    type Proven = fn(&Partial) -> u64;
    let cases: [(&str, Change, Proven); 9] = [
        ("the first byte", |it| it.flip(0), |_| 0),
        (
            "a byte in the midst",
            |it| it.flip(it.offsets[0] / 2),
            |_| 0,
        ),
        (
            "the last byte of the first checkpoint",
            |it| it.flip(it.offsets[0] - 1),
            |_| 0,
        ),
        (
            "the first byte behind the first checkpoint",
            |it| it.flip(it.offsets[0]),
            |it| it.offsets[0],
        ),
        (
            "the last byte of the last checkpoint",
            |it| it.flip(it.last() - 1),
            |it| it.offsets[it.offsets.len() - 2],
        ),
        (
            "a byte behind the last checkpoint",
            |it| {
                let file = fs::File::options().write(true).open(&it.path).unwrap();
                file.write_all_at(b"stranger's", it.last()).unwrap();
            },
            Partial::last,
        ),
        (
            "cut within the last checkpoint",
            |it| cut(&it.path, it.last() - 1),
            |it| it.offsets[it.offsets.len() - 2],
        ),
        ("empty", |it| cut(&it.path, 0), |_| 0),
        (
            "longer than the original",
            |it| cut(&it.path, 2 * LEN as u64),
            Partial::last,
        ),
    ];
    for_each(&cases, |(what, change, expected)| {
        let trees = tree();
        ended_after(&trees, &[], 1, Signal::TERM);
        let left = Partial::only_in(&trees.copy());
        assert!(left.offsets.len() >= 2, "{left:?}");
        let expected = expected(&left);
        change(&left);
        assert_eq!(resumed(&trees, &[]), expected, "{what}");
        is_complete(&trees);
    });
}

fn cut(path: &Path, len: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

#[test]
fn a_log_that_is_damaged_or_gone_costs_a_copy_from_the_start() {
    type Change = fn(&Partial);
    let changes: [(&str, Change); 5] = [
        ("gone", |it| fs::remove_file(&it.log).unwrap()),
        ("empty", |it| cut(&it.log, 0)),
        ("its first line is cut", |it| cut(&it.log, 60)),
        ("the file is gone", |it| fs::remove_file(&it.path).unwrap()),
        ("the file has another name", |it| {
            fs::hard_link(&it.path, it.path.with_file_name(".zc-dircopy-link")).unwrap();
        }),
    ];
    for_each(&changes, |(what, change)| {
        let trees = tree();
        let left = killed(&trees, &[]);
        change(&left);
        assert_eq!(resumed(&trees, &[]), 0, "{what}");
        let link = trees.copied("d/.zc-dircopy-link");
        if link.exists() {
            // A file with another name is not written to.
            assert!(fs::metadata(&link).unwrap().len() >= left.last());
            fs::remove_file(&link).unwrap();
            assert_exact(&trees.copied("d/long"));
            hides_nothing(&trees.copy());
        } else {
            is_complete(&trees);
        }
    });
}

#[test]
fn a_partial_copy_whose_attributes_others_set_is_not_gone_on_with() {
    let trees = tree();
    let left = killed(&trees, &[]);
    fs::set_permissions(&left.path, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
    // Attributes that the original lacks are removed.
    let trees = tree();
    let left = killed(&trees, &[]);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&left.path, "user.stranger", b"x", flags).unwrap();
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn two_partial_copies_that_change_places_are_told_apart() {
    let trees = tree();
    trees.put("d/other", contents(9));
    ended_after(&trees, &["--jobs=2"], 1, Signal::TERM);
    let all = Partial::all_in(&trees.copy());
    let [one, other] = &all[..] else {
        panic!("both files are under way: {all:?}");
    };
    let aside = trees.path().join("aside");
    fs::rename(&one.path, &aside).unwrap();
    fs::rename(&other.path, &one.path).unwrap();
    fs::rename(&aside, &other.path).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
}

#[test]
fn several_files_go_on_at_once() {
    let trees = tree();
    trees.put("e/other", contents(9));
    ended_after(&trees, &["--jobs=2"], 1, Signal::TERM);
    let all = Partial::all_in(&trees.copy());
    assert_eq!(all.len(), 2);
    let sum: u64 = all.iter().map(Partial::last).sum();
    assert_eq!(resumed(&trees, &["--jobs=2"]), sum);
    is_complete(&trees);
}

#[test]
fn a_run_without_the_option_removes_what_was_left() {
    let trees = tree();
    killed(&trees, &[]);
    trees.succeeds(&["--lanes=never"]).are_alike();
    is_complete(&trees);
    // And leaves nothing itself.
    let trees = tree();
    let mut command = trees.command(&["--lanes=never", SLOW]);
    let run = command.spawn().unwrap();
    wait_until("nothing begins", || trees.copied("a").exists());
    std::thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    hides_nothing(&trees.copy());
}

#[test]
fn a_copy_that_was_made_otherwise_leaves_nothing() {
    let trees = tree();
    killed(&trees, &[]);
    fs::copy(trees.original("d/long"), trees.copied("d/long")).unwrap();
    dated(&trees.original("d/long"), 0);
    let trees = tree();
    killed(&trees, &[]);
    fs::copy(trees.original("d/long"), trees.copied("d/long")).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    hides_nothing(&trees.copy());
    // An excluded file is not needed either.
    let trees = tree();
    killed(&trees, &[]);
    assert_eq!(resumed(&trees, &["--exclude=long"]), 0);
    hides_nothing(&trees.copy());
}

/// The digests of the former run prove its bytes, whatever digests this run makes.
#[test]
fn the_next_run_may_make_other_digests() {
    let pairs = [
        ["sha256", "blake3"],
        ["blake3", "sha256"],
        ["blake3", "blake3"],
    ];
    for_each(&pairs, |[before, behind]| {
        let trees = tree();
        let left = killed(&trees, &["--hash", before]);
        assert_eq!(resumed(&trees, &["--hash", behind]), left.last());
        is_complete(&trees);
    });
    let trees = tree();
    let bag = ["--manifest=bagit", "--hash=md5,sha512"];
    let left = killed(&trees, &bag);
    let other = ["--manifest=bagit", "--hash=sha1,md5"];
    assert_eq!(resumed(&trees, &other), left.last());
    assert_eq!(trees.check(&["--silent", "--strict"]).status, 0);
}

#[test]
fn bags_and_histories_go_on_too() {
    for (kind, long) in [
        ("--manifest=bagit", "data/d/long"),
        ("--manifest=ascmhl", "d/long"),
    ] {
        for signal in [Signal::KILL, Signal::TERM] {
            let trees = tree();
            ended_after(&trees, &[kind], 1, signal);
            let left = Partial::only_in(&trees.copy());
            assert_eq!(resumed(&trees, &[kind]), left.last(), "{kind}");
            assert_exact(&trees.copied(long));
            hides_nothing(&trees.copy());
            let check = trees.check(&["--silent", "--strict"]);
            assert_eq!((check.status, &*check.stdout), (0, ""), "{check:?}");
        }
    }
}

#[test]
fn durable_and_verified_copies_go_on_too() {
    let cases = [
        &["--durable"][..],
        &["--verify=both"],
        &["--no-hash", "--verify"],
        &["--skip-errors"],
        &["--no-perms"],
        &["--queue-size=1"],
        &["--block-size=4K"],
        &["--block-size=3M"],
    ];
    for_each(&cases, |options| {
        let trees = tree();
        let left = killed(&trees, options);
        assert_eq!(resumed(&trees, options), left.last(), "{options:?}");
        assert_exact(&trees.copied("d/long"));
        hides_nothing(&trees.copy());
    });
}

#[test]
fn a_copy_that_replaces_a_file_goes_on_too() {
    let trees = tree();
    trees.put_copy("d/long", "old");
    dated(&trees.copied("d/long"), 1000);
    let left = killed(&trees, &[]);
    assert_eq!(fs::read(trees.copied("d/long")).unwrap(), b"old");
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn further_names_of_a_file_are_linked_to_it() {
    let trees = tree();
    fs::hard_link(trees.original("d/long"), trees.original("d/name")).unwrap();
    let left = killed(&trees, &[]);
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
    let links = fs::metadata(trees.copied("d/long")).unwrap().nlink();
    assert_eq!(links, 2);
}

#[test]
fn holes_stay_holes() {
    let trees = Trees::within(Path::new("/dev/shm"));
    let (data, end) = (contents(3), 600 * MIB as u64 + 5);
    trees.put("sparse", "");
    let mut options = fs::File::options();
    let file = options.write(true).open(trees.original("sparse")).unwrap();
    file.write_all_at(&data[..120 * MIB], 4096).unwrap();
    file.write_all_at(&data[120 * MIB..], 300 * MIB as u64)
        .unwrap();
    file.set_len(end).unwrap();
    for signal in [Signal::KILL, Signal::TERM] {
        let left = ended_after(&trees, &[], 1, signal);
        goes_on_with_holes(&trees, &left[0]);
        fs::remove_dir_all(trees.copy()).unwrap();
    }
    // A signal that comes within a hole.
    let file = fs::File::create(trees.original("sparse")).unwrap();
    file.write_all_at(&data[..70 * MIB], 3 << 30).unwrap();
    file.set_len((4 << 30) + 5).unwrap();
    let run = begin(&trees, &[]);
    wait_until("nothing begins", || {
        !Partial::all_in(&trees.copy()).is_empty()
    });
    std::thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    let left = Partial::only_in(&trees.copy());
    assert!((1..3 << 30).contains(&left.last()), "{left:?}");
    goes_on_with_holes(&trees, &left);
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

#[test]
fn a_dry_run_tells_what_is_there_and_leaves_it() {
    let trees = tree();
    let left = killed(&trees, &[]);
    let dry = trees.run_aloud(&["--dry-run", "--resume"]);
    let line = format!("copy d/long (resumed behind {} bytes (", left.last());
    assert!(dry.stdout.contains(&line), "{dry:?}");
    assert!(
        dry.stdout.contains("of which earlier runs have copied"),
        "{dry:?}"
    );
    let dry = trees.run_aloud(&["--dry-run", "--resume", "--json"]);
    let field = format!("\"resumed_bytes\":{}", left.last());
    assert!(dry.stdout.contains(&field), "{dry:?}");
    let dry = trees.run_aloud(&["--dry-run"]);
    assert!(dry.stdout.contains("copy d/long\n"), "{dry:?}");
    assert_eq!(Partial::only_in(&trees.copy()).len(), left.len());
    assert_eq!(resumed(&trees, &[]), left.last());
}

#[test]
fn what_is_there_needs_no_space_again() {
    let Some(disk) = mount_tmpfs(152) else {
        return;
    };
    let trees = tree();
    fs::create_dir(disk.dir().join("copy")).unwrap();
    std::os::unix::fs::symlink(disk.dir().join("copy"), trees.copy()).unwrap();
    let left = killed(&trees, &[]);
    let free = rustix::fs::statvfs(disk.dir()).unwrap();
    assert!(free.f_bavail * free.f_frsize < LEN as u64);
    // A run that is to remove it first has the space too.
    let dry = trees.run_aloud(&["--dry-run"]);
    assert_eq!(dry.status, 0);
    assert_eq!(resumed(&trees, &[]), left.last());
    fs::remove_dir_all(disk.dir().join("copy")).unwrap();
    fs::create_dir(disk.dir().join("copy")).unwrap();
    killed(&trees, &[]);
    trees.succeeds(&["--lanes=never"]);
    facts::assert_same(&trees.source(), &disk.dir().join("copy"));
}

#[test]
fn a_full_disk_keeps_nothing_for_other_files_need_the_space() {
    let Some(disk) = mount_tmpfs(100) else {
        return;
    };
    let trees = tree();
    fs::create_dir(disk.dir().join("copy")).unwrap();
    std::os::unix::fs::symlink(disk.dir().join("copy"), trees.copy()).unwrap();
    let run = trees.run(&["--resume", "--lanes=never", "--no-space-check"]);
    run.failed_naming(&[&["d/long", "No space left on device"]]);
    hides_nothing(&disk.dir());
}

#[test]
fn delete_leaves_partial_copies_where_they_are() {
    let trees = tree();
    // A run that was killed has to be finished first.
    ended_after(&trees, &[], 1, Signal::TERM);
    let left = Partial::only_in(&trees.copy());
    put(&trees.copied("gone"), "what the source lacks");
    assert_eq!(resumed(&trees, &["--delete"]), left.last());
    assert!(!trees.copied("gone").exists());
    assert_exact(&trees.copied("d/long"));
    hides_nothing(&trees.copy());
}

#[test]
fn a_read_error_keeps_what_was_copied() {
    if !has_program("strace") {
        return;
    }
    // A network file system that loses its server may fail, or read as if the file ended there.
    let ends = format!("d/long: cannot read: end of file at offset @, but its size is {LEN}\n");
    for (fault, words) in [
        (
            "error=EIO",
            "d/long: cannot read: Input/output error at offset @\n",
        ),
        ("retval=0", &ends),
    ] {
        let trees = tree();
        let run = failing(&trees, &[], PREADS, &format!("{fault}:when=900+"));
        run.run.ended_with(1);
        let left = Partial::only_in(&trees.copy());
        let words = words.replace('@', &left.len().to_string());
        assert!(run.run.stderr.contains(&words), "{words}: {:?}", run.run);
        assert!(left.last() > 0 && left.last() == left.len(), "{left:?}");
        assert_eq!(resumed(&trees, &[]), left.last());
        is_complete(&trees);
    }
}

/// The server of a network file system that is lost may not tell the size of a file either.
#[test]
fn an_original_that_ends_early_and_cannot_be_examined_keeps_what_was_copied() {
    if !has_program("strace") {
        return;
    }
    let calls = format!("{PREADS},fstat,statx,newfstatat");
    let options = |more: Vec<String>| {
        let trees = tree();
        let path = trees.original("d/long");
        let path = path.to_str().unwrap();
        let common = ["-P", path, "-e", &format!("trace={calls}"), "-e"].map(str::to_owned);
        let ends = format!("inject={PREADS}:retval=0:when=60+");
        let options = [common.to_vec(), vec![ends], more].concat();
        let run = traced(&trees.command(&options_of(&["--jobs=1"])), &options);
        (trees, run)
    };
    let (_, run) = options(Vec::new());
    // What is asked behind the early end fails in the second run.
    let n_before = |call: &str| {
        let mut lines = run.log.lines();
        let before = lines
            .by_ref()
            .take_while(|line| !line.contains("(INJECTED)"));
        before
            .filter(|line| line.contains(&format!(" {call}(")))
            .count()
    };
    let stats = ["fstat", "statx", "newfstatat"].map(|call| {
        let nth = n_before(call) + 1;
        format!("inject={call}:error=ENOTCONN:when={nth}+")
    });
    let more = stats
        .into_iter()
        .flat_map(|inject| ["-e".to_owned(), inject]);
    let (trees, run) = options(more.collect());
    let failed = run.injected();
    assert!(
        failed.iter().any(|line| line.contains("ENOTCONN")),
        "{failed:?}"
    );
    run.run
        .failed_naming(&[&["d/long: cannot read: end of file at offset "]]);
    let left = Partial::only_in(&trees.copy());
    assert!(left.last() > 0 && left.last() == left.len(), "{left:?}");
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn a_hidden_file_that_others_lengthen_gets_no_name() {
    let trees = tree();
    let run = begin(&trees, &[SLOW]);
    wait_until("no partial copy", || {
        !Partial::all_in(&trees.copy()).is_empty()
    });
    let path = Partial::only_in(&trees.copy()).path;
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(2 * LEN as u64).unwrap();
    assert_eq!(end_of(run).code(), Some(1));
    assert!(!trees.copied("d/long").exists());
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
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

#[test]
fn bytes_of_a_partial_copy_that_cannot_be_read_cost_only_what_is_behind_them() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    // The end is read by a call of its own.
    let run = begin(&trees, &[SLOW]);
    wait_until("nothing is written behind a checkpoint", || {
        let all = Partial::all_in(&trees.copy());
        all.first()
            .is_some_and(|it| it.last() > 0 && it.len() > it.last() + (2 << 20))
    });
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    let left = Partial::only_in(&trees.copy());
    let [first, _] = left.offsets[..] else {
        panic!("{left:?}");
    };
    // The read behind the first checkpoint.
    let n = first.div_ceil(MIB as u64) + 1;
    let fault = format!("error=EIO:when={n}");
    let run = meddled_with(&trees, &left.path, PREADS, &fault);
    assert_eq!(run.injected().len(), 1, "{run:?}");
    assert_eq!(run.run.status, 0, "{run:?}");
    for words in [
        "d/long: its partial copy cannot be read: Input/output error at offset ".to_owned(),
        format!("d/long: goes on behind {first} bytes that an earlier run has copied\n"),
    ] {
        assert!(run.run.stderr.contains(&words), "{run:?}");
    }
    is_complete(&trees);
}

#[test]
fn a_partial_copy_that_cannot_be_read_or_opened_now_stays_for_a_later_run() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    ended_after(&trees, &[], 1, Signal::TERM);
    let left = Partial::only_in(&trees.copy());
    let original = trees.original("d/long");
    let name = Path::new(left.path.file_name().unwrap());
    let log = Path::new(left.log.file_name().unwrap());
    let unreadable = "cannot read its partial copy: Input/output error at offset 0";
    let differing = "cannot compare it with its partial copy: Input/output error";
    let ended = "cannot compare it with its partial copy: end of file";
    let closed = "cannot open its partial copy: Too many open files";
    for (path, calls, fault, words) in [
        (&*left.path, PREADS, "error=EIO:when=1+", unreadable),
        (&original, PREADS, "error=EIO:when=1+", differing),
        (&original, PREADS, "retval=0:when=1+", ended),
        // The first call finds out whether it is a partial copy.
        (name, "openat,openat2", "error=EMFILE:when=2+", closed),
        (log, "openat,openat2", "error=EMFILE:when=2+", closed),
    ] {
        let run = meddled_with(&trees, path, calls, fault);
        assert!(!run.injected().is_empty(), "{words}: {run:?}");
        assert_eq!(run.run.status, 1, "{run:?}");
        let words = format!("d/long: {words}");
        assert!(run.run.stderr.contains(&words), "{words}: {run:?}");
        let kept = Partial::only_in(&trees.copy());
        assert_eq!(
            (kept.offsets, kept.path),
            (left.offsets.clone(), left.path.clone())
        );
    }
    // With --skip-errors a bad block costs nothing that was read before.
    let path = original.to_str().unwrap();
    let options = ["-P", path, "-e", &format!("trace={PREADS}"), "-e"];
    let inject = format!("inject={PREADS}:error=EIO:when=1");
    let options = [&options[..], &[&inject]].concat().into_iter();
    let options: Vec<_> = options.map(str::to_owned).collect();
    let command = trees.command(&options_of(&["--jobs=1", "--explain", "--skip-errors"]));
    let run = traced(&command, &options);
    assert_eq!(run.injected().len(), 1, "{run:?}");
    assert_eq!(run.run.status, 0, "{run:?}");
    let words = format!("goes on behind {} bytes", left.last());
    assert!(run.run.stderr.contains(&words), "{run:?}");
    is_complete(&trees);
}

#[test]
fn an_empty_source_keeps_the_partial_copies_in_its_root() {
    let trees = Trees::within(Path::new("/dev/shm"));
    trees.put("long", &*LONG);
    let left = killed(&trees, &[]);
    let [source, apart] = [trees.source(), trees.source().with_file_name("apart")];
    fs::rename(&source, &apart).unwrap();
    fs::create_dir(&source).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    assert!(left.path.exists() && left.log.exists());
    fs::remove_dir(&source).unwrap();
    fs::rename(&apart, &source).unwrap();
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn a_directory_of_the_source_that_cannot_be_read_now_keeps_its_partial_copies() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let left = killed(&trees, &[]);
    let directory = trees.original("d");
    let run = meddled_with(&trees, &directory, "getdents64", "error=EIO:when=1+");
    assert!(!run.injected().is_empty(), "{run:?}");
    run.run.failed_naming(&[&["d", "Input/output error"]]);
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn a_further_name_that_fails_keeps_its_partial_copy() {
    let trees = tree();
    fs::hard_link(trees.original("d/long"), trees.original("d/name")).unwrap();
    let left = killed(&trees, &["--exclude=long"]);
    // Its file is copied under its first name, and a directory is in the way of the other one.
    fs::create_dir(trees.copied("d/name")).unwrap();
    let run = trees.run(&options_of(&[]));
    run.failed_naming(&[&["d/name"]]);
    assert!(trees.copied("d/long").exists());
    assert_eq!(Partial::only_in(&trees.copy()).offsets, left.offsets);
    fs::remove_dir(trees.copied("d/name")).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
}

/// It is not known which file it is of, so that the run copies all.
#[test]
fn a_log_that_cannot_be_opened_now_is_not_removed_with_its_file() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let left = killed(&trees, &[]);
    let log = Path::new(left.log.file_name().unwrap());
    let run = meddled_with(&trees, log, "openat,openat2", "error=EIO:when=1");
    assert_eq!(run.injected().len(), 1, "{run:?}");
    assert_eq!(run.run.status, 0, "{run:?}");
    assert_eq!(Partial::only_in(&trees.copy()).last(), left.last());
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
}

/// A checkpoint that is wrong is met by one run.
#[test]
fn checkpoints_behind_the_one_that_was_gone_on_from_are_dropped() {
    let trees = tree();
    ended_after(&trees, &[], 1, Signal::TERM);
    let left = Partial::only_in(&trees.copy());
    let [first, last] = left.offsets[..] else {
        panic!("{left:?}");
    };
    left.flip(first);
    let run = begin(&trees, &[SLOW]);
    wait_until("it does not go on", || left.len() > last + (20 << 20));
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    let more = Partial::only_in(&trees.copy());
    assert_eq!(more.path, left.path);
    assert!(more.offsets.starts_with(&[first]), "{more:?}");
    assert!(!more.offsets.contains(&last), "{more:?}");
    assert!(more.offsets.is_sorted() && more.last() > last, "{more:?}");
    assert_eq!(resumed(&trees, &[]), more.last());
    is_complete(&trees);
}

/// The kernel reports an error of a write-back once. If a checkpoint gets it, the copy fails all the
/// same.
#[test]
fn a_durable_copy_whose_bytes_do_not_reach_the_disk_gets_no_name() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    // The first call is for the log, and the second for the copy at its first checkpoint.
    let inject = "inject=fdatasync:error=EIO:when=2".to_owned();
    let trace = "trace=fdatasync".to_owned();
    let options = options_of(&["--durable", "--jobs=1", SLOW]);
    let run = traced(
        &trees.command(&options),
        &["-e".into(), trace, "-e".into(), inject],
    );
    let [injected] = run.injected()[..] else {
        panic!("{run:?}");
    };
    assert!(injected.contains("/d/.zc-dircopy-"), "{injected}");
    run.run
        .failed_naming(&[&["d/long: cannot write its copy: Input/output error"]]);
    assert!(!trees.copied("d/long").exists());
    assert_eq!(trees.check(&["--silent"]).status, 0);
    assert_eq!(resumed(&trees, &["--durable"]), 0);
    is_complete(&trees);
}

/// A run of the tree, the calls of which fail as told.
fn failing(trees: &Trees, options: &[&str], calls: &str, fault: &str) -> traced::Traced {
    let options = options_of(&[&["--jobs=1"], options].concat());
    traced::meddled(&trees.command(&options), calls, &format!("{calls}:{fault}"))
}

#[test]
fn a_durable_copy_ends_with_the_first_error_of_a_sync() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let options = ["--durable", SLOW];
    let run = failing(&trees, &options, "fdatasync", "error=EIO:when=2");
    run.run
        .failed_naming(&[&["d/long: cannot write its copy: Input/output error"]]);
    let left = Partial::only_in(&trees.copy());
    assert!(left.offsets.is_empty(), "{left:?}");
    assert!((64 << 20..LEN as u64).contains(&left.len()), "{left:?}");
    assert_eq!(resumed(&trees, &options), 0);
    is_complete(&trees);
    // The second checkpoint of a copy, or its end. The first one serves.
    let trees = tree();
    let run = failing(&trees, &options, "fdatasync", "error=EIO:when=4");
    run.run
        .failed_naming(&[&["d/long: cannot write its copy: Input/output error"]]);
    let left = Partial::only_in(&trees.copy());
    assert_eq!(left.offsets.len(), 1, "{left:?}");
    assert_eq!(resumed(&trees, &options), left.last());
    is_complete(&trees);
}

#[test]
fn a_copy_that_fails_behind_its_last_byte_is_kept() {
    if !has_program("strace") {
        return;
    }
    let renames = "renameat,renameat2,linkat";
    let named = "d/long: cannot give its copy the name";
    for (options, calls, error, words, is_kept) in [
        (&[][..], renames, "EIO", named, true),
        (&[], renames, "ENOSPC", named, false),
        (
            &["--verify"],
            "fdatasync",
            "EIO",
            "d/long: cannot write its copy",
            true,
        ),
    ] {
        let trees = Trees::within(Path::new("/dev/shm"));
        trees.put("d/long", &LONG[..70 * MIB + 5]);
        let fault = format!("error={error}:when=1+");
        let run = failing(&trees, options, calls, &fault);
        assert!(!run.injected().is_empty(), "{run:?}");
        assert!(run.run.stderr.contains(words), "{words}: {run:?}");
        if is_kept {
            let left = Partial::only_in(&trees.copy());
            assert_eq!(left.last(), left.len(), "{left:?}");
            assert_eq!(left.last(), 70 * MIB as u64 + 5);
            assert_eq!(resumed(&trees, &[]), left.last());
        } else {
            assert!(Partial::all_in(&trees.copy()).is_empty(), "{run:?}");
            assert_eq!(resumed(&trees, &[]), 0);
        }
        is_complete(&trees);
    }
}

/// What cannot be read is skipped behind the bytes of the former run, and no digest covers it.
#[test]
fn a_damaged_original_is_gone_on_with_up_to_its_damage() {
    let Some(disk) = BadDisk::new(400) else {
        return;
    };
    let trees = Trees::within(Path::new("/dev/shm"));
    let bytes = words(130 * MIB + 777);
    put(&disk.dir().join("src/clip"), &bytes);
    let command = |options: &[&str]| {
        let mut command = zc_dircopy();
        command.args(["--quiet", "--lanes=never", "--resume"]);
        command.args(options);
        command.arg(disk.dir().join("src")).arg(trees.copy());
        command
    };
    let slow = ["--skip-errors", "--bwlimit=66MiB"];
    let mut run = command(&slow);
    let run = run.stderr(Stdio::null()).spawn().unwrap();
    wait_until("nothing is written", || {
        let all = Partial::all_in(&trees.copy());
        all.first().is_some_and(|it| it.len() > 5 << 20)
    });
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    let left = Partial::only_in(&trees.copy());
    let bad = [(left.last() as usize + 20 * MIB) / BLOCK, 120 * MIB / BLOCK];
    let clip = fs::File::open(disk.dir().join("src/clip")).unwrap();
    disk.flip(&clip, &bytes, &bad);
    // Without --skip-errors it ends at the damage, and keeps what is before it.
    let failed = crate::dircopy::run(&mut command(&[]));
    failed.failed_naming(&[&["clip: cannot read: Input/output error at offset "]]);
    let kept = Partial::only_in(&trees.copy());
    assert_eq!(kept.last(), kept.len());
    assert!(kept.last() > left.last() && kept.last() <= (bad[0] * BLOCK) as u64);
    let skipped = crate::dircopy::run(&mut command(&["--skip-errors"]));
    assert_eq!(skipped.status, 1, "{skipped:?}");
    let found = fs::read(trees.copied("clip")).unwrap();
    crate::files::assert_same(&found, &zeroed(&bytes, &bad), "clip");
    assert!(trees.copied("clip.damaged").exists());
    hides_nothing(&trees.copy());
    assert_eq!(trees.check(&["--silent"]).status, 1);
    // Once it can be read again, the copy is completed.
    disk.flip(&clip, &bytes, &bad);
    crate::dircopy::run(&mut command(&["--skip-errors"])).is_quiet();
    assert!(fs::read(trees.copied("clip")).unwrap() == bytes);
    assert!(!trees.copied("clip.damaged").exists());
    hides_nothing(&trees.copy());
}

/// Drivers without `O_TMPFILE`, `RENAME_NOREPLACE` or inode numbers that stay, and a file system
/// that folds names.
#[test]
fn file_systems_that_can_do_less_are_gone_on_with_too() {
    for file_system in [
        FileSystem::bindfs,
        FileSystem::sshfs,
        FileSystem::tmpfs_casefold,
    ] {
        let Some(file_system) = file_system() else {
            continue;
        };
        let trees = Trees::within(Path::new("/dev/shm"));
        let bytes = &LONG[..80 * MIB + 5];
        trees.put("long", bytes);
        let copy = file_system.path().join("copy");
        fs::create_dir(&copy).unwrap();
        std::os::unix::fs::symlink(&copy, trees.copy()).unwrap();
        let run = begin(&trees, &["--bwlimit=20MiB"]);
        wait_until("nothing is written", || {
            let all = Partial::all_in(&copy);
            all.first().is_some_and(|it| it.len() > 5 << 20)
        });
        kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
        end_of(run);
        let left = Partial::only_in(&copy);
        assert!(left.last() > 0, "{left:?}");
        assert_eq!(resumed(&trees, &[]), left.last());
        assert!(fs::read(copy.join("long")).unwrap() == bytes);
        assert!(Partial::all_in(&copy).is_empty());
    }
}

#[test]
fn a_shorter_file_is_not_kept() {
    let trees = Trees::within(Path::new("/dev/shm"));
    trees.put("short", &LONG[..(64 << 20) - 1]);
    let run = begin(&trees, &["--bwlimit=20MiB"]);
    wait_until("the destination is missing", || trees.copy().exists());
    std::thread::sleep(Duration::from_millis(500));
    assert!(Partial::all_in(&trees.copy()).is_empty());
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    hides_nothing(&trees.copy());
    assert_eq!(resumed(&trees, &[]), 0);
}

#[test]
fn without_digests_nothing_could_be_proven() {
    let trees = Trees::new();
    trees.run(&["--resume", "--no-hash"]).ended_with(2);
    let check = trees.check(&["--resume"]);
    assert_eq!(check.status, 2, "{check:?}");
}

#[test]
fn explain_tells_what_was_taken_over_and_why_it_was_not() {
    let trees = tree();
    let left = killed(&trees, &[]);
    let options = options_of(&["--explain"]);
    let run = trees.run(&options);
    let words = format!(
        "d/long: goes on behind {} bytes that an earlier run has copied\n",
        left.last()
    );
    assert!(run.stderr.contains(&words), "{run:?}");
    let trees = tree();
    let left = killed(&trees, &[]);
    left.flip(0);
    let run = trees.run(&options);
    let words = "d/long: its partial copy has other bytes than were noted\n";
    assert!(run.stderr.contains(words), "{run:?}");
    let summary = {
        let trees = tree();
        killed(&trees, &[]);
        trees.run_aloud(&options_of(&[])).stdout
    };
    assert!(
        summary.contains("1 file resumed, of which earlier runs had copied "),
        "{summary}"
    );
}
