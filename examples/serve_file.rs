//! Answers HTTP requests with one file, whose pages go to the socket without passing through here.
//!
//! `cargo run --release --example serve_file -- FILE [ADDRESS [CONNECTIONS]]`
//!
//! Listens on `127.0.0.1:8080` unless told otherwise; port 0 takes any. Says where on the first line
//! it prints, and ends after so many connections, or never. Each has a thread of its own, and one
//! request: `GET /` or `HEAD /`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write, stderr, stdout};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use zcopy::Transfer;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "serve_file: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments
        .next()
        .context("usage: serve_file FILE [ADDRESS [CONNECTIONS]]")?;
    let path = &PathBuf::from(path);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let address = address.to_string_lossy();
    let connections = arguments
        .next()
        .map_or(Ok(usize::MAX), |n| n.to_string_lossy().parse())
        .context("CONNECTIONS")?;

    let file = fs::metadata(path).with_context(|| path.display().to_string())?;
    ensure!(!file.is_dir(), "{}: it is a directory", path.display());
    let listener = TcpListener::bind(&*address).with_context(|| address.to_string())?;
    writeln!(stdout(), "http://{}/", listener.local_addr()?).context("standard output")?;
    thread::scope(|threads| {
        for client in listener.incoming().take(connections) {
            // One client's trouble is not the next one's.
            let report = |error: anyhow::Error| {
                let _ = writeln!(stderr(), "serve_file: {}: {error:#}", path.display());
            };
            let serve = move || {
                let answered = client.map_err(Into::into).and_then(|it| answer(&it, path));
                answered.unwrap_or_else(report);
            };
            let thread = thread::Builder::new().spawn_scoped(threads, serve);
            if let Err(error) = thread.context("a thread for a client") {
                report(error);
            }
        }
    });
    Ok(())
}

/// Reads one request and answers it.
fn answer(client: &TcpStream, path: &Path) -> anyhow::Result<()> {
    // Who says nothing for so long has gone.
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = request_line(client).context("request")?;
    let words: Vec<_> = request.split(' ').collect();
    match words[..] {
        ["GET", "/", _] => send(client, path, true)?,
        ["HEAD", "/", _] => send(client, path, false)?,
        ["GET" | "HEAD", _, _] => begin(client, "404 Not Found", Some(0))?,
        [_, _, _] => begin(
            client,
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            Some(0),
        )?,
        _ => begin(client, "400 Bad Request", Some(0))?,
    }
    // A socket that is closed with something still to be read is reset, and may lose the answer.
    client.shutdown(Shutdown::Write)?;
    let nowhere = File::create("/dev/null")?;
    // Nothing depends on what a client says after its request.
    let _ = Transfer::new(client, &nowhere).limit(1 << 20).run();
    Ok(())
}

/// The first line of a request, whose header is read to its end.
fn request_line(client: &TcpStream) -> io::Result<String> {
    let mut header = BufReader::new(client.take(16 << 10)).lines();
    let first = header.next().transpose()?.unwrap_or_default();
    for line in header {
        // An empty line ends the header.
        if line?.is_empty() {
            break;
        }
    }
    Ok(first)
}

/// Answers with the file, or with its header alone.
fn send(client: &TcpStream, path: &Path, with_body: bool) -> anyhow::Result<()> {
    // It was there when the server started, and may have gone since.
    let opened = File::open(path);
    if opened.is_err() {
        begin(client, "404 Not Found", Some(0))?;
    }
    let body = opened?;
    // Files in `/proc` claim to be empty, and only reading them tells.
    let length = Some(body.metadata()?.len()).filter(|length| *length > 0);
    begin(client, "200 OK", length)?;
    if with_body {
        let mut transfer = Transfer::new(&body, client);
        if let Some(length) = length {
            // No more than was announced, even if the file grows meanwhile.
            transfer = transfer.limit(length);
        }
        let report = transfer.run()?;
        let _ = writeln!(stderr(), "{report}");
        let is_whole = length.is_none_or(|length| length == report.bytes());
        ensure!(is_whole, "it ended before the length that was announced");
    }
    Ok(())
}

/// Writes a header. Without a length, the body ends where the connection does.
fn begin(mut client: &TcpStream, status: &str, length: Option<u64>) -> io::Result<()> {
    let length = length.map_or_else(String::new, |n| format!("Content-Length: {n}\r\n"));
    let header = format!("HTTP/1.1 {status}\r\n{length}Connection: close\r\n\r\n");
    client.write_all(header.as_bytes())
}
