//! A terminal with a screen that can be looked at, and a user who types.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use rustix::termios::Winsize;

use crate::child;

mod reflow;

/// How long something may take that takes no time unless it never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stops the terminal: whoever writes to it waits.
pub(crate) const CONTROL_S: &[u8] = b"\x13";

/// Has the terminal go on.
pub(crate) const CONTROL_Q: &[u8] = b"\x11";

/// Stops the programs in the foreground.
pub(crate) const CONTROL_Z: &[u8] = b"\x1a";

/// What a person sees, and what only the terminal does.
pub(crate) struct Seen {
    parser: vt100::Parser<Beside>,
    /// Every byte that has come.
    pub(crate) raw: Vec<u8>,
    is_over: bool,
    answers: bool,
    reads: bool,
}

/// What is not on the screen.
#[derive(Default)]
struct Beside {
    titles: Vec<String>,
    progress: Vec<String>,
    title_stack: Vec<u16>,
    questions: usize,
}

impl vt100::Callbacks for Beside {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.titles.push(String::from_utf8(title.to_vec()).unwrap());
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, parameters: &[&[u8]]) {
        if let [b"9", b"4", rest @ ..] = parameters {
            let rest = rest.join(&b';');
            self.progress.push(String::from_utf8(rest).unwrap());
        }
    }

    fn unhandled_csi(
        &mut self,
        _: &mut vt100::Screen,
        _: Option<u8>,
        _: Option<u8>,
        parameters: &[&[u16]],
        command: char,
    ) {
        match (parameters, command) {
            ([[6]], 'n') => self.questions += 1,
            ([[what @ (22 | 23)], [2]], 't') => self.title_stack.push(*what),
            _ => {}
        }
    }
}

impl Seen {
    /// The screen's rows, without the blanks at their ends.
    pub(crate) fn rows(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let (_, columns) = screen.size();
        screen
            .rows(0, columns.get())
            .map(|row| row.trim_end().to_owned())
            .collect()
    }

    /// One row, counted from 0.
    pub(crate) fn row(&self, row: usize) -> String {
        self.rows().swap_remove(row)
    }

    /// The row and the column, counted from 0.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.parser.screen().cursor_position()
    }

    pub(crate) fn cursor_is_hidden(&self) -> bool {
        self.parser.screen().hide_cursor()
    }

    /// One character, with its colours.
    pub(crate) fn cell(&self, row: u16, column: u16) -> vt100::Cell {
        self.parser.screen().cell(row, column).unwrap().clone()
    }

    /// Every title that the window was given.
    pub(crate) fn titles(&self) -> &[String] {
        &self.parser.callbacks().titles
    }

    /// What was sent for the window's tab (OSC 9;4).
    pub(crate) fn progress(&self) -> &[String] {
        &self.parser.callbacks().progress
    }

    /// 22 for each title that was to be kept, 23 for each that was to come back.
    pub(crate) fn title_stack(&self) -> &[u16] {
        &self.parser.callbacks().title_stack
    }

    /// How often the terminal was asked where its cursor is.
    pub(crate) fn questions(&self) -> usize {
        self.parser.callbacks().questions
    }
}

/// A terminal, with or without a program of its own.
pub(crate) struct Terminal {
    user: Arc<File>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    child: Option<Child>,
}

impl Terminal {
    /// A terminal, and what programs see of it.
    pub(crate) fn new(rows: u16, columns: u16) -> (Self, OwnedFd) {
        let (user, program) = crate::pty::terminal();
        let user = Arc::new(user);
        rustix::termios::tcsetwinsize(&user, size(rows, columns)).unwrap();
        let seen = Seen {
            parser: vt100::Parser::new_with_callbacks(
                NonZeroU16::new(rows).unwrap(),
                NonZeroU16::new(columns).unwrap(),
                0,
                Beside::default(),
            ),
            raw: Vec::new(),
            is_over: false,
            answers: true,
            reads: true,
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        thread::spawn({
            let (user, seen) = (Arc::clone(&user), Arc::clone(&seen));
            move || show(&user, &seen)
        });
        let terminal = Self {
            user,
            seen,
            child: None,
        };
        (terminal, program)
    }

    /// Starts a program on a new terminal, in its foreground: standard input, output and error are
    /// there.
    ///
    /// The program takes part in a session of its own, as a login shell does.
    pub(crate) fn spawn(command: &Command, rows: u16, columns: u16) -> Self {
        let (mut terminal, program) = Self::new(rows, columns);
        // The tests may run under `nohup` or in the background of a script, where signals are
        // ignored. A login shell ignores none.
        let mut session = Command::new("env");
        session
            .args(["--default-signal", "setsid", "--ctty"])
            .arg(command.get_program())
            .args(command.get_args())
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR");
        child::copy_environment(command, &mut session);
        if let Some(directory) = command.get_current_dir() {
            session.current_dir(directory);
        }
        let child = session
            .stdin(program.try_clone().unwrap())
            .stdout(program.try_clone().unwrap())
            .stderr(program)
            .spawn()
            .expect("coreutils has env, and util-linux has setsid");
        terminal.child = Some(child);
        terminal
    }

    /// Waits until the screen is as it should be, and fails rather than hang.
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, mut holds: impl FnMut(&Seen) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let (_, changed) = &*self.seen;
        let mut seen = self.seen();
        loop {
            if let Some(found) = holds(&seen) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.is_over {
                let (rows, raw) = (seen.rows().join("\n"), seen.raw.escape_ascii().to_string());
                drop(seen);
                panic!("the screen never is as it should be:\n{rows}\n{raw}");
            }
            seen = changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// Waits until something holds of the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, mut holds: impl FnMut(&Seen) -> bool) {
        self.wait_until(|seen| holds(seen).then_some(()));
    }

    /// The screen as it is just now.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.0.lock().unwrap()
    }

