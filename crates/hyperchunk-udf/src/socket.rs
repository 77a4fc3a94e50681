//! Packets with descriptors over a Unix socket.

use crate::error::{Error, Result, fail};
use crate::interrupt;
use crate::protocol::MAX_MESSAGE_BYTES;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Maximum number of descriptors in one packet; the kernel's own limit is 253.
pub const MAX_DESCRIPTORS: usize = 160;
const CONTROL_WORDS: usize = 128;

/// Creates a pair of connected packet sockets.
///
/// # Errors
/// `Io`.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
    } != 0
    {
        return Err(Error::last_os("cannot create a socket pair"));
    }
    // SAFETY: the kernel just gave us both.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Sets the time limit of a receive.
///
/// # Errors
/// `Io`.
pub fn set_timeout(socket: BorrowedFd<'_>, timeout: Duration) -> Result<()> {
    let time = libc::timeval {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: libc::suseconds_t::from(timeout.subsec_micros().max(u32::from(timeout.is_zero()))),
    };
    #[expect(clippy::cast_possible_truncation, reason = "16 bytes")]
    let size = size_of_val(&time) as libc::socklen_t;
    // SAFETY: the option takes a timeval of that size.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            size,
        )
    };
    if rc != 0 {
        return Err(Error::last_os("cannot set the time limit of a socket"));
    }
    Ok(())
}

/// Sends a packet with descriptors.
///
/// # Errors
/// `Io`; `Limit` for too many descriptors.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    send_with(socket, bytes, fds, 0).map(drop)
}

/// Like [`send`], without waiting: `false` if the socket's buffer is full of unread packets.
///
/// # Errors
/// The errors of [`send`].
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<bool> {
    send_with(socket, bytes, fds, libc::MSG_DONTWAIT)
}

/// Returns whether the other side has read everything that was sent to it. Assumes so if the system does not
/// report it.
pub fn is_taken(socket: BorrowedFd<'_>) -> bool {
    let mut left: libc::c_int = 0;
    // SAFETY: the request writes one int, to a live place.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut left) };
    asked != 0 || left == 0
}

fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>], flags: i32) -> Result<bool> {
    if fds.len() > MAX_DESCRIPTORS {
        fail!(Limit, "cannot send {} descriptors in one packet: the limit is {MAX_DESCRIPTORS}", fds.len())
    }
    let raw: Vec<libc::c_int> = fds.iter().map(|f| f.as_raw_fd()).collect();
    let mut control = [0u64; CONTROL_WORDS];
    let mut io = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut io;
    header.msg_iovlen = 1;
    if !raw.is_empty() {
        let data = u32::try_from(size_of_val(raw.as_slice())).unwrap_or(0);
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: CMSG_* only compute; the buffer is aligned and larger than CMSG_SPACE of MAX_DESCRIPTORS.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(data) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(data) as _;
            std::ptr::copy_nonoverlapping(raw.as_ptr(), libc::CMSG_DATA(message).cast(), raw.len());
        }
    }
    // SAFETY: the header points at live buffers of the given sizes.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | flags) };
    if sent >= 0 {
        return Ok(true);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) if flags & libc::MSG_DONTWAIT != 0 => Ok(false),
        _ => Err(Error::last_os("cannot send a message")),
    }
}

/// Result of a receive.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum ReceiveResult {
    /// A packet of this size in bytes.
    Packet(usize),
    /// The other side has closed the socket.
    Closed,
    /// The time limit was reached.
    TimedOut,
    /// A signal arrived, or the wait was cancelled.
    Interrupted,
}

/// Receives a packet without descriptors: received ones are closed.
///
/// # Errors
/// `Io`; `Worker` when the packet is longer than `buffer`.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<ReceiveResult> {
    // MSG_TRUNC returns the real length. A plain recv discards descriptors.
    // SAFETY: the buffer is live and has that size.
    let n =
        unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) };
    match usize::try_from(n) {
        Ok(0) => Ok(ReceiveResult::Closed),
        Ok(n) if n <= buffer.len() => Ok(ReceiveResult::Packet(n)),
        Ok(n) => fail!(Worker, "received a message of {n} bytes, over the limit of {}", buffer.len()),
        Err(_) => match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => Ok(ReceiveResult::Interrupted),
            Some(libc::EAGAIN) => Ok(ReceiveResult::TimedOut),
            Some(libc::ECONNRESET | libc::EPIPE) => Ok(ReceiveResult::Closed),
            _ => Err(Error::last_os("cannot receive a message")),
        },
    }
}

