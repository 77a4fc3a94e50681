//! File systems, as far as commits depend on them.

use std::fs::File;

/// Returns whether syncing a new file is known to sync its name, too, so that its folder need not be synced.
///
/// The journals of ext4 and XFS record the creation of a file and its name together, and `fsync` and
/// `fdatasync` write the journal up to there. POSIX does not require this.
#[cfg(target_os = "linux")]
pub(crate) fn syncs_names(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(metadata) = file.metadata() else { return false };
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    let device = metadata.dev();
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    matches!(file_system(&mounts, &device), Some("ext4" | "xfs"))
}

/// Returns whether syncing a new file is known to sync its name, too.
#[cfg(not(target_os = "linux"))]
pub(crate) fn syncs_names(_: &File) -> bool {
    false
}

/// Returns the type of the file system on a device, given as `MAJOR:MINOR`.
///
/// Source: *proc_pid_mountinfo(5)*.
#[cfg(target_os = "linux")]
fn file_system<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    mounts.lines().filter(|line| line.split(' ').nth(2) == Some(device)).find_map(|line| {
        let (_, rest) = line.split_once(" - ")?;
        rest.split(' ').next()
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_file_system_is_found_by_its_device() {
        let mounts = "22 1 0:21 / /proc rw shared:13 - proc proc rw\n\
                      36 35 98:0 /a /mnt rw,noatime master:1 - ext4 /dev/root rw\n\
                      37 35 98:1 / /data rw - xfs /dev/b rw\n";
        assert_eq!(file_system(mounts, "98:1"), Some("xfs"));
        assert_eq!(file_system(mounts, "0:21"), Some("proc"));
        assert_eq!(file_system(mounts, "98:2"), None);
    }

    #[test]
    fn a_file_in_memory_is_not_on_a_disk() {
        // Not every machine has this folder.
        if let Ok(file) = File::open("/proc/self/stat") {
            assert!(!syncs_names(&file));
        }
    }
}
