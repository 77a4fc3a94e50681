//! Values that a process shares but a forked child does not inherit.

use crate::Result;
use std::sync::OnceLock;

/// A value that each process creates for itself, because threads and connections do not survive a fork.
#[derive(Debug)]
pub struct PerProcess<T>(OnceLock<Box<Instance<T>>>);

#[derive(Debug)]
struct Instance<T> {
    id: u32,
    value: T,
    /// The value of a forked child, as seen from there.
    child: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// Creates an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns this process's value, and creates it first if needed. `spare` takes the value if another
    /// thread was faster to create one.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get(&self, make: impl Fn() -> Result<T>, spare: impl Fn(T)) -> Result<&T> {
        let id = crate::os::process_id();
        let mut place = self;
        loop {
            match place.0.get() {
                Some(made) if made.id == id => return Ok(&made.value),
                Some(made) => place = &made.child,
                None => {
                    // Created before it is stored, so that no thread holds the cell's lock for long and a
                    // fork finds it unlocked.
                    let made = Instance { id, value: make()?, child: Self::new() };
                    if let Err(made) = place.0.set(Box::new(made)) {
                        spare(made.value);
                    }
                }
            }
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}
