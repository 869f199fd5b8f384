//! File systems that cards, USB disks and servers have, each mounted for one test.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::DISK;
use crate::mounts::{Root, image, mount_with_script, skip_mount, try_mount};
use crate::skip::{has_program, is_root, report};

/// A mounted file system. It is unmounted, and its driver exits, when this is dropped.
pub(super) struct FileSystem {
    root: Root,
    /// What the driver shows, if that is a directory.
    _backing: Option<TempDir>,
}

impl From<Root> for FileSystem {
    fn from(root: Root) -> Self {
        Self {
            root,
            _backing: None,
        }
    }
}

/// What the driver of an NTFS makes of the case of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NtfsNames {
    CaseSensitive,
    CaseInsensitive,
}

const MIB: u64 = 64;

/// Each returns `None`, and reports it, if the file system cannot be mounted here.
impl FileSystem {
    /// exFAT by a driver in user space: no links, no owners, no modes, no `RENAME_NOREPLACE`.
    pub(super) fn exfat() -> Option<Self> {
        // The driver takes no file but a block device.
        let script = "mkfs.exfat \"$1\" >&2; device=$(losetup -f --show \"$1\")
             mount.exfat-fuse \"$device\" \"$2\" >&2 || { losetup -d \"$device\"; exit 1; }
             losetup -d \"$device\"";
        Self::by_programs("exfat", &["mkfs.exfat", "mount.exfat-fuse"], script)
    }

    /// NTFS by a driver in user space.
    pub(super) fn ntfs(names: NtfsNames) -> Option<Self> {
        let options = match names {
            NtfsNames::CaseSensitive => "",
            NtfsNames::CaseInsensitive => "-o ignore_case",
        };
        let script = format!("mkfs.ntfs -qFQ \"$1\" >&2; lowntfs-3g {options} \"$1\" \"$2\"");
        Self::by_programs("ntfs", &["mkfs.ntfs", "lowntfs-3g"], &script)
    }

    /// ext4 by a driver in user space.
    pub(super) fn fuse2fs() -> Option<Self> {
        let script = "mkfs.ext4 -qF \"$1\"; fuse2fs \"$1\" \"$2\"";
        Self::by_programs("fuse2fs", &["mkfs.ext4", "fuse2fs"], script)
    }

    /// A directory of this machine, served by `sftp-server` without any ssh.
    pub(super) fn sshfs() -> Option<Self> {
        // Symbolic links may lead anywhere: newer versions of the driver refuse to read such links
        // unless they are told to.
        let script = "server=$(PATH=$PATH:/usr/lib/openssh:/usr/lib/ssh:/usr/libexec/openssh command -v sftp-server)
             mkdir \"$backing/shown\"
             printf '#!/bin/sh\\nexec %s\\n' \"$server\" >\"$backing/ssh\"; chmod +x \"$backing/ssh\"
             mount() { sshfs -o ssh_command=\"$backing/ssh\" \"$@\"; }
             mount -o no_contain_symlinks here:\"$backing/shown\" \"$2\" || mount here:\"$backing/shown\" \"$2\"";
        Self::by_programs("sshfs", &["sshfs"], script)
    }

    /// A directory of this machine, shown by a driver that has no `O_TMPFILE`.
    pub(super) fn bindfs() -> Option<Self> {
        Self::by_programs("bindfs", &["bindfs"], "bindfs \"$backing\" \"$2\"")
    }

    /// A directory where all files have one mode, as on a disk that is mounted for another user.
    pub(super) fn bindfs_with_one_mode() -> Option<Self> {
        let script = "bindfs --chmod-deny --perms=0777 \"$backing\" \"$2\"";
        Self::by_programs("bindfs", &["bindfs"], script)
    }

    /// FAT by the kernel.
    pub(super) fn vfat() -> Option<Self> {
        let feature = KernelFeature {
            name: "vfat",
            is_present: || {
                let drivers = fs::read_to_string("/proc/filesystems").unwrap();
                drivers.lines().any(|line| line.trim() == "vfat")
            },
        };
        let script = "mkfs.vfat \"$1\" >&2; mount -t vfat -o loop,utf8 \"$1\" \"$2\"";
        Self::by_kernel(&feature, &["mkfs.vfat"], script)
    }

    /// ext4 that ignores the case of names.
    pub(super) fn ext4_casefold() -> Option<Self> {
        let feature = KernelFeature {
            name: "casefold of ext4",
            is_present: || Path::new("/sys/fs/ext4/features/casefold").exists(),
        };
        let script = "mkfs.ext4 -q -F -O casefold \"$1\"; mount -t ext4 -o loop \"$1\" \"$2\"
             { rmdir \"$2/lost+found\" && chattr +F \"$2\"; } || { umount \"$2\"; exit 1; }";
        Self::by_kernel(&feature, &["mkfs.ext4", "chattr"], script)
    }

    /// tmpfs that ignores the case of names.
    pub(super) fn tmpfs_casefold() -> Option<Self> {
        let feature = KernelFeature {
            name: "casefold of tmpfs",
            is_present: || Path::new("/sys/fs/tmpfs/features/casefold").exists(),
        };
        let script = "mount -t tmpfs -o casefold none \"$2\"
             chattr +F \"$2\" || { umount \"$2\"; exit 1; }";
        Self::by_kernel(&feature, &["chattr"], script)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.dir()
    }

    fn by_programs(name: &str, programs: &[&str], script: &str) -> Option<Self> {
        if !is_root() || !programs.iter().all(|program| has_program(program)) {
            return None;
        }
        let backing = tempfile::tempdir_in(DISK).unwrap();
        let script = format!("backing='{}'\n{script}", backing.path().display());
        let root = mount_with_script(name, MIB, &script)?;
        Some(Self {
            root,
            _backing: Some(backing),
        })
    }

    /// A kernel without the feature fails no test, since no installation adds it.
    fn by_kernel(feature: &KernelFeature, programs: &[&str], script: &str) -> Option<Self> {
        if !is_root() || !programs.iter().all(|program| has_program(program)) {
            return None;
        }
        let root = try_mount(image(MIB).path(), script);
        match &root {
            Some(_) => {}
            None if (feature.is_present)() => skip_mount(feature.name),
            None => report(&format!("this kernel has no {}", feature.name)),
        }
        root.map(Self::from)
    }
}

/// A driver, or a part of one, that a kernel has or lacks whatever is installed.
struct KernelFeature {
    name: &'static str,
    /// Whether the kernel has it, to be asked after an attempt to mount, which loads modules.
    is_present: fn() -> bool,
}
