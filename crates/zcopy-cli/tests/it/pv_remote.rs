//! `zc-pv -R` and `-Q`: a running `zc-pv` is changed, or queried, by another one.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use tempfile::TempDir;

use crate::child::{end_of, read_exactly, zc_pv};
use crate::screen::Terminal;
use crate::script::run_tool;
use crate::skip::{is_root, report, skip};

/// How long something may take that takes no time unless it never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user with a home, and nothing in it.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn zc_pv(&self, arguments: &[&str]) -> Command {
        let mut command = zc_pv();
        command.args(arguments).env("HOME", self.home.path());
        command
    }

    /// Where requests are made known, unless the machine has a directory for that.
    fn directory(&self) -> PathBuf {
        self.home.path().join(".zc-pv")
    }

    /// What comes of `-R` or `-Q` with these options.
    fn asks(&self, option: &str, pid: u32, options: &[&str]) -> Output {
        let pid = pid.to_string();
        let mut command = self.zc_pv(&[option, &pid]);
        command.args(options).stdin(Stdio::null());
        command.output().unwrap()
    }

    #[track_caller]
    fn changes(&self, pid: u32, options: &[&str]) {
        let output = self.asks("-R", pid, options);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    }
}

/// Whether requests are made known in the home.
fn uses_home() -> bool {
    let run = format!("/run/user/{}", rustix::process::geteuid().as_raw());
    let uses_home = !Path::new(&run).exists();
    if !uses_home {
        report("requests are in /run/user, where no test may make a mess");
    }
    uses_home
}

/// A process in which requests find somebody to answer them.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.spawn().unwrap();
        has_begun(child.id());
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a process takes requests.
#[track_caller]
fn has_begun(pid: u32) {
    let begin = Instant::now();
    let takes_signals = |thread: fs::DirEntry| {
        let comm = fs::read(thread.path().join("comm")).unwrap_or_default();
        comm == b"zc-pv signals\n"
    };
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    while !threads().flatten().any(takes_signals) {
        assert!(begin.elapsed() < PATIENCE, "it does not begin");
        thread::sleep(Duration::from_millis(1));
    }
}

/// It ended with 1 and said this.
#[track_caller]
fn fails(output: &Output, message: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = format!("zc-pv: {message}\n");
    assert_eq!((output.status.code(), &*stderr), (Some(1), &*expected));
}

#[test]
fn the_rate_limit_is_taken_off_and_set_under_way() {
    for limited in [&["-L", "1"][..], &[]] {
        let user = User::new();
        let mut command = user.zc_pv(&["-q", "/dev/zero"]);
        command.args(limited).stdout(Stdio::piped());
        let mut running = Running::start(&mut command);
        let output = OwnedFd::from(running.0.stdout.take().unwrap());
        let mut output = fs::File::from(output);
        user.changes(running.pid(), &["-L", "0"]);
        // At the old rate it would take a day or more.
        read_exactly(output.try_clone().unwrap(), 8 << 20);
        let arrived = Arc::new(AtomicU64::new(0));
        let counter = arrived.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                counter.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        user.changes(running.pid(), &["-L", "1000"]);
        // The bytes in the pipe arrive first.
        let begin = Instant::now();
        let mut n_slow = 0;
        while n_slow < 3 {
            let before = arrived.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(150));
            let moved = arrived.load(Ordering::Relaxed) - before;
            n_slow = if moved < 10_000 { n_slow + 1 } else { 0 };
            assert!(begin.elapsed() < PATIENCE, "{moved} bytes at once");
        }
    }
}