/// Receives like [`receive`], for at most `limit` regardless of signals, or until the wait is
/// [cancelled](interrupt). `own` is the socket's own limit.
///
/// # Errors
/// The errors of [`receive`].
pub fn receive_within(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    limit: Duration,
    own: Duration,
) -> Result<ReceiveResult> {
    let wait = interrupt::Wait::begin();
    loop {
        let left = limit.saturating_sub(wait.elapsed());
        if left < own && !readable_within(socket, left)? {
            return Ok(ReceiveResult::TimedOut);
        }
        match receive(socket, buffer)? {
            ReceiveResult::Interrupted | ReceiveResult::TimedOut if wait.is_cancelled() => {
                return Ok(ReceiveResult::Interrupted);
            }
            ReceiveResult::Interrupted | ReceiveResult::TimedOut => {}
            other => return Ok(other),
        }
    }
}

/// Waits at most `limit` until a packet can be received, or the other side has closed the socket. Returns
/// whether that happened.
///
/// # Errors
/// `Io`.
pub fn readable_within(socket: BorrowedFd<'_>, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up to avoid busy waiting during the last millisecond.
        let milliseconds = libc::c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX);
        let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live row.
        match unsafe { libc::poll(&raw mut poll, 1, milliseconds) } {
            0 if left.is_zero() => return Ok(false),
            0 => {}
            1.. => return Ok(true),
            _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return Err(Error::last_os("cannot wait for a message")),
        }
    }
}

/// Receives a packet with its descriptors; `None` when the other side has closed the socket.
///
/// # Errors
/// `Io`; `Worker` when it is truncated.
pub fn receive_with_descriptors(socket: BorrowedFd<'_>) -> Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_MESSAGE_BYTES];
    let mut control = [0u64; CONTROL_WORDS];
    let mut io = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut io;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points at live buffers of the given sizes.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let Ok(n) = usize::try_from(n) else { return Err(Error::last_os("cannot receive a message")) };
    let mut fds = Vec::new();
    // SAFETY: the kernel filled the control buffer; CMSG_* walk inside msg_controllen.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(message).cast::<libc::c_int>();
                fds.extend((0..bytes / size_of::<libc::c_int>()).map(|i| OwnedFd::from_raw_fd(*data.add(i))));
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        fail!(Worker, "a message was truncated")
    }
    if n == 0 {
        return Ok(None);
    }
    bytes.truncate(n);
    Ok(Some((bytes, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn packets_descriptors_and_ends() {
        let (a, b) = pair().unwrap();
        let other = crate::memory::constant(b"hello", false).unwrap();
        send(a.as_fd(), b"abc", &[other.as_fd(), other.as_fd()]).unwrap();
        let (bytes, fds) = receive_with_descriptors(b.as_fd()).unwrap().unwrap();
        assert_eq!((bytes.as_slice(), fds.len()), (&b"abc"[..], 2));
        let mut buffer = [0; 8];
        send(a.as_fd(), &[1; 9], &[]).unwrap();
        assert!(receive(b.as_fd(), &mut buffer).is_err());
        set_timeout(b.as_fd(), Duration::from_millis(1)).unwrap();
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap(), ReceiveResult::TimedOut);
        drop(a);
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap(), ReceiveResult::Closed);
        assert!(send(b.as_fd(), b"x", &[]).is_err());
    }

    #[test]
    fn who_takes_nothing_is_not_waited_for() {
        let (a, _b) = pair().unwrap();
        let sent = (0..100_000).position(|_| !send_now(a.as_fd(), &[1; 1000], &[]).unwrap());
        assert!(sent.is_some());
    }

    #[test]
    fn limits_shorter_than_the_sockets_own_hold() {
        let (a, b) = pair().unwrap();
        let own = Duration::from_secs(20);
        set_timeout(b.as_fd(), own).unwrap();
        let (mut buffer, limit, start) = ([0; 8], Duration::from_millis(30), Instant::now());
        assert_eq!(receive_within(b.as_fd(), &mut buffer, limit, own).unwrap(), ReceiveResult::TimedOut);
        assert!((limit..own / 2).contains(&start.elapsed()));
        send(a.as_fd(), b"abc", &[]).unwrap();
        assert_eq!(receive_within(b.as_fd(), &mut buffer, limit, own).unwrap(), ReceiveResult::Packet(3));
    }
}
