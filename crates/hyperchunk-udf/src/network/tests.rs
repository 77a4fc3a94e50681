use super::*;

#[test]
fn endpoints() {
    for (text, same) in [
        ("api.example.org:443", "api.example.org:443"),
        ("API.Example.org:443", "api.example.org:443"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("[::1]:80", "[::1]:80"),
        ("[0:0::1]:080", "[::1]:80"),
        ("localhost:65535", "localhost:65535"),
        ("a_b-c.d:1", "a_b-c.d:1"),
    ] {
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!(endpoint.to_string(), same);
        assert_eq!(Endpoint::parse(same).unwrap(), endpoint);
    }
    let long = format!("{}:80", "a".repeat(64));
    let longer = format!("{}b:80", "a.".repeat(127));
    for bad in [
        "",
        ":",
        ":80",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:+80",
        "host:http",
        "host:80:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[127.0.0.1]:80",
        "[fe80::1%eth0]:80",
        "*:443",
        "*.example.org:443",
        "exa mple.org:443",
        "example.org:443\0",
        "exämple.org:443",
        "example.org/:443",
        "http://example.org:443",
        "user@example.org:443",
        ".example.org:443",
        "example..org:443",
        "example.org.:443",
        "-x:443",
        // Texts that the C library would parse as addresses.
        "127.1:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "127.0.0.01:80",
        "1.2.3.4.5:80",
        "example.0x7f:80",
        &long,
        &longer,
    ] {
        assert!(Endpoint::parse(bad).is_err(), "{bad}");
    }
}