/// A change restarts the transfer, which may hold bytes that it has taken out of its source.
#[test]
fn no_change_loses_a_byte() {
    let user = User::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_ne_bytes).collect();
    let mut command = user.zc_pv(&["-q", "-s", "1K"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut input = running.0.stdin.take().unwrap();
    let written = bytes.clone();
    thread::spawn(move || input.write_all(&written));
    let mut output = running.0.stdout.take().unwrap();
    let mut read = Vec::new();
    for n in 0..20 {
        let options: &[&str] = match n % 4 {
            0 => &["-L", "100M"],
            1 => &["-L", "0"],
            2 => &["-A", "10", "-L", "50M"],
            _ => &["-L", "0", "-N", "name"],
        };
        user.changes(running.pid(), options);
        let mut part = vec![0; 300_000];
        output.read_exact(&mut part).unwrap();
        read.extend_from_slice(&part);
    }
    output.read_to_end(&mut read).unwrap();
    assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
}

#[test]
fn the_size_at_which_it_stops_is_changed_under_way() {
    for (options, size) in [(["-s", "3M"], 3 << 20), (["-s", "200K"], 200 << 10)] {
        let user = User::new();
        let mut command = user.zc_pv(&["-q", "-L", "100K", "-Ss", "1M", "/dev/zero"]);
        command.stdout(Stdio::piped());
        let mut running = Running::start(&mut command);
        let mut output = running.0.stdout.take().unwrap();
        user.changes(running.pid(), &options);
        user.changes(running.pid(), &["-L", "0"]);
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), size);
    }
}

#[test]
fn a_name_and_a_format_appear_on_the_terminal_and_go_with_the_next_change() {
    let user = User::new();
    let pidfile = user.home.path().join("pid");
    let arguments = [
        "-i",
        "0.1",
        "-L",
        "1",
        "-s",
        "1000",
        "-o",
        "/dev/null",
        "-P",
    ];
    let mut command = user.zc_pv(&arguments);
    command.arg(&pidfile).arg("/dev/zero").env("TERM", "xterm");
    let terminal = Terminal::spawn(&command, 8, 80);
    terminal.wait_for(|seen| seen.row(0).contains("ETA"));
    let pid = fs::read_to_string(&pidfile).unwrap();
    let pid = pid.trim().parse().unwrap();
    user.changes(pid, &["-N", "other", "-F", "%N so much: %b"]);
    terminal.wait_for(|seen| seen.row(0).starts_with("    other: so much: "));
    user.changes(pid, &["-N", "third", "-t"]);
    terminal.wait_for(|seen| {
        seen.row(0).starts_with("    third: 0:00:0") && !seen.row(0).contains('[')
    });
    user.changes(pid, &["-w", "60", "-s", "2000"]);
    terminal.wait_for(|seen| {
        let row = seen.row(0);
        row.contains("/s] [") && row.contains("ETA 0:3") && row.len() <= 60
    });
    terminal.signal(rustix::process::Signal::INT);
}

