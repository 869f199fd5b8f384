//! What is said of files that are not as they should be.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};

use super::*;

/// A tree in which something of every kind is the matter, by names that need no quotes.
fn damaged() -> Tree {
    let mut tree = Tree::new();
    tree.line("# made by hand\n")
        .add("good", "good")
        .add("sub/good", "good")
        .add("changed", "one")
        .add("truncated", "all of it")
        .add("longer", "all of it")
        .list("missing", "")
        .list("sub", "")
        .line("\n")
        .add("empty", "")
        .line("no line\n")
        .line(format!("{}  \n", sha256(b"")))
        .list("sub/missing", "")
        .line(format!("SHA256 (good) = {}\n", sha256(b"good")))
        .line(format!("{}  changed", sha256(b"one")));
    tree.put("changed", "onf")
        .put("truncated", "all of")
        .put("longer", "all of it and more");
    tree
}

#[test]
fn every_trouble_is_told_in_the_order_of_the_sum_file_and_counted() {
    damaged().verify().failed_saying(
        "good: OK\n\
         sub/good: OK\n\
         changed: FAILED\n\
         truncated: FAILED\n\
         longer: FAILED\n\
         missing: FAILED open or read\n\
         sub: FAILED open or read\n\
         empty: OK\n\
         sub/missing: FAILED open or read\n\
         good: OK\n\
         changed: FAILED\n",
        "missing: No such file or directory\n\
         sub: Is a directory\n\
         sub/missing: No such file or directory\n\
         WARNING: 2 lines are improperly formatted\n\
         WARNING: 3 listed files could not be read\n\
         WARNING: 4 computed checksums did NOT match\n",
    );
}

#[test]
fn every_trouble_is_told_as_sha256sum_tells_it() {
    let tree = damaged();
    let options = tree.options();
    for (program, _) in sha256sums() {
        assert_eq!(tree.verify(), tree.verify_by(&program, &[]));
        let silent = tree.verify_with(&options.clone().silent(true));
        assert_eq!(silent, tree.verify_by(&program, &["--quiet"]));
    }
}

#[test]
fn names_are_quoted_as_sha256sum_quotes_them() {
    let mut tree = Tree::new();
    for name in [
        &b"two words"[..],
        b"it's",
        b"a\nb",
        b"a\\b",
        b"a\rb",
        b"\xff",
        b"\xc3\xa9",
        b"a: b",
        b"OK",
    ] {
        tree.add(name, "x").list([name, b"-missing"].concat(), "");
    }
    let said = tree.verify();
    assert!(
        said.stdout.contains("'a'$'\\n''b': OK\n"),
        "{}",
        said.stdout
    );
    if let Some(program) = newest_sha256sum() {
        assert_eq!(said, tree.verify_by(&program, &[]));
    }
}

#[test]
fn one_of_each_is_warned_of_in_the_singular() {
    let mut tree = Tree::new();
    tree.add("changed", "one").list("missing", "").line("none");
    tree.put("changed", "two");
    tree.verify().failed_saying(
        "changed: FAILED\n\
         missing: FAILED open or read\n",
        "missing: No such file or directory\n\
         WARNING: 1 line is improperly formatted\n\
         WARNING: 1 listed file could not be read\n\
         WARNING: 1 computed checksum did NOT match\n",
    );
}

#[test]
fn without_a_summary_the_failures_are_told_all_the_same() {
    let tree = damaged();
    let said = tree.verify_with(&tree.options().silent(true).summary(false));
    said.failed_saying(
        "changed: FAILED\n\
         truncated: FAILED\n\
         longer: FAILED\n\
         missing: FAILED open or read\n\
         sub: FAILED open or read\n\
         sub/missing: FAILED open or read\n\
         changed: FAILED\n",
        "missing: No such file or directory\n\
         sub: Is a directory\n\
         sub/missing: No such file or directory\n",
    );
}

#[test]
fn bad_lines_alone_do_not_fail_it() {
    let mut tree = Tree::new();
    tree.line("no line\n").add("good", "good");
    let said = tree.verify();
    assert_eq!(said.outcome, Outcome::Verified);
    assert_eq!(said.stderr, "WARNING: 1 line is improperly formatted\n");
    for (program, _) in sha256sums() {
        assert_eq!(said, tree.verify_by(&program, &[]));
    }
}

