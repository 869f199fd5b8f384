//! Runs that are killed, at any call that leaves a trace, and what the next run makes of what they
//! have left.

use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::mounts::Fs;
use crate::refused::is_call_refused;
use crate::skip::has_program;
use traced::meddled;

const NEW: &[u8] = b"the new contents, which are longer";
const OLD: &[u8] = b"the old";

/// Something of every kind: files, one of which is to be replaced; a directory; links of both
/// kinds; a FIFO.
fn tree() -> Trees {
    tree_in(anywhere())
}

fn tree_in(directory: &Path) -> Trees {
    let trees = Trees::within(directory);
    trees
        .put("a/new", NEW)
        .put("a/replaced", NEW)
        .put("b/long", vec![7; 300_000])
        .put("b/longer", vec![8; (1 << 20) + 5]);
    trees.put("empty", "");
    fs::hard_link(trees.original("a/new"), trees.original("b/hard")).unwrap();
    std::os::unix::fs::symlink("a/new", trees.original("a/link")).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, trees.original("fifo"), fifo, mode, 0).unwrap();
    trees.put_copy("a/replaced", OLD);
    std::os::unix::fs::symlink("elsewhere", trees.copied("a/link")).unwrap();
    trees
}

/// Whatever bears a name is what it was or what it is to be, whole; and no line promises what is
/// not there.
#[track_caller]
fn nothing_is_half_done(trees: &Trees, what: &str) {
    let copies = walkdir::WalkDir::new(trees.copy()).min_depth(1);
    for copy in copies.into_iter().map(Result::unwrap) {
        let name = copy.path().strip_prefix(trees.copy()).unwrap();
        let is_own = |name: &str| name.starts_with('.') || name.starts_with("shasum.");
        if is_own(copy.file_name().to_str().unwrap()) {
            continue;
        }
        let kind = copy.file_type();
        let original = trees.original(name);
        if kind.is_file() {
            let bytes = fs::read(copy.path()).unwrap();
            let is_new = bytes == fs::read(&original).unwrap();
            let is_old = name == Path::new("a/replaced") && bytes == OLD;
            assert!(is_new || is_old, "{what}: {} is half done", name.display());
            if is_new {
                let mode = |path: &Path| fs::metadata(path).unwrap().mode();
                assert_eq!(
                    mode(copy.path()),
                    mode(&original),
                    "{what}: {}",
                    name.display()
                );
            }
        } else if kind.is_symlink() {
            let target = fs::read_link(copy.path()).unwrap();
            assert!(
                ["a/new", "elsewhere"].map(Path::new).contains(&&*target),
                "{what}"
            );
        }
    }
    for sums in Sums::all_in(&trees.copy()) {
        sums.holds_in(&trees.copy());
    }
    // One that is not finished promises nothing else than that it will be.
    for path in hidden_names(&trees.copy()) {
        // Of anything else, a FIFO would wait for its writer.
        if !path.symlink_metadata().unwrap().is_file() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        if !path.to_str().unwrap().contains("sum.") {
            continue;
        }
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        for line in lines.filter(|line| line.ends_with(b"\n")) {
            let line = line::parse(line).unwrap();
            let found = fs::read(trees.copied(OsStr::from_bytes(&line.path))).unwrap();
            assert_eq!(digest_of(Algorithm::Sha256, &found), line.digest, "{what}");
        }
    }
}

