//! The programs that take their places in the pipelines.

/// One or several programs that do the job, one after the other.
pub(crate) struct Contestant {
    /// For the chart.
    pub(crate) label: &'static str,
    /// The program and its arguments. `IN`, `OUT`, `OUT2`, `FILES` and `COPIED` (all files of `OUT`)
    /// are replaced.
    pub(crate) steps: &'static [(&'static str, &'static [&'static str])],
}

const fn one(
    label: &'static str,
    step: &'static [(&'static str, &'static [&'static str])],
) -> Contestant {
    Contestant { label, steps: step }
}

/// Programs that copy an operand to standard output.
pub(crate) const FROM_OPERAND: &[Contestant] = &[
    one("zc-pv -f", &[("zc-pv", &["-f", "IN"])]),
    one("zc-pv -q", &[("zc-pv", &["-q", "IN"])]),
    one("pv -f", &[("pv", &["-f", "IN"])]),
    one("zc-cat", &[("zc-cat", &["IN"])]),
    one("cat", &[("cat", &["IN"])]),
    one("uu-cat", &[("uu-cat", &["IN"])]),
    one("rat", &[("rat", &["IN"])]),
];

/// Programs that copy standard input to standard output.
pub(crate) const FROM_INPUT: &[Contestant] = &[
    one("zc-pv -f", &[("zc-pv", &["-f"])]),
    one("zc-pv -q", &[("zc-pv", &["-q"])]),
    one("pv -f", &[("pv", &["-f"])]),
    one("zc-cat", &[("zc-cat", &[])]),
    one("cat", &[("cat", &[])]),
    one("uu-cat", &[("uu-cat", &[])]),
    one("rat", &[("rat", &[])]),
];

/// Programs that number lines.
pub(crate) const NUMBERED: &[Contestant] = &[
    one("zc-cat -n", &[("zc-cat", &["-n", "IN"])]),
    one("cat -n", &[("cat", &["-n", "IN"])]),
    one("uu-cat -n", &[("uu-cat", &["-n", "IN"])]),
];

/// Programs that show characters that have no sign.
pub(crate) const SHOWN: &[Contestant] = &[
    one("zc-cat -A", &[("zc-cat", &["-A", "IN"])]),
    one("cat -A", &[("cat", &["-A", "IN"])]),
    one("uu-cat -A", &[("uu-cat", &["-A", "IN"])]),
];

/// Programs that copy many operands.
pub(crate) const MANY: &[Contestant] = &[
    one("zc-cat", &[("zc-cat", &["FILES"])]),
    one("cat", &[("cat", &["FILES"])]),
    one("uu-cat", &[("uu-cat", &["FILES"])]),
];

/// Programs that count lines.
pub(crate) const LINES: &[Contestant] = &[
    one("zc-pv -f -l", &[("zc-pv", &["-f", "-l", "IN"])]),
    one("pv -f -l", &[("pv", &["-f", "-l", "IN"])]),
];

/// Programs that write into two files.
pub(crate) const TO_TWO_FILES: &[Contestant] = &[
    one("zc-tee", &[("zc-tee", &["OUT", "OUT2"])]),
    one("zc-tee -c", &[("zc-tee", &["-c", "OUT", "OUT2"])]),
    one("tee", &[("tee", &["OUT", "OUT2"])]),
    one("uu-tee", &[("uu-tee", &["OUT", "OUT2"])]),
    one("utee", &[("utee", &["OUT", "OUT2"])]),
];

/// Programs that write into `/dev/null` and to standard output.
pub(crate) const TO_NULL_TOO: &[Contestant] = &[
    one("zc-tee", &[("zc-tee", &["/dev/null"])]),
    one("tee", &[("tee", &["/dev/null"])]),
    one("uu-tee", &[("uu-tee", &["/dev/null"])]),
    one("utee", &[("utee", &["/dev/null"])]),
];

/// Programs that write without end.
pub(crate) const ENDLESS: &[Contestant] = &[
    one("zc-yes", &[("zc-yes", &[])]),
    one("yes", &[("yes", &[])]),
    one("uu-yes", &[("uu-yes", &[])]),
];

/// Programs that copy a tree.
pub(crate) const TREES: &[Contestant] = &[
    one(
        "zc-dircopy --no-hash",
        &[("zc-dircopy", &["--no-hash", "IN", "OUT"])],
    ),
    one("cp -r", &[("cp", &["-r", "IN", "OUT"])]),
    one("cp -a", &[("cp", &["-a", "IN", "OUT"])]),
    one("uu-cp -r", &[("uu-cp", &["-r", "IN", "OUT"])]),
    one("rsync -a", &[("rsync", &["-a", "IN/", "OUT"])]),
    one("pcp", &[("pcp", &["IN", "OUT"])]),
];

/// Programs that copy a tree and make digests of its files.
pub(crate) const HASHED_TREES: &[Contestant] = &[
    one("zc-dircopy", &[("zc-dircopy", &["IN", "OUT"])]),
    one(
        "cp -r, then sha256sum",
        &[("cp", &["-r", "IN", "OUT"]), ("sha256sum", &["COPIED"])],
    ),
    // It copies nothing into a directory that is missing, and succeeds.
    one(
        "dircopy",
        &[("mkdir", &["OUT"]), ("dircopy", &["-i", "IN", "-o", "OUT"])],
    ),
];
