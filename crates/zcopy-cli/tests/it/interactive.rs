//! An interactive shell on a terminal, with the completions of all tools installed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::termios::Winsize;
use tempfile::TempDir;

use crate::pty;
use crate::skip::{has_program, skip};
use crate::tools::TOOLS;

/// The shells that people type commands into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Configuration with keys that write the command line to the pipe `$REPORT` and clear it:
/// Control-X r as it is, Control-X a with all candidates in the place of the last word.
const BASHRC: &str = r#"
source /usr/share/bash-completion/bash_completion
PS1='$ '
bind 'set bell-style none' 'set completion-query-items 0' 'set page-completions off'
report() { printf '%s\0' "$READLINE_LINE" >"$REPORT"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\C-xr": report'
bind '"\C-xi": insert-completions'
bind '"\C-xa": "\C-xi\C-xr"'
PROMPT_COMMAND="printf 'ready\0' >\"\$REPORT\"; unset PROMPT_COMMAND"
"#;
const ZSHRC: &str = r#"
fpath=("$ZDOTDIR/functions" $fpath)
autoload -Uz compinit
compinit -u -D
PS1='$ '
unsetopt beep
LISTMAX=1000
report() { printf '%s\0' "$BUFFER" >"$REPORT"; BUFFER= }
zle -N report
bindkey '^Xr' report
zle -C all-matches complete-word _generic
zstyle ':completion:all-matches:*' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert yes
bindkey '^Xi' all-matches
bindkey -s '^Xa' '^Xi^Xr'
started() { printf 'ready\0' >"$REPORT"; }
zle -N zle-line-init started
"#;
const FISH_CONFIG: &str = r"
set fish_greeting
function fish_prompt; echo '$ '; end
function report; printf '%s\0' (commandline | string collect) >$REPORT; commandline ''; end
function candidates
    set -l words (complete -C (commandline -cp) | string replace -r '\t.*' '')
    printf '%s\0' (string join ' ' -- $words) >$REPORT
    commandline ''
end
function fish_user_key_bindings
    bind \cxr report
    bind \cxa candidates
end
function started --on-event fish_prompt
    functions -e started
    printf 'ready\0' >$REPORT
end
";

/// A shell that waits for keys, in a directory of its own.
pub(crate) struct Session {
    shell: Shell,
    child: Child,
    keyboard: File,
    reports: File,
    screen: Arc<Mutex<Vec<u8>>>,
    _home: TempDir,
}

impl Session {
    /// Starts the shell in `directory`. `None`, reported as a skip, if it is not installed.
    pub(crate) fn start(shell: Shell, directory: &Path) -> Option<Self> {
        let name = match shell {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
        };
        if !has_program(name) {
            return None;
        }
        if shell == Shell::Bash && !Path::new("/usr/share/bash-completion/bash_completion").exists()
        {
            skip("bash-completion is not installed");
            return None;
        }
        let home = TempDir::new().unwrap();
        let options = install(shell, home.path());
        let report = home.path().join("report");
        rustix::fs::mkfifoat(rustix::fs::CWD, &report, Mode::RWXU).unwrap();
        // Opened for both, because a pipe without a writer does not open for reading alone.
        let reports = rustix::fs::open(&report, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let (keyboard, terminal) = pty::terminal();
        let size = Winsize {
            ws_row: 50,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&terminal, size).unwrap();
        let child = Command::new("setsid")
            .args(["--ctty", name])
            .args(options)
            .arg0("setsid")
            .env_clear()
            .env("PATH", path_with_tools())
            .env("HOME", home.path())
            .env("ZDOTDIR", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_DATA_HOME", home.path())
            .env("REPORT", &report)
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(directory)
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .expect("util-linux has setsid");
        let screen = Arc::new(Mutex::new(Vec::new()));
        drain(keyboard.try_clone().unwrap(), Arc::clone(&screen));
        let mut session = Self {
            shell,
            child,
            keyboard,
            reports: File::from(reports.unwrap()),
            screen,
            _home: home,
        };
        assert_eq!(session.report(), "ready");
        Some(session)
    }

    /// The command line after these keys.
    #[track_caller]
    pub(crate) fn line_after(&mut self, keys: &str) -> String {
        self.press(&format!("{keys}\x18r"));
        self.report()
    }

    /// All candidates for the last word of the command line, sorted.
    #[track_caller]
    pub(crate) fn candidates(&mut self, line: &str) -> Vec<String> {
        self.press(&format!("{line}\x18a"));
        let report = self.report();
        // bash and zsh insert them into the line; zsh and fish repeat the option in front of its
        // value.
        let last = line.rsplit(' ').next().unwrap_or_default();
        let before = match self.shell {
            Shell::Fish => 0,
            Shell::Bash | Shell::Zsh => line.len() - last.len(),
        };
        let option = if last.ends_with('=') { last } else { "" };
        let mut candidates: Vec<_> = report[before..]
            .split(' ')
            .map(|word| word.strip_prefix(option).unwrap_or(word))
            // Without the slash of a directory, which bash adds only to a sole candidate.
            .map(|word| word.trim_end_matches('/').to_owned())
            .filter(|word| !word.is_empty())
            .collect();
        candidates.sort();
        candidates
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The next line that a widget writes.
    #[track_caller]
    fn report(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let mut fds = [PollFd::new(&self.reports, PollFlags::IN)];
            let patience = Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            };
            let n_ready = rustix::event::poll(&mut fds, Some(&patience)).unwrap();
            let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(
                n_ready > 0,
                "{:?} does not answer: {}",
                self.shell,
                String::from_utf8_lossy(&screen)
            );
            let mut byte = [0];
            self.reports.read_exact(&mut byte).unwrap();
            match byte {
                [0] => return String::from_utf8(line).unwrap(),
                [byte] => line.push(byte),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The directories of `$PATH` and that of the tools: fish completes for no program that is not
/// installed.
fn path_with_tools() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Path::new(TOOLS[0].1).parent().unwrap().to_owned();
    let directories = std::iter::once(tools).chain(std::env::split_paths(&path));
    std::env::join_paths(directories).unwrap()
}

/// Writes the configuration, and the completions of all tools where the shell looks for those of
/// installed programs. Returns the shell's options.
fn install(shell: Shell, home: &Path) -> Vec<String> {
    let (config, text, completions, word) = match shell {
        Shell::Bash => ("bashrc", BASHRC, "bash-completion/completions", "bash"),
        Shell::Zsh => (".zshrc", ZSHRC, "functions", "zsh"),
        Shell::Fish => ("fish/config.fish", FISH_CONFIG, "fish/completions", "fish"),
    };
    let completions = home.join(completions);
    fs::create_dir_all(&completions).unwrap();
    for (name, program) in TOOLS {
        let output = Command::new(program).args(["--generate", word]).output();
        let file = match shell {
            Shell::Bash => name.to_owned(),
            Shell::Zsh => format!("_{name}"),
            Shell::Fish => format!("{name}.fish"),
        };
        fs::write(completions.join(file), output.unwrap().stdout).unwrap();
    }
    let config = home.join(config);
    fs::write(&config, text).unwrap();
    match shell {
        Shell::Bash => vec![
            "--noprofile".to_owned(),
            "--rcfile".to_owned(),
            config.to_str().unwrap().to_owned(),
            "-i".to_owned(),
        ],
        // Without the system's configuration, which asks questions on some systems.
        Shell::Zsh => vec!["-d".to_owned(), "-i".to_owned()],
        Shell::Fish => vec!["-i".to_owned()],
    }
}

/// Reads what the shell shows, so that it never waits for the terminal.
fn drain(mut terminal: File, screen: Arc<Mutex<Vec<u8>>>) {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        // At the end, when the shell is gone, the terminal fails.
        while let Ok(n @ 1..) = terminal.read(&mut bytes) {
            let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
            screen.extend_from_slice(&bytes[..n]);
        }
    });
}
