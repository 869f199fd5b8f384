//! Bags (RFC 8493), held against `bagit.py`.

use super::reference::{Reference, reference};
use super::*;

const BAG: &str = "--manifest=bagit";

/// Names of which some have to be encoded.
fn tree() -> Trees {
    let trees = Trees::new();
    trees
        .put("a/b/two", "two")
        .put("a/one", "one")
        .put("a/with space", "")
        .put("a/new\nline", "x")
        .put("a/carriage\rreturn", "y")
        .put("ünïcödé", "z")
        .put("long", vec![7; (1 << 20) + 5]);
    fs::create_dir(trees.original("empty")).unwrap();
    trees
}

fn bagit() -> Option<Reference> {
    reference("bagit.py")
}

/// What `bagit.py` says of a bag.
fn validate(bagit: &Reference, bag: &Path) -> i32 {
    bagit.run(&["--validate", "--quiet"], bag).status
}

fn flip_a_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_bag_has_its_files_in_data_and_tag_files_that_list_them() {
    let trees = tree();
    trees.put("100%", "%");
    trees.succeeds(&[BAG]);
    facts::assert_same(&trees.source(), &trees.copied("data"));
    let manifest = text(&trees.copied("manifest-sha256.txt"));
    let paths: Vec<_> = manifest.lines().map(|line| &line[66..]).collect();
    let expected = [
        "data/100%25",
        "data/a/b/two",
        "data/a/carriage%0Dreturn",
        "data/a/new%0Aline",
        "data/a/one",
        "data/a/with space",
        "data/long",
        "data/ünïcödé",
    ];
    assert_eq!(paths, expected);
    let info = text(&trees.copied("bag-info.txt"));
    assert!(info.contains("Payload-Oxum: 1048591.8\n"), "{info}");
    let declaration = text(&trees.copied("bagit.txt"));
    let expected = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
    assert_eq!(declaration, expected);
    let sums = Command::new("sha256sum")
        .args(["--check", "--quiet", "tagmanifest-sha256.txt"])
        .current_dir(trees.copy())
        .output()
        .unwrap();
    assert!(sums.status.success(), "{sums:?}");
    assert_eq!(trees.check(&["--quiet"]).status, 0);
}

#[test]
fn bagit_accepts_a_bag_and_a_second_run_and_finds_a_flipped_byte() {
    let Some(bagit) = bagit() else { return };
    let trees = tree();
    trees.succeeds(&[BAG]);
    assert_eq!(validate(&bagit, &trees.copy()), 0);

    trees.put("a/three", "three").put("a/one", "another");
    trees.succeeds(&[BAG]);
    assert_eq!(validate(&bagit, &trees.copy()), 0);
    trees.holds("data/a/one", "another");

    flip_a_byte(&trees.copied("data/a/b/two"));
    assert_eq!(validate(&bagit, &trees.copy()), 1);
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "data/a/b/two: FAILED\n"));
    // The card repairs it.
    trees.succeeds(&[BAG, "--overwrite-policy=update"]);
    assert_eq!(validate(&bagit, &trees.copy()), 0);
}

#[test]
fn a_symbolic_link_in_a_bag_of_bagit_counts_as_the_file_that_it_leads_to() {
    let Some(bagit) = bagit() else { return };
    let trees = Trees::new();
    trees.put_copy("one", "the first");
    std::os::unix::fs::symlink("one", trees.copied("link")).unwrap();
    let made = bagit.run(&["--sha256", "--quiet"], &trees.copy());
    assert_eq!(made.status, 0, "{made:?}");
    let run = trees.check(&["--no-summary"]);
    let expected = "data/link: OK\ndata/one: OK\n";
    assert_eq!((run.status, &*run.stdout), (0, expected), "{run:?}");
}

