//! Kernels as Debian packages them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::name_of;

/// A release of Debian, which has one series of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Suite {
    /// Linux 5.10
    Bullseye,
    /// Linux 6.1
    Bookworm,
    /// Linux 6.12
    Trixie,
    /// The newest that is packaged for users
    Backports,
}

/// An unpacked kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) suite: Suite,
    /// What `uname -r` prints there.
    pub(super) release: String,
    /// Holds `lib/modules`.
    pub(super) dir: PathBuf,
    /// The file that boots.
    pub(super) image: PathBuf,
}

impl Suite {
    /// The repository, and its name for the suite.
    fn source(self) -> &'static str {
        match self {
            Self::Bullseye => "debian-security bullseye-security",
            Self::Bookworm => "debian bookworm",
            Self::Trixie => "debian trixie",
            Self::Backports => "debian trixie-backports",
        }
    }

    /// Downloads and unpacks the newest kernel of the suite, unless the cache holds it.
    ///
    /// # Errors
    ///
    /// apt cannot fetch a package or does not trust it, or a package cannot be unpacked.
    pub(super) fn fetch(self, cache: &Path) -> anyhow::Result<Kernel> {
        fs::create_dir_all(cache)?;
        let scratch = tempfile::tempdir_in(cache)?;
        let apt = Apt::new(&scratch.path().join("apt"), self.source())?;
        let image_package = apt.kernels_needed_by("linux-image-amd64")?;
        let image_package = image_package
            .iter()
            .find(|package| package.starts_with("linux-image-"))
            .context("linux-image-amd64 depends on no kernel")?;
        let release = image_package.trim_start_matches("linux-image-").to_owned();
        let dir = cache.join(&release);
        if !dir.exists() {
            let mut packages = apt.kernels_needed_by(image_package)?;
            packages.push(image_package.clone());
            let unpacked = scratch.path().join("kernel");
            fs::create_dir_all(unpacked.join("usr/lib"))?;
            // Where the package keeps its modules in `/lib`, they go to the same place.
            std::os::unix::fs::symlink("usr/lib", unpacked.join("lib"))?;
            for package in &packages {
                unpack(&apt.download(package, scratch.path())?, &unpacked)?;
            }
            run(Command::new("depmod")
                .arg("-b")
                .arg(&unpacked)
                .arg(&release))?;
            fs::rename(&unpacked, &dir)?;
        }
        let places = [
            dir.join(format!("boot/vmlinuz-{release}")),
            dir.join(format!("usr/lib/modules/{release}/vmlinuz")),
        ];
        let image = places.into_iter().find(|place| place.exists());
        let image = image.with_context(|| format!("{} has no kernel", dir.display()))?;
        Ok(Kernel {
            suite: self,
            release,
            dir,
            image,
        })
    }
}

impl Kernel {
    /// Returns a name for headings: the version of the kernel, and the suite.
    ///
    /// # Errors
    ///
    /// If the suite has no name.
    pub(super) fn name(&self) -> anyhow::Result<String> {
        let mut numbers = self.release.split('.');
        let (major, minor) = (numbers.next(), numbers.next());
        let series = format!("{}.{}", major.unwrap_or("?"), minor.unwrap_or("?"));
        Ok(format!("Linux {series} ({})", name_of(&self.suite)?))
    }

    /// The files of modules and of those that they need, each behind what it needs.
    ///
    /// # Errors
    ///
    /// `modprobe` cannot be run.
    pub(super) fn files_of(&self, modules: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        for module in modules {
            let mut modprobe = Command::new("modprobe");
            modprobe.arg("-d").arg(&self.dir);
            modprobe.args(["-S", &self.release, "--show-depends", module]);
            // What is no module is a part of the kernel: then it fails, or prints `builtin`.
            let output = modprobe.output().context("modprobe")?;
            for line in String::from_utf8(output.stdout)?.lines() {
                if let Some(file) = line.strip_prefix("insmod ") {
                    let file = PathBuf::from(file.trim_end());
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
            }
        }
        Ok(files)
    }
}

/// apt with a source of its own, so that the machine's stay as they are.
///
/// It checks the signature of the source, and by that each package.
#[derive(Debug)]
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(dir: &Path, source: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(dir.join("lists/partial"))?;
        fs::create_dir_all(dir.join("cache/archives/partial"))?;
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let list = dir.join("sources.list");
        let line = format!("deb [signed-by={keys}] http://deb.debian.org/{source} main\n");
        fs::write(&list, line)?;
        let option = |name: &str, value: &Path| format!("-o{name}={}", value.display());
        let options = vec![
            option("Dir::Etc::SourceList", &list),
            option("Dir::Etc::SourceParts", Path::new("/dev/null")),
            option("Dir::State::Lists", &dir.join("lists")),
            option("Dir::State::Status", Path::new("/dev/null")),
            option("Dir::Cache", &dir.join("cache")),
            "-oAPT::Sandbox::User=root".to_owned(),
        ];
        let apt = Self { options };
        apt.run("apt-get", dir, &["-qq", "update"])?;
        Ok(apt)
    }

    /// The packages with parts of a kernel on which a package depends.
    fn kernels_needed_by(&self, package: &str) -> anyhow::Result<Vec<String>> {
        let said = self.run("apt-cache", Path::new("/"), &["depends", package])?;
        let needed = said
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "));
        let kernels = needed.filter(|package| {
            let parts = ["linux-image-", "linux-binary-", "linux-modules-"];
            // Those without a version are names for the newest ones.
            let has_version = package.contains(|c: char| c.is_ascii_digit())
                && !package.ends_with("-modules-amd64");
            has_version && parts.iter().any(|part| package.starts_with(part))
        });
        Ok(kernels.map(str::to_owned).collect())
    }

    fn download(&self, package: &str, dir: &Path) -> anyhow::Result<PathBuf> {
        self.run("apt-get", dir, &["-qq", "download", package])?;
        let prefix = format!("{package}_");
        let mut entries = fs::read_dir(dir)?.filter_map(Result::ok);
        let file = entries.find(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(&prefix)
        });
        Ok(file
            .with_context(|| format!("apt has not downloaded {package}"))?
            .path())
    }

    fn run(&self, program: &str, dir: &Path, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(program);
        run(command.args(&self.options).args(args).current_dir(dir))
    }
}

/// Unpacks what a package installs.
fn unpack(package: &Path, to: &Path) -> anyhow::Result<()> {
    // Not by `--extract`, which replaces the link `lib` by a directory.
    let script = r#"dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2""#;
    run(Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(package)
        .arg(to))?;
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
