//! Odd names, odd sizes, and what is left out.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::*;
use crate::files::pattern;
use mounting::{can_mount, run_with_tmpfs};

#[test]
fn every_byte_that_a_name_can_have_is_kept() {
    let trees = Trees::new();
    for byte in (1..=255_u8).filter(|byte| *byte != b'/') {
        for name in [
            vec![b'a', byte],
            vec![byte, b'x', b'y', b'z', b'/', byte, b'f'],
            vec![byte, byte, byte],
        ] {
            trees.put(OsString::from_vec(name), [byte]);
        }
    }
    trees
        .put("-", "no standard input")
        .put("-rf", "no option")
        .put("--", "none either");
    trees
        .put(" ", "blank")
        .put("a\nb", "two lines")
        .put("\\n", "no newline")
        .put("é", "UTF-8");
    trees.succeeds(&[]).are_alike();
    let sums = trees.sums();
    sums.satisfies_sha256sum(&trees.source())
        .satisfies_sha256sum(&trees.copy());
    let check = run(zc_dircopy().arg("--check").arg(trees.copy()));
    assert_eq!(check.status, 0, "{}", check.stderr);
}

#[test]
fn trees_may_have_odd_names_too() {
    let trees = Trees::new();
    trees.put("-o/file", "x");
    let mut command = zc_dircopy();
    command
        .current_dir(trees.source())
        .args(["-q", "--", "-o", "--json"]);
    run(&mut command).is_quiet();
    let copy = trees.original("--json");
    Sums::newest_in(&copy).lists(&["file"]).holds_in(&copy);
    let name = OsString::from_vec(b"\xff\n".to_vec());
    let mut command = zc_dircopy();
    command
        .current_dir(trees.source())
        .args(["-q", "-i-o", "-o"]);
    run(command.arg(&name)).is_quiet();
    Sums::newest_in(&trees.original(name)).lists(&["file"]);
}

/// As every tool of GNU's takes it.
#[test]
fn an_option_takes_what_follows_even_if_it_looks_like_an_option() {
    let trees = Trees::new();
    trees.put("-o/file", "x");
    let mut command = zc_dircopy();
    let arguments = ["-q", "-i", "-o", "-o", "out"];
    run(command.current_dir(trees.source()).args(arguments)).is_quiet();
    Sums::newest_in(&trees.original("out")).lists(&["file"]);
}

#[test]
fn names_may_be_as_long_as_names_can_be_and_trees_deeper_than_paths() {
    let trees = Trees::new();
    let long = "n".repeat(255);
    trees.put(&long, "x");
    // More than PATH_MAX by far.
    let script = format!(
        "cd \"$1\" && for n in $(seq 30); do mkdir {long} 2>&- || mkdir d{long}; cd {long}; done && echo deep > file"
    );
    fs::remove_file(trees.original(&long)).unwrap();
    let made = Command::new("bash")
        .args(["-c", &script, "bash"])
        .arg(trees.source())
        .status();
    assert!(made.unwrap().success());
    trees.succeeds(&[]);
    let script =
        format!("cd -P \"$1\" && for n in $(seq 30); do cd {long} || exit; done && cat file");
    let found = Command::new("bash")
        .args(["-c", &script, "bash"])
        .arg(trees.copy())
        .output();
    assert_eq!(found.unwrap().stdout, b"deep\n");
    let check = run(zc_dircopy().arg("--check").arg(trees.copy()));
    let check = check.without_total("1 matching, 0 differing, 0 missing, 0 unreadable");
    assert_eq!((check.status, check.stderr.as_str()), (0, ""));
    // What removes scratch directories goes by paths.
    for tree in [trees.source(), trees.copy()] {
        let removed = Command::new("rm").arg("-rf").arg(tree).status();
        assert!(removed.unwrap().success());
    }
}

#[test]
fn files_of_every_size_around_a_block_are_whole() {
    for (option, block) in [
        ("--block-size=4K", 4 << 10),
        ("--block-size=128K", 128 << 10),
        ("--block-size=1", 1),
    ] {
        let trees = Trees::new();
        let sizes = [
            0,
            1,
            2,
            block - 1,
            block,
            block + 1,
            2 * block - 1,
            2 * block,
            2 * block + 1,
            11 * block + 5,
        ];
        for size in sizes.map(|size: usize| size.min(3_000_000)) {
            trees.put(format!("{size}"), pattern(size));
        }
        trees.succeeds(&[option, "--queue-size=1"]).are_alike();
        trees.sums().satisfies_sha256sum(&trees.copy());
        trees
            .succeeds(&[option, "--overwrite-policy=always", "--verify"])
            .are_alike();
    }
}

