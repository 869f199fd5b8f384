//! The examples that use TCP.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zcopy::Strategy;

use super::{LEN, TIME_LIMIT, example, scratch, successful};
use crate::files::{assert_same, pattern};
use crate::refused::first_allowed;

/// Runs a server that answers these requests for a file. Returns the answers and the standard error
/// of the server.
fn serve_requests<const N: usize>(
    file: &Path,
    requests: [&[u8]; N],
) -> Option<([Answer; N], String)> {
    let mut serve = example("serve_file")?;
    serve
        .arg(file)
        .args(["127.0.0.1:0", &N.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = serve.spawn().unwrap();
    let url = first_line(&mut server);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let answers = requests.map(|request| {
        let mut client = connect(address);
        client.write_all(request).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.expect("a header") + 4);
        let header = String::from_utf8(answer).unwrap();
        Answer { header, body }
    });
    let output = server.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    successful(output);
    Some((answers, stderr))
}

/// An answer to an HTTP request.
#[derive(Debug)]
struct Answer {
    header: String,
    body: Vec<u8>,
}

#[test]
fn serve_file_answers_each_request_with_header_and_file() {
    let (dir, bytes) = scratch();
    let request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    let Some((answers, stderr)) = serve_requests(&dir.path().join("source"), [request; 2]) else {
        return;
    };
    for Answer { header, body } in answers {
        assert!(header.starts_with("HTTP/1.1 200 OK\r\n"), "{header}");
        assert!(header.contains(&format!("\r\nContent-Length: {LEN}\r\n")));
        assert_same(&body, &bytes, "the body");
    }
    let strategy = first_allowed(&[Strategy::Sendfile, Strategy::SplicePipe]);
    let report = format!("{LEN} bytes by {strategy}");
    assert_eq!(stderr.matches(&report).count(), 2, "{stderr}");
}

#[test]
fn serve_file_answers_with_the_whole_of_a_file_that_claims_to_be_empty() {
    let request = b"GET / HTTP/1.0\r\n\r\n";
    let Some(([answer], _)) = serve_requests(Path::new("/proc/version"), [request]) else {
        return;
    };
    assert!(answer.header.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(!answer.header.contains("Content-Length"), "{answer:?}");
    assert!(answer.header.contains("\r\nConnection: close\r\n"));
    assert_eq!(answer.body, fs::read("/proc/version").unwrap());
}

#[test]
fn serve_file_answers_head_without_a_body() {
    let (dir, _) = scratch();
    let request = b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n";
    let Some(([answer], _)) = serve_requests(&dir.path().join("source"), [request]) else {
        return;
    };
    assert!(answer.header.starts_with("HTTP/1.1 200 OK\r\n"));
    let length = format!("\r\nContent-Length: {LEN}\r\n");
    assert!(answer.header.contains(&length), "{answer:?}");
    assert!(answer.body.is_empty());
}

#[test]
fn serve_file_refuses_other_requests() {
    let (dir, bytes) = scratch();
    // More than the server reads: if the server just closed the connection, the kernel would reset
    // it.
    let post = [b"POST / HTTP/1.1\r\n\r\n", &bytes[..1 << 19]].concat();
    let requests: [&[u8]; 3] = [
        b"GET /favicon.ico HTTP/1.1\r\n\r\n",
        &post,
        b"hello\r\n\r\n",
    ];
    let Some((answers, stderr)) = serve_requests(&dir.path().join("source"), requests) else {
        return;
    };
    let statuses = answers.map(|answer| {
        assert!(answer.body.is_empty());
        answer.header.lines().next().unwrap().to_owned()
    });
    let expected = ["404 Not Found", "405 Method Not Allowed", "400 Bad Request"];
    assert_eq!(
        statuses,
        expected.map(|status| format!("HTTP/1.1 {status}"))
    );
    assert_eq!(stderr, "");
}

#[test]
fn serve_file_does_not_let_one_client_keep_others_waiting() {
    let Some(mut serve) = example("serve_file") else {
        return;
    };
    let (dir, bytes) = scratch();
    serve
        .current_dir(&dir)
        .args(["source", "127.0.0.1:0", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = serve.spawn().unwrap();
    let url = first_line(&mut server);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let silent = connect(address);
    let mut client = connect(address);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&bytes));
    // The server exits when both clients have closed.
    drop((client, silent));
    assert!(server.wait().unwrap().success());
}

#[test]
fn relay_passes_on_the_end_of_one_direction_and_keeps_the_other_open() {
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

    let time_limit = Timespec::try_from(TIME_LIMIT).unwrap();
    let mut waiting = [PollFd::new(&upstream, PollFlags::IN)];
    assert_eq!(poll(&mut waiting, Some(&time_limit)).unwrap(), 1);
    let (mut server, _) = upstream.accept().unwrap();
    server.set_read_timeout(Some(TIME_LIMIT)).unwrap();

    let request = pattern(LEN);
    let sent = request.clone();
    let sender = std::thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut arrived = Vec::new();
    // The read ends although the client has not closed, because the relay passes on the end of its
    // direction.
    server.read_to_end(&mut arrived).unwrap();
    assert_same(&arrived, &request, "the request");

    // Only now is the answer sent, in the direction that is still open.
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

/// The first line that a running example prints.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}
