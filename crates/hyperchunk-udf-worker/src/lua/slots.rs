//! Datasets of a call, as Lua sees them.

use super::nan_boxing;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::error::Result;
use hyperchunk_udf::worker::CallSlot;

const MAX_RANK: usize = 32;

/// Slot as declared in the prelude's `ffi.cdef`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FfiSlot {
    /// Elements for Lua: in place, or a copy.
    data: *mut u8,
    /// Non-zero once Lua may read `data`.
    looked_at: f64,
    rank: u64,
    dims: [u64; MAX_RANK],
    start: [u64; MAX_RANK],
}

/// Elements of a slot.
#[derive(Debug)]
struct Region {
    datatype: Datatype,
    /// Elements in place. During a call the host does not change inputs, and only the function writes
    /// outputs.
    data: *mut u8,
    bytes: usize,
    /// Copy for Lua, because of its [NaNs](nan_boxing); empty if Lua gets the elements in place.
    copy: Vec<u64>,
}

/// Slots of a function.
pub(super) struct Slots {
    /// Boxed, since Lua keeps the address.
    seen: Box<[FfiSlot]>,
    regions: Vec<Region>,
    /// Number of checked inputs since the call began.
    #[cfg(test)]
    pub(super) checked: usize,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("regions", &self.regions).finish_non_exhaustive()
    }
}

impl Slots {
    pub(super) fn new(types: &[Datatype]) -> Self {
        let nothing = std::ptr::null_mut();
        let empty =
            FfiSlot { data: nothing, looked_at: 1.0, rank: 0, dims: [0; MAX_RANK], start: [0; MAX_RANK] };
        let region = |datatype: &Datatype| Region {
            datatype: datatype.clone(),
            data: nothing,
            bytes: 0,
            copy: Vec::new(),
        };
        Slots {
            seen: vec![empty; types.len().max(1)].into_boxed_slice(),
            regions: types.iter().map(region).collect(),
            #[cfg(test)]
            checked: 0,
        }
    }

    /// Returns the address of the slots for Lua.
    pub(super) fn address(&self) -> usize {
        self.seen.as_ptr() as usize
    }

    /// Takes the slots of a new call.
    pub(super) fn take(&mut self, slots: &[CallSlot<'_>]) {
        #[cfg(test)]
        {
            self.checked = 0;
        }
        for ((to, region), from) in self.seen.iter_mut().zip(&mut self.regions).zip(slots) {
            let bytes = usize::try_from(from.count).ok().and_then(|n| n.checked_mul(from.datatype.size()));
            region.data = from.data;
            region.bytes = bytes.unwrap_or(0);
            region.copy = Vec::new();
            let as_it_is = from.output || region.bytes == 0 || !nan_boxing::has_floats(&region.datatype);
            to.data = from.data;
            to.looked_at = f64::from(u8::from(as_it_is));
            to.rank = from.dims.len() as u64;
            for (d, &n) in to.dims.iter_mut().zip(from.dims) {
                *d = n;
            }
            for (d, &n) in to.start.iter_mut().zip(from.start) {
                *d = n;
            }
        }
    }

    /// Ends the call, whose memory must not be used afterwards. Lua keeps the addresses, like any that it has
    /// read.
    pub(super) fn forget(&mut self) {
        for (seen, region) in self.seen.iter_mut().zip(&mut self.regions) {
            region.bytes = 0;
            seen.looked_at = 1.0;
        }
    }

    /// Checks the elements of a slot, and replaces them by a copy if they have boxed NaNs, so that Lua may
    /// read them.
    ///
    /// # Errors
    /// `Failed` if there is no memory for a copy.
    pub(super) fn look(&mut self, index: usize) -> Result<()> {
        let (Some(seen), Some(region)) = (self.seen.get_mut(index), self.regions.get_mut(index)) else {
            return Ok(());
        };
        if region.bytes > 0 && seen.looked_at == 0.0 {
            #[cfg(test)]
            {
                self.checked += 1;
            }
            // SAFETY: the host mapped `bytes` bytes there, and does not change them while the call runs.
            let elements = unsafe { std::slice::from_raw_parts(region.data.cast_const(), region.bytes) };
            if nan_boxing::has_boxed_nans(&region.datatype, elements) {
                seen.data = nan_boxing::canonicalize(&region.datatype, elements, &mut region.copy)?;
            }
        }
        seen.looked_at = 1.0;
        Ok(())
    }
}
