//! The pipelines, and the programs that take their places in them.

use crate::recording::format::Unit;

/// A pipeline with one program in the middle.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// The pipeline, for people; X is the program.
    pub(crate) title: &'static str,
    /// The chart that shows it.
    pub(crate) group: &'static str,
    pub(crate) unit: Unit,
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    /// How much comes in.
    pub(crate) load: Load,
    pub(crate) contestants: &'static [Contestant],
}

/// What a program takes its bytes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The operand `IN`: a file in the page cache, on tmpfs.
    Memory,
    /// The operand `IN`: a file in the page cache, on a disk.
    Disk,
    /// The operand `IN`: a file on a disk, and not in the page cache.
    ColdDisk,
    /// The operand `IN`: lines of a log on tmpfs.
    Log,
    /// The operand `FILES`: 1 KiB each, on tmpfs.
    SmallFiles,
    /// The operand `IN`: a tree with large and small files.
    Tree(Place),
    /// Standard input: a file on tmpfs.
    Input,
    /// Standard input: a pipe that is written to in blocks of 128 KiB.
    WrittenPipe,
    /// Standard input: a pipe that is tee'd into.
    TeedPipe,
    /// The program writes without end, and its reader goes when it has enough.
    Endless,
}

/// Where files stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Disk,
}

/// What a program's standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    Null,
    /// A pipe that is spliced from.
    Splicing,
    /// A pipe that is read in blocks of 256 KiB.
    Reading,
    /// A new file.
    File(Place),
    /// `/dev/null`; the operands `OUT` and `OUT2` are new files or trees.
    Operands(Place),
    /// A pipe. The clock stops when the first bytes come out of it.
    FirstByte,
}

/// How many bytes come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// The size that the run was asked for, times this, divided by that.
    Part(u64, u64),
    OneByte,
    /// A tree has its own sizes: small and large files, each times the part of 1 GiB that the run
    /// was asked for.
    Tree {
        small: u64,
        large: u64,
    },
}

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

const WHOLE: Load = Load::Part(1, 1);

/// Programs that copy an operand to standard output.
const FROM_OPERAND: &[Contestant] = &[
    one("zc-pv -f", &[("zc-pv", &["-f", "IN"])]),
    one("zc-pv -q", &[("zc-pv", &["-q", "IN"])]),
    one("pv -f", &[("pv", &["-f", "IN"])]),
    one("zc-cat", &[("zc-cat", &["IN"])]),
    one("cat", &[("cat", &["IN"])]),
    one("uu-cat", &[("uu-cat", &["IN"])]),
    one("rat", &[("rat", &["IN"])]),
];

/// Programs that copy standard input to standard output.
const FROM_INPUT: &[Contestant] = &[
    one("zc-pv -f", &[("zc-pv", &["-f"])]),
    one("zc-pv -q", &[("zc-pv", &["-q"])]),
    one("pv -f", &[("pv", &["-f"])]),
    one("zc-cat", &[("zc-cat", &[])]),
    one("cat", &[("cat", &[])]),
    one("uu-cat", &[("uu-cat", &[])]),
    one("rat", &[("rat", &[])]),
];

const NUMBERED: &[Contestant] = &[
    one("zc-cat -n", &[("zc-cat", &["-n", "IN"])]),
    one("cat -n", &[("cat", &["-n", "IN"])]),
    one("uu-cat -n", &[("uu-cat", &["-n", "IN"])]),
];

const SHOWN: &[Contestant] = &[
    one("zc-cat -A", &[("zc-cat", &["-A", "IN"])]),
    one("cat -A", &[("cat", &["-A", "IN"])]),
    one("uu-cat -A", &[("uu-cat", &["-A", "IN"])]),
];

const MANY: &[Contestant] = &[
    one("zc-cat", &[("zc-cat", &["FILES"])]),
    one("cat", &[("cat", &["FILES"])]),
    one("uu-cat", &[("uu-cat", &["FILES"])]),
];

const LINES: &[Contestant] = &[
    one("zc-pv -f -l", &[("zc-pv", &["-f", "-l", "IN"])]),
    one("pv -f -l", &[("pv", &["-f", "-l", "IN"])]),
];

const TO_TWO_FILES: &[Contestant] = &[
    one("zc-tee", &[("zc-tee", &["OUT", "OUT2"])]),
    one("zc-tee -c", &[("zc-tee", &["-c", "OUT", "OUT2"])]),
    one("tee", &[("tee", &["OUT", "OUT2"])]),
    one("uu-tee", &[("uu-tee", &["OUT", "OUT2"])]),
    one("utee", &[("utee", &["OUT", "OUT2"])]),
];

