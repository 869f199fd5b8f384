//! The two files of a record: `raw.json` has the figures, and `machine.json` the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::statistics::{Middle, speed_ratio, spread};

/// The figures of a record, as they were measured.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Raw {
    /// What `ratios` has measured: transfers of the library.
    #[serde(default)]
    pub(crate) pairs: Vec<Pair>,
    /// The same, if their peers worked before and after them.
    #[serde(default)]
    pub(crate) pairs_apart: Vec<Pair>,
    /// What `tools` has measured: whole pipelines.
    #[serde(default)]
    pub(crate) jobs: Vec<Job>,
    /// Figures of many transfers in one process, against their number.
    #[serde(default)]
    pub(crate) curves: Vec<Curve>,
}

/// A pair of descriptors at one size.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) movers: Vec<Mover>,
}

/// What the plan is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rival {
    /// The strategy that was fastest when it was requested.
    BestStrategy,
    Buffered,
    Std,
}

impl Pair {
    pub(crate) fn mover(&self, name: &str) -> Option<&Mover> {
        self.movers.iter().find(|mover| mover.name == name)
    }

    pub(crate) fn rival(&self, rival: Rival) -> Option<&Mover> {
        match rival {
            Rival::BestStrategy => {
                let movers = self.movers.iter();
                let strategies = movers.filter(|it| !["plan", "std_io_copy"].contains(&&*it.name));
                strategies.min_by(|a, b| a.median().total_cmp(&b.median()))
            }
            Rival::Buffered => self.mover("buffered"),
            Rival::Std => self.mover("std_io_copy"),
        }
    }

    /// Returns the throughput of the plan as a ratio to that of a rival.
    pub(crate) fn ratio_to(&self, rival: Rival) -> Option<Middle> {
        let (plan, rival) = (self.mover("plan")?, self.rival(rival)?);
        Some(speed_ratio(&plan.nanoseconds, &rival.nanoseconds))
    }
}

/// One way to move the bytes of a pair, with one figure for each turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mover {
    /// `plan`, a strategy, or `std_io_copy`.
    pub(crate) name: String,
    /// The median time of one transfer.
    pub(crate) nanoseconds: Vec<u64>,
    /// The mean processor time of the thread that moves, for one transfer.
    pub(crate) cpu_nanoseconds: Vec<u64>,
    /// The system calls of one transfer.
    pub(crate) system_calls: Option<u64>,
}

impl Mover {
    /// Returns the median of the turns, in nanoseconds.
    pub(crate) fn median(&self) -> f64 {
        spread(self.nanoseconds.iter().map(|ns| *ns as f64)).median
    }
}

/// A pipeline that several programs are part of in turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// The pipeline, for people.
    pub(crate) title: String,
    /// The chart that shows the job.
    pub(crate) group: String,
    /// The bytes that come in.
    pub(crate) bytes: u64,
    pub(crate) unit: Unit,
    pub(crate) contestants: Vec<Contestant>,
}

/// The quantity that a job measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Bytes per second.
    Throughput,
    /// The time itself.
    Time,
}

/// A program in a pipeline, with one figure for each turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Contestant {
    /// The program and its options.
    pub(crate) name: String,
    pub(crate) nanoseconds: Vec<u64>,
    /// The processor time of the program itself.
    pub(crate) cpu_nanoseconds: Vec<u64>,
    /// The processor time of the writer and the reader.
    pub(crate) others_cpu_nanoseconds: Vec<u64>,
    /// The system calls of the program, from its start to its end.
    pub(crate) system_calls: Option<u64>,
    /// The most memory that it had at once.
    pub(crate) peak_kib: Option<u64>,
    /// How much of the files stays in the page cache.
    pub(crate) residue_kib: Option<u64>,
}

/// One figure of one program or driver, against the number of concurrent transfers or the size of
/// messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// The chart that shows the curve: what is measured, for people.
    pub(crate) figure: String,
    pub(crate) unit: String,
    pub(crate) against: Against,
    /// Who is measured.
    pub(crate) name: String,
    /// The number of transfers or bytes, and the figure.
    pub(crate) points: Vec<(u64, f64)>,
}

/// The quantity at the foot of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Against {
    /// The number of concurrent transfers.
    Transfers,
    /// The bytes of a message.
    Bytes,
}

/// The machine, and the runs that measured on it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) n_processors: usize,
    pub(crate) memory_mib: u64,
    /// `/sys/devices/system/cpu/vulnerabilities`.
    pub(crate) mitigations: BTreeMap<String, String>,
    /// `/proc/sys/fs/pipe-*`, in bytes and pages.
    pub(crate) pipe_limits: BTreeMap<String, u64>,
    /// What `stat -f` calls the file systems of the scratch files.
    pub(crate) file_systems: BTreeMap<String, String>,
    /// The run of each benchmark.
    pub(crate) runs: BTreeMap<String, Run>,
}

/// The run of a benchmark.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The commit of the clone, with `-dirty` if files differ from it.
    pub(crate) commit: String,
    pub(crate) compiler: String,
    /// When it began, in UTC.
    pub(crate) started: String,
    pub(crate) seconds: u64,
    /// The processor time that everything else took meanwhile, as a part of the run's own time on
    /// all processors; kernel threads count.
    pub(crate) others_share: f64,
    /// The time that the hypervisor took, as such a part.
    pub(crate) stolen_share: f64,
    /// The value of `--note`.
    pub(crate) note: Option<String>,
    /// Each program that was compared, and what it says of its version.
    pub(crate) programs: BTreeMap<String, String>,
    /// Programs that neither `DIR/bin` nor `PATH` has.
    pub(crate) missing: Vec<String>,
}
