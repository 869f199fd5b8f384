//! Destinations that hold something else, trees within each other, and what vanishes meanwhile.

use std::os::unix::fs::symlink;

use super::*;
use crate::skip::has_program;
use mounting::{can_mount, run_with_bind};
use traced::{as_it_reads, traced, while_stopped};

#[test]
fn a_tree_is_not_copied_into_itself() {
    let trees = Trees::new();
    trees.put("a/file", "x");
    symlink("src/a", trees.path().join("link")).unwrap();
    let destinations = [
        "src",
        "src/",
        "src/a",
        "src/new",
        "src/a/new/deeper",
        "src/../src/a",
        "link",
        "link/new",
    ];
    for destination in destinations {
        let mut command = zc_dircopy();
        command
            .current_dir(trees.path())
            .args(["-q", "src", destination]);
        let refused = run(&mut command);
        assert!(
            [1, 2].contains(&refused.status),
            "{destination}: {refused:?}"
        );
        assert!(refused.stderr.starts_with("zc-dircopy: "), "{refused:?}");
        assert_eq!(
            facts::files_of(&trees.source()),
            [Path::new("a/file")],
            "{destination}"
        );
        assert!(!trees.original("new").exists() && !trees.original("a/new").exists());
    }
}

/// The source's own name in the tree leads back into it, by way of the destination.
#[test]
fn a_destination_that_the_source_is_in_is_not_copied_into_the_source() {
    let trees = Trees::new();
    trees.put("f", "the source's own").put("src/f", "another");
    trees.put("b/file", "x");
    for policy in ["default", "always"] {
        let mut command = zc_dircopy();
        command
            .current_dir(trees.path())
            .args(["-q", "--overwrite-policy", policy, "src", "."]);
        let ended = run(&mut command);
        assert_eq!(ended.status, 1, "{ended:?}");
        assert!(
            ended.stderr.contains("cannot copy into the source"),
            "{ended:?}"
        );
        let own = fs::read_to_string(trees.original("f")).unwrap();
        assert_eq!(own, "the source's own", "{policy}");
        let beside = fs::read_to_string(trees.path().join("b/file")).unwrap();
        assert_eq!(beside, "x");
    }
}

#[test]
fn a_bind_mount_of_the_destination_within_the_source_is_not_entered() {
    if !can_mount() {
        return;
    }
    let trees = Trees::new();
    trees.put("a", "x").put("z", "y");
    fs::create_dir_all(trees.copied("below")).unwrap();
    let there = trees.original("mounted");
    fs::create_dir(&there).unwrap();
    let run = run_with_bind(&trees.command(&[]), &trees.copy(), &there);
    run.failed_naming(&[&["mounted"]]);
    trees.sums().lists(&["a", "z"]).holds_in(&trees.copy());
}

#[test]
fn a_source_that_is_above_the_destination_by_another_name_is_found() {
    if !can_mount() {
        return;
    }
    let trees = Trees::new();
    trees.put("a/file", "x");
    let there = trees.path().join("mounted");
    fs::create_dir(&there).unwrap();
    let mut command = zc_dircopy();
    command
        .arg("-q")
        .arg(trees.source())
        .arg(there.join("a/new"));
    let run = run_with_bind(&command, &trees.source(), &there);
    run.ended_with(1);
    assert!(run.stderr.contains("inside the source"), "{run:?}");
    assert!(!trees.original("a/new").exists());
}

#[test]
fn a_file_in_place_of_the_null_device_gets_no_contents() {
    if !can_mount() {
        return;
    }
    let trees = Trees::new();
    trees.put("a", "secret");
    trees.succeeds(&[]);
    let null = trees.path().join("null");
    fs::write(&null, "").unwrap();
    let check = check_command(&trees.copy(), &[]);
    for command in [trees.command(&["--verify-existing"]), check] {
        let run = run_with_bind(&command, &null, Path::new("/dev/null"));
        run.ended_with(1);
        let message = "zc-dircopy: /dev/null: it is not the null device\n";
        assert!(run.stderr.contains(message), "{run:?}");
        assert_eq!(fs::read(&null).unwrap(), b"");
    }
}

