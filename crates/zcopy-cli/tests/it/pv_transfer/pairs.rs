//! Every pair of transfer options, from every kind of source into every kind of sink: the bytes are
//! the same.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::thread;

use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::child::{end_of, read_exactly, zc_pv};
use crate::files::pattern;

const LEN: usize = (1 << 20) + 777;

/// Options of which each has something to do with how bytes are moved.
const OPTIONS: [&[&str]; 15] = [
    &["-C"],
    &["-B", "10000"],
    &["-L", "1G"],
    &["-S", "-s", "1000000"],
    &["-Y"],
    &["-K"],
    &["-O"],
    &["-E"],
    &["-J", "256K"],
    &["-U", "-"],
    &["--hash", "blake3"],
    &["--stable"],
    &["-l"],
    &["-n", "-i", "0.1"],
    &["-f", "-c", "-A", "5"],
];

#[derive(Clone, Copy, Debug)]
enum Source {
    File,
    Bursts,
    NonBlocking,
    Socket,
}

#[derive(Clone, Copy, Debug)]
enum Sink {
    File,
    Slow,
    NonBlocking,
    Socket,
}

/// The bytes that are moved: some zeros among them, long enough for holes.
fn bytes() -> Vec<u8> {
    let mut bytes = pattern(LEN);
    bytes[100_000..400_000].fill(0);
    bytes[LEN - 9000..].fill(0);
    bytes
}

fn source(kind: Source) -> Stdio {
    let bursts = |mut writer: File| {
        thread::spawn(move || {
            for (n, piece) in bytes().chunks(77_777).enumerate() {
                // A reader that stops at a size has gone by then.
                let (head, tail) = piece.split_at(piece.len() / (n + 2));
                if writer
                    .write_all(head)
                    .and_then(|()| writer.write_all(tail))
                    .is_err()
                {
                    return;
                }
                thread::yield_now();
            }
        });
    };
    match kind {
        Source::File => {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes()).unwrap();
            file.rewind().unwrap();
            file.into()
        }
        Source::Bursts => {
            let (reader, writer) = std::io::pipe().unwrap();
            bursts(File::from(OwnedFd::from(writer)));
            reader.into()
        }
        Source::NonBlocking => {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
            rustix::fs::fcntl_setfl(&writer, OFlags::empty()).unwrap();
            bursts(File::from(writer));
            reader.into()
        }
        Source::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            bursts(File::from(OwnedFd::from(here)));
            OwnedFd::from(there).into()
        }
    }
}

/// What has arrived.
fn moved(arguments: &[&str], from: Source, to: Sink) -> (Option<i32>, Vec<u8>) {
    let mut command = zc_pv();
    command
        .args(arguments)
        .stdin(source(from))
        .stderr(Stdio::null());
    let slowly = |mut reader: File, step: usize| {
        thread::spawn(move || {
            let (mut all, mut piece) = (Vec::new(), vec![0; step]);
            loop {
                match reader.read(&mut piece).unwrap() {
                    0 => return all,
                    n => all.extend_from_slice(&piece[..n]),
                }
                thread::yield_now();
            }
        })
    };
    let reader = match to {
        Sink::File => {
            let mut file = tempfile::tempfile().unwrap();
            command.stdout(file.try_clone().unwrap());
            let status = end_of(command.spawn().unwrap()).code();
            let mut all = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut all).unwrap();
            return (status, all);
        }
        Sink::Slow => {
            let (reader, writer) = std::io::pipe().unwrap();
            command.stdout(writer);
            slowly(File::from(OwnedFd::from(reader)), 3001)
        }
        Sink::NonBlocking => {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
            rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
            command.stdout(writer);
            slowly(File::from(reader), 65_536)
        }
        Sink::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            command.stdout(OwnedFd::from(there));
            slowly(File::from(OwnedFd::from(here)), 10_000)
        }
    };
    let child = command.spawn().unwrap();
    drop(command);
    let all = reader.join().unwrap();
    (end_of(child).code(), all)
}

/// Each pair of options with one source and one sink, so that all of these meet all options.
fn pairs() -> impl Iterator<Item = (Vec<&'static str>, Source, Sink)> {
    use Sink as To;
    use Source as From;
    let sources = [From::File, From::Bursts, From::NonBlocking, From::Socket];
    let sinks = [To::File, To::Slow, To::NonBlocking, To::Socket];
    let n = OPTIONS.len();
    let pairs = (0..n).flat_map(move |a| (a..n).map(move |b| (a, b)));
    pairs.enumerate().map(move |(turn, (a, b))| {
        let mut arguments = OPTIONS[a].to_vec();
        if a != b {
            arguments.extend(OPTIONS[b]);
        }
        (arguments, sources[turn % 4], sinks[(turn / 4 + b) % 4])
    })
}

#[test]
fn every_pair_of_options_moves_the_same_bytes() {
    let all = bytes();
    for (arguments, from, to) in pairs() {
        let what = format!("{arguments:?}, {from:?}, {to:?}");
        // So many lines there are not.
        let stops = arguments.contains(&"-S") && !arguments.contains(&"-l");
        let end = if stops { 1_000_000 } else { LEN };
        let expected = &all[..end];
        let (status, found) = moved(&arguments, from, to);
        crate::files::assert_same(&found, expected, &what);
        assert_eq!(status, Some(0), "{what}");
    }
}

#[test]
fn every_option_moves_the_same_bytes_from_every_source_to_every_sink() {
    let all = bytes();
    for options in OPTIONS {
        for from in [
            Source::File,
            Source::Bursts,
            Source::NonBlocking,
            Source::Socket,
        ] {
            for to in [Sink::File, Sink::Slow, Sink::NonBlocking, Sink::Socket] {
                let end = if options[0] == "-S" { 1_000_000 } else { LEN };
                let (status, found) = moved(options, from, to);
                let what = format!("{options:?}, {from:?}, {to:?}");
                crate::files::assert_same(&found, &all[..end], &what);
                assert_eq!(status, Some(0), "{what}");
            }
        }
    }
}

/// What came before a sink that takes no more is the beginning, whole and in order.
#[test]
fn with_every_option_a_reader_that_leaves_has_had_the_beginning() {
    for options in OPTIONS {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = zc_pv();
        command
            .args(options)
            .stdin(source(Source::File))
            .stdout(writer)
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        drop(command);
        let found = read_exactly(reader, 300_001);
        crate::files::assert_same(&found, &bytes()[..300_001], &format!("{options:?}"));
        let signal = end_of(child).signal();
        // The pipe may have held all the rest.
        assert!(matches!(signal, Some(13) | None), "{options:?}: {signal:?}");
    }
}

#[test]
fn with_every_option_a_full_device_is_told() {
    for options in OPTIONS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = zc_pv();
        command
            .arg("-q")
            .args(options)
            .stdin(source(Source::Bursts))
            .stdout(full);
        let output = command.output().unwrap();
        let said = "zc-pv: (stdout): write error: No space left on device\n";
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            said,
            "{options:?}"
        );
        assert_eq!(output.status.code(), Some(16), "{options:?}");
    }
}
