//! Ships a log to a TCP peer and to standard output at once. A peer may go and come back.
//!
//! `cargo run --release --example ship_log -- ADDRESS [FILE]`
//!
//! Follows FILE as `tail -f -c +0` does, or ships standard input to its end.
//!
//! # What a peer that comes back receives
//!
//! It goes on at the byte behind the last one that the connection before had accepted, so that no
//! line is doubled, and no line that was written while no peer was there is lost. One may be
//! divided between two connections.
//!
//! "Accepted" is all that TCP tells a program: the kernel has taken the bytes. If the peer dies,
//! those that are still on their way, or that it has acknowledged and not read, are gone, and no
//! program learns which. (`ioctl(SIOCOUTQ)` tells how many bytes the peer's kernel has not
//! acknowledged. What its program has read, only that program can say, in a protocol of its own.)
//! So this program looks for a peer that has left before it sends, not after; and at the end of
//! standard input it shuts the connection down and waits for the peer to do so too. A peer that
//! closes without an error then has read everything.

use std::fs::File;
use std::io::{ErrorKind, Read, Write, stderr, stdin, stdout};
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use zcopy::{Ended, Report, Transfer};

/// The pause before a connection is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// How often to look for a peer that has left, while nothing moves.
const TICK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "ship_log: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let address = arguments.next().context("usage: ship_log ADDRESS [FILE]")?;
    let address = address.to_string_lossy();
    let (source, growth) = match arguments.next() {
        Some(path) => {
            let shown = || path.display().to_string();
            let source = File::open(&path).with_context(shown)?;
            // Before the first read, so that no growth is missed.
            let growth = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            inotify::add_watch(&growth, &path, WatchFlags::MODIFY).with_context(shown)?;
            (source, Some(growth))
        }
        None => (File::from(stdin().as_fd().try_clone_to_owned()?), None),
    };

    // The bytes that standard output has received and the peer has not.
    let mut owed = Vec::new();
    let nothing = File::open("/dev/null")?;
    loop {
        let peer = connect(&address).with_context(|| address.to_string())?;
        owed = match Transfer::new(&nothing, &peer).prefix(owed).run() {
            Ok(_) => match ship(&source, growth.as_ref(), &peer)? {
                Some(owed) => owed,
                None => return hang_up(&peer),
            },
            Err(error) => error.into_undelivered(),
        };
        let _ = writeln!(stderr(), "ship_log: the peer has left");
        thread::sleep(RETRY_DELAY);
    }
}

/// Connects to the peer as soon as it is there. An address that cannot be one is an error.
fn connect(address: &str) -> std::io::Result<TcpStream> {
    loop {
        let connected = TcpStream::connect(address).and_then(|peer| {
            // `has_left` must not wait. The transfers wait by poll(2).
            peer.set_nonblocking(true)?;
            Ok(peer)
        });
        match connected {
            Err(error) if error.kind() != ErrorKind::InvalidInput => thread::sleep(RETRY_DELAY),
            connected => return connected,
        }
    }
}

/// Ships until the source ends, and returns `None`, or until the peer has left. Then it returns the
/// bytes that standard output has received and the peer has not.
fn ship(
    source: &File,
    growth: Option<&OwnedFd>,
    peer: &TcpStream,
) -> anyhow::Result<Option<Vec<u8>>> {
    loop {
        let shipped = Transfer::new(source, stdout())
            .also_to(peer)
            // A reset shows at once, and not when more has been sent.
            .watch_readers(true)
            .tick(TICK)
            .observe(|_| {
                if has_left(peer) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .run();
        let report = match shipped {
            Ok(report) if report.ended() == Ended::Eof => match growth {
                None => return Ok(None),
                Some(growth) => {
                    wait(growth, peer)?;
                    if !has_left(peer) {
                        continue;
                    }
                    report
                }
            },
            Ok(report) => report,
            // The second sink is the peer. Without standard output or the source there is no use.
            Err(error) => match error.report().sinks() {
                [_, peer] if peer.error().is_some() => error.into_report(),
                _ => return Err(error.into()),
            },
        };
        return level(source, report).map(Some);
    }
}

/// Brings standard output to where the fan-out has come at most, and returns what the peer lacks of
/// that. Each sink may be ahead of the slower one.
fn level(source: &File, report: Report) -> anyhow::Result<Vec<u8>> {
    let ahead = |sink: usize| report.sinks()[sink].ahead() as usize;
    let [out, peer] = [ahead(0), ahead(1)];
    // The bytes behind `report.bytes()`: those in flight out of a pipe, or those behind the cursor
    // of a file.
    let mut bytes = report.into_undelivered();
    let missing = out.max(peer).saturating_sub(bytes.len());
    source
        .take(missing as u64)
        .read_to_end(&mut bytes)
        .context("read again")?;
    stdout()
        .write_all(&bytes[out..])
        .context("standard output")?;
    stdout().flush().context("standard output")?;
    Ok(bytes.split_off(peer))
}

/// Waits until the file has been written to, or the peer has something to tell.
fn wait(growth: &OwnedFd, peer: &TcpStream) -> anyhow::Result<()> {
    let [file, end] = [
        PollFd::new(growth, PollFlags::IN),
        PollFd::new(peer, PollFlags::IN),
    ];
    match poll(&mut [file, end], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("poll"),
    }
    // Discards the events.
    let _ = rustix::io::read(growth, &mut [0; 4096]);
    Ok(())
}

/// Whether the peer has closed or reset the connection. What it says is discarded.
fn has_left(mut peer: &TcpStream) -> bool {
    match peer.read(&mut [0; 4096]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Tells the peer that no more will come, and waits until it has closed, too.
fn hang_up(mut peer: &TcpStream) -> anyhow::Result<()> {
    peer.shutdown(Shutdown::Write).context("the peer")?;
    peer.set_nonblocking(false)?;
    while peer.read(&mut [0; 4096]).context("the peer")? > 0 {}
    Ok(())
}
