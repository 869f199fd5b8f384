use super::*;

const SILENT: Verdict = Verdict::Failure {
    names_failure: false,
    names_attribute: false,
};
const FAILED: Verdict = Verdict::Failure {
    names_failure: true,
    names_attribute: false,
};
const KEEPS_NOT_ALL: Verdict = Verdict::Failure {
    names_failure: false,
    names_attribute: true,
};

fn file(bytes: &[u8], mode: u32) -> Node {
    Node {
        kind: Kind::File,
        bytes: bytes.to_vec(),
        mode,
        modified: SystemTime::UNIX_EPOCH,
        attribute: Some(b"value".to_vec()),
    }
}

/// How many mistakes there are in a file that was `old` and should be `new`.
fn n_wrong(found: Option<&Node>, verdict: Verdict) -> usize {
    let (new, old) = (file(b"new", 0o600), file(b"old", 0o640));
    judge(&new, Some(&old), found, verdict).len()
}

#[test]
fn a_file_is_new_or_reported_and_old_but_never_missing() {
    let (new, old) = (file(b"new", 0o600), file(b"old", 0o640));
    for verdict in [Verdict::Success, SILENT, FAILED, KEEPS_NOT_ALL] {
        assert_eq!(n_wrong(Some(&new), verdict), 0, "{verdict:?}");
        assert_eq!(n_wrong(None, verdict), 1, "{verdict:?}");
        assert_eq!(n_wrong(Some(&file(b"ne", 0o600)), verdict), 1);
        let n = usize::from(verdict != FAILED);
        assert_eq!(n_wrong(Some(&old), verdict), n, "{verdict:?}");
    }
    assert_eq!(n_wrong(Some(&file(b"old", 0o600)), FAILED), 1);
}

#[test]
fn a_file_that_was_not_there_is_missing_only_with_a_message() {
    let new = file(b"new", 0o600);
    for (verdict, n) in [(Verdict::Success, 1), (SILENT, 1), (FAILED, 0)] {
        assert_eq!(judge(&new, None, None, verdict).len(), n, "{verdict:?}");
    }
}

#[test]
fn attributes_are_kept_or_reported_and_no_mode_is_laxer() {
    let new = file(b"new", 0o600);
    let without = Node {
        attribute: None,
        ..new.clone()
    };
    let later = Node {
        modified: SystemTime::now(),
        ..new.clone()
    };
    for found in [&without, &later, &file(b"new", 0o400)] {
        assert_eq!(n_wrong(Some(found), Verdict::Success), 1);
        assert_eq!(n_wrong(Some(found), SILENT), 1);
        assert_eq!(n_wrong(Some(found), KEEPS_NOT_ALL), 0);
    }
    for mode in [0o644, 0o700, 0o4600] {
        assert_eq!(n_wrong(Some(&file(b"new", mode)), KEEPS_NOT_ALL), 1);
    }
}
