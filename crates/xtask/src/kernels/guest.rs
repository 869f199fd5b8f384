//! A machine that runs a command and switches itself off.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::package::Kernel;
use crate::image::run as run_silently;
use crate::programs::target_dir;

/// The time that a guest has beside its command. A boot takes some ten seconds.
const START_UP: Duration = Duration::from_secs(180);

/// The size of the sparse scratch disk. Tests make images on it.
const DISK: u64 = 8 << 30;

/// Where the command makes its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scratch {
    /// A disk with ext4
    Ext4,
    /// A directory of this machine, which qemu serves
    #[value(name = "9p")]
    Plan9,
    /// A directory of this machine, which `virtiofsd` serves
    Virtiofs,
}

/// The modules without which a guest cannot mount the machine's root.
const MODULES_OF_THE_ROOT: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];

/// What a guest runs.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// The name of its log.
    pub(super) name: &'a str,
    /// The path of the program, and its arguments.
    pub(super) command: Vec<String>,
    /// The directory that it begins in.
    pub(super) dir: &'a Path,
}

/// A machine, and what it runs.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) job: &'a Job<'a>,
    pub(super) time_limit: Duration,
    pub(super) scratch: Scratch,
}

impl Guest<'_> {
    /// Runs the command, and returns what the guest printed.
    ///
    /// # Errors
    ///
    /// A program that this needs is missing or fails.
    pub(super) fn boot(&self) -> anyhow::Result<String> {
        let scratch = tempfile::tempdir()?;
        let initramfs = self.pack_initramfs(scratch.path())?;
        let console = scratch.path().join("console");
        let limit = self.time_limit + START_UP;
        // A guest that hangs is ended, and its console tells how far it came. No guest outlives this
        // program.
        let mut qemu = Command::new("setpriv");
        qemu.args(["--pdeathsig", "TERM", "timeout"]);
        qemu.arg(limit.as_secs().to_string());
        qemu.arg("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max"]);
        qemu.args(["-smp", "2", "-m", "4096"]);
        qemu.args(["-nodefaults", "-nographic", "-no-reboot"]);
        qemu.arg("-serial")
            .arg(format!("file:{}", console.display()));
        qemu.arg("-kernel").arg(&self.kernel.image);
        qemu.arg("-initrd").arg(&initramfs);
        qemu.args(["-append", "console=ttyS0 quiet panic=-1"]);
        let _server = self.add_scratch(&mut qemu, scratch.path())?;
        // The names of devices tell files of several file systems from one another.
        let root = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap";
        qemu.args(["-fsdev", root]);
        qemu.args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]);
        qemu.stdin(Stdio::null()).status().context("setpriv")?;
        let console = fs::read(&console).context("the guest's console")?;
        Ok(String::from_utf8_lossy(&console).replace('\r', ""))
    }

    /// Gives the guest a place for the command's files. Returns what serves it.
    fn add_scratch(&self, qemu: &mut Command, dir: &Path) -> anyhow::Result<Option<Server>> {
        let shared = dir.join("shared");
        match self.scratch {
            Scratch::Ext4 => {
                let disk = dir.join("disk");
                File::create(&disk)?.set_len(DISK)?;
                run_silently(Command::new("mkfs.ext4").arg("-q").arg(&disk))?;
                let drive = format!(
                    "file={},format=raw,if=virtio,cache.no-flush=on",
                    disk.display()
                );
                qemu.args(["-drive", &drive]);
                Ok(None)
            }
            Scratch::Plan9 => {
                fs::create_dir(&shared)?;
                let path = shared.display();
                let device = format!("local,id=scratch,path={path},security_model=passthrough");
                qemu.args(["-fsdev", &device]);
                qemu.args(["-device", "virtio-9p-pci,fsdev=scratch,mount_tag=scratch"]);
                Ok(None)
            }
            Scratch::Virtiofs => {
                fs::create_dir(&shared)?;
                let socket = dir.join("socket");
                let server = Server::start(&shared, &socket)?;
                let socket = format!("socket,id=scratch,path={}", socket.display());
                qemu.args(["-chardev", &socket]);
                qemu.args(["-device", "vhost-user-fs-pci,chardev=scratch,tag=scratch"]);
                // The server reads the guest's memory.
                qemu.args([
                    "-object",
                    "memory-backend-memfd,id=memory,size=4096M,share=on",
                ]);
                qemu.args(["-numa", "node,memdev=memory"]);
                Ok(Some(server))
            }
        }
    }

    /// Makes what the kernel unpacks and runs first.
    fn pack_initramfs(&self, scratch: &Path) -> anyhow::Result<PathBuf> {
        let root = scratch.join("root");
        let modules = root.join("modules");
        fs::create_dir_all(root.join("bin"))?;
        fs::create_dir_all(&modules)?;
        fs::copy("/bin/busybox", root.join("bin/busybox")).context("/bin/busybox")?;
        for (index, module) in self
            .kernel
            .files_of(&MODULES_OF_THE_ROOT)?
            .iter()
            .enumerate()
        {
            // Their order is that of the names.
            let to = modules.join(format!("{index:02}.ko"));
            if module
                .extension()
                .is_some_and(|extension| extension == "xz")
            {
                let mut xz = Command::new("xz");
                run_silently(xz.arg("-dc").arg(module).stdout(File::create(to)?))?;
            } else {
                fs::copy(module, to).with_context(|| module.display().to_string())?;
            }
        }
        let init = root.join("init");
        fs::write(&init, include_str!("init.sh"))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("settings"), self.settings()?)?;
        let initramfs = scratch.join("initramfs");
        let pack = "find . | cpio --create --format=newc --quiet --owner=0:0";
        let mut sh = Command::new("sh");
        sh.args(["-c", pack]).current_dir(&root);
        run_silently(sh.stdout(File::create(&initramfs)?))?;
        Ok(initramfs)
    }

    /// The variables of the first process.
    fn settings(&self) -> anyhow::Result<String> {
        let words: Vec<_> = self.job.command.iter().map(|word| quote(word)).collect();
        let target_tmp = target_dir()?.join("tmp");
        fs::create_dir_all(&target_tmp)?;
        let mount = match self.scratch {
            Scratch::Ext4 => "-t ext4 /root/dev/vda",
            Scratch::Plan9 => "-t 9p -o trans=virtio,version=9p2000.L,msize=262144 scratch",
            Scratch::Virtiofs => "-t virtiofs scratch",
        };
        let settings = [
            ("scratch", mount.into()),
            ("kernel", self.kernel.dir.to_string_lossy()),
            ("dir", self.job.dir.to_string_lossy()),
            ("target_tmp", target_tmp.to_string_lossy()),
            ("time_limit", self.time_limit.as_secs().to_string().into()),
            ("path", std::env::var("PATH")?.into()),
            ("command", words.join(" ").into()),
        ];
        let lines = settings.map(|(name, value)| format!("{name}={}\n", quote(&value)));
        Ok(lines.concat())
    }
}

/// A process that serves a directory to a guest.
#[derive(Debug)]
struct Server(Child);

impl Server {
    fn start(dir: &Path, socket: &Path) -> anyhow::Result<Self> {
        // Debian keeps it out of the path.
        let mut daemon = Command::new("setpriv");
        daemon.args(["--pdeathsig", "TERM", "/usr/lib/qemu/virtiofsd"]);
        daemon.arg(format!("--socket-path={}", socket.display()));
        daemon.arg("-o").arg(format!("source={}", dir.display()));
        daemon
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self(daemon.spawn().context("setpriv")?);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !socket.exists() {
            ensure!(Instant::now() < deadline, "virtiofsd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended with the guest.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Text as one word of a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn a_quoted_text_is_one_word() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
