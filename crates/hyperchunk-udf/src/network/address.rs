//! Restriction of the addresses to which a name may resolve.
//!
//! The operator of a name's DNS server chooses its addresses, and can change them at any time. A name may
//! therefore resolve only to the public network; addresses of this machine or of local networks have to be
//! granted as such.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether the address belongs to the public network: not to this machine, a private network, a link,
/// a multicast group, or a reserved range (IANA's registries of special-purpose addresses).
pub(super) fn is_public(address: IpAddr) -> bool {
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
    let inside = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low),
        [0x2002, high, low, ..] => inside(high, low),
        // 2001:0000::/23 are protocols (Teredo among them), 2001:db8::/32 and 3fff::/20 documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
