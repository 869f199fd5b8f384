//! Runs that are killed at any call that gives, takes or syncs a name, while they finish a bag or a
//! history.

use super::*;
use crate::skip::has_program;
use traced::meddled;

const CALLS: [&str; 6] = [
    "linkat",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
    "fsync",
];

/// A tree that was copied once, and has a new file and one that is to be repaired.
fn tree(manifest: &str, payload: &str) -> Trees {
    let trees = Trees::new();
    trees.put("a/one", "one").put("a/two", "two");
    trees.succeeds(&[manifest]);
    fs::remove_file(trees.copied(format!("{payload}a/two"))).unwrap();
    trees.put("three", "three");
    trees
}

/// Kills runs at each of these calls, and passes what they leave to `judge`, which also gets what
/// the next run makes of it.
fn killed(manifest: &str, payload: &str, judge: impl Fn(&Trees, &str)) {
    if !has_program("strace") {
        return;
    }
    let mut n_killed = 0;
    for call in CALLS {
        for nth in 1.. {
            assert!(nth < 100, "{call}: there is no end to it");
            let trees = tree(manifest, payload);
            let kills = format!("{call}:signal=KILL:when={nth}");
            let traced = meddled(&trees.command(&[manifest]), call, &kills);
            let what = format!("killed at {call} {nth}");
            if traced.run.status == 0 {
                break;
            }
            assert_eq!(traced.run.status, 128 + 9, "{what}: {traced:?}");
            n_killed += 1;
            judge(&trees, &what);
            let run = trees.run(&[manifest]);
            assert_eq!((run.status, &*run.stderr), (0, ""), "{what}");
            hides_nothing(&trees.copy());
            judge(&trees, &what);
            let run = trees.check(&["--silent", "--no-summary", "--strict"]);
            run.is_quiet();
            for name in ["a/one", "a/two", "three"] {
                let copied = fs::read(trees.copied(format!("{payload}{name}"))).unwrap();
                assert_eq!(copied, fs::read(trees.original(name)).unwrap(), "{what}");
            }
        }
    }
    assert!(n_killed > 10, "{n_killed} runs were killed");
}

#[test]
fn the_first_run_of_a_bag_is_continued_wherever_it_was_killed() {
    if !has_program("strace") {
        return;
    }
    for call in ["linkat", "fsync"] {
        for nth in 1.. {
            assert!(nth < 100, "{call}: there is no end to it");
            let trees = Trees::new();
            trees.put("a/one", "one").put("two", "two");
            let option = "--manifest=bagit";
            let kills = format!("{call}:signal=KILL:when={nth}");
            let traced = meddled(&trees.command(&[option]), call, &kills);
            if traced.run.status == 0 {
                break;
            }
            let run = trees.run(&[option]);
            assert_eq!((run.status, &*run.stderr), (0, ""), "{call} {nth}");
            let run = trees.check(&["--silent", "--no-summary", "--strict"]);
            run.is_quiet();
        }
    }
}

#[test]
fn a_bag_lists_no_tag_file_with_another_digest_and_no_file_that_is_not_there() {
    killed("--manifest=bagit", "data/", |trees, what| {
        for name in ["tagmanifest-sha256.txt", "manifest-sha256.txt"] {
            let Ok(lines) = fs::read_to_string(trees.copied(name)) else {
                assert_eq!(name, "tagmanifest-sha256.txt", "{what}");
                continue;
            };
            for line in lines.lines() {
                let (digest, path) = line.split_once("  ").unwrap();
                // This one was gone before.
                let Ok(bytes) = fs::read(trees.copied(path)) else {
                    assert_eq!(path, "data/a/two", "{what}");
                    continue;
                };
                let found = digest_of(Algorithm::Sha256, &bytes).to_string();
                assert_eq!(found, digest, "{what}: {path}");
            }
        }
    });
}

#[test]
fn a_history_has_whole_generations_and_lists_no_file_that_is_not_there() {
    killed("--manifest=ascmhl", "", |trees, what| {
        let run = trees.check(&["--silent", "--no-summary"]);
        // This one was gone before.
        let gone = "a/two: FAILED open or read\n";
        assert!(["", gone].contains(&&*run.stdout), "{what}: {run:?}");
        assert!(!run.stderr.contains("damaged"), "{what}: {run:?}");
        let generations = fs::read_dir(trees.copied("ascmhl")).unwrap();
        for generation in generations.map(|entry| entry.unwrap().path()) {
            // A run announces its generation under a temporary name.
            let name = generation.file_name().unwrap().as_bytes();
            if name.starts_with(b".zc-dircopy-") {
                continue;
            }
            let text = fs::read_to_string(&generation).unwrap();
            let whole = text.ends_with("</hashlist>\n") || text.ends_with("</ascmhldirectory>\n");
            assert!(whole, "{what}: {}", generation.display());
            let lists_new = text.contains(">three<");
            assert!(!lists_new || trees.copied("three").exists(), "{what}");
        }
    });
}

/// A copy that was changed after a killed run would become an original as it is now.
#[test]
fn a_history_records_no_copy_that_differs_from_what_a_killed_run_copied() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    for name in ["a", "b", "c", "d"] {
        trees.put(name, name);
    }
    let options = ["--manifest=ascmhl", "--jobs=1"];
    let kills = "linkat:signal=KILL:when=4";
    let traced = meddled(&trees.command(&options), "linkat", kills);
    assert_eq!(traced.run.status, 128 + 9, "{traced:?}");
    let changed = ["a", "b", "c"]
        .into_iter()
        .find(|name| trees.copied(name).exists())
        .unwrap();
    let time = fs::metadata(trees.copied(changed))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(trees.copied(changed), "x").unwrap();
    let file = fs::File::options()
        .write(true)
        .open(trees.copied(changed))
        .unwrap();
    file.set_modified(time).unwrap();
    for _ in 0..2 {
        let run = trees.run(&options);
        assert_eq!(run.status, 1, "{run:?}");
        assert!(
            run.stderr
                .contains("differs from what an unfinished run copied"),
            "{run:?}"
        );
    }
    trees.succeeds(&["--manifest=ascmhl", "--overwrite-policy=update"]);
    trees.check(&["--silent", "--no-summary"]).is_quiet();
}
