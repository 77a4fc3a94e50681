//! Namespaces: an empty network, a private System V IPC and a private host name. Best effort.
//!
//! There is no pid namespace, since it would cost a fork, and no mount namespace: the seccomp filter and
//! Landlock already deny access to other processes and to files.

use std::ffi::c_int;
use std::fs;

use super::process::allow_inspection;
use super::{Layers, Runtime};
use crate::error::Result;

/// User and group of the process inside the namespace; outside, its ids are unchanged.
const NOBODY_UID: u32 = 65534;

/// Ubuntu's setting that denies capabilities in user namespaces, and thereby the mapping of a user into them.
const APPARMOR_RESTRICTION: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// Namespaces other than the user namespace.
const OTHERS: [(c_int, Layers); 3] = [
    (libc::CLONE_NEWNET, Layers::NETNS),
    (libc::CLONE_NEWIPC, Layers::IPCNS),
    (libc::CLONE_NEWUTS, Layers::UTSNS),
];

/// Enters as many namespaces as the system permits and returns them.
pub(super) fn enter(runtime: Runtime) -> Result<Layers> {
    let mut layers = Layers::NONE;
    // SAFETY: getuid and getgid cannot fail and have no memory effects.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let in_user_namespace = may_enter_user_namespace(runtime);
    // All in one call if the system supports all.
    if in_user_namespace && unshare(OTHERS.iter().fold(libc::CLONE_NEWUSER, |all, (flag, _)| all | flag)) {
        map_ids(user, group)?;
        return Ok(OTHERS.iter().fold(Layers::USERNS, |all, (_, layer)| all | *layer));
    }
    if in_user_namespace && unshare(libc::CLONE_NEWUSER) {
        layers |= Layers::USERNS;
        map_ids(user, group)?;
    }
    // One by one: a system may support only some of them, and root gets these without a user namespace.
    for (flag, layer) in OTHERS {
        if unshare(flag) {
            layers |= layer;
        }
    }
    Ok(layers)
}

/// Returns whether to enter a user namespace. A compiler does not where its user would stay unmapped:
/// creating files could then fail, and a process cannot leave the namespace again.
fn may_enter_user_namespace(runtime: Runtime) -> bool {
    runtime != Runtime::Compiler
        || fs::read_to_string(APPARMOR_RESTRICTION).map_or(true, |text| text.trim() != "1")
}

fn unshare(flag: c_int) -> bool {
    // SAFETY: these flags change which kernel objects this process sees and touch none of its memory.
    unsafe { libc::unshare(flag) == 0 }
}

/// Maps the user and group into the new namespace. A failure is harmless: an unmapped user has fewer rights.
fn map_ids(user: u32, group: u32) -> Result<()> {
    // On entering the namespace the process gained capabilities. The kernel therefore made it undumpable, and
    // the files of an undumpable process in /proc belong to root.
    allow_inspection()?;
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{NOBODY_UID} {user} 1\n"));
    let _ = fs::write("/proc/self/gid_map", format!("{NOBODY_UID} {group} 1\n"));
    Ok(())
}
