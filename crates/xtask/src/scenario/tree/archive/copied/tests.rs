use super::*;
use crate::scenario::tree::archive::file::{List, file};
use crate::scenario::tree::reports::Reports;

const SILENT: &str = "";
const TELLING: &str = "zc-dircopy: f: cannot read: Input/output error\n";

fn failed(stderr: &str) -> Outcome {
    Outcome::Failed {
        reports: Reports::new(stderr, true),
        may_leave_files: false,
    }
}

fn regular(bytes: &[u8]) -> Contents {
    Contents::Regular(bytes.to_vec())
}

/// A recorded file of the archive that the run replaces.
fn replaced() -> ArchivedFile {
    let file = file("f").recorded(List::Newest, b"old");
    file.archived(b"old").original(b"newer")
}

#[test]
fn a_file_is_new_or_old_with_a_reason_and_never_missing() {
    let file = replaced();
    let after = file.after(&Options(&[]));
    let n_wrong = |found: Option<&[u8]>, outcome: &Outcome| {
        judge_contents(&file, &after, found.map(regular).as_ref(), outcome).len()
    };
    for (outcome, n_wrong_if_old) in [
        (Outcome::Succeeded, 1),
        (failed(SILENT), 1),
        (failed(TELLING), 0),
        (Outcome::Killed, 0),
    ] {
        assert_eq!(n_wrong(Some(b"newer"), &outcome), 0, "{outcome:?}");
        assert_eq!(n_wrong(Some(b"old"), &outcome), n_wrong_if_old);
        assert_eq!(n_wrong(Some(b"new"), &outcome), 1, "{outcome:?}");
        assert_eq!(n_wrong(None, &outcome), 1, "{outcome:?}");
    }
}

#[test]
fn a_record_is_lost_only_by_a_failure_that_a_message_tells() {
    let file = replaced();
    let after = file.after(&Options(&[]));
    let n_wrong = |found: &[u8], verdict, outcome: &Outcome| {
        judge_verdict(&file, &after, Some(&regular(found)), verdict, outcome).len()
    };
    let (matches, differs) = (Some(Verdict::Matches), Some(Verdict::Differs));
    for (outcome, n_wrong_if_lost) in [
        (Outcome::Succeeded, 1),
        (failed(SILENT), 1),
        (failed(TELLING), 0),
        (Outcome::Killed, 1),
    ] {
        assert_eq!(n_wrong(b"newer", matches, &outcome), 0, "{outcome:?}");
        assert_eq!(n_wrong(b"newer", differs, &outcome), 1, "{outcome:?}");
        assert_eq!(n_wrong(b"newer", None, &outcome), n_wrong_if_lost);
    }
    for outcome in [failed(TELLING), Outcome::Killed] {
        assert_eq!(n_wrong(b"old", matches, &outcome), 0, "{outcome:?}");
        assert_eq!(n_wrong(b"old", differs, &outcome), 1, "{outcome:?}");
        assert_eq!(n_wrong(b"old", None, &outcome), 1, "{outcome:?}");
    }
}

#[test]
fn a_file_that_the_run_accepts_keeps_its_old_record_only_with_a_reason() {
    let file = file("f").recorded(List::Newest, b"old").archived(b"Old");
    let after = file.after(&Options(&["--accept", "f"]));
    let found = regular(b"Old");
    for (outcome, n_wrong) in [
        (Outcome::Succeeded, 1),
        (failed(SILENT), 1),
        (failed(TELLING), 0),
        (
            failed("zc-dircopy: .: cannot write the manifest: Input/output error\n"),
            0,
        ),
        (Outcome::Killed, 0),
    ] {
        let verdict = Some(Verdict::Differs);
        let wrong = judge_verdict(&file, &after, Some(&found), verdict, &outcome);
        assert_eq!(wrong.len(), n_wrong, "{outcome:?}");
    }
}
