//! Files over a network: their names, and how libhdf5 opens them, through our file driver.

use super::driver::{self, Info};
use super::failure::{ON_ERROR_STACK, Outcome, refuse};
use super::file::LowerAccess;
use super::slot::Slot;
use super::store;
use crate::pointer;
use hyperchunk_udf::host::Programs;
use std::ffi::{CStr, CString, OsStr, c_uint};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The schemes of URLs that a relay opens. URLs that a release of HDF5 opens by a driver of its own go to
/// that driver if the program requests it.
const SCHEMES: [&str; 15] = [
    "grpc",
    "grpc+tcp",
    "grpc+tls",
    "grpc+unix",
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "abfss",
    "azure",
    "adl",
    "http",
    "https",
];
/// `H5F_ACC_RDWR`, `H5F_ACC_TRUNC`, `H5F_ACC_EXCL`, `H5F_ACC_CREAT`.
const WRITES: c_uint = 0x17;
/// Environment variable that names the command.
const VARIABLE: &str = "HYPERCHUNK_COMMAND";
const COMMAND: &str = "hyperchunk";

/// Returns a name as a URL, if it is the URL of a file over a network.
pub(super) fn url(name: &CStr) -> Option<&str> {
    let name = name.to_str().ok()?;
    let (scheme, _) = name.split_once("://")?;
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(name)
}

/// Returns a URL for messages: without the user, the password and the signature that a web URL may hold.
pub(super) fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|_| is_web(url)) else { return url.to_owned() };
    let (rest, query) = match rest.split_once(['?', '#']) {
        Some((rest, _)) => (rest, "?…"),
        None => (rest, ""),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}/{path}{query}")
}

/// Returns the error for an attempt to write.
pub(super) fn refuse_writing(url: &str) -> Outcome<()> {
    refuse!("{} is read-only: open it with mode 'r'", redact(url))
}

