//! Which addresses are everybody's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Addresses of this host, of networks around it, and those that are nobody's.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    // One of the other kind inside: mapped, translated, or tunnelled.
    let inside = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        [0, 0, 0, 0, 0, 0, _, _] => true,
        [0, 0, 0, 0, 0, 0xffff, high, low] => inside(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        [0x2002, high, low, ..] => inside(high, low),
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => true,
        [first, ..] => (first & 0xfe00) == 0xfc00 || (first & 0xff80) == 0xfe80 || (first & 0xff00) == 0xff00,
    }
}

/// The host that was named leads to a private network.
#[derive(Debug, thiserror::Error)]
#[error("{0} is on a private network")]
pub(super) struct IsPrivate(pub(super) String);

/// Looks names up, and tells of addresses that are everybody's only. What is connected to is what was looked at.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = public(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Addresses of a host, none of which is private.
pub(super) async fn public(
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    match found.iter().any(|address| is_private(address.ip())) {
        true => Err(Box::new(IsPrivate(host.to_owned()))),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_all_their_forms() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::7f00:1",
        ] {
            assert!(is_private(text.parse().expect("it is an address")), "{text}");
        }
        for text in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"] {
            assert!(!is_private(text.parse().expect("it is an address")), "{text}");
        }
    }
}
