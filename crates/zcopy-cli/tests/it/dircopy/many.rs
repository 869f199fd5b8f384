//! Trees of many files.

use super::*;

/// 10,000 files in 100 directories, each with contents of its own.
fn many() -> Trees {
    let trees = Trees::new();
    for directory in 0..100 {
        let path = trees.original(format!("d{directory}"));
        fs::create_dir(&path).unwrap();
        for file in 0..100 {
            let len = (directory * 100 + file) % 700;
            let bytes = format!("{directory} {file} ").repeat(1 + len / 8);
            fs::write(path.join(format!("f{file}")), bytes).unwrap();
        }
    }
    trees
}

#[test]
fn ten_thousand_files_have_their_lines_in_one_order_by_any_number_of_jobs() {
    let trees = many();
    let mut expected = Vec::new();
    for path in facts::files_of(&trees.source()) {
        let digest = facts::sha256(&trees.original(&path));
        for byte in digest {
            expected.extend(format!("{byte:02x}").bytes());
        }
        expected.extend(format!("  {}\n", path.display()).bytes());
    }
    for jobs in ["1", "8"] {
        let copy = trees.path().join(jobs);
        let mut command = zc_dircopy();
        run(command
            .args(["-q", "--jobs", jobs])
            .arg(trees.source())
            .arg(&copy))
        .is_quiet();
        let sums = Sums::newest_in(&copy);
        let found = fs::read(&sums.path).unwrap();
        crate::files::assert_same(&found, &expected, jobs);
        sums.holds_in(&copy);
        let mut command = zc_dircopy();
        run(command
            .args(["-q", "--jobs", jobs])
            .arg(trees.source())
            .arg(&copy))
        .is_quiet();
        let found = fs::read(Sums::newest_in(&copy).path).unwrap();
        crate::files::assert_same(&found, &expected, "a second run");
    }
}

/// Each level takes two descriptors while it is walked, and no more than there are.
#[test]
fn wide_trees_need_few_descriptors() {
    let trees = Trees::new();
    for directory in 0..300 {
        trees.put(format!("{directory}/deeper/file"), "x");
    }
    let script = "ulimit -n 64; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    let command = trees.command(&["--jobs=4"]);
    shell
        .args(["-c", script])
        .arg(command.get_program())
        .args(command.get_args());
    run(&mut shell).is_quiet();
    trees.are_alike();
}
