//! Function's request to its host for a connection.

use super::SOCKET;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::network::Endpoint;
use crate::protocol::{self, Reply};
use crate::socket;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State of the current call, with its right to make requests. The lock also serialises use of the socket to
/// the host.
static CALLED: Mutex<State> = Mutex::new(State::NotCalled);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NotCalled,
    NotGranted,
    MayAsk,
}

fn called() -> MutexGuard<'static, State> {
    CALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the function. If a thread makes a request at the very end of the call, it gets the answer before this
/// returns.
pub(super) fn during<T>(granted: bool, call: impl FnOnce() -> T) -> T {
    *called() = if granted { State::MayAsk } else { State::NotGranted };
    let done = call();
    *called() = State::NotCalled;
    done
}

/// Implements `lib.connect`: returns a connected descriptor for `host:port`.
///
/// # Errors
/// `Refused` or `Io` with the host's reason, which the function may handle; `Worker` outside of a call.
pub fn connect(target: &str) -> Result<OwnedFd> {
    if target.len() > Endpoint::MAX_TEXT {
        fail!(Refused, "lib.connect: this is no endpoint (host:port)")
    }
    let called = called();
    match *called {
        State::MayAsk => {}
        State::NotGranted => fail!(Refused, "lib.connect: the profile grants no connections (`connect`)"),
        State::NotCalled => {
            fail!(
                Refused,
                "lib.connect: connections are made while dynamic_dataset runs, not before and not after"
            )
        }
    }
    // SAFETY: the host gave us this descriptor, and it stays open while we serve.
    let host = unsafe { BorrowedFd::borrow_raw(SOCKET) };
    socket::send(host, &protocol::encode_reply(&Reply::Connect(target.into())), &[])?;
    let answer = socket::receive_with_descriptors(host)?;
    drop(called);
    let Some((text, mut fds)) = answer else { fail!(Worker, "lib.connect: the reader is gone") };
    match (protocol::decode_connection(&text)?, fds.pop()) {
        (None, Some(fd)) => Ok(fd),
        (Some(reason), _) => Err(Error::new(ErrorKind::Refused, format!("lib.connect: {reason}"))),
        (None, None) => fail!(Worker, "lib.connect: the reader sent nothing"),
    }
}
