//! Each filter alone: a byte for the filter, a byte for how many parameters, the parameters, how many bytes are expected (four
//! bytes each), what is stored.

use hyperchunk_format::codec::{Decoder, lookup};
use hyperchunk_format::model::Filter;

/// All filters that may be built in.
const FILTERS: [u16; 25] = [
    1, 2, 3, 4, 5, 6, 307, 32000, 32001, 32004, 32008, 32013, 32015, 32017, 32018, 32022, 32023, 32024,
    32026, 32028, 32032, 305, 31300, 257, 32003,
];
/// The most that is expected.
const MAX_EXPECTED_BYTES: usize = 1 << 20;

/// The bytes for [`codec`] that undo a filter.
#[must_use]
pub fn input(filter: &Filter, expected: usize, stored: &[u8]) -> Option<Vec<u8>> {
    let number = FILTERS.iter().position(|id| *id == filter.id)?;
    let count = u8::try_from(filter.parameters.len()).ok()?;
    let mut data = vec![u8::try_from(number).ok()?, count];
    filter.parameters.iter().for_each(|parameter| data.extend(parameter.to_le_bytes()));
    data.extend(u32::try_from(expected).ok()?.to_le_bytes());
    data.extend_from_slice(stored);
    Some(data)
}

pub(super) fn codec(data: &[u8]) {
    let Some(([number, count], mut rest)) = data.split_first_chunk() else { return };
    let mut word = || {
        let (word, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(u32::from_le_bytes(*word))
    };
    let parameters: Option<Vec<u32>> = (0..*count).map(|_| word()).collect();
    let (Some(parameters), Some(expected)) = (parameters, word()) else { return };
    let expected = usize::try_from(expected).unwrap_or(MAX_EXPECTED_BYTES).min(MAX_EXPECTED_BYTES);
    let id = FILTERS[usize::from(*number) % FILTERS.len()];
    if lookup(id, |codec| codec.is_none()) {
        return;
    }
    let filter = Filter { id, name: None, optional: false, parameters };
    let mut decoder = Decoder::default();
    if let Ok(bytes) = decoder.decode(std::slice::from_ref(&filter), 0, rest, expected) {
        assert_eq!(bytes.len(), expected);
    }
    // Twice, with something before: then no size is known, and buffers are not clean.
    let twice = [Filter { id: 1, name: None, optional: false, parameters: vec![6] }, filter];
    let _ = decoder.decode(&twice, 0, rest, expected);
}
