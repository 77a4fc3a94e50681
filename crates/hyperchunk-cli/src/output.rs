//! Files that commands write: whole or not at all.

use hyperchunk_udf::escape::escape;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that gets its name when it is whole; until then it lies beside it.
pub(crate) struct Output {
    file: Option<File>,
    /// The unfinished file and the name it will have; `None` where it is written in place.
    names: Option<(PathBuf, PathBuf)>,
}

impl Output {
    /// Starts a file, in the folder where it will be. A link is followed; a device or a pipe is written to as it is.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let path = resolved(path)?;
        if is_stream(&path) {
            return Ok(Self { file: Some(File::options().write(true).open(&path)?), names: None });
        }
        let name = path.file_name().ok_or_else(|| io::Error::other("the output has no file name"))?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        Ok(Self { file: Some(file), names: Some((temporary, path)) })
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let (Some(file), Some((temporary, path))) = (self.file.take(), self.names.take()) {
            let synced = file.sync_all();
            drop(file);
            if let Err(error) = synced {
                let _ = std::fs::remove_file(&temporary);
                return Err(error);
            }
            if let Err(error) = std::fs::rename(&temporary, &path) {
                let _ = std::fs::remove_file(&temporary);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Refuses an output that would destroy something: one of the inputs, by whatever name or link, or without `overwrite`
/// anything that is there. Devices and pipes are written to and never replaced.
pub(crate) fn check(path: &Path, overwrite: bool, inputs: &[&Path]) -> Result<(), String> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let name = escape(&path.display().to_string(), 2000);
    if inputs.iter().any(|input| same_file(path, input)) {
        return Err(format!("cannot write {name}: it is an input of this command; name another output"));
    }
    if !overwrite && !is_stream(path) {
        return Err(format!("cannot write {name}: it exists (--overwrite replaces it)"));
    }
    Ok(())
}

/// Whether two names lead to one file.
fn same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
        };
        identity(one).is_some_and(|found| identity(other) == Some(found))
    }
    #[cfg(not(unix))]
    std::fs::canonicalize(one)
        .is_ok_and(|found| std::fs::canonicalize(other).is_ok_and(|other| other == found))
}

/// Where `path` leads: renaming a file onto a link would replace the link.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    // What /dev/stdout leads to may have no name.
    if is_stream(&path) {
        return Ok(path);
    }
    for _ in 0..LINKS {
        match std::fs::read_link(&path) {
            // What it names need not exist yet.
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Whether `path` is there and is a device, a pipe or a socket: what is written to, and never replaced.
pub(crate) fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Standard output for bytes: when nobody reads any more (`| head`), the command ends.
pub(crate) struct Standard(pub(crate) io::StdoutLock<'static>);

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(crate::unprinted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(crate::unprinted)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.names {
            // It was not finished.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let write = || {
        let mut output = Output::create(path)?;
        output.write_all(bytes)?;
        output.finish()
    };
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("hyperchunk-output-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        write(&path, b"old").unwrap();
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn links_are_followed_and_pipes_stay() {
        let folder = std::env::temp_dir().join(format!("hyperchunk-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("far")).unwrap();
        let (link, far) = (folder.join("link"), folder.join("far/file"));
        std::os::unix::fs::symlink("far/file", &link).unwrap();
        for text in [b"new", b"two"] {
            write(&link, text).unwrap();
            assert!(link.is_symlink() && !far.is_symlink());
            assert_eq!(std::fs::read(&far).unwrap(), text);
        }
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(is_stream(&pipe));
        let round = folder.join("round");
        std::os::unix::fs::symlink("round", &round).unwrap();
        assert!(write(&round, b"no").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
