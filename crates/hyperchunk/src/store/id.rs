//! Identifiers of writers, stores, datasets and sessions, made without a registry.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use twox_hash::XxHash3_128;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl $name {
            /// Parses 32 hexadecimal digits in lower case.
            #[must_use]
            pub fn from_hex(text: &str) -> Option<Self> {
                let digits = text.as_bytes();
                if digits.len() != 32 {
                    return None;
                }
                let mut id = [0; 16];
                for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
                    let digit = |at: usize| {
                        let digit = char::from(*pair.get(at)?);
                        if digit.is_ascii_uppercase() { None } else { digit.to_digit(16) }
                    };
                    *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
                }
                Some(Self(id))
            }
        }
    };
}

id! {
    /// Identifier of a writer (a process that writes to a store) and of its log. Needs no rank,
    /// counter or lock.
    WriterId
}
id! {
    /// Identifier of a store, to recognize a log that belongs to another one.
    StoreId
}
id! {
    /// Identifier of a dataset: the hash of its definition, so that writers with the same
    /// definition mean the same dataset.
    DatasetId
}
id! {
    /// Identifier of a group of cooperating processes: the hash of a job's name. Zeros if unknown.
    Session
}

impl WriterId {
    /// Makes a random id.
    #[must_use]
    pub fn new() -> Self {
        Self(random())
    }

    /// Makes a random id for a session. If the session is known, the id begins with its first
    /// bytes, so that names alone tell the logs of one session from all others.
    #[must_use]
    pub fn with_session(session: Session) -> Self {
        let mut id = Self::new();
        if let (Some(first), Some(name)) = (id.0.first_chunk_mut::<4>(), session.0.first_chunk())
            && !session.is_unknown()
        {
            *first = *name;
        }
        id
    }

    /// Returns whether the writer may belong to a session, judged by its id.
    #[must_use]
    pub fn may_belong_to(&self, session: Session) -> bool {
        session.is_unknown() || self.0.first_chunk::<4>() == session.0.first_chunk()
    }
}

impl StoreId {
    /// Makes a random id.
    #[must_use]
    pub fn new() -> Self {
        Self(random())
    }
}

impl Session {
    /// Returns the session of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(hash(name.as_bytes()))
    }

    /// Returns the session given by this process's launcher: `HYPERCHUNK_SESSION`, else the job and
    /// step of an MPI or SLURM launcher.
    #[must_use]
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(name) = variable("HYPERCHUNK_SESSION") {
            return Self::named(&name);
        }
        if let Some(job) = variable("SLURM_JOB_ID").filter(|_| variable("SLURM_PROCID").is_some()) {
            return Self::named(&format!("slurm {job} {}", variable("SLURM_STEP_ID").unwrap_or_default()));
        }
        for name in ["PMIX_NAMESPACE", "PMI_JOBID", "OMPI_MCA_ess_base_jobid"] {
            if let Some(job) = variable(name) {
                return Self::named(&format!("{name} {job}"));
            }
        }
        if variable("PMI_RANK").is_some() {
            // The launcher's proxy is the parent of each rank.
            return Self::named(&format!("hydra {} {:?}", parent(), started(parent())));
        }
        Self::default()
    }

    /// Returns whether the session is unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the number of processes that the launcher of this one started, if there is a launcher.
#[must_use]
pub fn launched() -> Option<u32> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    number("PMI_SIZE")
        .or_else(|| number("OMPI_COMM_WORLD_SIZE"))
        .or_else(|| std::env::var_os("SLURM_PROCID").and_then(|_| number("SLURM_NTASKS")))
        .filter(|size| *size > 0)
}

#[cfg(unix)]
fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[cfg(not(unix))]
fn parent() -> u32 {
    0
}

/// Returns the start time of a process in clock ticks since boot, which distinguishes it from an
/// earlier process of the same id.
fn started(process: u32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may have spaces; the start is the 20th field after it.
    line.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// Returns the xxh3 of 128 bits.
pub(super) fn hash(bytes: &[u8]) -> [u8; 16] {
    XxHash3_128::oneshot(bytes).to_be_bytes()
}

/// Returns 16 bytes that are unique among processes, from the system's randomness, the time, the
/// process id and a counter.
fn random() -> [u8; 16] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut bytes = Vec::new();
    // The keys of `RandomState` come from the system; after a fork the process id and the counter
    // differ.
    for salt in 0..2_u8 {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u8(salt);
        bytes.extend_from_slice(&hasher.finish().to_le_bytes());
    }
    bytes.extend_from_slice(&time.to_le_bytes());
    bytes.extend_from_slice(&std::process::id().to_le_bytes());
    bytes.extend_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hash(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_their_digits() {
        let id = WriterId::new();
        assert_eq!(WriterId::from_hex(&id.to_string()), Some(id));
        assert_ne!(id, WriterId::new());
        let session = Session::named("job");
        let one = WriterId::with_session(session);
        assert!(one.may_belong_to(session) && one.may_belong_to(Session::default()));
        assert_ne!(one, WriterId::with_session(session));
        assert!(!one.may_belong_to(Session::named("other")));
        for text in ["", "00", "zz000000000000000000000000000000", "AB000000000000000000000000000000"] {
            assert_eq!(DatasetId::from_hex(text), None, "{text}");
        }
    }
}
