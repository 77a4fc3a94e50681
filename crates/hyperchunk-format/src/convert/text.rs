//! Conversion of fixed-length strings.

use crate::model::StringPadding;

/// Copies a string and pads the rest; excess characters are cut off.
pub(super) fn convert(from: &[u8], padding: StringPadding, to: &mut [u8], to_padding: StringPadding) {
    let length = match padding {
        // libhdf5 ends both at the first NUL.
        StringPadding::NullTerminated | StringPadding::NullPadded => from.iter().position(|byte| *byte == 0),
        StringPadding::SpacePadded => {
            Some(from.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at.saturating_add(1)))
        }
    };
    let length = length.unwrap_or(from.len()).min(to.len());
    let (text, rest) = to.split_at_mut(length);
    text.copy_from_slice(from.get(..length).unwrap_or_default());
    rest.fill(if to_padding == StringPadding::SpacePadded { b' ' } else { 0 });
    if to_padding == StringPadding::NullTerminated
        && let Some(last) = to.last_mut()
    {
        *last = 0;
    }
}
