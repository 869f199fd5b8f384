//! A machine that runs a test program and switches itself off.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::package::Kernel;

/// The time that a guest has beside its tests. A boot takes some ten seconds.
const START_UP: Duration = Duration::from_secs(180);

/// The size of the sparse scratch disk. Tests make images on it.
const DISK: u64 = 8 << 30;

/// What the initramfs loads to reach the machine's root.
const MODULES_OF_THE_ROOT: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];

/// What a guest runs.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) program: &'a Path,
    /// The directory in which the program runs.
    pub(super) dir: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) time_limit: Duration,
}

impl Guest<'_> {
    /// Runs the program, and returns what the guest printed.
    ///
    /// # Errors
    ///
    /// A program that this needs is missing or fails.
    pub(super) fn boot(&self) -> anyhow::Result<String> {
        let scratch = tempfile::tempdir()?;
        let initramfs = self.pack_initramfs(scratch.path())?;
        let disk = scratch.path().join("disk");
        File::create(&disk)?.set_len(DISK)?;
        succeed(Command::new("mkfs.ext4").arg("-q").arg(&disk))?;
        let console = scratch.path().join("console");
        let limit = self.time_limit + START_UP;
        // A guest that hangs is ended. Its console tells how far it came.
        let mut qemu = Command::new("timeout");
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
        let drive = format!("file={},format=raw,if=virtio,cache=unsafe", disk.display());
        qemu.args(["-drive", &drive]);
        // The names of devices tell files of several file systems from one another.
        let root = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap";
        qemu.args(["-fsdev", root]);
        qemu.args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]);
        qemu.stdin(Stdio::null()).status().context("timeout")?;
        let console = fs::read(&console).context("the guest's console")?;
        Ok(String::from_utf8_lossy(&console).replace('\r', ""))
    }

    /// Makes what the kernel unpacks and runs first.
    fn pack_initramfs(&self, scratch: &Path) -> anyhow::Result<std::path::PathBuf> {
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
                succeed(xz.arg("-dc").arg(module).stdout(File::create(to)?))?;
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
        succeed(sh.stdout(File::create(&initramfs)?))?;
        Ok(initramfs)
    }

    /// The variables of the first process.
    fn settings(&self) -> anyhow::Result<String> {
        let mut command = quote(&self.program.to_string_lossy());
        for argument in self.arguments {
            command = command + " " + &quote(argument);
        }
        let target_tmp = super::target_dir()?.join("tmp");
        fs::create_dir_all(&target_tmp)?;
        let settings = [
            ("kernel", self.kernel.dir.to_string_lossy()),
            ("dir", self.dir.to_string_lossy()),
            ("target_tmp", target_tmp.to_string_lossy()),
            ("time_limit", self.time_limit.as_secs().to_string().into()),
            ("path", std::env::var("PATH")?.into()),
            ("command", command.into()),
        ];
        let lines = settings.map(|(name, value)| format!("{name}={}\n", quote(&value)));
        Ok(lines.concat())
    }
}

/// Text as one word of a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
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
