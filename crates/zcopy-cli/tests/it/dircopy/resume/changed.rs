//! Originals, partial copies and logs that others have changed, exchanged or removed meanwhile.

use super::*;

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
