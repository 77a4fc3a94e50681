//! The datasets of a call, as Lua sees them.

use super::{CallSlot, lua_nans};
use crate::datatype::Datatype;
use crate::error::Result;

const MAX_RANK: usize = 32;

/// The slot as the prelude's `ffi.cdef` declares it.
#[repr(C)]
#[derive(Clone, Copy)]
struct FfiSlot {
    /// The elements for Lua: where they lie, or a copy.
    data: *mut u8,
    /// Where they lie.
    raw: *mut u8,
    /// Their bytes.
    bytes: f64,
    /// Not 0 once `data` is what Lua may read.
    looked_at: f64,
    /// Of the first slot: what Lua has found out about all in this call; 0 is nothing yet.
    odd: f64,
    rank: u64,
    dims: [u64; MAX_RANK],
    start: [u64; MAX_RANK],
}

/// The elements of a slot.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) datatype: Datatype,
    pub(super) output: bool,
    /// Where they lie; during a call the host leaves inputs as they are, and nothing but the function writes outputs.
    pub(super) data: *mut u8,
    pub(super) bytes: usize,
    /// The copy that Lua is given, for its [NaNs](lua_nans); empty if it is given the elements themselves.
    pub(super) copy: Vec<u64>,
}

/// Those of a function.
pub(super) struct Slots {
    /// Lua has its address.
    seen: Box<[FfiSlot]>,
    pub(super) regions: Vec<Region>,
    /// Inputs that were looked at, and loops that were computed, since the call began.
    #[cfg(test)]
    pub(super) counted: (std::cell::Cell<usize>, std::cell::Cell<usize>),
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("regions", &self.regions).finish_non_exhaustive()
    }
}

impl Slots {
    pub(super) fn new(types: &[Datatype]) -> Self {
        let nothing = std::ptr::null_mut();
        let empty = FfiSlot {
            data: nothing,
            raw: nothing,
            bytes: 0.0,
            looked_at: 1.0,
            odd: 1.0,
            rank: 0,
            dims: [0; MAX_RANK],
            start: [0; MAX_RANK],
        };
        let region = |datatype: &Datatype| Region {
            datatype: datatype.clone(),
            output: false,
            data: nothing,
            bytes: 0,
            copy: Vec::new(),
        };
        Slots {
            seen: vec![empty; types.len().max(1)].into_boxed_slice(),
            regions: types.iter().map(region).collect(),
            #[cfg(test)]
            counted: Default::default(),
        }
    }

    /// Where Lua finds them.
    pub(super) fn address(&self) -> usize {
        self.seen.as_ptr() as usize
    }

    /// Those of a call that begins.
    pub(super) fn take(&mut self, slots: &[CallSlot<'_>]) {
        #[cfg(test)]
        {
            self.counted = Default::default();
        }
        for ((to, region), from) in self.seen.iter_mut().zip(&mut self.regions).zip(slots) {
            let bytes = usize::try_from(from.count).ok().and_then(|n| n.checked_mul(from.datatype.size()));
            region.output = from.output;
            region.data = from.data;
            region.bytes = bytes.unwrap_or(0);
            region.copy = Vec::new();
            let as_it_is = from.output || region.bytes == 0 || !lua_nans::has_floats(&region.datatype);
            (to.data, to.raw) = (from.data, from.data);
            #[expect(clippy::cast_precision_loss, reason = "memory has fewer than 2^53 bytes")]
            let bytes = region.bytes as f64;
            to.bytes = bytes;
            to.looked_at = f64::from(u8::from(as_it_is));
            to.odd = 0.0;
            to.rank = from.dims.len() as u64;
            for (d, &n) in to.dims.iter_mut().zip(from.dims) {
                *d = n;
            }
            for (d, &n) in to.start.iter_mut().zip(from.start) {
                *d = n;
            }
        }
    }

    /// The call is over, and its memory of no use. Lua keeps the addresses, as it would those that it asked for.
    pub(super) fn forget(&mut self) {
        for (seen, region) in self.seen.iter_mut().zip(&mut self.regions) {
            region.bytes = 0;
            seen.looked_at = 1.0;
        }
    }

    /// Makes `data` of a slot what Lua may read.
    ///
    /// # Errors
    /// `Failed` if there is no memory for a copy.
    pub(super) fn look(&mut self, index: usize) -> Result<()> {
        let (Some(seen), Some(region)) = (self.seen.get_mut(index), self.regions.get_mut(index)) else {
            return Ok(());
        };
        if region.bytes > 0 && seen.looked_at == 0.0 {
            #[cfg(test)]
            self.counted.0.update(|n| n + 1);
            // SAFETY: the host put so many elements there, and leaves them as they are while the call runs.
            let elements = unsafe { std::slice::from_raw_parts(region.data.cast_const(), region.bytes) };
            if lua_nans::any_odd(&region.datatype, elements) {
                seen.data = lua_nans::mended(&region.datatype, elements, &mut region.copy)?;
            }
        }
        seen.looked_at = 1.0;
        Ok(())
    }
}
