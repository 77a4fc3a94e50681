//! Repeated reads of structure and filtered chunks that another program may be overwriting (SWMR).

use crate::{Error, ErrorKind, Result};
use std::time::Duration;

/// Maximum number of attempts before structure or a chunk counts as damaged, as in libhdf5.
const MAX_ATTEMPTS: u32 = 100;
/// Number of attempts without a pause; later ones wait ever longer, up to a bound.
const QUICK_ATTEMPTS: u32 = 10;
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Runs `read`; if the bytes may be `torn`, runs it again until checksums match and filters succeed. A SWMR
/// writer overwrites structure, and chunks whose size stays the same, in place.
pub(crate) fn again<T>(torn: bool, read: impl Fn() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match read() {
            Err(error) if torn && may_be_torn(&error) => {
                if attempt == MAX_ATTEMPTS {
                    let message = format!(
                        "{}; read {MAX_ATTEMPTS} times while the file was written in SWMR mode: the writer is damaging it, or \
                         was killed",
                        error.message()
                    );
                    return Err(error.with_message(message));
                }
                if attempt > QUICK_ATTEMPTS {
                    std::thread::sleep(Duration::from_micros(100 << (attempt / 10)).min(LONGEST_WAIT));
                }
                attempt += 1;
            }
            read => return read,
        }
    }
}

fn may_be_torn(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corrupt | ErrorKind::Truncated | ErrorKind::Unsupported | ErrorKind::Filter
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_torn_is_read_again() {
        let count = Cell::new(0);
        let read = |right| {
            count.set(0);
            again(true, || {
                count.set(count.get() + 1);
                if count.get() == right { Ok(count.get()) } else { Err(Error::corrupt("checksum").at(7)) }
            })
        };
        assert_eq!(read(30).unwrap(), 30);
        let error = read(101).unwrap_err();
        assert_eq!((error.kind(), error.offset(), count.get()), (ErrorKind::Corrupt, Some(7), 100));
        assert!(error.message().contains("read 100 times"), "{error}");
        count.set(0);
        let once = again(false, || -> Result<()> {
            count.set(count.get() + 1);
            Err(Error::corrupt("checksum"))
        });
        assert!(once.is_err() && count.get() == 1);
    }
}
