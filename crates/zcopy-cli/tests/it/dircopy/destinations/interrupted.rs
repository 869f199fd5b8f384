//! Runs to several destinations that a signal ends or kills.

use super::*;

#[test]
fn a_signal_ends_all_with_their_manifests_and_the_next_run_completes_them() {
    // The short files pass the long ones, which take seconds at this rate.
    for (n_files, jobs) in [(1, "--jobs=1"), (30, "--jobs=8"), (100, "--jobs=8")] {
        let scene = Scene::new(2);
        let options = [jobs, "--json", "--bwlimit=512KiB"];
        let (status, events) = interrupt_after(n_files, &scene.loud_command(&options));
        assert_eq!(status, Some(2));
        let summaries = events.iter().filter(|event| event["event"] == "summary");
        let summaries: Vec<_> = summaries.collect();
        assert_eq!(summaries.len(), 2);
        for (summary, copy) in summaries.iter().zip(&scene.destinations) {
            assert_eq!(summary["state"], "interrupted");
            assert_eq!(summary["destination"], copy.to_str().unwrap());
            // A run may have been interrupted before its first file.
            let copied = facts::copies_in(copy);
            assert!(copied.len() < 60 + 4 + 4);
            let copied: Vec<_> = copied.iter().map(|path| path.to_str().unwrap()).collect();
            if !copied.is_empty() {
                Sums::newest_in(copy).lists(&copied).holds_in(copy);
            }
            hides_nothing(copy);
        }
        scene.succeeds(&[]).are_whole();
    }
}

#[test]
fn the_run_after_a_killed_one_completes_all() {
    if !has_program("strace") {
        return;
    }
    for (call, when) in [("linkat", 3), ("linkat", 40), ("write", 30), ("syncfs", 1)] {
        let scene = Scene::new(2);
        let inject = format!("--inject={call}:signal=KILL:when={when}");
        let options = [format!("--trace={call}"), inject];
        let traced = traced(&scene.command(&["--jobs=2"]), &options);
        assert_eq!(traced.run.status, 137, "{call} {when}: {traced:?}");
        scene.succeeds(&[]).are_whole();
    }
}

#[test]
fn a_signal_ends_a_run_that_waits_for_the_others() {
    // At this rate it would take days. An object tells that the signal is caught.
    let scene = Scene::new(3);
    let command = scene.loud_command(&["--bwlimit=1", "--json"]);
    assert_eq!(interrupt_after(1, &command).0, Some(2));
}

/// Every run ends, whatever the destinations have already.
#[test]
fn destinations_in_different_states_all_become_whole() {
    let n_rounds = std::env::var("ZCOPY_ROUNDS").map_or(1, |n| n.parse().unwrap());
    for round in 0..n_rounds {
        for jobs in ["--jobs=1", "--jobs=2", "--jobs=32"] {
            let scene = Scene::new(3);
            for n in 0..200 {
                let len = if n % 7 == round % 7 {
                    400_000 + n
                } else {
                    n * 31
                };
                scene
                    .trees
                    .put(format!("{}/{n}", n % 5), crate::files::pattern(len));
            }
            // The first is complete, the second half complete, and the third empty.
            let mut alone = zc_dircopy();
            alone.arg("-q").arg(scene.trees.source());
            run(alone.arg(&scene.destinations[0])).is_quiet();
            let mut half = zc_dircopy();
            half.args(["-q", "--exclude=*[13579]"])
                .arg(scene.trees.source());
            run(half.arg(&scene.destinations[1])).is_quiet();
            let start = Instant::now();
            scene.succeeds(&[jobs]).are_whole();
            assert!(start.elapsed() < Duration::from_secs(300));
        }
    }
}