#[test]
fn a_link_in_place_of_a_directory_is_not_followed() {
    let trees = Trees::new();
    trees.put("d/file", "x").put("z", "y");
    fs::create_dir_all(trees.copy()).unwrap();
    fs::create_dir(trees.path().join("outside")).unwrap();
    symlink("../outside", trees.copied("d")).unwrap();
    let run = trees.run(&[]);
    let outside = fs::read_dir(trees.path().join("outside")).unwrap().count();
    assert_eq!(outside, 0, "it was followed");
    run.failed_naming(&[&["d"]]);
    trees.sums().lists(&["z"]).holds_in(&trees.copy());
}

#[test]
fn a_link_in_place_of_a_file_is_replaced_and_not_written_through() {
    for policy in ["default", "always", "update"] {
        let trees = Trees::new();
        trees.put("file", "new").put("dangling", "new");
        put(&trees.path().join("outside"), "untouched");
        fs::create_dir_all(trees.copy()).unwrap();
        symlink("../outside", trees.copied("file")).unwrap();
        symlink("../nowhere", trees.copied("dangling")).unwrap();
        trees.succeeds(&["--overwrite-policy", policy]).are_alike();
        assert_eq!(
            fs::read(trees.path().join("outside")).unwrap(),
            b"untouched"
        );
        assert!(!trees.path().join("nowhere").exists());
    }
}

/// It seems to be the same as the file, by size and time.
#[test]
fn a_link_to_a_file_like_the_original_is_not_taken_for_a_copy() {
    let trees = Trees::new();
    trees.put("file", "same");
    fs::create_dir_all(trees.copy()).unwrap();
    symlink("../src/file", trees.copied("file")).unwrap();
    trees.succeeds(&[]).are_alike();
    assert!(!trees.copied("file").is_symlink());
}

#[test]
fn a_directory_in_place_of_a_file_stays_and_is_reported() {
    let trees = Trees::new();
    trees.put("file", "x").put("z", "y");
    symlink("nowhere", trees.original("link")).unwrap();
    trees
        .put_copy("file/own", "own")
        .put_copy("link/own", "own");
    trees.run(&[]).failed_naming(&[&["file"], &["link"]]);
    trees.holds("file/own", "own").holds("link/own", "own");
    trees.sums().lists(&["z"]).holds_in(&trees.copy());
    hides_nothing(&trees.copy());
}

#[test]
fn a_file_in_place_of_a_directory_stays_and_is_reported() {
    let trees = Trees::new();
    trees.put("d/one", "x").put("d/two", "x").put("z", "y");
    trees.put_copy("d", "own");
    trees.run(&[]).failed_naming(&[&["d"]]);
    trees.holds("d", "own");
    trees.sums().lists(&["z"]).holds_in(&trees.copy());
}

#[test]
fn a_fifo_in_place_of_a_file_is_replaced_and_not_opened() {
    let trees = Trees::new();
    trees.put("file", "x");
    fs::create_dir_all(trees.copy()).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, trees.copied("file"), kind, mode, 0).unwrap();
    trees.succeeds(&["--verify-existing"]).are_alike();
}

#[test]
fn other_kinds_replace_each_other() {
    let trees = Trees::new();
    trees.put("now a file", "x");
    symlink("nowhere", trees.original("now a link")).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, trees.original("now a fifo"), kind, mode, 0).unwrap();
    trees
        .put_copy("now a link", "x")
        .put_copy("now a fifo", "x");
    symlink("nowhere", trees.copied("now a file")).unwrap();
    trees.succeeds(&[]).are_alike();
}

