//! The programs in `examples/`, run as their first lines say.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::ends::terminal;
use crate::files::{assert_same, pattern, read_to_end};
use crate::skip::skip;

/// Long enough for an offload, and of no round length.
const LEN: usize = (3 << 20) + 7;

/// How long something may take that takes no time unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A built example, which does not outlive a test that fails. `None`, and said aloud, if it was not
/// built: `cargo test` builds them, `cargo test --test it` does not.
fn example(name: &str) -> Option<Command> {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    if !path.exists() {
        skip(&format!("example {name} is not built"));
        return None;
    }
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(path);
    Some(command)
}

/// A scratch directory with a file `source`, and the bytes in it.
fn scratch() -> (TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = pattern(LEN);
    fs::write(dir.path().join("source"), &bytes).unwrap();
    (dir, bytes)
}

#[track_caller]
fn successful(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The first line that a running example prints.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn copy_replaces_a_longer_file_and_prints_the_report() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("sink"), pattern(2 * LEN)).unwrap();
    copy.current_dir(&dir).args(["source", "sink"]);
    let report = successful(copy.output().unwrap());
    assert!(report.starts_with(&format!("{LEN} bytes by ")), "{report}");
    assert_same(&fs::read(dir.path().join("sink")).unwrap(), &bytes, "copy");
}

#[test]
fn copy_takes_a_device_for_its_sink() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, _) = scratch();
    copy.current_dir(&dir).args(["source", "/dev/null"]);
    successful(copy.output().unwrap());
}

#[test]
fn copy_leaves_a_file_that_is_its_own_source_as_it_was() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, bytes) = scratch();
    copy.current_dir(&dir).args(["source", "source"]);
    assert!(!copy.output().unwrap().status.success());
    assert_same(&fs::read(dir.path().join("source")).unwrap(), &bytes, "it");
}

#[test]
fn copy_draws_its_progress_on_a_terminal() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, _) = scratch();
    let (user, screen) = terminal();
    copy.current_dir(&dir)
        .args(["source", "sink"])
        .stderr(screen);
    let output = copy.output().unwrap();
    // It holds the other end of the terminal, which ends only when nobody does.
    drop(copy);
    successful(output);
    let drawn = String::from_utf8(read_to_end(&user)).unwrap();
    let last = format!("100%  {LEN} bytes by ");
    assert!(drawn.contains(&last), "{drawn:?}");
}

#[test]
fn explain_has_a_line_for_every_strategy_and_moves_nothing() {
    let Some(mut explain) = example("explain") else {
        return;
    };
    let (dir, _) = scratch();
    fs::write(dir.path().join("sink"), "as it was").unwrap();
    explain.current_dir(&dir).args(["source", "sink"]);
    let plans = successful(explain.output().unwrap());
    for name in crate::every_pair::STRATEGIES {
        let lines = plans.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.nth(1).is_some_and(|word| word == name.to_string())
        });
        assert_eq!(
            lines.count(),
            2,
            "{name}, with and without stable:\n{plans}"
        );
    }
    assert_eq!(fs::read(dir.path().join("sink")).unwrap(), b"as it was");
}

#[test]
fn serve_file_answers_each_request_with_header_and_file() {
    let Some(mut serve) = example("serve_file") else {
        return;
    };
    let (dir, bytes) = scratch();
    serve
        .current_dir(&dir)
        .args(["source", "127.0.0.1:0", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = serve.spawn().unwrap();
    let url = first_line(&mut server);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    for _ in 0..2 {
        let mut client = connect(address);
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let (header, body) = answer.split_at(end.expect("a header") + 4);
        let header = std::str::from_utf8(header).unwrap();
        assert!(header.starts_with("HTTP/1.1 200 OK\r\n"), "{header}");
        assert!(header.contains(&format!("\r\nContent-Length: {LEN}\r\n")));
        assert_same(body, &bytes, "the body");
    }
    let output = server.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    successful(output);
    let report = format!("{LEN} bytes by sendfile");
    assert_eq!(said.matches(&report).count(), 2, "{said}");
}

#[test]
fn relay_passes_on_the_end_of_one_way_and_keeps_the_other_open() {
    let Some(mut relay) = example("relay") else {
        return;
    };
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    relay
        .arg("127.0.0.1:0")
        .arg(upstream.local_addr().unwrap().to_string())
        .arg("1")
        .stdout(Stdio::piped());
    let mut relay = relay.spawn().unwrap();
    let mut client = connect(&first_line(&mut relay));

    let patience = Timespec::try_from(PATIENCE).unwrap();
    let mut waiting = [PollFd::new(&upstream, PollFlags::IN)];
    assert_eq!(poll(&mut waiting, Some(&patience)).unwrap(), 1);
    let (mut server, _) = upstream.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();

    let request = pattern(LEN);
    let sent = request.clone();
    let sender = std::thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut arrived = Vec::new();
    // Ends although the client has not closed, because the end of its way is passed on.
    server.read_to_end(&mut arrived).unwrap();
    assert_same(&arrived, &request, "the request");

    // Only now is there an answer, on the way that is still open.
    let answer = pattern(LEN / 2);
    let sent = answer.clone();
    let answerer = std::thread::spawn(move || server.write_all(&sent).unwrap());
    let mut client = sender.join().unwrap();
    let mut arrived = Vec::new();
    client.read_to_end(&mut arrived).unwrap();
    assert_same(&arrived, &answer, "the answer");
    answerer.join().unwrap();
    assert!(relay.wait().unwrap().success());
}

#[test]
fn hash_while_copying_prints_what_sha256sum_would() {
    let Some(mut hash) = example("hash_while_copying") else {
        return;
    };
    let (dir, bytes) = scratch();
    File::create(dir.path().join("sink")).unwrap();
    hash.current_dir(&dir).args(["source", "sink"]);
    let line = successful(hash.output().unwrap());
    let digest = Sha256::digest(&bytes)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
    assert_eq!(line, format!("{digest}  sink\n"));
    assert_same(&fs::read(dir.path().join("sink")).unwrap(), &bytes, "copy");
}
