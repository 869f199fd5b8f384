//! The option beside others, on several file systems.

use super::*;

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
fn without_digests_nothing_could_be_proven() {
    let trees = Trees::new();
    trees.run(&["--resume", "--no-hash"]).ended_with(2);
    let check = trees.check(&["--resume"]);
    assert_eq!(check.status, 2, "{check:?}");
}