#[test]
fn what_a_dead_run_has_left_is_removed_and_what_only_looks_so_stays() {
    let trees = Trees::new();
    trees.put("d/file", "x");
    trees.put_copy("d/.zc-dircopy-0aZ1bY2c", "left behind");
    trees
        .put_copy("d/.zc-dircopy-notes", "somebody's own")
        .put_copy("d/.zc-dircopy-0aZ1bY2c.txt", "own");
    trees.put_copy(".zc-dircopy-AAAAAAAA", "left behind");
    trees.succeeds(&[]);
    trees
        .holds("d/.zc-dircopy-notes", "somebody's own")
        .holds("d/.zc-dircopy-0aZ1bY2c.txt", "own");
    assert_eq!(hidden_names(&trees.copy()).len(), 2);
    trees.sums().lists(&["d/file"]);
}

/// The source is itself an archive.
#[test]
fn the_journal_of_a_killed_run_on_the_source_is_left_out_and_named() {
    let trees = Trees::new();
    let journal = ".zc-dircopy-journal-AbCdEfGh";
    trees.put("a", "a").put(journal, "left");
    for counts in [
        "1 copied, 0 cloned, 0 linked, 0 skipped, 0 failed\n",
        "0 copied, 0 cloned, 0 linked, 1 skipped, 0 failed\n",
    ] {
        let run = trees.run_aloud(&[]);
        assert_eq!(run.status, 0, "{run:?}");
        let remark = format!(
            "zc-dircopy: {journal}: not copied: it is the journal of a run that copied to the source\n"
        );
        assert!(run.stderr.contains(&remark), "{run:?}");
        assert!(run.stdout.contains(counts), "{run:?}");
        assert!(!run.stdout.contains("special files"), "{run:?}");
        assert!(!trees.copied(journal).exists());
    }
}

/// The next run on the destination would remove its copy.
#[test]
fn an_unfinished_copy_in_the_source_is_left_out_and_named() {
    let trees = Trees::new();
    trees.put("a", "a").put("d/.zc-dircopy-AbCdEfGh", "left");
    trees.put("d/.zc-dircopy-notes", "somebody's own");
    symlink("a", trees.original(".zc-dircopy-symlink0")).unwrap();
    for _ in 0..2 {
        trees.succeeds(&[]);
        let run = trees.run_aloud(&[]);
        assert_eq!(run.status, 0, "{run:?}");
        for name in [".zc-dircopy-symlink0", "d/.zc-dircopy-AbCdEfGh"] {
            let remark = format!(
                "zc-dircopy: {name}: not copied: it is an unfinished copy, which a killed run left in the source\n"
            );
            assert!(run.stderr.contains(&remark), "{run:?}");
        }
        let counts = "0 copied, 0 cloned, 0 linked, 2 skipped, 0 failed\n";
        assert!(run.stdout.contains(counts), "{run:?}");
    }
    trees.sums().lists(&["a", "d/.zc-dircopy-notes"]);
    trees.holds("d/.zc-dircopy-notes", "somebody's own");
    assert_eq!(hidden_names(&trees.copy()).len(), 1);
    let json = trees.run_aloud(&["--json"]).stdout;
    let remark =
        "{\"event\":\"remark\",\"path\":\"d/.zc-dircopy-AbCdEfGh\",\"message\":\"not copied: ";
    assert!(json.contains(remark), "{json}");
}

/// An earlier version copied and recorded files with such names.
#[test]
fn a_recorded_file_stays_whatever_its_name_is() {
    let trees = Trees::new();
    trees.put("d/a", "a");
    trees.succeeds(&[]);
    let names = [".zc-dircopy-AbCdEfGh", "d/.zc-dircopy-AbCdEfGh"];
    for name in names {
        trees.put_copy(name, "recorded");
        let accept = format!("--accept={name}");
        assert_eq!(trees.check(&["-q", &accept]).status, 0);
    }
    let others = [".zc-dircopy-IjKlMnOp", "d/.zc-dircopy-IjKlMnOp"];
    for name in others {
        trees.put_copy(name, "left behind");
    }
    // A killed run left them: they are no files that lack a record.
    assert_eq!(trees.check(&["-q", "--strict"]).status, 0);
    trees.succeeds(&[]);
    for name in names {
        trees.holds(name, "recorded");
    }
    assert!(others.iter().all(|name| !trees.copied(name).exists()));
    trees.check(&["-q", "--strict"]).is_quiet();
}

