//! Sockets whose records the kernel encrypts and decrypts (`TCP_ULP`, "tls").
//!
//! A splice from such a socket fails with `EINVAL` at a control record (an alert, for example), and
//! a plain read with `EIO`. Only `recvmsg(2)` with room for the type of the record takes it.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;

use rustix::io::Errno;
use zcopy::{Relay, Side, Strategy, Transfer};

use crate::endpoints::tcp;
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::options::MaybeOptions as _;
use crate::refused::allowed;
use crate::skip::{has_program, report};
use crate::strategies::assert_served;

/// Bytes in front of the control record, and behind it: enough for splices.
const LEN: usize = (1 << 20) + 7;

/// Sets the same key for one direction: 1 for sending, 2 for receiving. 6 is `SOL_TCP`, 31 is
/// `TCP_ULP`, 282 is `SOL_TLS`, 0x0303 is TLS 1.2, and 51 is AES-GCM-128.
const ENCRYPT: &str = "
import socket, struct, sys
s = socket.socket(fileno=0)
try:
    s.setsockopt(6, 31, b'tls')
    key = struct.pack('HH8s16s4s8s', 0x0303, 51, bytes(8), b'k' * 16, b'salt', bytes(8))
    s.setsockopt(282, int(sys.argv[1]), key)
except OSError as e:
    sys.exit(str(e))
";

/// Sends a handshake record (22).
const SEND_RECORD: &str = "
import socket
s = socket.socket(fileno=0)
s.sendmsg([b'hello'], [(282, 1, bytes([22]))])
";

/// Receives a record, and prints its type and its bytes.
const RECEIVE_RECORD: &str = "
import socket
s = socket.socket(fileno=0)
data, control, _, _ = s.recvmsg(100, 100)
print(control[0][2][0], data.decode())
";

/// Runs a script with this socket as its standard input. Returns its output, or its message if it
/// fails.
fn python(script: &str, arguments: &[&str], socket: impl AsFd) -> Result<String, String> {
    let mut python = Command::new("python3");
    python.args(["-c", script]).args(arguments);
    python.stdin(Stdio::from(socket.as_fd().try_clone_to_owned().unwrap()));
    let output = python.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// Returns two connected sockets: what the first one sends is encrypted, and the second one
/// decrypts it. `None`, reported, if the kernel or the machine cannot do it.
fn encrypted() -> Option<(TcpStream, TcpStream)> {
    if !has_program("python3") {
        return None;
    }
    let (sender, receiver) = tcp();
    for (socket, direction) in [(&sender, "1"), (&receiver, "2")] {
        if let Err(message) = python(ENCRYPT, &[direction], socket) {
            report(&format!("the kernel has no TLS: {message}"));
            return None;
        }
    }
    Some((sender.into(), receiver.into()))
}

/// Sends bytes, a control record, the same bytes, and the end.
fn send(mut sender: TcpStream) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        sender.write_all(&pattern(LEN)).unwrap();
        python(SEND_RECORD, &[], &sender).unwrap();
        sender.write_all(&pattern(LEN)).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    })
}

#[test]
fn a_control_record_ends_a_transfer_and_nothing_is_lost() {
    let strategies = allowed([Strategy::SplicePipe, Strategy::Buffered]).map(Some);
    for strategy in strategies.chain([None]) {
        let Some((sender, receiver)) = encrypted() else {
            return;
        };
        let sending = send(sender);
        let sink = file(b"");
        let transfer = |sink| {
            let transfer = Transfer::new(&receiver, sink);
            match strategy {
                Some(strategy) => transfer.strategy(strategy),
                None => transfer,
            }
        };
        let error = transfer(&sink).run().unwrap_err();
        // A strategy that is requested does not fall back to the read, which names the side.
        if strategy != Some(Strategy::SplicePipe) {
            assert_eq!(error.side(), Side::Source, "{error}");
            let errno = error.raw_os_error();
            assert_eq!(errno, Some(Errno::IO.raw_os_error()), "{error}");
        }
        assert_eq!(error.bytes(), LEN as u64, "{error}");
        assert_eq!(error.undelivered(), b"");
        assert_eq!(python(RECEIVE_RECORD, &[], &receiver).unwrap(), "22 hello");

        let report = transfer(&sink).run().unwrap();
        assert_eq!(report.bytes(), LEN as u64, "{report:#}");
        assert_same(&contents(&sink), &pattern(LEN).repeat(2), "both parts");
        sending.join().unwrap();
    }
}

#[test]
fn a_file_is_encrypted_by_every_strategy_and_arrives_whole() {
    let strategies = [Strategy::Sendfile, Strategy::SplicePipe, Strategy::Buffered];
    for strategy in allowed(strategies).map(Some).chain([None]) {
        let Some((sender, receiver)) = encrypted() else {
            return;
        };
        let receiving = thread::spawn(move || read_to_end(&receiver));
        let source = file(&pattern(LEN));
        let transfer = Transfer::new(&source, &sender).maybe_strategy(strategy);
        let report = transfer.run().unwrap();
        assert_eq!(report.bytes(), LEN as u64, "{report:#}");
        assert_served(&report, strategy, "a file into an encrypted socket");
        sender.shutdown(Shutdown::Write).unwrap();
        let what = format!("{strategy:?}");
        assert_same(&receiving.join().unwrap(), &pattern(LEN), &what);
    }
}

#[test]
fn a_control_record_ends_a_relay_and_nothing_is_lost() {
    let Some((sender, receiver)) = encrypted() else {
        return;
    };
    let (back, server): (OwnedFd, OwnedFd) = tcp();
    let reading = thread::spawn(move || read_to_end(&server));
    let sending = send(sender);
    let error = Relay::new(&receiver, back).run().unwrap_err();
    assert_eq!(error.side(), Side::Source, "{error}");
    let report = error.relay_report().unwrap();
    assert_eq!(report.a_to_b().bytes(), LEN as u64, "{error}");
    assert_eq!(report.a_to_b().undelivered(), b"");
    drop(error);
    assert_same(&reading.join().unwrap(), &pattern(LEN), "the first part");
    assert_eq!(python(RECEIVE_RECORD, &[], &receiver).unwrap(), "22 hello");
    drop(receiver);
    let _ = sending.join();
}
