//! The ways to move bytes that `relays` compares.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use zcopy::{Relay, Transfer};

use crate::runtime::runtime;

/// One way to move everything from a source to a sink.
pub(crate) struct Mover {
    pub(crate) name: &'static str,
    pub(crate) run: fn(OwnedFd, TcpStream),
}

pub(crate) const TCP_TO_TCP: &[Mover] = &[
    Mover {
        name: "zcopy::Relay::run",
        run: |source, sink| {
            let source = TcpStream::from(source);
            for end in [&source, &sink] {
                end.set_nonblocking(true).expect("a socket has modes");
            }
            let report = Relay::new(source, sink).run();
            report.expect("both ends are open");
        },
    },
    Mover {
        name: "zcopy::Relay::run, blocking mode",
        run: |source, sink| {
            let report = Relay::new(TcpStream::from(source), sink).run();
            report.expect("both ends are open");
        },
    },
    #[cfg(feature = "tokio")]
    Mover {
        name: "zcopy::Relay::run_async",
        run: |source, sink| {
            runtime().block_on(async {
                let (source, sink) = (async_tcp(source.into()), async_tcp(sink));
                let report = Relay::new(source, sink).run_async().await;
                report.expect("both ends are open");
            });
        },
    },
    Mover {
        name: "tokio_splice2::copy_bidirectional",
        run: |source, sink| {
            runtime().block_on(async {
                let (mut source, mut sink) = (async_tcp(source.into()), async_tcp(sink));
                let moved = tokio_splice2::copy_bidirectional(&mut source, &mut sink).await;
                moved.expect("both ends are open");
            });
        },
    },
    Mover {
        name: "tokio::io::copy_bidirectional",
        run: |source, sink| {
            runtime().block_on(async {
                let (mut source, mut sink) = (async_tcp(source.into()), async_tcp(sink));
                let moved = tokio::io::copy_bidirectional(&mut source, &mut sink).await;
                moved.expect("both ends are open");
            });
        },
    },
    Mover {
        name: "read and write, 256 KiB, one way",
        run: |source, mut sink| {
            let mut source = TcpStream::from(source);
            let mut room = vec![0; 256 << 10];
            loop {
                let n = source.read(&mut room).expect("the source is open");
                if n == 0 {
                    break;
                }
                sink.write_all(&room[..n]).expect("the sink is open");
            }
        },
    },
];

pub(crate) const FILE_TO_TCP: &[Mover] = &[
    Mover {
        name: "zcopy::Transfer::run",
        run: |source, sink| {
            let report = Transfer::new(source, sink).run();
            report.expect("both ends are open");
        },
    },
    #[cfg(feature = "tokio")]
    Mover {
        name: "zcopy::Transfer::run_async",
        run: |source, sink| {
            runtime().block_on(async {
                let report = Transfer::new(File::from(source), async_tcp(sink))
                    .run_async()
                    .await;
                report.expect("both ends are open");
            });
        },
    },
    Mover {
        name: "tokio_splice2::sendfile",
        run: |source, sink| {
            runtime().block_on(async {
                let (mut source, mut sink) = (async_file(source), async_tcp(sink));
                let len = source.metadata().await.expect("it is open").len();
                // 0.3.2 counts each byte twice, and would end after half of the file.
                let moved = tokio_splice2::sendfile(&mut source, &mut sink, 2 * len, None, None);
                moved.await.expect("both ends are open");
            });
        },
    },
    Mover {
        name: "tokio::io::copy",
        run: |source, sink| {
            runtime().block_on(async {
                let (mut source, mut sink) = (async_file(source), async_tcp(sink));
                let moved = tokio::io::copy(&mut source, &mut sink).await;
                moved.expect("both ends are open");
            });
        },
    },
    Mover {
        name: "std::io::copy",
        run: |source, mut sink| {
            let moved = std::io::copy(&mut File::from(source), &mut sink);
            moved.expect("both ends are open");
        },
    },
];

fn async_file(file: OwnedFd) -> tokio::fs::File {
    tokio::fs::File::from_std(File::from(file))
}

fn async_tcp(socket: TcpStream) -> tokio::net::TcpStream {
    socket.set_nonblocking(true).expect("a socket has modes");
    tokio::net::TcpStream::from_std(socket).expect("the runtime is entered")
}
