//! `serve_file`, asked by curl.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use zcopy::Strategy;

use super::{LEN, Server, TIME_LIMIT, example, scratch, successful};
use crate::files::assert_same;
use crate::refused::first_allowed;
use crate::skip::{has_program, report};

/// Starts a server of a directory, with these arguments behind the address. `None`, reported, if
/// the example was not built or curl is missing.
fn serve(dir: &Path, arguments: &[&str]) -> Option<Server> {
    if !has_program("curl") {
        return None;
    }
    let mut serve = example("serve_file")?;
    serve.arg(dir).arg("127.0.0.1:0").args(arguments);
    Some(Server::spawn(&mut serve))
}

impl Server {
    /// curl, with the URLs of these files.
    fn curl(&self, files: &[&str]) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--path-as-is"]);
        curl.args(["--noproxy", "*", "--max-time", "60"]);
        curl.args(files.iter().map(|file| format!("{}{file}", self.address)));
        curl
    }

    /// The status line and the fields of the answer to HEAD or a request with these options.
    fn head(&self, file: &str, options: &[&str]) -> String {
        let mut curl = self.curl(&[file]);
        curl.args(["--output", "/dev/null", "--dump-header", "-"]);
        successful(curl.args(options).output().unwrap())
    }

    /// Sends these bytes, and returns what comes back until the server closes the connection.
    fn talk(&self, request: &[u8]) -> String {
        let address = self.address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address.trim_end_matches('/')).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[track_caller]
fn body(output: Output) -> Vec<u8> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    output.stdout
}

#[test]
fn serve_file_sends_whole_files_and_reports_the_strategy() {
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("a name"), b"short").unwrap();
    fs::write(dir.path().join("empty"), b"").unwrap();
    let Some(server) = serve(dir.path(), &[]) else {
        return;
    };
    assert_same(
        &body(server.curl(&["source"]).output().unwrap()),
        &bytes,
        "source",
    );
    let short = server.curl(&["a%20name?query"]).output().unwrap();
    assert_eq!(body(short), b"short");
    assert_eq!(body(server.curl(&["empty"]).output().unwrap()), b"");
    server.signal(Signal::TERM);
    let (_, _, stderr) = server.wait();
    let strategy = first_allowed(&[Strategy::Sendfile, Strategy::SplicePipe]);
    let report = stderr.lines().next().unwrap();
    assert!(report.starts_with("GET /source: "), "{stderr}");
    assert!(report.contains(&format!(" by {strategy} in ")), "{stderr}");
}

#[test]
fn serve_file_sends_ranges() {
    let (dir, bytes) = scratch();
    let Some(server) = serve(dir.path(), &[]) else {
        return;
    };
    for (range, start, end) in [
        ("0-0", 0, 1),
        ("1000000-1999999", 1_000_000, 2_000_000),
        ("5-99999999999", 5, LEN),
        ("3000000-", 3_000_000, LEN),
        ("-7", LEN - 7, LEN),
        ("-99999999999", 0, LEN),
    ] {
        let mut curl = server.curl(&["source"]);
        let part = body(curl.args(["--range", range]).output().unwrap());
        assert_same(&part, &bytes[start..end], range);
        let head = server.head("source", &["--range", range]);
        assert!(
            head.starts_with("HTTP/1.1 206 Partial Content\r\n"),
            "{head}"
        );
        let field = format!("\r\nContent-Range: bytes {start}-{}/{LEN}\r\n", end - 1);
        assert!(head.contains(&field), "{range}: {head}");
    }
    let head = server.head("source", &["--range", &format!("{LEN}-")]);
    assert!(head.starts_with("HTTP/1.1 416 "), "{head}");
    let field = format!("\r\nContent-Range: bytes */{LEN}\r\n");
    assert!(head.contains(&field), "{head}");
    // Several ranges would need several parts; the whole file is a right answer, too.
    let head = server.head("source", &["--header", "Range: bytes=0-1,5-6"]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
}

#[test]
fn serve_file_lets_a_download_resume() {
    let (dir, bytes) = scratch();
    let Some(server) = serve(dir.path(), &[]) else {
        return;
    };
    let part = dir.path().join("part");
    fs::write(&part, &bytes[..1_234_567]).unwrap();
    let mut curl = server.curl(&["source"]);
    curl.args(["--continue-at", "-", "--output"]).arg(&part);
    // curl says how much came over the connection.
    curl.args(["--write-out", "%{size_download}"]);
    let downloaded = successful(curl.output().unwrap());
    assert_eq!(downloaded, (LEN - 1_234_567).to_string());
    assert_same(&fs::read(part).unwrap(), &bytes, "the resumed file");
}

#[test]
fn serve_file_answers_several_requests_over_one_connection() {
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("short"), b"short").unwrap();
    let Some(server) = serve(dir.path(), &[]) else {
        return;
    };
    let mut curl = server.curl(&["source", "short", "source"]);
    curl.args(["--write-out", "%{stderr}%{num_connects}\n"]);
    let output = curl.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "1\n0\n0\n");
    let expected = [&bytes, &b"short"[..], &bytes].concat();
    assert_same(&body(output), &expected, "three answers");

    // A client may send its next requests before it has read an answer.
    let both = server.talk(
        b"GET /short HTTP/1.1\r\nHost: here\r\n\r\n\
          GET /short HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(both.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{both}");
    assert_eq!(both.matches("short").count(), 2, "{both}");
    let old = server.talk(b"GET /short HTTP/1.0\r\n\r\n");
    assert!(old.ends_with("\r\nConnection: close\r\n\r\nshort"), "{old}");
}