#[test]
fn a_bag_of_bagit_is_accepted_and_updated_and_a_flipped_byte_is_found() {
    let Some(bagit) = bagit() else { return };
    for digests in [&["--sha256"][..], &["--sha256", "--sha512"], &["--md5"]] {
        let trees = tree();
        fs::create_dir(trees.copy()).unwrap();
        for name in ["a/one", "a/new\nline", "long"] {
            trees.put_copy(name, fs::read(trees.original(name)).unwrap());
        }
        let organization = ["--source-organization=Archive", "--quiet"];
        let options = [digests, &organization].concat();
        assert_eq!(bagit.run(&options, &trees.copy()).status, 0);
        let run = trees.check(&["--no-summary"]);
        let expected = "'data/a/new'$'\\n''line': OK\ndata/a/one: OK\ndata/long: OK\n";
        assert_eq!(
            (run.status, &*run.stdout),
            (0, expected),
            "{digests:?}: {run:?}"
        );

        trees.succeeds(&[BAG]);
        assert_eq!(validate(&bagit, &trees.copy()), 0, "{digests:?}");
        let info = text(&trees.copied("bag-info.txt"));
        assert!(info.contains("Source-Organization: Archive\n"), "{info}");
        assert!(info.contains("Bag-Software-Agent: zc-dircopy"), "{info}");
        assert!(!info.contains("bagit.py"), "{info}");

        flip_a_byte(&trees.copied("data/long"));
        assert_eq!(trees.check(&["--quiet"]).status, 1, "{digests:?}");
        assert_eq!(validate(&bagit, &trees.copy()), 1);
    }
}

/// A check of files that the bag lists would say nothing.
#[test]
fn a_check_fails_for_files_that_a_bag_does_not_list_and_for_tag_files_that_changed() {
    let trees = tree();
    trees.succeeds(&[BAG]);
    trees.put_copy("data/a/extra", "");
    let run = trees.check(&["--silent", "--no-summary"]);
    let expected = (1, "data/a/extra: FAILED not listed\n");
    assert_eq!((run.status, &*run.stdout), expected);
    fs::remove_file(trees.copied("data/a/extra")).unwrap();
    // Other tag files are free.
    trees.put_copy("notes/about", "");
    assert_eq!(trees.check(&["--quiet"]).status, 0);
    trees.put_copy("bag-info.txt", "Payload-Oxum: 1.1\n");
    let run = trees.check(&["--quiet"]);
    run.failed_naming(&[&["dst/bag-info.txt", "differs from its digest"]]);
    let run = trees.run(&[BAG]);
    run.failed_naming(&[&["bag-info.txt", "nothing is copied"]]);
}

#[test]
fn a_check_fails_for_a_bag_whose_total_is_wrong() {
    let trees = tree();
    trees.succeeds(&[BAG]);
    // With the manifest of the tag files, the digest of bag-info.txt would tell.
    fs::remove_file(trees.copied("tagmanifest-sha256.txt")).unwrap();
    let info = text(&trees.copied("bag-info.txt"));
    assert_eq!(trees.check(&["--quiet"]).status, 0);
    let (rest, total) = info.trim_end().rsplit_once("Payload-Oxum: ").unwrap();
    let (n_bytes, n_files) = total.split_once('.').unwrap();
    let one_more = format!("{n_bytes}.{}", n_files.parse::<u64>().unwrap() + 1);
    for wrong in [one_more, format!("1{n_bytes}.{n_files}")] {
        trees.put_copy("bag-info.txt", format!("{rest}payload-oxum: {wrong}\r\n"));
        let run = trees.check(&["--quiet"]);
        run.failed_naming(&[&["dst/bag-info.txt", "Payload-Oxum tells another number"]]);
    }
    // It need not be told.
    trees.put_copy("bag-info.txt", rest);
    assert_eq!(trees.check(&["--quiet"]).status, 0);
}

#[test]
fn a_bag_is_finished_by_the_first_run_without_a_failure() {
    let trees = tree();
    std::os::unix::fs::symlink("one", trees.original("a/link")).unwrap();
    trees.put(OsStr::from_bytes(b"a/\xff"), "not UTF-8");
    let run = trees.run(&[BAG]);
    run.failed_naming(&[
        &["a/link", "a bag has regular files alone"],
        &["a/", "its name is not UTF-8"],
        &["dst", "the bag is not finished"],
    ]);
    assert!(!trees.copied("bagit.txt").exists());
    assert!(!trees.copied("manifest-sha256.txt").exists());
    let run = trees.check(&["--quiet"]);
    run.failed_naming(&[&["dst/bagit.txt", "the manifest is not finished"]]);
    // It was not killed.
    let run = trees.run(&[BAG, "--delete"]);
    run.failed_naming(&[&["dst", "an earlier run has not finished here"]]);

    fs::remove_file(trees.original("a/link")).unwrap();
    fs::remove_file(trees.original(OsStr::from_bytes(b"a/\xff"))).unwrap();
    // The journal has the digests: no file is read.
    flip_a_byte(&trees.copied("data/a/one"));
    trees.succeeds(&[BAG, "--no-hash-skipped"]);
    hides_nothing(&trees.copy());
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "data/a/one: FAILED\n"));
}