#[test]
fn a_query_shows_what_the_other_one_would_and_ends_with_it() {
    let user = User::new();
    for shown in ["-q", "-n"] {
        let mut command = user.zc_pv(&[shown, "-s", "4M"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut running = Running::start(&mut command);
        let mut input = running.0.stdin.take().unwrap();
        input.write_all(&vec![0; 1 << 20]).unwrap();
        let pid = running.pid().to_string();
        let mut command = user.zc_pv(&["-Q", &pid, "--json", "-i", "0.1"]);
        let mut query = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(query.stderr.take().unwrap()).lines();
        let expected = |line: &str, bytes: u32, percent: &str| {
            line.contains(&format!(
                "\"bytes\":{bytes},\"total\":4194304,\"percent\":{percent},"
            ))
        };
        let has_come = |line: &String| expected(line, 1 << 20, "25.0");
        assert!(
            lines
                .by_ref()
                .map(Result::unwrap)
                .any(|line| has_come(&line))
        );
        input.write_all(&vec![0; 1 << 20]).unwrap();
        drop(input);
        let last = lines.map(Result::unwrap).last().unwrap();
        assert!(expected(&last, 2 << 20, "50.0"), "{last}");
        assert!(last.contains("\"over\":true"), "{last}");
        assert!(end_of(query).success());
    }
}

#[test]
fn a_query_counts_what_the_other_one_counts() {
    let user = User::new();
    let mut command = user.zc_pv(&["-q", "-l", "-s", "4"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut running = Running::start(&mut command);
    let mut input = running.0.stdin.take().unwrap();
    input.write_all(b"one\ntwo\n").unwrap();
    let pid = running.pid().to_string();
    let mut command = user.zc_pv(&[
        "-Q",
        &pid,
        "-f",
        "-i",
        "0.1",
        "-F",
        "%b %{progress-amount-only};",
    ]);
    let mut query = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(query.stderr.take().unwrap()).split(b';');
    assert!(
        shown
            .by_ref()
            .any(|line| line.unwrap().ends_with(b"2.00   50%"))
    );
    drop(input);
    shown.for_each(drop);
    assert!(end_of(query).success());
}

#[test]
fn who_queries_is_queried_and_changed_too() {
    let user = User::new();
    let mut command = user.zc_pv(&["-q", "-s", "10"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut running = Running::start(&mut command);
    running
        .0
        .stdin
        .as_ref()
        .unwrap()
        .write_all(b"12345")
        .unwrap();
    let pid = running.pid().to_string();
    let query = Running::start(&mut user.zc_pv(&["-qQ", &pid]));
    user.changes(query.pid(), &["-N", "name"]);
    let pid = query.pid().to_string();
    let mut second = user.zc_pv(&["-nQ", &pid, "-i", "0.1"]);
    let mut second = second.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(second.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "50"));
    drop(running.0.stdin.take());
    lines.for_each(drop);
    assert!(end_of(second).success());
}

/// pv sends its signal to any process, which ends most of them.
#[test]
fn a_process_that_is_no_zc_pv_is_left_alone() {
    let user = User::new();
    let mut other = Running(Command::new("sleep").arg("60").spawn().unwrap());
    for option in ["-R", "-Q"] {
        let output = user.asks(option, other.pid(), &[]);
        fails(
            &output,
            &format!("pid {}: not a running zc-pv", other.pid()),
        );
    }
    assert!(other.0.try_wait().unwrap().is_none(), "it has ended");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    for pid in [0, ended.id(), i32::MAX.cast_unsigned()] {
        let output = user.asks("-R", pid, &[]);
        fails(&output, &format!("pid {pid}: No such process"));
    }
}

/// One that was stopped answers later callers.
#[test]
fn a_process_that_does_not_answer_is_not_waited_for() {
    let user = User::new();
    let mut running = Running::start(
        user.zc_pv(&["-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null()),
    );
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let output = user.asks("-R", running.pid(), &["-L", "1"]);
    fails(&output, &format!("{}: message not received", running.pid()));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    user.changes(running.pid(), &["-L", "1"]);
    drop(running.0.stdin.take());
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn another_user_is_refused_and_so_is_root() {
    if !is_root() {
        return;
    }
    let user = User::new();
    fs::set_permissions(user.home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let by_nobody = |arguments: &[&str]| {
        let mut command = user.zc_pv(arguments);
        command.uid(65534).gid(65534).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command
    };
    let runs = by_nobody(&["-V"]).status();
    if let Err(error) = runs {
        return skip(&format!("nobody may not run the tool: {error}"));
    }
    let roots = Running::start(
        user.zc_pv(&["-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null()),
    );
    let nobodys = Running::start(&mut by_nobody(&["-q"]));
    for option in ["-R", "-Q"] {
        let pid = roots.pid().to_string();
        let output = by_nobody(&[option, &pid]).output().unwrap();
        fails(&output, &format!("pid {pid}: Operation not permitted"));
        let output = user.asks(option, nobodys.pid(), &[]);
        let message = format!("pid {}: Operation not permitted", nobodys.pid());
        fails(&output, &message);
    }
}

#[test]
fn sockets_of_dead_processes_are_removed() {
    let user = User::new();
    if !uses_home() {
        return;
    }
    let running = Running::start(
        user.zc_pv(&["-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null()),
    );
    let directory = user.directory();
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    let victim = user.home.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    // Of this process, which lives on: its number says nothing.
    let own = std::process::id();
    let names = [
        format!("zc-pv.{}.{own}", running.pid()),
        format!("zc-pv.{}.1", running.pid()),
        format!("zc-pv.1.{own}"),
    ];
    drop(UnixListener::bind(directory.join(&names[0])).unwrap());
    symlink(&victim, directory.join(&names[1])).unwrap();
    drop(UnixListener::bind(directory.join(&names[2])).unwrap());
    for name in &names {
        let long_ago = Timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: long_ago,
            last_modification: long_ago,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        utimensat(CWD, directory.join(name), &times, flags).unwrap();
    }
    user.changes(running.pid(), &["-L", "1"]);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(fs::read(&victim).unwrap(), b"kept");
}

#[test]
fn a_directory_that_others_can_write_to_or_have_put_there_is_not_used() {
    let user = User::new();
    if !uses_home() {
        return;
    }
    let running = Running::start(
        user.zc_pv(&["-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null()),
    );
    let directory = user.directory();
    let elsewhere = user.home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &directory).unwrap();
    let output = user.asks("-R", running.pid(), &["-L", "1"]);
    fails(
        &output,
        &format!("{}: Not a directory", directory.display()),
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);

    fs::remove_file(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let output = user.asks("-Q", running.pid(), &[]);
    fails(
        &output,
        &format!("{}: Operation not permitted", directory.display()),
    );
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn who_is_not_asked_needs_no_home_and_has_no_descriptor_for_it() {
    let mut command = zc_pv();
    command.arg("-q").env("HOME", "/nonexistent");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut running = Running::start(&mut command);
    let names = fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap();
    let names = names
        .flatten()
        .map(|thread| fs::read(thread.path().join("comm")).unwrap());
    assert!(!names.into_iter().any(|name| name == b"remote\n"));
    running.0.stdin.take().unwrap().write_all(b"bytes").unwrap();
    assert!(running.0.wait().unwrap().success());
}

/// It had the room of the arguments alone.
#[test]
fn a_process_title_has_the_room_of_the_environment_too() {
    let user = User::new();
    let mut command = user.zc_pv(&["-fX", "-w300", "-L1K", "/dev/zero"]);
    command.env("ROOM", " ".repeat(300)).stderr(Stdio::null());
    let running = Running::start(&mut command);
    let title = format!("{} end", "long ".repeat(40));
    user.changes(running.pid(), &["-w300", "-x", &format!("process:{title}")]);
    let begin = Instant::now();
    let shown = || fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
    while !shown().ends_with(format!("-- {title}\0").as_bytes()) {
        let shown = shown();
        let shown = String::from_utf8_lossy(&shown);
        assert!(begin.elapsed() < PATIENCE, "{shown}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_value_that_is_no_number_is_refused_with_pvs_status() {
    let ours = Path::new(env!("CARGO_BIN_EXE_zc-pv"));
    for (script, error) in [
        ("pv -R x", "-R: x: integer argument expected"),
        ("pv -Q x", "-Q: x: integer argument expected"),
        ("pv -R -5", "-R: -5: integer argument expected"),
        ("pv -R 1.3", "-R: 1.3: integer argument expected"),
        ("pv -R 99999999 -L x", "-L: x: numeric value not understood"),
    ] {
        let outcome = run_tool(("pv", ours), script, &[]);
        assert_eq!(outcome.stderr, format!("pv: {error}\n"), "{script}");
        if let Some(pv) = crate::peer::pv() {
            let theirs = run_tool(("pv", &pv), script, &[]);
            assert_eq!(outcome.status, theirs.status, "{script}");
            assert_eq!(outcome.stderr, theirs.stderr, "{script}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_said_as_pv_says_it() {
    let ours = Path::new(env!("CARGO_BIN_EXE_zc-pv"));
    for script in [
        "pv -R 99999999 -Q 1",
        "pv -R 99999999 -d 1",
        "pv -Q 99999999 -d 1",
        "pv -R 99999999 f",
        "pv -Q 99999999 f",
        "pv -R 99999999",
        "pv --query 99999999",
        "export HOME=$(mktemp -d); pv -q -L 1K -Ss 1M /dev/zero > out & sleep 0.5; \
         pv -R $! -L 0; echo $?; wait $!; echo $?; rm -r \"$HOME\"",
        "export HOME=$(mktemp -d); pv -q -L 100K -Ss 100K /dev/zero > out & sleep 0.2; \
         pv -Q $!; echo $?; wait $!; echo $?; rm -r \"$HOME\"",
    ] {
        let outcome = run_tool(("pv", ours), script, &[]);
        if let Some(pv) = crate::peer::pv() {
            outcome.is_as(&run_tool(("pv", &pv), script, &[]), script);
        }
        assert!(outcome.status < 100, "{script}: {}", outcome.stderr);
    }
}
