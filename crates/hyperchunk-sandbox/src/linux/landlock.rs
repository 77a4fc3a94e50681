//! Landlock: access only to the files that the profile grants, and for a compiler to the files that it needs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::ptr;

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::{Policy, Rights, Runtime};
use crate::error::{Error, Result, fail};

/// First version of Landlock that prevents truncation of a file granted for reading.
pub const LANDLOCK_FOR_FILES: u32 = 3;

/// Directories that a compiler reads and starts programs from. Missing ones are skipped.
const COMPILER_TREES: [&str; 7] =
    ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.conf.d"];
/// Single files that a compiler reads.
const COMPILER_FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/ld.so.conf"];

/// Restricts the calling thread to the policy's files and returns the kernel's Landlock version.
///
/// Fails if the kernel has no Landlock, or if some feature of its version is not enforced.
pub(super) fn restrict(policy: &Policy) -> Result<u32> {
    let version = kernel_version()?;
    let abi = ABI::from(i32::try_from(version).unwrap_or(i32::MAX));
    let mut rules = build(abi).map_err(landlock_error)?;
    if policy.runtime == Runtime::Compiler {
        rules = add_compiler_rules(rules, abi, policy)?;
    } else if policy.rights.has_files() {
        if version < LANDLOCK_FOR_FILES {
            fail!(
                "lockdown: cannot grant files: expected Landlock version {LANDLOCK_FOR_FILES} or later, got {version}"
            );
        }
        rules = add_grants(rules, abi, &policy.rights)?;
    }
    let status = rules.restrict_self().map_err(landlock_error)?;
    // The crate reports an old or missing Landlock as success, with this status as the only difference.
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        fail!("lockdown: Landlock is not fully enforced: {:?}", status.ruleset);
    }
    Ok(version)
}

/// Returns the version of the kernel's Landlock interface.
fn kernel_version() -> Result<u32> {
    const VERSION_FLAG: u32 = 1;
    let no_rules = ptr::null::<u8>();
    // SAFETY: with this flag and no attributes the call returns a number and does nothing else.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_rules, 0_usize, VERSION_FLAG) };
    match u32::try_from(version) {
        Ok(version) if version >= 1 => Ok(version),
        _ => Err(Error::last_os("lockdown: this kernel has no Landlock, or it is switched off")),
    }
}

/// Creates a rule set that handles, and so denies, every right of this version.
fn build(abi: ABI) -> Result<RulesetCreated, ::landlock::RulesetError> {
    // The version is the kernel's own, so an unsupported right is an error and must not be tolerated.
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    // An empty set is also an error.
    let net = AccessNet::from_all(abi);
    if !net.is_empty() {
        rules = rules.handle_access(net)?;
    }
    let scope = Scope::from_all(abi);
    if !scope.is_empty() {
        rules = rules.scope(scope)?;
    }
    rules.create()
}

fn add_compiler_rules(mut rules: RulesetCreated, abi: ABI, policy: &Policy) -> Result<RulesetCreated> {
    let read_tree = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    for path in COMPILER_TREES {
        rules = add_rule(rules, Path::new(path), read_tree, true)?;
    }
    if let Some(tools) = &policy.tools {
        rules = add_rule(rules, tools, read_tree, false)?;
    }
    for path in COMPILER_FILES {
        rules = add_rule(rules, Path::new(path), AccessFs::ReadFile.into(), true)?;
    }
    let write_file = (AccessFs::WriteFile | AccessFs::Truncate) & AccessFs::from_all(abi);
    rules = add_rule(rules, Path::new("/dev/null"), write_file | AccessFs::ReadFile, false)?;
    let Some(scratch) = &policy.scratch else {
        fail!("lockdown: a compiler needs a scratch directory");
    };
    let write_tree = AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::MakeDir | AccessFs::RemoveDir;
    let mut access = write_file | write_tree | AccessFs::ReadFile | AccessFs::ReadDir;
    if policy.cache.is_some() {
        // Finished files are moved from one folder to another.
        access = (access | AccessFs::Refer) & AccessFs::from_all(abi);
    }
    for folder in policy.cache.iter().chain([scratch]) {
        rules = add_rule(rules, folder, access, false)?;
    }
    Ok(rules)
}

/// Adds the rules for a profile's grants. They allow creating only regular files and folders, and never
/// running a program.
fn add_grants(mut rules: RulesetCreated, abi: ABI, rights: &Rights) -> Result<RulesetCreated> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let file = AccessFs::WriteFile | AccessFs::Truncate;
    let tree = AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::MakeDir | AccessFs::RemoveDir;
    let all =
        rights.read.iter().map(|p| (p, read)).chain(rights.write.iter().map(|p| (p, read | file | tree)));
    for (path, access) in all {
        let opened = open_granted(path).map_err(|error| {
            Error::io(format_args!("lockdown: cannot open the granted path {}", path.display()), &error)
        })?;
        // Rights of folders do not apply to a file, and are an error.
        let access = if is_folder(&opened)? { access } else { access & AccessFs::from_file(abi) };
        rules = rules.add_rule(PathBeneath::new(opened, access)).map_err(landlock_error)?;
    }
    Ok(rules)
}

/// Opens a granted path with `O_PATH`. The path must contain no symbolic link: the link's owner would decide
/// which file is granted.
///
/// # Errors
/// ELOOP for a symbolic link; those of `openat2`.
pub fn open_granted(path: &Path) -> io::Result<OwnedFd> {
    const NO_SYMLINKS: u64 = 0x04;
    let name = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let how = [u64::from((libc::O_PATH | libc::O_CLOEXEC).cast_unsigned()), 0, NO_SYMLINKS];
    // SAFETY: a NUL-terminated path and an `open_how` of three words, both live.
    let fd = unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, name.as_ptr(), how.as_ptr(), size_of_val(&how))
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel just gave us this descriptor.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_folder(opened: &OwnedFd) -> Result<bool> {
    // SAFETY: all-zero is a valid stat, and the descriptor is live.
    unsafe {
        let mut meta: libc::stat = std::mem::zeroed();
        if libc::fstat(opened.as_raw_fd(), &raw mut meta) != 0 {
            return Err(Error::last_os("lockdown: cannot examine a granted path"));
        }
        Ok(meta.st_mode & libc::S_IFMT == libc::S_IFDIR)
    }
}

/// Allows `access` at and below `path`. A missing path is skipped only if it is `optional`.
fn add_rule(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    optional: bool,
) -> Result<RulesetCreated> {
    if optional && !path.exists() {
        return Ok(rules);
    }
    let opened =
        PathFd::new(path).map_err(|error| Error::new(format!("lockdown: {}: {error}", path.display())))?;
    rules.add_rule(PathBeneath::new(opened, access)).map_err(landlock_error)
}

fn landlock_error(error: ::landlock::RulesetError) -> Error {
    Error::new(format!("lockdown: Landlock: {error}"))
}
