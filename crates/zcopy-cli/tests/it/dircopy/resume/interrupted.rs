//! Runs that are killed or end by a signal, and what the next one goes on with.

use super::*;

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

#[test]
fn each_of_two_destinations_goes_on_behind_its_own_checkpoint() {
    let trees = tree();
    let copies = [trees.copy(), trees.path().join("other")];
    let command = |options: &[&str]| {
        let mut command = with_default_signals(&zc_dircopy());
        command.args(options_of(options)).stdin(Stdio::null());
        command.arg("-i").arg(trees.source());
        for copy in &copies {
            command.arg("-o").arg(copy);
        }
        command
    };
    let run = command(&["--quiet", SLOW]).spawn().unwrap();
    wait_until("no checkpoint", || {
        let has_checkpoint = |copy: &PathBuf| {
            let left = Partial::all_in(copy);
            left.first().is_some_and(|left| left.last() > 0)
        };
        copies.iter().all(has_checkpoint)
    });
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    end_of(run);
    let left = copies.each_ref().map(|copy| Partial::only_in(copy).last());
    let run = super::run(&mut command(&["--json"]));
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run:?}");
    let summaries = run.stdout.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["event"] == "summary").then_some(event)
    });
    let summaries: Vec<Value> = summaries.collect();
    assert_eq!(summaries.len(), 2);
    for (copy, left) in copies.iter().zip(left) {
        let is_of_copy = |summary: &&Value| summary["destination"] == copy.to_str().unwrap();
        let summary = summaries.iter().find(is_of_copy).unwrap();
        assert_eq!(summary["resumed_bytes"], left);
        facts::assert_same(&trees.source(), copy);
        hides_nothing(copy);
        assert_eq!(check(copy, &["--silent", "--strict"]).status, 0);
    }
}
