//! Builds the tools and examples, and knows where they stand.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// How the programs are built.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Build {
    /// Build the programs with optimisation, as people install them
    #[arg(long)]
    pub(crate) release: bool,
    /// Build the programs for this target, such as x86_64-unknown-linux-musl
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
    /// Use the programs in this directory, with the examples in `examples` there, and build none
    #[arg(long, value_name = "DIR", conflicts_with_all = ["release", "target"])]
    pub(crate) programs: Option<PathBuf>,
}

/// A program of this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// A binary of `zcopy-cli`.
    Tool(&'static str),
    /// An example of the library.
    Example(&'static str),
}

impl Program {
    /// The name that the program's messages begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tool(name) | Self::Example(name) => name,
        }
    }
}

/// Cargo's target directory.
///
/// # Errors
///
/// If this program does not know its own path.
pub(crate) fn target_dir() -> anyhow::Result<PathBuf> {
    // Cargo runs this program from its target directory, whose name a user may have changed.
    let exe = std::env::current_exe().context("the path of this program")?;
    let own_profile = exe.parent().context("the directory of this program")?;
    let dir = own_profile.parent().context("cargo's target directory")?;
    Ok(dir.to_owned())
}

/// Runs a cargo command that builds, and returns its messages about programs.
///
/// # Errors
///
/// If cargo fails.
pub(crate) fn built_by(cargo: &mut Command) -> anyhow::Result<Vec<serde_json::Value>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let built = cargo.stderr(Stdio::inherit()).output().context("cargo")?;
    ensure!(built.status.success(), "{cargo:?}: {}", built.status);
    let messages = serde_json::Deserializer::from_slice(&built.stdout);
    let messages = messages.into_iter::<serde_json::Value>();
    let messages = messages.collect::<Result<Vec<_>, _>>();
    let mut messages = messages.context("a message of cargo")?;
    messages.retain(|message| message["executable"].is_string());
    Ok(messages)
}

/// The directory that holds the built programs.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) dir: PathBuf,
    /// The profile and the target, for people.
    pub(crate) description: String,
}

impl Programs {
    /// Builds all programs, or finds those that were built before.
    ///
    /// # Errors
    ///
    /// If cargo fails, or there is no such directory.
    pub(crate) fn build(build: &Build) -> anyhow::Result<Self> {
        if let Some(dir) = &build.programs {
            // They run in directories of their own.
            let dir = dir.canonicalize();
            return Ok(Self {
                dir: dir.context("the programs that were built before")?,
                description: "programs that were built before".to_owned(),
            });
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--locked", "--bins", "--examples"]);
        cargo.args(["--package", "zcopy", "--package", "zcopy-cli"]);
        let profile = if build.release { "release" } else { "debug" };
        if build.release {
            cargo.arg("--release");
        }
        let mut dir = target_dir()?;
        if let Some(target) = &build.target {
            cargo.args(["--target", target]);
            dir.push(target);
        }
        dir.push(profile);
        let status = cargo.status().context("cargo")?;
        ensure!(status.success(), "cargo build: {status}");
        let description = match &build.target {
            Some(target) => format!("{profile} build for {target}"),
            None => format!("{profile} build for the host's target"),
        };
        Ok(Self { dir, description })
    }

    /// The path of a built program.
    pub(crate) fn path(&self, program: Program) -> PathBuf {
        match program {
            Program::Tool(name) => self.dir.join(name),
            Program::Example(name) => self.dir.join("examples").join(name),
        }
    }
}