#[test]
fn serve_file_answers_head_without_a_body() {
    let (dir, _) = scratch();
    let Some(server) = serve(dir.path(), &[]) else {
        return;
    };
    // The second answer would not be understood if the first one had a body.
    let mut curl = server.curl(&["source", "source"]);
    let heads = successful(curl.arg("--head").output().unwrap());
    assert_eq!(heads.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{heads}");
    let length = format!("\r\nContent-Length: {LEN}\r\n");
    assert_eq!(heads.matches(&length).count(), 2, "{heads}");
}

#[test]
fn serve_file_refuses_other_requests_and_serves_nothing_outside_its_directory() {
    let (dir, bytes) = scratch();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("directory")).unwrap();
    if let Err(errno) = mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RWXU, 0) {
        report(&format!("the file system makes no FIFO: {errno}"));
        // One in user space leaves an empty file.
        let _ = fs::remove_file(root.join("fifo"));
    }
    let Some(server) = serve(&root, &[]) else {
        return;
    };
    for path in [
        "missing",
        "",
        "directory",
        "fifo",
        "../source",
        "directory/../../source",
        "%2e%2e/source",
        "%2E%2e%2fsource",
        "/etc/passwd",
        "%2fetc/passwd",
        "%zz",
        "%",
        "directory%00",
    ] {
        let head = server.head(path, &[]);
        assert!(
            head.starts_with("HTTP/1.1 404 Not Found\r\n"),
            "{path}: {head}"
        );
    }
    // More than the server reads: if it just closed the connection, the kernel would reset it.
    let post = [b"POST / HTTP/1.1\r\n\r\n", &bytes[..1 << 19]].concat();
    let long = [
        "GET / HTTP/1.1\r\n",
        &"Field: value\r\n".repeat(5000),
        "\r\n",
    ]
    .concat();
    let with_body = b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    for (request, status) in [
        (&post[..], "405 Method Not Allowed"),
        (b"hello\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/2\r\n\r\n", "400 Bad Request"),
        (with_body, "400 Bad Request"),
        (long.as_bytes(), "400 Bad Request"),
    ] {
        let answer = server.talk(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
    }
    server.signal(Signal::TERM);
    let (_, _, stderr) = server.wait();
    assert_eq!(stderr, "");
}

/// Asserts a lower bound alone: a busy machine takes longer.
#[test]
fn serve_file_keeps_two_downloads_together_to_the_rate() {
    const RATE: u32 = 8_000_000;
    let (dir, bytes) = scratch();
    let Some(server) = serve(dir.path(), &[&RATE.to_string()]) else {
        return;
    };
    let start = Instant::now();
    let downloads = [(); 2].map(|()| {
        let mut curl = server.curl(&["source"]);
        curl.stdout(Stdio::piped()).spawn().unwrap()
    });
    // Each is read to its end while the other one waits for room: both have to be running.
    let downloads =
        downloads.map(|child| std::thread::spawn(move || child.wait_with_output().unwrap()));
    for download in downloads {
        assert_same(&body(download.join().unwrap()), &bytes, "a download");
    }
    // At most a tenth of a second's bytes pass at once.
    let burst = Duration::from_millis(150);
    let least = Duration::from_secs(2 * LEN as u64) / RATE;
    assert!(start.elapsed() + burst >= least, "{:?}", start.elapsed());
}

#[test]
fn serve_file_goes_on_after_clients_that_are_silent_or_leave() {
    let (dir, bytes) = scratch();
    let Some(server) = serve(dir.path(), &["20000000", "3"]) else {
        return;
    };
    let address = server
        .address
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let silent = TcpStream::connect(address).unwrap();
    let mut leaving = TcpStream::connect(address).unwrap();
    leaving.write_all(b"GET /source HTTP/1.1\r\n\r\n").unwrap();
    leaving.read_exact(&mut [0]).unwrap();
    // Unread bytes reset the connection.
    drop(leaving);
    let third = server.curl(&["source"]).output().unwrap();
    assert_same(&body(third), &bytes, "the third client");
    drop(silent);
    let (status, _, stderr) = server.wait();
    assert!(status.success());
    let complaints = stderr
        .lines()
        .filter(|line| line.starts_with("serve_file: "));
    for complaint in complaints {
        // The client may have left before or after the server had sent everything.
        assert!(complaint.starts_with("serve_file: /source: "), "{stderr}");
    }
}
