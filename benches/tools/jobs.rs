//! The pipelines.

use crate::contestants::{
    Contestant, ENDLESS, FROM_INPUT, FROM_OPERAND, HASHED_TREES, LINES, MANY, NUMBERED, SHOWN,
    TO_NULL_TOO, TO_TWO_FILES, TREES,
};
use crate::job::{Job, Load, Place, Sink, Source};
use crate::recording::format::Unit;

const WHOLE: Load = Load::Part(1, 1);

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
        load: Load::Part(2, 1),
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
        load: Load::Part(2, 1),
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
        load: Load::Part(4, 1),
        ..job(
            "yes_to_splicing_reader",
            "X | splicing reader",
            "yes",
            Source::Endless,
            Sink::Splicing,
            ENDLESS,
        )
    },
    job(
        "yes_to_reading_reader",
        "X | reading reader",
        "yes",
        Source::Endless,
        Sink::Reading,
        ENDLESS,
    ),
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