#[test]
fn records_of_a_bag_are_changed_on_request() {
    let trees = tree();
    trees.succeeds(&[BAG]);
    trees.put_copy("data/own", "own");
    let run = trees.run(&[BAG]);
    run.failed_naming(&[&["own", "no record"], &["dst", "not finished"]]);
    let options = ["--accept=data/own", "--quiet"];
    assert_eq!(trees.check(&options).status, 0);
    hides_nothing(&trees.copy());
    fs::remove_file(trees.copied("data/own")).unwrap();
    let run = trees.run(&[BAG]);
    run.failed_naming(&[&["own", "it is missing"], &["dst", "not finished"]]);
    trees.run(&[BAG, "--forget-missing"]).ended_with(0);
    assert_eq!(trees.check(&["--quiet"]).status, 0);
    for path in ["bag-info.txt", "own"] {
        let run = trees.check(&["--quiet", "--accept", path]);
        assert_eq!(run.status, 1, "{path}: {run:?}");
        let run = trees.run(&[BAG, "--accept", path]);
        run.ended_with(2);
    }
}

/// The digests of files that the bag has already are made as well, also of those that the source
/// lacks.
#[test]
fn a_bag_has_the_digests_that_are_asked_for_and_a_second_run_keeps_them() {
    let bagit = bagit();
    let trees = tree();
    trees.succeeds(&[BAG]);
    fs::remove_file(trees.original("a/one")).unwrap();
    let lists = |digest| {
        text(&trees.copied(format!("manifest-{digest}.txt")))
            .lines()
            .count()
    };
    for (options, algorithms) in [
        (
            &["--hash=sha512,sha256", "--no-hash-skipped"][..],
            &["sha256", "sha512"][..],
        ),
        (&[], &["sha256", "sha512"]),
        (&["--hash=sha512"], &["sha512"]),
        (&["--hash=md5,sha1"], &["md5", "sha1"]),
    ] {
        trees.put("new", format!("{options:?}"));
        trees.succeeds(&[&[BAG], options].concat());
        for algorithm in ["md5", "sha1", "sha256", "sha512"] {
            let is_expected = algorithms.contains(&algorithm);
            for list in ["manifest", "tagmanifest"] {
                let list = trees.copied(format!("{list}-{algorithm}.txt"));
                assert_eq!(
                    list.exists(),
                    is_expected,
                    "{options:?}: {}",
                    list.display()
                );
            }
            assert!(
                !is_expected || lists(algorithm) == 8,
                "{options:?}: {algorithm}"
            );
        }
        assert_eq!(trees.check(&["--quiet"]).status, 0, "{options:?}");
        if let Some(bagit) = &bagit {
            assert_eq!(validate(bagit, &trees.copy()), 0, "{options:?}");
        }
    }
    // A file that has rotted gets no digest of another function.
    flip_a_byte(&trees.copied("data/a/one"));
    let run = trees.run(&[BAG, "--hash=sha256"]);
    run.failed_naming(&[
        &["a/one", "its record lacks a digest"],
        &["dst", "not finished"],
    ]);
}

#[test]
fn options_that_do_not_go_with_a_bag_are_refused() {
    let trees = tree();
    for options in [
        &[BAG, "--no-hash"][..],
        &[BAG, "--hash=blake3"],
        &[BAG, "--hash=xxh128"],
        &["--manifest=tar"],
    ] {
        trees.run(options).ended_with(2);
        assert!(!trees.copy().exists(), "{options:?}");
    }
}

