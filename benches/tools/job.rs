//! What a pipeline consists of.

use crate::contestants::Contestant;
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
