//! A writer that sets `O_DIRECT` on its pipe, before a tool whose output is read in short pieces.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::OFlags;

use crate::child::{end_of, zc_cat, zc_pv, zc_tee};
use crate::files::{assert_same, pattern, write_all};

/// The number of bytes that are written as packets.
const PACKETS: usize = 300_000;

/// Runs a tool behind a writer of `n_stream` bytes and of packets, and asserts that a reader of a
/// thousand bytes at a time reads all of them.
#[track_caller]
fn assert_nothing_lost(mut tool: Command, n_stream: usize) {
    let bytes = pattern(n_stream + PACKETS);
    let (input, feed) = std::io::pipe().unwrap();
    let (mut output, sink) = std::io::pipe().unwrap();
    let child = tool.stdin(input).stdout(sink).stderr(Stdio::null());
    let child = child.spawn().unwrap();
    let what = format!("{tool:?}, {n_stream}");
    // The command holds its ends of the pipes.
    drop(tool);
    let to_write = bytes.clone();
    let writer = thread::spawn(move || {
        let feed = OwnedFd::from(feed);
        let (stream, packets) = to_write.split_at(n_stream);
        assert!(write_all(&feed, stream));
        rustix::fs::fcntl_setfl(&feed, OFlags::DIRECT).unwrap();
        for packet in packets.chunks(3000) {
            assert_eq!(rustix::io::write(&feed, packet), Ok(packet.len()));
        }
    });
    let (mut arrived, mut piece) = (Vec::new(), [0; 1000]);
    loop {
        match output.read(&mut piece).unwrap() {
            0 => break,
            n => arrived.extend_from_slice(&piece[..n]),
        }
    }
    writer.join().unwrap();
    assert!(end_of(child).success(), "{what}");
    assert_same(&arrived, &bytes, &what);
}

#[test]
fn packets_become_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    for n_stream in [0, (3 << 20) + 4321] {
        assert_nothing_lost(zc_cat(), n_stream);
        for options in [&["-q"][..], &["-q", "-C"], &["-q", "-B", "4096"]] {
            let mut pv = zc_pv();
            pv.args(options);
            assert_nothing_lost(pv, n_stream);
        }
        for arguments in [&[][..], &["-p"], &["/dev/null"], &["-p", "/dev/null"]] {
            let mut tee = zc_tee();
            tee.args(arguments);
            assert_nothing_lost(tee, n_stream);
        }
        let mut tee = zc_tee();
        tee.arg(&file);
        assert_nothing_lost(tee, n_stream);
        let contents = std::fs::read(&file).unwrap();
        assert_same(&contents, &pattern(n_stream + PACKETS), "the file");
    }
}