#[test]
fn long_files_are_hashed_behind_a_short_queue_and_beside_others() {
    let trees = Trees::new();
    for n in 0..6 {
        trees.put(format!("{n}"), pattern((2 << 20) + n));
    }
    for queue in ["1", "2", "1000"] {
        let options = [
            "--queue-size",
            queue,
            "--jobs=6",
            "--overwrite-policy=always",
        ];
        trees.succeeds(&options).are_alike();
    }
}

#[test]
fn what_is_excluded_is_left_out_and_what_is_not_is_not() {
    let trees = Trees::new();
    for name in [
        "a.o",
        "a.c",
        "d/b.o",
        "d/b.c",
        "target/x",
        "d/target/y",
        "doc/a/x.html",
        "doc/x.txt",
        "e/target",
    ] {
        trees.put(name, "x");
    }
    trees.succeeds(&[
        "--exclude=*.o",
        "--exclude",
        "target/",
        "--exclude=doc/**/*.html",
    ]);
    trees
        .sums()
        .lists(&["a.c", "d/b.c", "doc/x.txt", "e/target"])
        .is_whole_of_copy(&trees);
    let trees_without = |glob: &str| {
        let copy = trees.path().join("other");
        let mut command = zc_dircopy();
        run(command
            .args(["-q", "--exclude", glob])
            .arg(trees.source())
            .arg(&copy))
        .is_quiet();
        let paths = Sums::newest_in(&copy)
            .paths()
            .into_iter()
            .map(Path::to_owned)
            .collect::<Vec<_>>();
        fs::remove_dir_all(copy).unwrap();
        paths
    };
    assert!(!trees_without("/d/b.c").contains(&"d/b.c".into()));
    assert!(trees_without("/b.c").contains(&"d/b.c".into()));
    assert!(
        trees_without("*/target")
            .iter()
            .all(|path| !path.ends_with("target") && !path.starts_with("d/target"))
    );
}

impl Sums {
    /// Nothing but the manifest is in the destination that has no line.
    #[track_caller]
    fn is_whole_of_copy(&self, trees: &Trees) {
        let mut files = facts::files_of(&trees.copy());
        files.retain(|file| trees.copied(file) != self.path);
        assert_eq!(self.paths(), files);
    }
}

#[test]
fn excluded_names_may_have_any_bytes() {
    let trees = Trees::new();
    let name = OsStr::from_bytes;
    for bytes in [
        &b"caf\xe9.mov"[..],
        "café.mov".as_bytes(),
        b"d/\xff\n\\",
        b"d/new\nline",
        b"d/\xfe/below",
        b"kept",
    ] {
        trees.put(name(bytes), "x");
    }
    let copied = |globs: &[&[u8]]| {
        let copy = trees.path().join("other");
        let mut command = zc_dircopy();
        command.arg("-q");
        for glob in globs {
            command.arg("--exclude").arg(name(glob));
        }
        // The locale makes no difference.
        command.env("LC_ALL", "C");
        run(command.arg(trees.source()).arg(&copy)).is_quiet();
        let paths = facts::copies_in(&copy);
        fs::remove_dir_all(copy).unwrap();
        paths
    };
    let paths = |names: &[&[u8]]| -> Vec<PathBuf> {
        names.iter().map(|bytes| name(bytes).into()).collect()
    };
    let kept = copied(&[b"caf\xe9.mov", b"new\nline", b"\xfe/"]);
    let expected = paths(&["café.mov".as_bytes(), b"d/\xff\n\\", b"kept"]);
    assert_eq!(kept, expected);
    let kept = copied(&[b"caf?.mov", b"/d/\xff?\\\\", b"d/[\xf0-\xfe]", b"*\n*"]);
    assert_eq!(kept, paths(&[b"kept"]));
}

#[test]
fn an_excluded_name_in_the_destination_is_left_alone() {
    let trees = Trees::new();
    trees
        .put("a", "new")
        .put_copy("a", "own")
        .put_copy("beside", "own");
    trees
        .succeeds(&["--exclude=a"])
        .holds("a", "own")
        .holds("beside", "own");
    trees.sums().lists(&[]);
}

#[test]
fn another_file_system_is_not_entered_if_there_is_to_be_one() {
    if !can_mount() {
        return;
    }
    let trees = Trees::new();
    trees.put("a/file", "x").put("z", "y");
    let there = trees.original("mounted");
    fs::create_dir(&there).unwrap();
    run_with_tmpfs(&trees.command(&["--one-file-system"]), &there).is_quiet();
    trees.sums().lists(&["a/file", "z"]);
    assert!(trees.copied("mounted").is_dir());
    run_with_tmpfs(&trees.command(&[]), &there).is_quiet();
    let all = ["a/file", "mounted/d/inside", "z"];
    trees.sums().lists(&all).holds_in(&trees.copy());
}
