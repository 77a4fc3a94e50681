//! Classification of IP addresses: in the public network, or of this machine.
//!
//! The operator of a name's DNS server chooses its addresses, and can change them at any time. So a host name
//! in a file, in a redirect of a server or in a profile may resolve to the public network only; addresses of
//! this machine and of local networks must be written as IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Returns whether an address belongs to another machine in the public network.
#[must_use]
pub fn is_elsewhere(address: IpAddr) -> bool {
    is_public(address) && !is_own(address)
}

/// Returns whether the address belongs to the public network: not to this machine, a private network, a link,
/// a multicast group, or a reserved range (IANA's registries of special-purpose addresses).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    // Addresses that embed an IPv4 address are judged by it.
    let is_embedded_public = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => is_embedded_public(high, low),
        // 2001::/23 is reserved for protocols (such as Teredo), 2001:db8::/32 and 3fff::/20 for
        // documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Returns whether an address is one of this machine's, in any network: the kernel would use it as the source
/// of packets sent to it. Sends no packets.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any = if address.is_ipv4() { IpAddr::from([0_u8; 4]) } else { IpAddr::from([0_u8; 16]) };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses() {
        for (address, public) in [
            ("8.8.8.8", true),
            ("93.184.216.34", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.15.0.1", true),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.1.8", true),
            ("192.168.0.1", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:2800:220:1::1", true),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::808:808", true),
            ("64:ff9b:1::808:808", false),
            ("2002:7f00:1::1", false),
            ("2002:0a00:1::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("3fff::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()) && is_own("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!is_own("8.8.8.8".parse().unwrap()) && !is_own("192.0.2.7".parse().unwrap()));
    }
}