#[test]
fn a_list_of_nothing_verifies_nothing() {
    for sums in ["", "\n# nothing\n", "no line\nnor this\n"] {
        let mut tree = Tree::new();
        tree.line(sums);
        let message = format!(
            "{}: no properly formatted checksum lines found\n",
            tree.sum_file().display()
        );
        tree.verify().failed_saying("", &message);
        for (program, _) in sha256sums() {
            assert_eq!(tree.verify(), tree.verify_by(&program, &[]));
        }
    }
}

#[test]
fn nothing_outside_of_the_tree_is_read() {
    let mut tree = Tree::new();
    tree.add("inside", "x");
    fs::write(tree.dir.path().join("secret"), "x").unwrap();
    let absolute = tree.dir.path().join("secret");
    symlink(&absolute, tree.path().join("link")).unwrap();
    symlink("..", tree.path().join("up")).unwrap();
    symlink("inside", tree.path().join("in")).unwrap();
    let absolute = absolute.to_str().unwrap();
    for name in ["../secret", absolute, "link", "up/secret", "in"] {
        tree.list(name, "x");
    }
    let said = tree.verify();
    assert_eq!(
        said.stdout,
        format!(
            "inside: OK\n\
             ../secret: FAILED open or read\n\
             {absolute}: FAILED open or read\n\
             link: FAILED open or read\n\
             up/secret: FAILED open or read\n\
             in: OK\n"
        )
    );
    let complaints = said.stderr.matches(": it leads out of the directory\n");
    assert_eq!(complaints.count(), 4, "{}", said.stderr);
    assert_eq!(said.outcome, Outcome::Failed);
}

#[test]
fn a_fifo_is_not_waited_for() {
    let mut tree = Tree::new();
    tree.add("good", "x").list("fifo", "x");
    let made = Command::new("mkfifo")
        .arg(tree.path().join("fifo"))
        .status();
    assert!(made.unwrap().success());
    tree.verify().failed_saying(
        "good: OK\n\
         fifo: FAILED open or read\n",
        "fifo: not a regular file\n\
         WARNING: 1 listed file could not be read\n",
    );
}

#[test]
fn a_file_that_fails_while_it_is_read_could_not_be_read() {
    let mut tree = Tree::new();
    tree.list("mem", "");
    let _ = tree.options();
    let options = Options::new().directory("/proc/self");
    verify(&options.hash_file(tree.sum_file())).failed_saying(
        "mem: FAILED open or read\n",
        "/proc/self/mem: Input/output error at offset 0\n\
         WARNING: 1 listed file could not be read\n",
    );
}

#[test]
fn a_file_that_may_not_be_read_could_not_be_read() {
    if !alone::as_nobody("sums::verdicts::a_file_that_may_not_be_read_could_not_be_read") {
        return;
    }
    let mut tree = Tree::new();
    tree.add("secret", "x")
        .add("locked/file", "x")
        .add("good", "x");
    for name in ["secret", "locked"] {
        let nothing = fs::Permissions::from_mode(0o000);
        fs::set_permissions(tree.path().join(name), nothing).unwrap();
    }
    let said = tree.verify();
    for (program, _) in sha256sums() {
        assert_eq!(said, tree.verify_by(&program, &[]));
    }
    // Or it could not be removed.
    let all = fs::Permissions::from_mode(0o700);
    fs::set_permissions(tree.path().join("locked"), all).unwrap();
    said.failed_saying(
        "secret: FAILED open or read\n\
         locked/file: FAILED open or read\n\
         good: OK\n",
        "secret: Permission denied\n\
         locked/file: Permission denied\n\
         WARNING: 2 listed files could not be read\n",
    );
}

#[test]
fn holes_are_read_as_zeros() {
    let mut tree = Tree::new();
    let mut bytes = vec![0; 3 << 20];
    bytes.push(b'x');
    tree.put("sparse", "");
    tree.list("sparse", &bytes);
    let file = File::options().write(true).open(tree.path().join("sparse"));
    file.unwrap().write_all_at(b"x", 3 << 20).unwrap();
    tree.verify().is_verified(1);
}

#[test]
fn standard_output_that_takes_nothing_is_an_error() {
    let mut tree = Tree::new();
    tree.add("good", "x");
    let mut full = File::options().write(true).open("/dev/full").unwrap();
    let error = check_into(&tree.options(), &mut full, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "write error");
    assert_eq!(
        error.root_cause().to_string(),
        "No space left on device (os error 28)"
    );
}