/// A run without further trouble makes everything whole, and leaves nothing of the killed one.
#[track_caller]
fn the_next_run_succeeds(trees: &Trees, what: &str) {
    let run = trees.run(&[]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{what}");
    trees.are_alike();
    trees.sums().satisfies_sha256sum(&trees.copy());
    assert_eq!(
        hidden_names(&trees.copy()),
        [""; 0].map(PathBuf::from),
        "{what}"
    );
}

fn killed_at_every(calls: &[&str], options: &[&str]) {
    let made = killed_in(anywhere(), calls, options);
    assert!(
        !made.is_empty() || !has_program("strace"),
        "none of these was ever made"
    );
}

/// Kills a run as it is about to make the first call of this kind, one at the second, until one is
/// not killed. Gives the calls that were made at all.
fn killed_in(directory: &Path, calls: &[&str], options: &[&str]) -> Vec<String> {
    if !has_program("strace") {
        return Vec::new();
    }
    let mut made = Vec::new();
    for call in calls {
        // What is opened before the trees are is the runtime's.
        let first = if *call == "openat" { 8 } else { 1 };
        for nth in first.. {
            assert!(nth < 300, "{call}: there is no end to it");
            let trees = tree_in(directory);
            let kills = format!("{call}:signal=KILL:when={nth}");
            let traced = meddled(&trees.command(options), call, &kills);
            let what = format!("killed at {call} {nth}");
            if traced.run.status == 0 {
                trees.are_alike();
                break;
            }
            assert_eq!(traced.run.status, 128 + 9, "{what}: {traced:?}");
            made.push(*call);
            nothing_is_half_done(&trees, &what);
            the_next_run_succeeds(&trees, &what);
        }
    }
    made.dedup();
    made.iter().map(|call| (*call).to_owned()).collect()
}

#[test]
fn killed_at_any_call_that_gives_a_name_nothing_is_half_done() {
    killed_at_every(&["linkat", "renameat", "renameat2", "unlinkat"], &[]);
}

#[test]
fn killed_at_any_call_that_makes_something_nothing_is_half_done() {
    killed_at_every(&["mkdirat", "symlinkat", "mknodat", "mkdir"], &[]);
}

#[test]
fn killed_at_any_call_that_opens_nothing_is_half_done() {
    killed_at_every(&["openat"], &["--jobs=1"]);
}

#[test]
fn killed_at_any_call_that_moves_bytes_nothing_is_half_done() {
    let calls = [
        "write",
        "pwrite64",
        "copy_file_range",
        "splice",
        "fallocate",
        "ioctl",
    ];
    killed_at_every(&calls, &[]);
}

#[test]
fn killed_at_any_call_that_makes_or_reads_a_clone_nothing_is_half_done() {
    if let Some(directory) = Fs::Btrfs.dir() {
        let calls = ["ioctl", "fadvise64", "fcntl", "pread64", "linkat"];
        let made = killed_in(&directory, &calls, &[]);
        let are_all_made = made == calls || is_call_refused("ficlone");
        assert!(made.is_empty() || are_all_made, "{made:?}");
    }
}

#[test]
fn killed_at_any_call_that_gives_attributes_nothing_is_half_done() {
    let calls = ["fchown", "fchmod", "utimensat", "fchownat", "fsetxattr"];
    killed_at_every(&calls, &[]);
}

#[test]
fn killed_at_any_call_that_syncs_nothing_is_half_done() {
    killed_at_every(&["fsync", "fdatasync", "sync_file_range"], &["--durable"]);
}

/// Where file systems know no files without names, these have hidden ones.
#[test]
fn killed_where_every_file_has_a_name_nothing_is_half_done() {
    if !has_program("strace") {
        return;
    }
    for call in ["renameat", "unlinkat", "write", "flock"] {
        for nth in 1..200 {
            let trees = tree();
            let kills = format!("--inject={call}:signal=KILL:when={nth}");
            // That there is no /proc is told by the first call; without it nothing can be linked.
            let options = [
                format!("--trace={call},access,faccessat,faccessat2"),
                "--inject=access,faccessat,faccessat2:error=ENOENT:when=1+".to_owned(),
                kills,
            ];
            let traced = traced::traced(&trees.command(&[]), &options);
            let what = format!("killed at {call} {nth}");
            if traced.run.status == 0 {
                break;
            }
            assert_eq!(traced.run.status, 128 + 9, "{what}: {traced:?}");
            nothing_is_half_done(&trees, &what);
            the_next_run_succeeds(&trees, &what);
        }
    }
}

/// At no call in particular, without anybody looking on.
#[test]
fn killed_at_any_moment_nothing_is_half_done() {
    let put_many = |trees: &Trees| {
        for n in 0..40 {
            trees.put(format!("many/{n}"), vec![n; 5000]);
        }
    };
    let trees = tree();
    put_many(&trees);
    let step = a_part_of_the_time(|| trees.run(&[]).is_quiet());
    let mut delay = Duration::ZERO;
    loop {
        let trees = tree();
        put_many(&trees);
        let mut child = trees.command(&[]).spawn().unwrap();
        std::thread::sleep(delay);
        child.kill().unwrap();
        if end_of(child).success() {
            break;
        }
        let what = format!("killed after {delay:?}");
        if trees.copy().exists() {
            nothing_is_half_done(&trees, &what);
        }
        the_next_run_succeeds(&trees, &what);
        delay += step;
    }
}
