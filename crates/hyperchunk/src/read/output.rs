//! The caller's buffer, filled from many threads at once.

use crate::{Error, Result};
use hyperchunk_format::convert::Conversion;
use hyperchunk_format::select::{Column, Run};
use std::marker::PhantomData;

/// Size in bytes of the fill values that are converted at once.
const FILL_BYTES: usize = 1 << 16;

/// The caller's buffer. Threads write to it concurrently, each to elements of its own.
#[derive(Debug)]
pub struct Output<'a> {
    start: *mut u8,
    /// Number of elements.
    length: usize,
    /// The size of a stored element.
    pub(crate) stored_size: usize,
    /// The size of an element in the buffer.
    pub(crate) memory_size: usize,
    conversion: Option<&'a Conversion>,
    buffer: PhantomData<&'a mut [u8]>,
}

// SAFETY: the pointer is to bytes that are borrowed for 'a, and is written through `put` and `direct`
// alone, whose callers promise that no two threads have the same elements.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// Wraps a buffer of elements of `memory_size` bytes, for stored elements of `stored_size`.
    pub fn new(
        buffer: &'a mut [u8],
        stored_size: usize,
        memory_size: usize,
        conversion: Option<&'a Conversion>,
    ) -> Self {
        let length = buffer.len().checked_div(memory_size).unwrap_or(0);
        let start = buffer.as_mut_ptr();
        Self { start, length, stored_size, memory_size, conversion, buffer: PhantomData }
    }

    /// Returns whether elements are stored without conversion.
    pub fn is_copy(&self) -> bool {
        self.conversion.is_none()
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.length
    }

    /// Returns the size of the buffer in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.length * self.memory_size) as u64
    }

    /// Returns elements `first..first + count` as bytes.
    ///
    /// # Safety
    /// No other thread may have them at the same time.
    #[expect(clippy::mut_from_ref, reason = "disjoint parts of one buffer; see the contract")]
    unsafe fn part(&self, first: usize, count: usize) -> Result<&mut [u8]> {
        if first.checked_add(count).is_none_or(|end| end > self.length) {
            return Err(Error::invalid("a part of the selection is outside the buffer"));
        }
        // SAFETY: in bounds of the buffer that is borrowed for 'a, as just checked; alone there, as the
        // caller promises.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(self.start.add(first * self.memory_size), count * self.memory_size)
        })
    }

    /// Writes stored elements, from element `first` on.
    ///
    /// # Safety
    /// No other thread may have these elements at the same time.
    pub unsafe fn put(&self, first: usize, stored: &[u8]) -> Result<()> {
        let count = stored.len() / self.stored_size;
        // SAFETY: the caller's promise.
        let part = unsafe { self.part(first, count) }?;
        match self.conversion {
            None => part.copy_from_slice(stored),
            Some(conversion) => conversion.run(stored, part, count)?,
        }
        Ok(())
    }

    /// Writes the elements of a run of a box; `source` has the stored bytes of the box. `scratch` is for
    /// elements that must be converted.
    ///
    /// # Safety
    /// No other thread may have these elements at the same time.
    pub unsafe fn put_run(&self, run: &Run, source: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        let count = run.elements();
        // SAFETY: the caller's promise.
        let part = unsafe { self.part(run.target, count) }?;
        let copied = match self.conversion {
            None => run.copy(self.stored_size, source, part),
            Some(conversion) => {
                crate::room::resize(scratch, count.saturating_mul(self.stored_size))?;
                let copied = run.copy(self.stored_size, source, scratch);
                conversion.run(scratch, part, count)?;
                copied
            }
        };
        if copied { Ok(()) } else { Err(Error::invalid("a part of the selection is outside its chunk")) }
    }

    /// Writes the elements of a column; `source` has the stored bytes of the box. Only without a
    /// conversion.
    ///
    /// # Safety
    /// No other thread may have these elements at the same time.
    pub(crate) unsafe fn put_column(&self, column: &Column, source: &[u8]) -> Result<()> {
        if column.count == 0 || column.block == 0 {
            return Ok(());
        }
        let size = self.stored_size;
        let outside = || Error::invalid("a part of the selection is outside its chunk or the buffer");
        let (from, to) = column.spans().ok_or_else(outside)?;
        let end = |first: usize, span: usize| first.checked_add(span)?.checked_mul(size);
        let fits = end(column.source, from).is_some_and(|end| end <= source.len())
            && column.target.checked_add(to).is_some_and(|end| end <= self.length);
        if !fits || !self.is_copy() || size != self.memory_size {
            return Err(outside());
        }
        // SAFETY: the first elements of both, which are inside, as just checked.
        let (from, to) =
            unsafe { (source.as_ptr().add(column.source * size), self.start.add(column.target * size)) };
        let (source_step, target_step) = (column.source_step * size, column.target_step * size);
        // SAFETY: all blocks are inside of both, as just checked; the caller promises that no other thread
        // has them.
        unsafe {
            match column.block * size {
                1 => scatter::<1>(from, to, source_step, target_step, column.count),
                2 => scatter::<2>(from, to, source_step, target_step, column.count),
                4 => scatter::<4>(from, to, source_step, target_step, column.count),
                8 => scatter::<8>(from, to, source_step, target_step, column.count),
                16 => scatter::<16>(from, to, source_step, target_step, column.count),
                block => (0..column.count).for_each(|number| {
                    from.add(number * source_step)
                        .copy_to_nonoverlapping(to.add(number * target_step), block);
                }),
            }
        }
        Ok(())
    }

    /// Writes a part of each element of a run of a box. `source` has `size` bytes for each element of the
    /// box. `put` gets the run's bytes and its elements in the buffer, and returns false if they do not fit.
    /// Only without a conversion.
    ///
    /// # Safety
    /// No other thread may have these elements at the same time.
    pub unsafe fn put_parts(
        &self,
        run: &Run,
        (size, source): (usize, &[u8]),
        scratch: &mut Vec<u8>,
        put: impl FnOnce(&[u8], &mut [u8]) -> bool,
    ) -> Result<()> {
        if !self.is_copy() {
            return Err(Error::invalid("parts of elements cannot be converted"));
        }
        let count = run.elements();
        // SAFETY: the caller's promise.
        let part = unsafe { self.part(run.target, count) }?;
        let range = run.source.checked_mul(size).zip(count.checked_mul(size));
        let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let done = match range.filter(|_| run.count == 1) {
            Some(range) => source.get(range).is_some_and(|stored| put(stored, part)),
            None => {
                crate::room::resize(scratch, count.saturating_mul(size))?;
                run.copy(size, source, scratch) && put(scratch, part)
            }
        };
        if done { Ok(()) } else { Err(Error::invalid("a part of the selection is outside its chunk")) }
    }

    /// Returns the elements from `first` on as bytes, to be read into directly. Only without a conversion.
    ///
    /// # Safety
    /// No other thread may have these elements while the result lives.
    #[expect(clippy::mut_from_ref, reason = "disjoint parts of one buffer; see the contract")]
    pub unsafe fn direct(&self, first: usize, count: usize) -> Result<&mut [u8]> {
        debug_assert!(self.is_copy(), "a conversion is needed");
        // SAFETY: the caller's promise.
        unsafe { self.part(first, count) }
    }

    /// Writes `count` copies of a stored element, zeros if `None`, from element `first` on.
    ///
    /// # Safety
    /// No other thread may have these elements at the same time.
    pub unsafe fn fill(&self, first: usize, count: usize, stored: Option<&[u8]>) -> Result<()> {
        // SAFETY: the caller's promise.
        let part = unsafe { self.part(first, count) }?;
        if let Some(conversion) = self.conversion.filter(|conversion| conversion.is_partial()) {
            // The other members of the buffer's elements keep their values.
            let one = match stored {
                Some(stored) => stored.to_vec(),
                None => crate::room::zeros(self.stored_size)?,
            };
            let most = (FILL_BYTES / self.stored_size.max(1)).clamp(1, count.max(1));
            let many = one.repeat(most);
            for part in part.chunks_mut(self.memory_size.saturating_mul(most).max(1)) {
                let count = part.len().checked_div(self.memory_size).unwrap_or(0);
                conversion.run(many.get(..count * self.stored_size).unwrap_or_default(), part, count)?;
            }
            return Ok(());
        }
        let mut converted = Vec::new();
        let element = match (self.conversion, stored) {
            (None, None) => {
                part.fill(0);
                return Ok(());
            }
            (None, Some(stored)) => stored,
            (Some(conversion), stored) => {
                crate::room::resize(&mut converted, self.memory_size)?;
                let zeros = if stored.is_none() { crate::room::zeros(self.stored_size)? } else { Vec::new() };
                conversion.run(stored.unwrap_or(&zeros), &mut converted, 1)?;
                &converted
            }
        };
        match element.first() {
            Some(first) if element.iter().all(|byte| byte == first) => part.fill(*first),
            Some(_) => part.chunks_exact_mut(element.len()).for_each(|to| to.copy_from_slice(element)),
            None => {}
        }
        Ok(())
    }
}

/// Copies `count` blocks of `N` bytes with the given strides in bytes.
///
/// # Safety
/// All blocks must be inside of the two buffers, which must not overlap.
unsafe fn scatter<const N: usize>(
    from: *const u8,
    to: *mut u8,
    source_step: usize,
    target_step: usize,
    count: usize,
) {
    for number in 0..count {
        // SAFETY: the caller's promise; an array of bytes needs no alignment.
        unsafe {
            let block = from.add(number * source_step).cast::<[u8; N]>().read();
            to.add(number * target_step).cast::<[u8; N]>().write(block);
        }
    }
}
