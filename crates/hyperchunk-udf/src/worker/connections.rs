//! Requests of a function to its host for connections.

use super::SOCKET_FD;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::network::Endpoint;
use crate::protocol::{self, Reply};
use crate::socket;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State of the current call: whether a function is being called, and whether it may request connections. The
/// lock also serialises use of the socket to the host.
static CALL_STATE: Mutex<State> = Mutex::new(State::NotCalled);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NotCalled,
    NotGranted,
    MayRequest,
}

fn called() -> MutexGuard<'static, State> {
    CALL_STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the function. If a thread makes a request at the very end of the call, it gets the answer before this
/// returns.
pub(super) fn during<T>(granted: bool, call: impl FnOnce() -> T) -> T {
    *called() = if granted { State::MayRequest } else { State::NotGranted };
    let done = call();
    *called() = State::NotCalled;
    done
}

/// Implements `lib.connect`: returns a connected descriptor for `host:port`.
///
/// # Errors
/// `Refused` for an invalid endpoint, outside of a call, without the profile's `connect` right, or with the
/// host's reason; `Io` if the socket fails; `Worker` if the host has ended or sent no descriptor.
pub fn connect(target: &str) -> Result<OwnedFd> {
    if target.len() > Endpoint::MAX_TEXT_BYTES {
        fail!(Refused, "lib.connect: the endpoint is too long: expected host:port")
    }
    let called = called();
    match *called {
        State::MayRequest => {}
        State::NotGranted => fail!(Refused, "lib.connect: the profile grants no connections (`connect`)"),
        State::NotCalled => {
            fail!(Refused, "lib.connect: it may only be called while dynamic_dataset runs")
        }
    }
    // SAFETY: the host gave us this descriptor, and it stays open while we serve.
    let host = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
    socket::send(host, &protocol::encode_reply(&Reply::Connect(target.into())), &[])?;
    let answer = socket::receive_with_descriptors(host)?;
    drop(called);
    let Some((text, mut fds)) = answer else {
        fail!(Worker, "lib.connect: the host process has closed the socket")
    };
    match (protocol::decode_connection(&text)?, fds.pop()) {
        (None, Some(fd)) => Ok(fd),
        (Some(reason), _) => Err(Error::new(ErrorKind::Refused, format!("lib.connect: {reason}"))),
        (None, None) => fail!(Worker, "lib.connect: the host sent neither a descriptor nor a reason"),
    }
}
