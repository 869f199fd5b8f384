//! Several sinks in a task of tokio: each gets every byte once, wherever the future is dropped.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::time::Duration;

use zcopy::tokio::AsyncEnd;
use zcopy::{Ended, FanOut, OnSinkError, Report, Stop};

use crate::skip::has_program;
use crate::support::{block_on, bytes, drain, feed, file, polled_at_most, tcp_pair, tokio_tcp};

/// More than the buffers of a socket and of a pipe hold.
const LEN: usize = (4 << 20) + 7;

/// How often a future is polled before it is dropped.
const POLLS: [usize; 5] = [1, 2, 3, 7, usize::MAX];

/// Drives a fan-out to its end by futures of which each is polled `polls` times.
async fn run<Source: AsyncEnd>(fan_out: FanOut<'static, Source>, polls: usize) -> Report {
    let mut session = fan_out.start().unwrap();
    loop {
        assert!(polled_at_most(0, session.drive_async()).await.is_none());
        if let Some(ended) = polled_at_most(polls, session.drive_async()).await {
            assert_eq!(ended.unwrap(), Ended::Eof);
            return session.finish_async().await.unwrap();
        }
        tokio::task::yield_now().await;
    }
}

fn check(report: &Report, found: &[Vec<u8>], sent: &[u8], polls: usize) {
    for (sink, found) in report.sinks().iter().zip(found) {
        let index = sink.index();
        assert!(
            found == sent,
            "sink {index}, polled {polls} times: {report}"
        );
        assert_eq!((sink.bytes(), sink.ahead()), (sent.len() as u64, 0));
    }
    assert_eq!(report.sinks().len(), found.len());
    assert!(report.undelivered().is_empty());
}

#[test]
fn sockets_and_pipes_get_every_byte_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let ((client, source), (first, server)) = (tcp_pair(), tcp_pair());
        let ((reader, second), (third, peer)) = (std::io::pipe().unwrap(), tcp_pair());
        let feeding = feed(client, sent.clone());
        let draining = [drain(server), drain(reader), drain(peer)];
        let report = block_on(async {
            let fan_out = FanOut::new(tokio_tcp(source), tokio_tcp(first));
            run(fan_out.also_to(second).also_to(tokio_tcp(third)), polls).await
        });
        feeding.join().unwrap();
        let found = draining.map(|thread| thread.join().unwrap());
        check(&report, &found, &sent, polls);
    }
}

#[test]
fn a_pipe_is_duplicated_to_pipes_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let (source, writer) = std::io::pipe().unwrap();
        let pipes = [(); 3].map(|()| std::io::pipe().unwrap());
        let feeding = feed(writer, sent.clone());
        let [(a, first), (b, second), (c, third)] = pipes;
        let draining = [drain(a), drain(b), drain(c)];
        let report = block_on(async {
            run(
                FanOut::new(source, first).also_to(second).also_to(third),
                polls,
            )
            .await
        });
        feeding.join().unwrap();
        let found = draining.map(|thread| thread.join().unwrap());
        check(&report, &found, &sent, polls);
    }
}

#[test]
fn files_at_either_end_are_served_by_the_pool_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let (sent, copy) = (bytes(LEN), Arc::new(file(b"")));
        let ((client, source), (sink, server)) = (tcp_pair(), tcp_pair());
        let (feeding, draining) = (feed(client, sent.clone()), drain(server));
        let report = block_on(async {
            let fan_out = FanOut::new(tokio_tcp(source), tokio_tcp(sink));
            run(fan_out.also_to(Arc::clone(&copy)), polls).await
        });
        feeding.join().unwrap();
        let found = [draining.join().unwrap(), contents(&copy)];
        check(&report, &found, &sent, polls);

        let (copy, (sink, server)) = (Arc::new(file(b"")), tcp_pair());
        let draining = drain(server);
        let report = block_on(async {
            let fan_out = FanOut::new(file(&sent), Arc::clone(&copy));
            run(fan_out.also_to(tokio_tcp(sink)), polls).await
        });
        let found = [contents(&copy), draining.join().unwrap()];
        check(&report, &found, &sent, polls);
    }
}