/// Whatever a killed run leaves, no tag file lists a file that is not there or is another one, and
/// the next run finishes the bag.
#[test]
fn killed_at_any_moment_a_bag_lists_nothing_that_was_not_written() {
    let bagit = bagit();
    let put_many = |trees: &Trees| {
        for n in 0..40 {
            trees.put(format!("many/{n}"), vec![n; 5000]);
        }
    };
    let trees = tree();
    put_many(&trees);
    let step = a_part_of_the_time(|| trees.run(&[BAG]).is_quiet());
    let mut delay = Duration::ZERO;
    loop {
        let trees = tree();
        put_many(&trees);
        trees.succeeds(&[BAG, "--exclude=many"]);
        trees.put("a/one", "newer");
        let mut child = trees.command(&[BAG]).spawn().unwrap();
        std::thread::sleep(delay);
        child.kill().unwrap();
        let is_over = end_of(child).success();
        let manifest = text(&trees.copied("manifest-sha256.txt"));
        for line in manifest.lines() {
            let path = line[66..].replace("%0A", "\n").replace("%0D", "\r");
            let bytes = fs::read(trees.copied(&path)).unwrap();
            let found = digest_of(Algorithm::Sha256, &bytes).to_string();
            // One that was replaced is announced by the journal.
            let is_replaced = path == "data/a/one" && bytes == b"newer";
            assert!(found == line[..64] || is_replaced, "{delay:?}: {path}");
        }
        trees.succeeds(&[BAG]);
        hides_nothing(&trees.copy());
        let n_lines = text(&trees.copied("manifest-sha256.txt")).lines().count();
        assert_eq!(n_lines, 47, "{delay:?}");
        assert_eq!(trees.check(&["--quiet"]).status, 0, "{delay:?}");
        if is_over {
            let valid = bagit.map(|bagit| validate(&bagit, &trees.copy()));
            assert_eq!(valid.unwrap_or_default(), 0);
            break;
        }
        delay += step;
    }
}

#[test]
fn the_files_of_a_bag_are_not_copied_through_a_symbolic_link() {
    let trees = Trees::new();
    trees.put("file", "contents");
    let elsewhere = trees.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(trees.copy()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, trees.copied("data")).unwrap();
    let run = trees.run(&["--manifest=bagit"]);
    run.failed_naming(&[&["dst/data", "it is a symbolic link"]]);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// `bagit.py` accepts no bag with any of them, not even one of its own, except with percent signs.
#[test]
fn names_that_bagit_misreads_are_told_and_no_others() {
    let bagit = bagit();
    let misread = [
        "line\u{b}tab",
        "form\u{c}feed",
        "file\u{1c}separator",
        "group\u{1d}separator",
        "record\u{1e}separator",
        "next\u{85}line",
        "line\u{2028}separator",
        "paragraph\u{2029}separator",
        "blank ",
        "tab\t",
        "unit\u{1f}",
        "no-break\u{a0}",
        "ideographic\u{3000}",
        "100%",
        "%0A",
        "four\n\n\n\nlines",
        "four\r\r\r\rlines",
    ];
    let read = [
        "two\n\nlines",
        "two\r\rlines\n",
        "unit\u{1f}separator",
        "no-break\u{a0}space",
        "zero-width\u{200b}",
        "#",
        "*",
        "\\",
        " blank",
    ];
    let of_all = |names: &[&str]| {
        let trees = Trees::new();
        for name in names {
            trees.put(format!("a/{name}"), name);
        }
        let run = trees.run_aloud(&[BAG, "--json"]);
        assert_eq!(trees.check(&["--quiet"]).status, 0);
        if let Some(bagit) = &bagit {
            let is_misread = validate(bagit, &trees.copy()) != 0;
            assert_eq!(is_misread, run.stderr.contains("bagit.py"), "{names:?}");
        }
        run
    };
    for name in misread {
        let run = of_all(&[name]);
        run.ended_with(0);
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
        assert!(run.stderr.contains("a/"), "{run:?}");
        let is_remark = |line: &&str| line.contains("\"event\":\"remark\",\"path\":\"a/");
        assert_eq!(run.stdout.lines().filter(is_remark).count(), 1, "{run:?}");
    }
    let run = of_all(&read);
    assert_eq!((run.status, &*run.stderr), (0, ""));
}
