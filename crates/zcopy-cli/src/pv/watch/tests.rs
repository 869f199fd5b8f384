use std::collections::VecDeque;

use super::files::{Access, Kind};
use super::*;

/// A process of which every poll finds what was written down for it.
struct Scripted(VecDeque<FdTable>);

impl Process for Scripted {
    fn snapshot(&mut self, only: Option<RawFd>) -> FdTable {
        match self.0.pop_front() {
            Some(FdTable::Open(mut files)) => {
                files.retain(|file| only.is_none_or(|fd| fd == file.fd));
                FdTable::Open(files)
            }
            Some(other) => other,
            None => FdTable::Ended,
        }
    }
}

fn file(fd: RawFd, number: u64, position: u64) -> OpenFile {
    OpenFile {
        fd,
        kind: Kind::Regular,
        identity: (1, number),
        access: Access::Read,
        position,
        size: Some(1000),
        path: format!("/file/{number}").into(),
    }
}

fn watch(fd: Option<RawFd>, tables: impl IntoIterator<Item = FdTable>) -> Watch<Scripted> {
    let target = fd.map_or(Target::Process(7), |fd| Target::Descriptor(7, fd));
    let process = Scripted(tables.into_iter().collect());
    Watch::new([(target, process)], Duration::from_secs(30), None)
}

/// The rows of one poll a second: descriptor, file, position, whether it is the last.
fn story(watch: &mut Watch<Scripted>) -> Vec<Vec<(RawFd, String, u64, bool)>> {
    let mut story = Vec::new();
    for second in 0.. {
        let view = watch.poll(Duration::from_secs(second), &Zoned::default());
        let rows = view.rows.into_iter().map(|row| {
            let file = row.path.display().to_string();
            (row.fd, file, row.reading.moved, row.reading.is_over)
        });
        story.push(rows.collect());
        if watch.is_over() {
            break;
        }
    }
    story
}

fn row(fd: RawFd, number: u64, position: u64, is_over: bool) -> (RawFd, String, u64, bool) {
    (fd, format!("/file/{number}"), position, is_over)
}

#[test]
fn a_process_is_followed_until_it_ends_through_all_that_it_opens() {
    let mut watch = watch(
        None,
        [
            FdTable::Open(vec![file(3, 1, 100)]),
            FdTable::Open(vec![file(3, 1, 500), file(4, 2, 0)]),
            FdTable::Open(vec![file(4, 2, 10)]),
            FdTable::Open(vec![]),
        ],
    );
    assert_eq!(
        story(&mut watch),
        [
            vec![row(3, 1, 100, false)],
            vec![row(3, 1, 500, false), row(4, 2, 0, false)],
            vec![row(3, 1, 500, true), row(4, 2, 10, false)],
            vec![row(4, 2, 10, true)],
            vec![],
        ]
    );
}

#[test]
fn a_descriptor_that_leads_to_another_file_gets_another_row() {
    let mut watch = watch(
        None,
        [
            FdTable::Open(vec![file(3, 1, 900)]),
            FdTable::Open(vec![file(3, 2, 5)]),
        ],
    );
    assert_eq!(
        story(&mut watch)[1],
        [row(3, 1, 900, true), row(3, 2, 5, false)]
    );
}

#[test]
fn one_descriptor_is_over_when_it_closes_changes_its_file_or_its_access() {
    let written = OpenFile {
        access: Access::Write,
        ..file(3, 1, 20)
    };
    for next in [vec![], vec![file(3, 2, 20)], vec![written]] {
        let first = FdTable::Open(vec![file(3, 1, 10), file(4, 2, 10)]);
        let mut watch = watch(Some(3), [first, FdTable::Open(next)]);
        assert_eq!(
            story(&mut watch),
            [vec![row(3, 1, 10, false)], vec![row(3, 1, 10, true)]]
        );
    }
}

#[test]
fn what_was_read_before_the_first_look_counts_but_makes_no_rate() {
    let mut watch = watch(
        None,
        [
            FdTable::Open(vec![file(3, 1, 600)]),
            FdTable::Open(vec![file(3, 1, 700)]),
        ],
    );
    let clock = Zoned::default();
    watch.poll(Duration::from_secs(5), &clock);
    let reading = watch
        .poll(Duration::from_secs(6), &clock)
        .rows
        .remove(0)
        .reading;
    assert_eq!(reading.moved, 700);
    assert_eq!(reading.percent(), Some(70.0));
    assert_eq!(reading.elapsed, Duration::from_secs(1));
    assert!((reading.rate - 100.0).abs() < 1e-6, "{}", reading.rate);
    assert_eq!(reading.remaining, Some(Duration::from_secs(3)));
}

#[test]
fn the_size_that_is_given_is_that_of_a_descriptor_and_not_of_a_process() {
    for (fd, expected) in [(Some(3), Some(5000)), (None, Some(1000))] {
        let process = Scripted([FdTable::Open(vec![file(3, 1, 0)])].into());
        let target = fd.map_or(Target::Process(7), |fd| Target::Descriptor(7, fd));
        let window = Duration::from_secs(30);
        let mut watch = Watch::new([(target, process)], window, Some(5000));
        let view = watch.poll(Duration::ZERO, &Zoned::default());
        assert_eq!(view.rows[0].reading.total, expected);
    }
}

#[test]
fn who_may_not_be_examined_any_more_is_told_once_and_over() {
    let hidden = FdTable::Hidden(io::ErrorKind::PermissionDenied.into());
    let mut watch = watch(None, [FdTable::Open(vec![file(3, 1, 0)]), hidden]);
    let clock = Zoned::default();
    assert!(watch.poll(Duration::ZERO, &clock).hidden.is_empty());
    let view = watch.poll(Duration::from_secs(1), &clock);
    assert_eq!(view.hidden[0].0, Target::Process(7));
    assert!(view.rows[0].reading.is_over && watch.is_over());
    assert!(watch.poll(Duration::from_secs(2), &clock).hidden.is_empty());
}

#[test]
fn it_is_over_when_the_last_of_several_is() {
    let followed = [(7, 1), (8, 3)].map(|(pid, looks)| {
        let tables = (0..looks).map(|n| FdTable::Open(vec![file(3, 1, n)]));
        let target = Target::Process(pid);
        (target, Scripted(tables.collect()))
    });
    let mut watch = Watch::new(followed, Duration::from_secs(30), None);
    let rows: Vec<usize> = story(&mut watch).iter().map(Vec::len).collect();
    assert_eq!(rows, [2, 2, 1, 1]);
}