fn contents(mut file: &File) -> Vec<u8> {
    let mut found = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut found).unwrap();
    found
}

#[test]
fn a_sink_that_is_full_holds_up_the_others_and_wakes_the_task_when_it_has_room() {
    let (source, mut writer) = std::io::pipe().unwrap();
    let (mut reader, sink) = std::io::pipe().unwrap();
    let (mut slow_reader, full) = std::io::pipe().unwrap();
    (&full).write_all(&vec![7; 64 << 10]).unwrap();
    block_on(async {
        let fan_out = FanOut::new(source, sink).also_to(full).grow_pipes(false);
        let task = tokio::spawn(fan_out.run_async());
        writer.write_all(b"hello").unwrap();
        drop(writer);
        // The fan-out has served the sink with room, and waits for the other one.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut word = [0; 5];
        reader.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"hello");

        let mut begin = vec![0; 64 << 10];
        slow_reader.read_exact(&mut begin).unwrap();
        let report = task.await.unwrap().unwrap();
        assert_eq!((report.bytes(), report.ended()), (5, Ended::Eof));
    });
    assert_eq!(std::io::read_to_string(slow_reader).unwrap(), "hello");
}

#[test]
fn a_stop_and_an_idle_time_end_a_fan_out_whose_source_is_silent() {
    let stop = Stop::new().unwrap();
    block_on(async {
        for is_stopped in [true, false] {
            let (source, _writer) = std::io::pipe().unwrap();
            let null = || File::create("/dev/null").unwrap();
            let fan_out = FanOut::new(source, null()).also_to(null());
            let (fan_out, ended) = if is_stopped {
                (fan_out.stop_with(&stop), Ended::Stopped)
            } else {
                let timeout = Duration::from_millis(10);
                (fan_out.idle_timeout(timeout), Ended::TimedOut)
            };
            let mut session = fan_out.start().unwrap();
            assert!(polled_at_most(1, session.drive_async()).await.is_none());
            stop.stop();
            assert_eq!(session.drive_async().await.unwrap(), ended);
        }
    });
}

#[test]
fn a_sink_whose_reader_has_gone_is_detached_and_the_others_get_the_rest() {
    let sent = bytes(LEN);
    let (source, writer) = std::io::pipe().unwrap();
    let ((sink, server), (gone, peer)) = (tcp_pair(), std::io::pipe().unwrap());
    drop(gone);
    let (feeding, draining) = (feed(writer, sent.clone()), drain(server));
    let report = block_on(async {
        let fan_out = FanOut::new(source, tokio_tcp(sink)).also_to(peer);
        fan_out
            .on_sink_error(OnSinkError::Detach)
            .run_async()
            .await
            .unwrap()
    });
    feeding.join().unwrap();
    assert!(draining.join().unwrap() == sent, "{report}");
    assert!(report.sinks()[1].error().is_some());
}

#[test]
fn the_same_descriptor_may_be_a_sink_twice() {
    let (sent, copy) = (bytes(1000), Arc::new(file(b"")));
    block_on(async {
        let fan_out = FanOut::new(file(&sent), Arc::clone(&copy)).also_to(Arc::clone(&copy));
        run(fan_out, usize::MAX).await
    });
    let mut found = contents(&copy);
    assert_eq!(found.len(), 2000);
    found.sort_unstable();
    let mut expected = [&sent[..], &sent[..]].concat();
    expected.sort_unstable();
    assert!(found == expected);
}

