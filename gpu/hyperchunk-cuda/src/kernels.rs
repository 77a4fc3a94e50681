//! Our kernels: `kernels/ingest.cu`, with its PTX, which the driver compiles for the current GPU.

use crate::{Context, Function, Module, Result};
use std::sync::{Arc, Mutex, PoisonError};

const PTX: &str = include_str!("../kernels/ingest.ptx");

/// The kernels on one GPU.
#[derive(Debug)]
pub(crate) struct Kernels {
    /// Copies boxes in units of 1, 2, 4, 8 and 16 bytes.
    scatter: [Function; 5],
    /// The same with the bytes of each unit reversed: 2, 4 and 8.
    swap: [Function; 3],
    unshuffle_words: [Function; 3],
    pub(crate) unshuffle: Function,
    pub(crate) adler32: Function,
}

static LOADED: Mutex<Vec<(u32, Arc<Kernels>)>> = Mutex::new(Vec::new());

impl Kernels {
    /// Returns the kernels of a GPU, compiled at the first call.
    pub(crate) fn for_context(context: &Arc<Context>) -> Result<Arc<Kernels>> {
        context.make_current()?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernels)) = loaded.iter().find(|(ordinal, _)| *ordinal == context.ordinal()) {
            return Ok(Arc::clone(kernels));
        }
        let module = Module::load(context, PTX)?;
        let f = |name| module.function(name);
        let kernels = Arc::new(Kernels {
            scatter: [f("scatter_1")?, f("scatter_2")?, f("scatter_4")?, f("scatter_8")?, f("scatter_16")?],
            swap: [f("swap_2")?, f("swap_4")?, f("swap_8")?],
            unshuffle_words: [f("unshuffle_2")?, f("unshuffle_4")?, f("unshuffle_8")?],
            unshuffle: f("unshuffle")?,
            adler32: f("adler32")?,
        });
        loaded.push((context.ordinal(), Arc::clone(&kernels)));
        Ok(kernels)
    }

    /// Returns the kernel that copies boxes in these units, and optionally reverses them.
    pub(crate) fn scatter(&self, unit: u64, swap: bool) -> Option<&Function> {
        let place = unit.checked_ilog2().filter(|_| unit.is_power_of_two())? as usize;
        if swap { self.swap.get(place.checked_sub(1)?) } else { self.scatter.get(place) }
    }

    /// Returns the kernel that reverses the shuffle filter for elements of a word's size.
    pub(crate) fn unshuffle_words(&self, size: u32) -> Option<&Function> {
        match size {
            2 => self.unshuffle_words.first(),
            4 => self.unshuffle_words.get(1),
            8 => self.unshuffle_words.get(2),
            _ => None,
        }
    }
}