    /// Types.
    pub(crate) fn press(&self, keys: &[u8]) {
        (&*self.user).write_all(keys).unwrap();
    }

    /// Types ^S, and waits until that stops the programs' side.
    pub(crate) fn stop(&self, program: &OwnedFd) {
        self.press(CONTROL_S);
        let is_writable = || {
            let mut fds = [PollFd::new(program, PollFlags::OUT)];
            rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
        };
        while is_writable() {
            thread::yield_now();
        }
    }

    /// Changes the window's size, which the programs in the foreground are told.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let (new_rows, new_columns) = (
            NonZeroU16::new(rows).unwrap(),
            NonZeroU16::new(columns).unwrap(),
        );
        self.seen().parser.set_size(new_rows, new_columns);
        rustix::termios::tcsetwinsize(&self.user, size(rows, columns)).unwrap();
    }

    /// Changes the window's size, and breaks lines that were too long for a row or joins them
    /// again, as many terminals do.
    pub(crate) fn resize_and_reflow(&self, rows: u16, columns: u16) {
        reflow::reflow(&mut self.seen().parser, rows, columns);
        rustix::termios::tcsetwinsize(&self.user, size(rows, columns)).unwrap();
    }

    /// From now on nobody takes what comes, or somebody does again.
    pub(crate) fn read(&self, reads: bool) {
        self.seen().reads = reads;
        self.seen.1.notify_all();
    }

    /// Whether questions of where the cursor is are answered.
    pub(crate) fn answer(&self, answers: bool) {
        self.seen().answers = answers;
    }

    /// Whether what is typed is shown, as a shell would find it.
    pub(crate) fn echoes(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.user).unwrap().local_modes;
        modes.contains(rustix::termios::LocalModes::ECHO | rustix::termios::LocalModes::ICANON)
    }

    /// Turns the terminal's echo on or off, as a program does to ask for a password.
    pub(crate) fn echo(&self, echoes: bool) {
        let mut settings = rustix::termios::tcgetattr(&self.user).unwrap();
        settings
            .local_modes
            .set(rustix::termios::LocalModes::ECHO, echoes);
        rustix::termios::tcsetattr(&self.user, rustix::termios::OptionalActions::Now, &settings)
            .unwrap();
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the program has ended, and all that it wrote is on the screen.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let status = child::end_of(self.child.take().unwrap());
        let (_, changed) = &*self.seen;
        let is_over = changed.wait_timeout_while(self.seen(), PATIENCE, |seen| !seen.is_over);
        assert!(
            is_over.unwrap().0.is_over,
            "somebody still has the terminal"
        );
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // The thread that reads may be waiting to be allowed to.
        if let Ok(mut seen) = self.seen.0.lock() {
            seen.reads = true;
        }
        self.seen.1.notify_all();
    }
}

/// Shows what comes, and answers, until no program has the terminal.
fn show(user: &File, (seen, changed): &(Mutex<Seen>, Condvar)) {
    let mut bytes = [0; 4096];
    loop {
        drop(changed.wait_while(seen.lock().unwrap(), |seen| !seen.reads));
        let n = (&*user).read(&mut bytes).unwrap_or(0);
        let mut seen = seen.lock().unwrap();
        // Byte by byte, so that an answer is true of the place in the stream where the question
        // stands.
        for byte in &bytes[..n] {
            let asked = seen.questions();
            seen.parser.process(&[*byte]);
            if seen.questions() > asked && seen.answers {
                let (row, column) = seen.cursor();
                let answer = format!("\x1b[{};{}R", row + 1, column + 1);
                // If it fails, nobody waits for it any more.
                let _ = (&*user).write_all(answer.as_bytes());
            }
        }
        seen.raw.extend_from_slice(&bytes[..n]);
        seen.is_over = n == 0;
        changed.notify_all();
        if seen.is_over {
            return;
        }
    }
}

/// Sees that the cursor is hidden only within what the kernel gives to a terminal at once.
pub(crate) fn hides_the_cursor_only_within_chunks(raw: &str) {
    for frame in raw.split("\x1b[?25l").skip(1) {
        let (hidden, _) = frame.split_once("\x1b[?25h").expect("it is shown again");
        assert!(!hidden.contains(['\n', '\t']), "{hidden:?}");
        assert!(hidden.len() <= 2048 - 12, "{}", hidden.len());
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