#[test]
fn a_reader_that_closes_is_noticed_while_the_source_is_silent() {
    let (source, _writer) = std::io::pipe().unwrap();
    let (reader, first) = std::io::pipe().unwrap();
    let (peer, second) = std::os::unix::net::UnixStream::pair().unwrap();
    let report = block_on(async {
        let fan_out = FanOut::new(source, first).also_to(second);
        let fan_out = fan_out
            .watch_readers(true)
            .on_sink_error(OnSinkError::Detach);
        let mut session = fan_out.start().unwrap();
        assert!(polled_at_most(1, session.drive_async()).await.is_none());
        drop(reader);
        let driven = polled_at_most(3, session.drive_async());
        let driven = tokio::time::timeout(Duration::from_millis(20), driven).await;
        assert!(!matches!(driven, Ok(Some(_))), "the second sink is left");
        drop(peer);
        assert_eq!(session.drive_async().await.unwrap(), Ended::NoSink);
        session.finish().unwrap()
    });
    assert!(report.sinks().iter().all(|sink| sink.error().is_some()));
}

#[test]
fn a_fan_out_that_watches_its_readers_sleeps() {
    let (source, _writer) = std::io::pipe().unwrap();
    let (_reader, first) = std::io::pipe().unwrap();
    let (second, _peer) = tcp_pair();
    block_on(async {
        let fan_out = FanOut::new(source, first)
            .also_to(second)
            .watch_readers(true);
        let mut session = fan_out.start().unwrap();
        let mut n_polls = 0;
        let mut driving = std::pin::pin!(session.drive_async());
        let counting = std::future::poll_fn(|context| {
            n_polls += 1;
            driving.as_mut().poll(context)
        });
        let driven = tokio::time::timeout(Duration::from_millis(50), counting).await;
        assert!(driven.is_err(), "no process has written");
        assert!(n_polls < 10, "{n_polls} polls");
    });
}

/// How often this thread has slept in the kernel.
fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("voluntary_ctxt_switches"));
    let (_, count) = line.unwrap().split_once(':').unwrap();
    count.trim().parse().unwrap()
}

/// Runs a Python script whose standard input is a socket.
async fn run_python(script: &str, socket: &std::net::TcpStream) {
    let mut command = std::process::Command::new("python3");
    let socket = socket.try_clone().unwrap();
    command
        .args(["-c", script])
        .stdin(std::os::fd::OwnedFd::from(socket));
    let status = tokio::task::spawn_blocking(move || command.status())
        .await
        .unwrap();
    assert!(status.unwrap().success());
}

/// Another process sends with `MSG_ZEROCOPY` on a sink, and reads the completions later.
#[test]
fn completions_that_have_been_read_wake_a_watched_fan_out_no_more() {
    if !has_program("python3") {
        return;
    }
    let (sink, mut reader) = tcp_pair();
    let (source, mut writer) = std::io::pipe().unwrap();
    let null = File::create("/dev/null").unwrap();
    let beside = sink.try_clone().unwrap();
    let switches = block_on(async {
        let fan_out = FanOut::new(source, sink).also_to(null).watch_readers(true);
        let fan_out = tokio::spawn(fan_out.run_async());
        tokio::time::sleep(Duration::from_millis(20)).await;
        // 1 is SOL_SOCKET, 60 is SO_ZEROCOPY, and 0x4000000 is MSG_ZEROCOPY.
        let sends = "import socket; s = socket.socket(fileno=0); \
                     s.setsockopt(1, 60, 1); s.send(b'x' * 10, 0x4000000)";
        run_python(sends, &beside).await;
        // The fan-out looks at the socket again after 100 ms.
        tokio::time::sleep(Duration::from_millis(150)).await;
        let reads = "import socket; socket.socket(fileno=0).recvmsg(1, 512, socket.MSG_ERRQUEUE)";
        run_python(reads, &beside).await;
        tokio::time::sleep(Duration::from_millis(250)).await;
        let before = voluntary_switches();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let switches = voluntary_switches() - before;
        writer.write_all(b"hello").unwrap();
        drop(writer);
        let report = fan_out.await.unwrap().unwrap();
        assert_eq!((report.bytes(), report.ended()), (5, Ended::Eof));
        switches
    });
    let mut found = [0; 15];
    reader.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"xxxxxxxxxxhello");
    assert!(
        switches < 40,
        "the thread has slept {switches} times in 400 ms"
    );
}