/// Names that are there when a directory is read, and gone when their turn comes.
#[test]
fn what_vanishes_during_the_run_is_reported_and_the_rest_copied() {
    if !has_program("strace") {
        return;
    }
    for dereferences in [false, true] {
        let trees = Trees::new();
        trees
            .put("a", vec![7; 1 << 20])
            .put("b", "goes")
            .put("c/file", "goes with its directory")
            .put("d", "stays");
        symlink("d", trees.original("link")).unwrap();
        let options: &[&str] = if dereferences {
            &["--jobs=1", "-L"]
        } else {
            &["--jobs=1"]
        };
        let traced = while_stopped(
            &trees.command(options),
            &as_it_reads(&trees.original("a")),
            || {
                fs::remove_file(trees.original("b")).unwrap();
                fs::remove_dir_all(trees.original("c")).unwrap();
                fs::remove_file(trees.original("link")).unwrap();
            },
        );
        traced.run.failed_naming(&[
            &["b", "No such file"],
            &["c", "No such file"],
            &["link", "No such file"],
        ]);
        trees.sums().lists(&["a", "d"]).holds_in(&trees.copy());
        assert!(!trees.copied("b").exists() && !trees.copied("c").exists());
    }
}

/// Between the look at a name and its opening somebody may put something else there.
#[test]
fn what_is_replaced_by_something_else_meanwhile_is_not_followed() {
    if !has_program("strace") {
        return;
    }
    let replacements: [fn(&Path); 3] = [
        |path| symlink("/etc/passwd", path).unwrap(),
        |path| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        },
        |path| fs::create_dir(path).unwrap(),
    ];
    for replace in replacements {
        let trees = Trees::new();
        trees
            .put("a", vec![7; 1 << 20])
            .put("b", "replaced")
            .put("c", "stays");
        // One more may have been looked at already, and wait for its copying.
        let command = trees.command(&["--jobs=1"]);
        let traced = while_stopped(&command, &as_it_reads(&trees.original("a")), || {
            fs::remove_file(trees.original("b")).unwrap();
            replace(&trees.original("b"));
        });
        assert!([0, 1].contains(&traced.run.status), "{traced:?}");
        assert!(
            !trees.sums().paths().contains(&Path::new("b")),
            "{traced:?}"
        );
        trees.sums().lists(&["a", "c"]).holds_in(&trees.copy());
        let opened = traced.log.contains("/etc/passwd>");
        assert!(!opened, "it was followed");
    }
}

#[test]
fn a_source_that_cannot_be_used_is_told_of_and_makes_no_destination() {
    let trees = Trees::new();
    trees.put("file", "x");
    for (source, cause) in [("nowhere", "No such file"), ("src/file", "Not a directory")] {
        let mut command = zc_dircopy();
        command
            .current_dir(trees.path())
            .args(["-q", source, "dst"]);
        let run = run(&mut command);
        run.failed_naming(&[&[source, cause]]);
        assert!(!trees.copy().exists());
    }
}

#[test]
fn a_destination_that_cannot_be_used_is_told_of() {
    let trees = Trees::new();
    trees.put("file", "x");
    put(&trees.copy(), "a file");
    trees.run(&[]).failed_naming(&[&["dst", "Not a directory"]]);
    assert_eq!(fs::read(trees.copy()).unwrap(), b"a file");
}

/// Only what cannot be helped is asked for by a path.
#[test]
fn no_path_is_opened_twice() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("a/b/file", "x").put("a/other", "y");
    let traced = traced(&trees.command(&[]), &["--trace=openat".to_owned()]);
    traced.run.is_quiet();
    let below = format!("\"{}/", trees.source().display());
    assert!(!traced.log.contains(&below), "{}", traced.log);
    let below = format!("\"{}/", trees.copy().display());
    assert!(!traced.log.contains(&below), "{}", traced.log);
}
