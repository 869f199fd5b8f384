//! Overlays, mounted as the file systems in `mounts.rs` are.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::mounts::{Fs, Root, detach, image, run_script, skip_mount};

/// An overlay of two layers on one file system.
#[derive(Debug)]
pub(crate) struct Overlay {
    root: Root,
    layers: Root,
}

impl Overlay {
    /// An overlay whose lower layer has `n_files` files with these bytes, and whose layers are on a
    /// new file system of 320 MiB; `None`, reported, if it cannot be mounted.
    pub(crate) fn new(fs: Fs, n_files: usize, bytes: &[u8]) -> Option<Self> {
        let name = format!("{fs:?}").to_lowercase();
        let mount = match fs {
            Fs::Tmpfs => "mount -t tmpfs -o size=320m none \"$2\"".to_owned(),
            Fs::Ext4 => "mkfs.ext4 -qF \"$1\"; mount -o loop \"$1\" \"$2\"".to_owned(),
            _ => format!("mkfs.{name} -qf \"$1\"; mount -o loop \"$1\" \"$2\""),
        };
        let (dir, layers) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        if !run_script(&mount, image(320).path(), layers.path()) {
            skip_mount(&name);
            return None;
        }
        for layer in ["lower", "upper", "work"] {
            std::fs::create_dir(layers.path().join(layer)).unwrap();
        }
        for n in 0..n_files {
            std::fs::write(layers.path().join("lower").join(n.to_string()), bytes).unwrap();
        }
        let script = "cd \"$1\"
            mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none \"$2\"";
        let root = run_script(script, layers.path(), dir.path()).then(|| detach(&dir));
        let layers = detach(&layers);
        if root.is_none() {
            skip_mount("overlay");
        }
        Some(Self {
            root: root?,
            layers,
        })
    }

    /// The directory that merges the layers.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.dir()
    }

    /// A file of the lower layer, as the overlay shows it.
    pub(crate) fn file(&self, n: usize) -> PathBuf {
        self.dir().join(n.to_string())
    }

    /// Returns the contents of this file in the lower layer.
    pub(crate) fn lower(&self, n: usize) -> Vec<u8> {
        std::fs::read(self.layers.dir().join("lower").join(n.to_string())).unwrap()
    }
}
