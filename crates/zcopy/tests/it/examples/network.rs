//! The examples that use TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{LEN, TIME_LIMIT, example};
use crate::files::{assert_same, pattern};

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
