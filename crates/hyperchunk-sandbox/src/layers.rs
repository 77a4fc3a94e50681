//! Set of active sandbox layers, as sent in the worker's ready message.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Flag of builds without a sandbox, which measure its cost (`bench/hdf5_udf.py`); reports and
/// `hyperchunk doctor` say so. No run-time setting does this, and hosts of ordinary builds refuse workers of
/// such a build.
pub const UNCONTAINED: bool = option_env!("HYPERCHUNK_BUILD_WITHOUT_SANDBOX").is_some();

/// Set of sandbox layers; a `u32` in messages, a list of names for display.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Layers(pub u32);

const NAMES: [(Layers, &str); 8] = [
    (Layers::NO_NEW_PRIVS, "no_new_privs"),
    (Layers::RLIMITS, "rlimits"),
    (Layers::LANDLOCK, "landlock"),
    (Layers::SECCOMP, "seccomp"),
    (Layers::USERNS, "userns"),
    (Layers::NETNS, "netns"),
    (Layers::IPCNS, "ipcns"),
    (Layers::UTSNS, "utsns"),
];

impl Layers {
    /// No layer.
    pub const NONE: Layers = Layers(0);
    /// No program that the process starts gains privileges. Implies closed descriptors, dropped capabilities
    /// and no inspection by other processes of the user.
    pub const NO_NEW_PRIVS: Layers = Layers(1);
    /// Resource limits.
    pub const RLIMITS: Layers = Layers(1 << 1);
    /// Landlock, with every feature of the kernel's version.
    pub const LANDLOCK: Layers = Layers(1 << 2);
    /// Seccomp filters.
    pub const SECCOMP: Layers = Layers(1 << 3);
    /// Private user namespace.
    pub const USERNS: Layers = Layers(1 << 4);
    /// Empty network namespace.
    pub const NETNS: Layers = Layers(1 << 5);
    /// Private System V IPC namespace.
    pub const IPCNS: Layers = Layers(1 << 6);
    /// Private host name namespace.
    pub const UTSNS: Layers = Layers(1 << 7);
    /// Every layer.
    pub const ALL: Layers = Layers(0xff);
    /// Layers without which no function runs.
    pub const MANDATORY: Layers = if UNCONTAINED { Layers::NONE } else { Layers(0b1111) };

    /// Returns whether every layer of `other` is in this set.
    pub fn contains(self, other: Layers) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names of the layers in this set. Bits without a name are skipped.
    pub fn names(self) -> Vec<&'static str> {
        NAMES.iter().filter(|(layer, _)| self.contains(*layer)).map(|(_, name)| *name).collect()
    }

    /// Returns the set with these names, or the first unknown name.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Layers, &'a str> {
        names.into_iter().try_fold(Layers::NONE, |set, name| {
            NAMES.iter().find(|(_, known)| *known == name).map(|(layer, _)| set | *layer).ok_or(name)
        })
    }
}

impl BitOr for Layers {
    type Output = Layers;

    fn bitor(self, other: Layers) -> Layers {
        Layers(self.0 | other.0)
    }
}

impl BitOrAssign for Layers {
    fn bitor_assign(&mut self, other: Layers) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({self})")
    }
}