/// Returns the target of a link file; `None` for any other file.
pub(super) fn link(name: &CStr) -> Option<String> {
    pointer::read(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Returns the URL that a name stands for, if it is a file over a network: either the name itself, or the
/// target of a link, which is followed if the connector is configured to. (Otherwise any author of a file
/// could make this process send its token to any server.)
pub(super) fn resolve(below: &LowerAccess, name: &CStr) -> Outcome<Option<CString>> {
    if url(name).is_some() {
        return Ok(Some(name.to_owned()));
    }
    let Some(target) = link(name) else { return Ok(None) };
    let target = CString::new(target).ok().filter(|target| url(target).is_some());
    let Some(target) = target else {
        refuse!("{} is a link whose target is not a URL", name.to_string_lossy())
    };
    if !below.options.links {
        refuse!(
            "{} is a link to {}: to follow links, add `links` after the connector's name",
            name.to_string_lossy(),
            redact(&target.to_string_lossy())
        )
    }
    Ok(Some(target))
}

/// Sets up the access list to read a URL, if the program requests no other driver.
pub(super) fn attach(slot: &'static Slot, below: &LowerAccess, name: &CStr, flags: c_uint) -> Outcome<()> {
    let Some(url) = url(name) else { return Ok(()) };
    let list = below.fapl.id;
    // SAFETY: any identifier may be asked.
    let current = unsafe { (slot.api.plist_driver)(list) };
    if current != slot.driver() && !store::is_plain_driver(slot, list) {
        return Ok(());
    }
    if flags & WRITES != 0 {
        return refuse_writing(url);
    }
    let info = Info { url: url.to_owned(), command: command(below.options.command.as_deref())? };
    let driver = driver::id(slot)?;
    // SAFETY: a list of our own, our driver, and its information, which HDF5 copies.
    if unsafe { (slot.api.plist_set_driver)(list, driver, (&raw const info).cast()) } < 0 {
        return Err(ON_ERROR_STACK);
    }
    Ok(())
}

/// Finds the command that reads files over a network: from the connector's options, the environment, the
/// package that contains this plugin, or the search path.
fn command(option: Option<&str>) -> Outcome<PathBuf> {
    if hyperchunk_udf::keys::is_set_uid() {
        // Options, environment and search path come from the untrusted caller.
        return match Programs::find().ok().and_then(|programs| programs.command()) {
            Some(command) => Ok(command),
            None => refuse!(
                "a set-uid program reads files over a network only with the command beside this plugin"
            ),
        };
    }
    let named = option
        .map(PathBuf::from)
        .or_else(|| std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from));
    if let Some(path) = named {
        // A bare name is looked up in the search path.
        let found = if path.components().count() == 1 { find_in_path(&path) } else { Some(path.clone()) };
        let Some(found) = found.filter(|path| is_program(path)) else {
            refuse!(
                "cannot read files over a network: the command {} does not exist or is not executable; set {VARIABLE}, or `command=…` after the connector's name, to `hyperchunk` of this release",
                path.display()
            )
        };
        return Ok(found);
    }
    let own = Programs::find().ok().and_then(|programs| programs.command());
    let Some(found) = own.or_else(|| find_in_path(Path::new(COMMAND))) else {
        refuse!(
            "files over a network need the command `{COMMAND}`, which is neither beside this plugin nor in PATH: install it (pip install hyperchunk), or name it in {VARIABLE}, or as `command=…` after the connector's name"
        )
    };
    Ok(found)
}

fn find_in_path(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns the URL of another file to which a file over a network refers by `name` (an external link, a
/// virtual dataset). That file must be in the same folder or below it. libhdf5 takes URLs for relative paths,
/// and also tries other paths, none of which belongs to a file over a network.
pub(super) fn resolve_sibling(base: &str, name: &str) -> Option<String> {
    let end = base.find(['?', '#']).filter(|_| is_web(base)).unwrap_or(base.len());
    let folder = base.get(..base.get(..end)?.rfind('/')?.checked_add(1)?)?;
    // A server alone has no folder.
    let host = folder.split_once("://")?.1;
    let at = name.find(folder)?;
    let (before, rest) = (name.get(..at)?, name.get(at.checked_add(folder.len())?..)?);
    if !(before.is_empty() || (before.starts_with('/') && !before.contains("://"))) {
        return None;
    }
    let parts = || rest.split('/');
    if host.is_empty()
        || rest.is_empty()
        || rest.contains("://")
        || parts().any(|part| matches!(part, "" | "." | ".."))
    {
        return None;
    }
    // A socket's URL names the file in its query.
    let (of_socket, tail) = (base.get(folder.len()..)?, "?file=");
    match of_socket.find(tail) {
        Some(found) => Some(format!("{folder}{}{rest}", of_socket.get(..found.checked_add(tail.len())?)?)),
        None => Some(format!("{folder}{rest}")),
    }
}

fn is_web(url: &str) -> bool {
    url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_over_a_network() {
        let check = |name: &CStr, expected: bool| assert_eq!(url(name).is_some(), expected, "{name:?}");
        for name in [c"grpc://h:1/a.h5", c"S3://b/k", c"https://h/a?b", c"grpc+unix:///s?file=a"] {
            check(name, true);
        }
        for name in [c"a.h5", c"/grpc://h/a", c"file:///a.h5", c"grpc:/a", c"a:b://c", c"", c"ftp://h/a"] {
            check(name, false);
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(redact("https://me:secret@h/a@b.h5?sig=secret#x"), "https://h/a@b.h5?…");
        assert_eq!(redact("s3://b/a?b@c"), "s3://b/a?b@c");
    }

    #[test]
    fn a_file_leads_to_files_beside_it_alone() {
        let check = |base: &str, name: &str, expected: Option<&str>| {
            assert_eq!(resolve_sibling(base, name).as_deref(), expected, "{name} of {base}");
        };
        let base = "grpc://h:1/d/a.h5";
        check(base, "/x/grpc://h:1/d/b.h5", Some("grpc://h:1/d/b.h5"));
        check(base, "grpc://h:1/d/e/b.h5", Some("grpc://h:1/d/e/b.h5"));
        check(base, "/x/grpc://h:1/d/grpc://evil:1/d/b.h5", None);
        for other in
            ["b.h5", "/etc/b.h5", "grpc://h:1/b.h5", "s3://d/b", "/x/grpc://h:1/d/../b", "grpc://h:1/d/"]
        {
            check(base, other, None);
        }
        check(base, "/x/grpc://evil:1/y/grpc://h:1/d/b.h5", None);
        check(base, "/x/grpc://h:1/d//etc/b.h5", None);
        check("https://h/d/a.h5?sig=x/y", "/x/https://h/d/b.h5", Some("https://h/d/b.h5"));
        check(
            "grpc+unix:///run/s?file=a.h5",
            "/x/grpc+unix:///run/b.h5",
            Some("grpc+unix:///run/s?file=b.h5"),
        );
        check(
            "grpc+unix:///run/s?file=d/a.h5",
            "grpc+unix:///run/s?file=d/b.h5",
            Some("grpc+unix:///run/s?file=d/b.h5"),
        );
    }
}
