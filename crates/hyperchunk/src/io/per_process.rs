//! What all of a process shares, and no child of it does.

use crate::Result;
use std::sync::OnceLock;

/// A value that each process makes for itself: threads and connections do not outlive a fork.
#[derive(Debug)]
pub struct PerProcess<T>(OnceLock<Box<Made<T>>>);

#[derive(Debug)]
struct Made<T> {
    id: u32,
    value: T,
    /// That of a child that was forked off, seen from there.
    child: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// That of this process, made if it is not there. `spare` is for one that another thread was faster with.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(&self, make: impl Fn() -> Result<T>, spare: impl Fn(T)) -> Result<&T> {
        let id = std::process::id();
        let mut place = self;
        loop {
            match place.0.get() {
                Some(made) if made.id == id => return Ok(&made.value),
                Some(made) => place = &made.child,
                None => {
                    // Made before it is put there: nobody is ever inside the lock for long, so a fork finds it open.
                    let made = Made { id, value: make()?, child: Self::new() };
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
