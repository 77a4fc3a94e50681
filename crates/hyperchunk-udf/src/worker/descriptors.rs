//! Descriptors that stay open in the sandbox: files that granted modules opened on import and read later, for
//! example PROJ's database, and the GPU driver's descriptors.

use std::os::fd::RawFd;

/// Lists the open descriptors of this process.
pub(super) fn open() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut found: Vec<RawFd> =
        entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    // The listing's own descriptor is closed by now, and its number free.
    // SAFETY: the call only queries a number, whether it is a descriptor or not.
    found.retain(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0);
    found
}

/// Returns the descriptors opened since `before` was listed.
pub(super) fn since(before: &[RawFd]) -> Vec<RawFd> {
    open().into_iter().filter(|fd| !before.contains(fd)).collect()
}

/// Returns the regular files opened read-only since `before` was listed.
pub(super) fn read_only_files_since(before: &[RawFd]) -> Vec<RawFd> {
    open().into_iter().filter(|fd| !before.contains(fd) && is_read_only_file(*fd)).collect()
}

fn is_read_only_file(fd: RawFd) -> bool {
    // SAFETY: all-zero is a valid stat; both calls fail for an invalid descriptor.
    unsafe {
        let mut meta: libc::stat = std::mem::zeroed();
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0
            && flags & (libc::O_ACCMODE | libc::O_PATH) == libc::O_RDONLY
            && libc::fstat(fd, &raw mut meta) == 0
            && meta.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn only_files_that_are_read() {
        let path = std::env::current_exe().unwrap();
        let early = File::open(&path).unwrap();
        let before = open();
        let (file, folder) = (File::open(&path).unwrap(), File::open(path.parent().unwrap()).unwrap());
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        let found = read_only_files_since(&before);
        assert!(found.contains(&file.as_raw_fd()), "{found:?}");
        for other in [&early, &folder, &null] {
            assert!(!found.contains(&other.as_raw_fd()));
        }
    }
}