const TO_NULL_TOO: &[Contestant] = &[
    one("zc-tee", &[("zc-tee", &["/dev/null"])]),
    one("tee", &[("tee", &["/dev/null"])]),
    one("uu-tee", &[("uu-tee", &["/dev/null"])]),
    one("utee", &[("utee", &["/dev/null"])]),
];

const ENDLESS: &[Contestant] = &[
    one("zc-yes", &[("zc-yes", &[])]),
    one("yes", &[("yes", &[])]),
    one("uu-yes", &[("uu-yes", &[])]),
];

const TREES: &[Contestant] = &[
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

const HASHED_TREES: &[Contestant] = &[
    one("zc-dircopy", &[("zc-dircopy", &["IN", "OUT"])]),
    one(
        "cp -r, then sha256sum",
        &[("cp", &["-r", "IN", "OUT"]), ("sha256sum", &["COPIED"])],
    ),
    one("dircopy", &[("dircopy", &["-i", "IN", "-o", "OUT"])]),
];

/// All jobs, in the order of the charts.
pub(crate) const JOBS: &[Job] = &[
    job(
        "file_to_null",
        "X file > /dev/null",
        "files",
        Source::Memory,
        Sink::Null,
        FROM_OPERAND,
    ),
    job(
        "file_to_splicing_reader",
        "X file | splicing reader",
        "files",
        Source::Memory,
        Sink::Splicing,
        FROM_OPERAND,
    ),
    job(
        "file_to_reading_reader",
        "X file | reading reader",
        "files",
        Source::Memory,
        Sink::Reading,
        FROM_OPERAND,
    ),
    job(
        "file_to_file_memory",
        "X file > new file, tmpfs",
        "files",
        Source::Memory,
        Sink::File(Place::Memory),
        FROM_OPERAND,
    ),
    Job {
        load: Load::Part(1, 2),
        ..job(
            "file_to_file_disk",
            "X file > new file, disk",
            "files",
            Source::Disk,
            Sink::File(Place::Disk),
            FROM_OPERAND,
        )
    },
    Job {
        load: Load::Part(1, 4),
        ..job(
            "cold_file_to_reading_reader",
            "X file | reading reader, cold disk",
            "files",
            Source::ColdDisk,
            Sink::Reading,
            FROM_OPERAND,
        )
    },
    Job {
        load: Load::Part(4, 1),
        ..job(
            "teed_pipe_to_null",
            "splicing writer | X > /dev/null",
            "pipes",
            Source::TeedPipe,
            Sink::Null,
            FROM_INPUT,
        )
    },
    Job {
        load: Load::Part(4, 1),
        ..job(
            "teed_pipe_to_splicing_reader",
            "splicing writer | X | splicing reader",
            "pipes",
            Source::TeedPipe,
            Sink::Splicing,
            FROM_INPUT,
        )
    },
    job(
        "written_pipe_to_null",
        "writer | X > /dev/null",
        "pipes",
        Source::WrittenPipe,
        Sink::Null,
        FROM_INPUT,
    ),
    job(
        "written_pipe_to_reading_reader",
        "writer | X | reading reader",
        "pipes",
        Source::WrittenPipe,
        Sink::Reading,
        FROM_INPUT,
    ),
    Job {
        load: Load::Part(1, 4),
        ..job(
            "cat_n",
            "X log > /dev/null",
            "lines",
            Source::Log,
            Sink::Null,
            NUMBERED,
        )
    },
    Job {
        load: Load::Part(1, 4),
        ..job(
            "cat_a",
            "X log > /dev/null",
            "lines",
            Source::Log,
            Sink::Null,
            SHOWN,
        )
    },
    Job {
        load: Load::Part(1, 8),
        ..job(
            "pv_l",
            "X log > /dev/null",
            "lines",
            Source::Log,
            Sink::Null,
            LINES,
        )
    },
    job(
        "tee_to_null",
        "splicing writer | X /dev/null | splicing reader",
        "tee",
        Source::TeedPipe,
        Sink::Splicing,
        TO_NULL_TOO,
    ),
    Job {
        load: Load::Part(1, 4),
        ..job(
            "tee_to_two_files_memory",
            "writer | X a b > /dev/null, tmpfs",
            "tee",
            Source::WrittenPipe,
            Sink::Operands(Place::Memory),
            TO_TWO_FILES,
        )
    },
    Job {
        load: Load::Part(1, 8),
        ..job(
            "tee_to_two_files_disk",
            "writer | X a b > /dev/null, disk",
            "tee",
            Source::WrittenPipe,
            Sink::Operands(Place::Disk),
            TO_TWO_FILES,
        )
    },
    Job {
        load: Load::Part(8, 1),
        ..job(
            "yes_to_splicing_reader",
            "X | splicing reader",
            "yes",
            Source::Endless,
            Sink::Splicing,
            ENDLESS,
        )
    },
    Job {
        load: Load::Part(2, 1),
        ..job(
            "yes_to_reading_reader",
            "X | reading reader",
            "yes",
            Source::Endless,
            Sink::Reading,
            ENDLESS,
        )
    },
    timed(
        "tree_memory",
        "X tree copy, tmpfs",
        "trees",
        Source::Tree(Place::Memory),
        Sink::Operands(Place::Memory),
        MIXED,
        TREES,
    ),
    timed(
        "tree_disk",
        "X tree copy, disk",
        "trees",
        Source::Tree(Place::Disk),
        Sink::Operands(Place::Disk),
        MIXED,
        TREES,
    ),
    timed(
        "hashed_tree_memory",
        "X tree copy, with SHA-256, tmpfs",
        "trees",
        Source::Tree(Place::Memory),
        Sink::Operands(Place::Memory),
        MIXED,
        HASHED_TREES,
    ),
    timed(
        "hashed_tree_disk",
        "X tree copy, with SHA-256, disk",
        "trees",
        Source::Tree(Place::Disk),
        Sink::Operands(Place::Disk),
        MIXED,
        HASHED_TREES,
    ),
    timed(
        "small_files",
        "X 4096 files of 1 KiB > /dev/null, tmpfs",
        "short",
        Source::SmallFiles,
        Sink::Null,
        Load::Part(1, 256),
        MANY,
    ),
    timed(
        "start_operand",
        "X file of one byte > /dev/null",
        "short",
        Source::Memory,
        Sink::Null,
        Load::OneByte,
        FROM_OPERAND,
    ),
    timed(
        "start_tee",
        "X < file of one byte > /dev/null",
        "short",
        Source::Input,
        Sink::Null,
        Load::OneByte,
        TO_NULL_TOO,
    ),
    timed(
        "start_tree",
        "X tree of one byte copy",
        "short",
        Source::Tree(Place::Memory),
        Sink::Operands(Place::Memory),
        Load::OneByte,
        TREES,
    ),
    timed(
        "first_byte_operand",
        "X file | first bytes",
        "first",
        Source::Memory,
        Sink::FirstByte,
        Load::Part(1, 16),
        FROM_OPERAND,
    ),
    timed(
        "first_byte_tee",
        "X < file | first bytes",
        "first",
        Source::Input,
        Sink::FirstByte,
        Load::Part(1, 16),
        TO_NULL_TOO,
    ),
    timed(
        "first_byte_yes",
        "X | first bytes",
        "first",
        Source::Endless,
        Sink::FirstByte,
        Load::Part(1, 16),
        ENDLESS,
    ),
];

/// 2,000 files of 0 to 16 KiB, and four large ones, at a size of 1 GiB.
const MIXED: Load = Load::Tree {
    small: 2000,
    large: 4,
};

const fn job(
    name: &'static str,
    title: &'static str,
    group: &'static str,
    source: Source,
    sink: Sink,
    contestants: &'static [Contestant],
) -> Job {
    Job {
        name,
        title,
        group,
        unit: Unit::Throughput,
        source,
        sink,
        load: WHOLE,
        contestants,
    }
}

const fn timed(
    name: &'static str,
    title: &'static str,
    group: &'static str,
    source: Source,
    sink: Sink,
    load: Load,
    contestants: &'static [Contestant],
) -> Job {
    Job {
        unit: Unit::Time,
        load,
        ..job(name, title, group, source, sink, contestants)
    }
}

impl Load {
    /// The bytes that come in, if the run was asked for `size`.
    pub(crate) fn bytes(self, size: u64) -> u64 {
        match self {
            Self::Part(times, by) => (size * times / by).max(1),
            Self::OneByte => 1,
            Self::Tree { .. } => size,
        }
    }
}
