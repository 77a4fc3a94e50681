//! Concurrent requests to many files.

use super::{Remote, Source, interrupt, object_store};
use crate::{Error, Result};
use bytes::Bytes;
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of sources that fetch at once, if each has its own budget of requests.
const SOURCES_AT_ONCE: usize = 16;

/// Callback for a range that has arrived: the number of the file, the range's index in the list of that file,
/// and the bytes. An error ends the fetch.
pub(crate) type LandOf<'a> = dyn FnMut(usize, usize, Bytes) -> Result<()> + 'a;

/// A file over a network, and the ranges of it that are wanted.
pub(crate) type WantedOf = (Arc<dyn Source>, Vec<Range<u64>>);

/// Fetches ranges of many files and calls `land` with each, on this thread. Objects in stores share one
/// budget of requests in flight and of bytes; other sources have their own.
///
/// # Errors
/// The first error of a request whose retries failed, or of `land`.
pub(crate) fn fetch_many(wanted: &[WantedOf], land: &mut LandOf<'_>) -> Result<()> {
    let mut objects: Vec<(usize, &dyn Remote, &[Range<u64>])> = Vec::new();
    let mut others = Vec::new();
    for (number, (source, ranges)) in wanted.iter().enumerate() {
        let remote = source.remote();
        let remote = remote.ok_or_else(|| Error::invalid("cannot plan requests for a local file"))?;
        let list = if remote.as_any().is_some() { &mut objects } else { &mut others };
        list.push((number, remote, ranges.as_slice()));
    }
    if !objects.is_empty() {
        let pairs: Vec<(&dyn Remote, &[Range<u64>])> =
            objects.iter().map(|(_, remote, ranges)| (*remote, *ranges)).collect();
        object_store::fetch_many(&pairs, &mut |object, place, bytes| {
            objects.get(object).map_or(Ok(()), |(number, ..)| land(*number, place, bytes))
        })?;
    }
    match others.as_slice() {
        [] => Ok(()),
        [(number, remote, ranges)] => remote.fetch(ranges, &mut |place, bytes| land(*number, place, bytes)),
        _ => fetch_side_by_side(&others, land),
    }
}

/// Fetches from sources with their own budgets, each on its own thread.
fn fetch_side_by_side(wanted: &[(usize, &dyn Remote, &[Range<u64>])], land: &mut LandOf<'_>) -> Result<()> {
    let at_once = wanted.len().min(SOURCES_AT_ONCE);
    let jobs = Mutex::new(wanted.iter());
    let ask = interrupt::current_interrupt();
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Result<(usize, usize, Bytes)>>(at_once);
        let mut started = 0;
        for _ in 0..at_once {
            let (send, jobs, ask) = (send.clone(), &jobs, ask.clone());
            let work = move || {
                interrupt::with_interrupt(ask, || {
                    loop {
                        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some((number, remote, ranges)) = next else { break };
                        // After an error, the receiver was dropped; this ends the fetch.
                        let gone = || Error::invalid("stopped after another error");
                        let fetched = remote.fetch(ranges, &mut |place, bytes| {
                            send.send(Ok((*number, place, bytes))).map_err(|_| gone())
                        });
                        if let Err(error) = fetched {
                            drop(send.send(Err(error)));
                            break;
                        }
                    }
                });
            };
            let thread = std::thread::Builder::new().name("hyperchunk-fetch".into());
            started += usize::from(thread.spawn_scoped(scope, work).is_ok());
        }
        drop(send);
        if started == 0 {
            return wanted.iter().try_for_each(|(number, remote, ranges)| {
                remote.fetch(ranges, &mut |place, bytes| land(*number, place, bytes))
            });
        }
        // `into_iter` drops the receiver after an error, so that the senders stop.
        receive.into_iter().try_for_each(|landed| {
            let (number, place, bytes) = landed?;
            land(number, place, bytes)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Counters, Land, RemoteOptions, RequestCost};
    use std::sync::LazyLock;

    /// A source whose byte at an offset is its number plus the offset; it fails at byte 99.
    #[derive(Debug)]
    struct NumberedSource(u8);

    impl Source for NumberedSource {
        fn size(&self) -> u64 {
            100
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            for (place, byte) in buffer.iter_mut().enumerate() {
                let at = u8::try_from(offset).unwrap() + u8::try_from(place).unwrap();
                if at == 99 {
                    return Err(Error::corrupt("ninety-nine").file(self.0));
                }
                *byte = self.0 + at;
            }
            Ok(())
        }

        fn remote(&self) -> Option<&dyn Remote> {
            Some(self)
        }
    }

    impl Remote for NumberedSource {
        fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
            for (place, range) in ranges.iter().enumerate() {
                let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
                self.read_at(range.start, &mut bytes)?;
                land(place, bytes.into())?;
            }
            Ok(())
        }

        fn identity(&self) -> &str {
            "numbered"
        }

        fn counters(&self) -> &Counters {
            static NONE: LazyLock<Counters> = LazyLock::new(Counters::default);
            &NONE
        }

        fn options(&self) -> &RemoteOptions {
            static DEFAULT: LazyLock<RemoteOptions> = LazyLock::new(RemoteOptions::default);
            &DEFAULT
        }

        fn cost(&self) -> RequestCost {
            RequestCost::default()
        }
    }

    fn wanted(last: u64) -> Vec<WantedOf> {
        let source = |number| Arc::new(NumberedSource(number)) as Arc<dyn Source>;
        (0..40).map(|number| (source(number), vec![3..5, u64::from(number)..last])).collect()
    }

    #[test]
    fn every_range_lands_once() {
        let mut landed = Vec::new();
        fetch_many(&wanted(60), &mut |file, place, bytes| {
            landed.push((file, place, bytes.first().copied(), bytes.len()));
            Ok(())
        })
        .unwrap();
        landed.sort_unstable();
        let expected: Vec<_> = (0..40_u8)
            .flat_map(|number| {
                let file = usize::from(number);
                [(file, 0, Some(number + 3), 2), (file, 1, Some(2 * number), 60 - file)]
            })
            .collect();
        assert_eq!(landed, expected);
    }

    #[test]
    fn the_first_error_ends_it() {
        let error = fetch_many(&wanted(100), &mut |_, _, _| Ok(())).unwrap_err();
        assert_eq!(error.message(), "ninety-nine");
        let mut count = 0;
        let error = fetch_many(&wanted(60), &mut |_, _, _| {
            count += 1;
            if count == 5 { Err(Error::corrupt("five")) } else { Ok(()) }
        });
        assert_eq!((error.unwrap_err().message(), count), ("five", 5));
        let local: Arc<dyn Source> = Arc::new(crate::io::Memory::new(vec![1, 2]));
        let ranges = std::iter::once(0..1).collect();
        assert!(fetch_many(&[(local, ranges)], &mut |_, _, _| Ok(())).is_err());
    }
}
