//! Raw data fetched speculatively in the same round trip as structure, before it is certain to be needed.

use super::RemoteOptions;
use super::blocks::RemoteBlocks;
use super::ranges;
use bytes::{Bytes, BytesMut};
use hyperchunk_format::thread_state::with_state;
use std::cell::RefCell;
use std::ops::Range;

/// A range of a file to be fetched with the next structure that this thread fetches.
struct Beside {
    /// Digest of the file's identity.
    file: [u8; 16],
    range: Range<u64>,
    bytes: BytesMut,
    /// Number of requests that have not landed; `None` before they are made.
    left: Option<usize>,
}

thread_local! {
    static BESIDE: RefCell<Option<Beside>> = const { RefCell::new(None) };
}

/// Runs `work`, which fetches structure of a file, and fetches a range of the file together with its first
/// requests. The bytes are `None` if `work` fetches nothing, or if not all of them arrived.
pub(super) fn fetch<T>(
    file: &RemoteBlocks,
    range: Range<u64>,
    work: impl FnOnce() -> T,
) -> (T, Option<Bytes>) {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            with_state(&BESIDE, Option::take);
        }
    }
    let _clear = Clear;
    let beside = Beside { file: file.file(), range, bytes: BytesMut::new(), left: None };
    with_state(&BESIDE, |kept| *kept = Some(beside));
    let done = work();
    let whole = with_state(&BESIDE, Option::take).filter(|beside| beside.left == Some(0));
    (done, whole.map(|beside| beside.bytes.freeze()))
}

/// Returns the requests for the range that this thread fetches together with structure of a file. Later calls
/// return none.
pub(super) fn requests(file: &[u8; 16], options: &RemoteOptions) -> Vec<Range<u64>> {
    with_state(&BESIDE, |beside| {
        let Some(beside) = beside.as_mut().filter(|beside| beside.file == *file && beside.left.is_none())
        else {
            return Vec::new();
        };
        let requests = ranges::requests(&beside.range, options);
        let length = usize::try_from(beside.range.end.saturating_sub(beside.range.start));
        // A range that does not fit into memory is not fetched ahead.
        let Ok(length) = length else { return Vec::new() };
        beside.bytes = BytesMut::zeroed(length);
        beside.left = Some(requests.len());
        requests
    })
}

/// Copies the bytes of one of these requests into the range's buffer.
pub(super) fn land(start: u64, bytes: &[u8]) {
    with_state(&BESIDE, |beside| {
        let Some(Beside { range, bytes: whole, left: Some(left), .. }) = beside else { return };
        let from = start.checked_sub(range.start).and_then(|from| usize::try_from(from).ok());
        let place = from.and_then(|from| whole.get_mut(from..from.checked_add(bytes.len())?));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
            *left = left.saturating_sub(1);
        }
    });
}
