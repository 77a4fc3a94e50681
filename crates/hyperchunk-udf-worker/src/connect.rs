//! Connector: a process that makes one connection, passes it to the host and exits.
//!
//! It runs with the host's rights, and gets only the requested endpoint and the granted addresses. A system's
//! name services are separate modules and daemons; in this process they can neither delay nor harm the host.

use crate::fail;
use hyperchunk_net::{is_own, is_public};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::network::Endpoint;
use hyperchunk_udf::protocol::MAX_TEXT_BYTES;
use hyperchunk_udf::socket;
use hyperchunk_udf::worker::SOCKET_FD;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// Maximum number of addresses tried for a name.
const MAX_ADDRESSES: usize = 8;

/// Connects to `arguments[0]` within `arguments[1]` milliseconds and answers on [`SOCKET_FD`]; returns the exit
/// status. The third argument lists addresses to which a name may resolve although they are not public.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    // SAFETY: the host gave us this descriptor, and it stays open while we run.
    let socket = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
    // SAFETY: integers only; they change attributes of this process.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        // The thread that started us waits for the answer.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    }
    let sent = match connection(arguments) {
        Ok(stream) => socket::send(socket, b"connected", &[stream.as_fd()]),
        Err(error) => {
            let text = error.message();
            socket::send(socket, text.as_bytes().get(..MAX_TEXT_BYTES).unwrap_or(text.as_bytes()), &[])
        }
    };
    i32::from(sent.is_err())
}

fn connection(arguments: &[OsString]) -> Result<TcpStream> {
    let [target, milliseconds, literal] = arguments else { fail!(Worker, "not started by hyperchunk") };
    let (Some(target), Some(Ok(milliseconds)), Some(literal)) =
        (target.to_str(), milliseconds.to_str().map(str::parse), literal.to_str())
    else {
        fail!(Worker, "not started by hyperchunk")
    };
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    let endpoint = Endpoint::parse(target)?;
    let literal: Vec<IpAddr> = literal.split(',').filter_map(|a| a.parse().ok()).collect();
    connect(&choose(&endpoint, look_up(&endpoint)?, &literal, is_own)?, deadline)
}

fn look_up(endpoint: &Endpoint) -> Result<Vec<SocketAddr>> {
    match (endpoint.address(), endpoint.name()) {
        (Some(address), _) => Ok(vec![SocketAddr::new(address, endpoint.port())]),
        (None, name) => match (name.unwrap_or_default(), endpoint.port()).to_socket_addrs() {
            Ok(addresses) => Ok(addresses.collect()),
            Err(error) => fail!(Io, "the name cannot be looked up: {error}"),
        },
    }
}

/// Returns the addresses of `found` that may be connected: the endpoint's own, those that are granted
/// themselves (`literal`), loopback addresses for `localhost`, and for other names those in the public
/// network, except this machine's.
fn choose(
    endpoint: &Endpoint,
    found: Vec<SocketAddr>,
    literal: &[IpAddr],
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>> {
    let first = found.first().copied();
    // The standard name of this machine (RFC 6761), which is resolved without a server.
    let local = endpoint.name() == Some("localhost");
    let may = |address: IpAddr| {
        endpoint.address() == Some(address)
            || literal.contains(&address)
            || if local { address.is_loopback() } else { is_public(address) && !is_own(address) }
    };
    let chosen: Vec<_> = found.into_iter().filter(|a| may(a.ip())).take(MAX_ADDRESSES).collect();
    match first {
        _ if !chosen.is_empty() => Ok(chosen),
        Some(SocketAddr::V4(first)) => fail!(Refused, "{}", not_public(&first)),
        Some(SocketAddr::V6(first)) => fail!(Refused, "{}", not_public(&first)),
        None => fail!(Io, "the name has no addresses"),
    }
}

fn not_public(address: &impl std::fmt::Display) -> String {
    format!(
        "the name leads to {address}, which is this machine, or not in the public network; if that is meant, `connect` has to list \"{address}\", too"
    )
}

fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream> {
    let mut left = u32::try_from(addresses.len()).unwrap_or(1);
    let mut last = None;
    for address in addresses {
        let time = deadline.saturating_duration_since(Instant::now()) / left.max(1);
        left = left.saturating_sub(1);
        match TcpStream::connect_timeout(address, time.max(Duration::from_millis(1))) {
            Ok(stream) => {
                // Functions send requests, which should leave without delay.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(
        || Error::new(ErrorKind::Io, "the name has no addresses"),
        |error| Error::io("cannot connect", &error),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_into_the_public_network_or_where_an_address_is_granted() {
        let own = |address: IpAddr| address == IpAddr::from([93, 184, 216, 34]);
        let of = |endpoint: &str, found: &[&str], literal: &[&str]| {
            let found = found.iter().map(|a| SocketAddr::new(a.parse().unwrap(), 80)).collect();
            let literal: Vec<_> = literal.iter().map(|a| a.parse().unwrap()).collect();
            choose(&Endpoint::parse(endpoint).unwrap(), found, &literal, own)
                .map(|chosen| chosen.iter().map(|a| a.ip().to_string()).collect::<Vec<_>>())
        };
        let name = "example.org:80";
        assert_eq!(of(name, &["8.8.8.8"], &[]).unwrap(), ["8.8.8.8"]);
        assert_eq!(of(name, &["127.0.0.1", "8.8.8.8", "::1"], &[]).unwrap(), ["8.8.8.8"]);
        // A public address of this machine reaches its own services.
        assert_eq!(of(name, &["93.184.216.34", "8.8.8.8"], &[]).unwrap(), ["8.8.8.8"]);
        assert!(of(name, &["93.184.216.34"], &[]).unwrap_err().message().contains("is this machine"));
        assert_eq!(of(name, &["93.184.216.34"], &["93.184.216.34"]).unwrap(), ["93.184.216.34"]);
        let refused = of(name, &["127.0.0.1"], &[]).unwrap_err();
        assert!(refused.message().contains("\"127.0.0.1:80\""), "{refused}");
        assert!(of(name, &["::1"], &["127.0.0.1"]).unwrap_err().message().contains("\"[::1]:80\""));
        assert_eq!(of(name, &["10.0.0.5", "10.0.0.6"], &["10.0.0.5"]).unwrap(), ["10.0.0.5"]);
        assert_eq!(of("10.0.0.5:80", &["10.0.0.5"], &[]).unwrap(), ["10.0.0.5"]);
        assert_eq!(of("localhost:80", &["::1", "127.0.0.1"], &[]).unwrap(), ["::1", "127.0.0.1"]);
        // Not even a public one: the name denotes only this machine.
        assert!(of("localhost:80", &["8.8.8.8"], &[]).is_err());
        assert!(of(name, &[], &[]).is_err());
    }
}
