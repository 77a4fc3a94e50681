//! Requests to each kind of store, and the secrets in them.

use super::server::{Answer, Request, Server};
use super::*;
use crate::io::object_store::hosts::tests::{left, plan};

/// A fake S3 server that only inspects the request.
#[test]
fn regions_are_found() {
    let server = Server::new(pattern(5000), |request: &Request| {
        match request.headers["authorization"].contains("/eu-x/s3/") {
            true => Answer::Right,
            false => Answer::Status(301, "x-amz-bucket-region: eu-x\r\n", ""),
        }
    });
    let endpoint = format!("http://{}", server.address);
    let given = [("endpoint", endpoint.as_str()), ("key", "k"), ("secret", "s"), ("region", "us-east-1")];
    let options = RemoteOptions { store: given.map(|(a, b)| (a.into(), b.into())).to_vec(), ..options() };
    let source = open("s3://bucket/a b", &options).unwrap();
    assert_eq!(source.remote().unwrap().counters().now(), [2, 1000, 0, 2]);
    fetch_one(&source, 2000..3000).unwrap();
    // The process remembers it.
    let again = open("s3://bucket/c", &options).unwrap();
    assert_eq!(again.remote().unwrap().counters().now(), [1, 1000, 0, 1]);
    assert!(server.log()[..3].iter().all(|request| request.path == "/bucket/a%20b"), "{:?}", server.log());
}

/// Paths and authorization of requests to other stores.
#[test]
fn other_stores() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let endpoint = format!("http://{}", server.address);
    for (url, given, path, authorization) in [
        ("s3://bucket/k/l", "anonymous=true", "/bucket/k/l", None),
        ("gs://bucket/k/l", "anonymous=true", "/bucket/k%2Fl", None),
        ("gs://bucket/k", "token=t", "/bucket/k", Some("Bearer t")),
        ("az://box/k/l", "anonymous=true account=a", "/box/k/l", None),
        ("az://box/k", "token=t account=a", "/box/k", Some("Bearer t")),
    ] {
        let mut options = options();
        options.store.push(("endpoint".into(), endpoint.clone()));
        options.store.extend(
            given.split(' ').filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.into(), b.into())),
        );
        let source = open(url, &options).unwrap();
        assert_eq!(fetch_one(&source, 2000..3000).unwrap(), pattern(5000)[2000..3000], "{url}");
        let request = server.log().pop().unwrap();
        assert_eq!(request.path, path, "{url}");
        assert_eq!(request.headers.get("authorization").map(String::as_str), authorization, "{url}");
        assert_eq!(request.headers["if-match"], "\"one\"");
    }
}

/// Keys that `object_store` would shorten to another object's, or cannot express.
#[test]
fn keys_with_empty_parts() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let mut options = options();
    options.store.push(("endpoint".into(), format!("http://{}", server.address)));
    options.store.push(("anonymous".into(), "true".into()));
    for store in ["s3://bucket", "gs://bucket", "az://box", "abfss://box@a.dfs.core.windows.net"] {
        let mut options = options.clone();
        options.store.extend(store.starts_with("az").then(|| ("account".to_owned(), "a".to_owned())));
        for key in ["/k", "//k", "a//k", "/a/k", "../k", "a/./k"] {
            let url = format!("{store}/{key}");
            let outcomes = [
                open(&url, &options).map(drop),
                crate::io::start_upload(&url, &options, true).map(drop),
                crate::io::put(&url, &options, vec![1]),
                crate::io::put_new(&url, &options, vec![1]).map(drop),
                crate::io::delete(&url, &options),
                crate::io::list(&url, &options).map(drop),
            ];
            for outcome in outcomes {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{url}: {error}");
                assert!(error.to_string().contains("without empty parts"), "{url}: {error}");
            }
        }
        assert!(crate::io::list(&format!("{store}//"), &options).is_err());
    }
    assert!(server.log().is_empty(), "{:?}", server.log());
    drop(open(&server.url("/k"), &self::options()).unwrap());
    assert_eq!(server.log().pop().unwrap().path, "//k");
}

#[test]
fn passwords_and_tokens_are_sent_and_not_shown() {
    let server = Server::new(pattern(5000), |request: &Request| match request.path.contains("denied") {
        true => Answer::Status(403, "", "secret"),
        false => Answer::Right,
    });
    let with_password = |path: &str| format!("http://me:secret@{}/{path}?sig=secret", server.address);
    let source = open(&with_password("x"), &options()).unwrap();
    let request = server.log().pop().unwrap();
    assert_eq!(
        (request.headers["authorization"].as_str(), request.path.as_str()),
        ("Basic bWU6c2VjcmV0", "/x?sig=secret")
    );
    let mut bearer = options();
    bearer.store.push(("token".into(), "secret".into()));
    drop(open(&server.url("x"), &bearer).unwrap());
    assert_eq!(server.log().pop().unwrap().headers["authorization"], "Bearer secret");
    let identity = source.remote().unwrap().identity().to_owned();
    let missing =
        open("http://me:secret@127.0.0.1:1/x?sig=secret", &RemoteOptions { retries: 0, ..options() });
    let denied = open(&with_password("denied"), &options());
    let file = crate::File::open_url(
        &with_password("x"),
        &crate::OpenOptions { remote: options(), ..Default::default() },
    );
    for text in [
        format!("{source:?}"),
        identity,
        missing.unwrap_err().to_string(),
        denied.unwrap_err().to_string(),
        file.unwrap_err().to_string(),
    ] {
        assert!(!text.contains("secret") && text.contains("http://127.0.0.1"), "{text}");
    }
}

#[test]
fn siblings_are_opened_beside() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let source = open(&server.url("d/x.h5"), &options()).unwrap();
    let sibling = source.remote().unwrap().sibling("../e/y z.h5").unwrap().unwrap();
    assert_eq!(sibling.size(), 5000);
    assert_eq!(server.log().pop().unwrap().path, "/e/y%20z.h5");
    assert!(source.remote().unwrap().sibling("/etc/passwd").unwrap().is_err());
    assert_eq!(server.log().len(), 2);
}

/// A server that redirects to a private address, or in a cycle.
#[test]
fn redirects_that_lead_astray_are_not_followed() {
    let inside = Server::new(pattern(5000), |_| Answer::Right);
    let leads = |to: String, policy: Option<&str>| {
        let location: &'static str = format!("location: {to}\r\n").leak();
        let server = Server::new(Vec::new(), move |_| Answer::Status(302, location, ""));
        let mut options = options();
        options.store.extend(policy.map(|policy| ("redirects".to_owned(), policy.to_owned())));
        let error = open(&server.url("x.h5"), &options).unwrap_err();
        (error, server.log().len())
    };
    let (error, asked) = leads(inside.url("secret"), None);
    assert!(error.to_string().contains("cannot follow the server's redirect"), "{error}");
    assert_eq!(asked, 1);
    for policy in ["never", "same-origin", "public"] {
        assert_eq!(leads(inside.url("secret"), Some(policy)).1, 1, "{policy}");
    }
    let by_name = inside.url("secret").replace("127.0.0.1", "localhost");
    let (error, _) = leads(by_name, None);
    assert!(error.to_string().contains("no public address"), "{error}");
    assert!(inside.log().is_empty());
    let (error, asked) = leads("/x.h5".into(), None);
    assert!(error.to_string().contains("to where it came from") && asked == 1, "{error}, {asked}");
    assert!(!error.to_string().contains("`any`"), "{error}");
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let round = Server::new(Vec::new(), move |_| {
        let number = turn.fetch_add(1, Ordering::Relaxed);
        Answer::Status(
            302,
            if number.is_multiple_of(2) { "location: /b\r\n" } else { "location: /a\r\n" },
            "",
        )
    });
    let error = open(&round.url("a"), &options()).unwrap_err();
    assert!(error.to_string().contains("after 10 others"), "{error}");
    // No policy follows it.
    assert!(!error.to_string().contains("`any`"), "{error}");
    assert_eq!(round.log().len(), 11);
}

/// A file on another server than the collection that names it: a request for it counts as a redirect.
#[test]
fn a_collection_leads_into_no_network_and_sends_no_token_elsewhere() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let asks = |url: &str, named_by: &str, policy: Option<&str>| {
        let mut options = options();
        options.store.push(("token".into(), "secret".into()));
        options.store.push((NAMED_BY.into(), named_by.into()));
        options.store.extend(policy.map(|policy| ("redirects".to_owned(), policy.to_owned())));
        let before = server.log().len();
        let opened = open(url, &options).map(drop);
        let log = server.log();
        let told = log.iter().skip(before).any(|request| request.headers.contains_key("authorization"));
        (opened, log.len() - before, told)
    };
    let elsewhere = "http://93.184.216.34/k.hcx";
    let inside = server.url("e.h5");
    for url in [inside.clone(), inside.replace("127.0.0.1", "localhost")] {
        for policy in [None, Some("public"), Some("same-origin"), Some("never")] {
            let (opened, asked, _) = asks(&url, elsewhere, policy);
            let error = opened.unwrap_err().to_string();
            assert_eq!(asked, 0, "{error}");
            assert!(error.contains("public address"), "{error}");
        }
    }
    let (opened, asked, told) = asks(&inside, elsewhere, Some("any"));
    opened.unwrap();
    assert!(asked > 0 && !told);
    // The collection's own server.
    let (opened, asked, told) = asks(&inside, &server.url("k.hcx"), None);
    opened.unwrap();
    assert!(asked > 0 && told);
}

/// A server whose name leads into the reader's network once the file is open: the next request goes where
/// the first went, and so do a redirect and a file beside.
#[test]
fn a_name_does_not_lead_inside_later() {
    let name = "rebind.test";
    // Nothing else here uses addresses at 127.77.0.1, so the port is free there, too.
    let inside = Server::new(pattern(5000), |_| Answer::Right);
    let outside = format!("127.77.0.1:{}", inside.address.port());
    let outside = Server::at(&outside, pattern(5000), (Some("\"one\""), None), |request: &Request| {
        match (request.number, request.path.as_str()) {
            // The connection ends, so that the name is looked up again.
            (1, _) | (_, "/again.h5") => Answer::Reset,
            (_, "/moves.h5") => Answer::Status(302, "location: /secret\r\nconnection: close\r\n", ""),
            _ => Answer::Right,
        }
    });
    plan(name, &[&["127.77.0.1"], &["127.0.0.1"], &["127.0.0.1", "::1"], &["127.0.0.1"]]);
    let at = |path: &str| format!("http://{name}:{}/{path}", outside.address.port());
    let source = open(&at("x.h5"), &options()).unwrap();
    assert_eq!(fetch_one(&source, 2000..3000).unwrap(), pattern(5000)[2000..3000]);
    let sibling = source.remote().unwrap().sibling("moves.h5").unwrap().unwrap();
    assert_eq!(fetch_one(&sibling, 2000..3000).unwrap(), pattern(5000)[2000..3000]);
    assert!(inside.log().is_empty(), "{:?}", inside.log());
    assert!(outside.log().iter().any(|request| request.path == "/secret"));
    assert_eq!(left(name), 1, "looked up again after each end of a connection");
    // Control: once no file is open, the name leads where it leads now.
    drop((source, sibling));
    drop(open(&at("again.h5"), &options()).unwrap());
    assert_eq!(inside.log().len(), 1);
}

/// A store's redirect would carry the request's signature, so it is followed only within the same server.
#[test]
fn redirects_of_object_stores_stay_there() {
    let inside = Server::new(pattern(5000), |_| Answer::Right);
    for (url, given) in [
        ("s3://bucket/k", "key=k secret=s region=us-east-1"),
        ("s3://bucket/k", "anonymous=true"),
        ("gs://bucket/k", "token=t"),
        ("az://box/k", "token=t account=a"),
    ] {
        for (to, right) in
            [(inside.url("secret"), false), ("/moved".to_owned(), true), ("/k".to_owned(), false)]
        {
            let location: &'static str = format!("location: {to}\r\n").leak();
            let server = Server::new(pattern(5000), move |request: &Request| match request.path.as_str() {
                "/moved" => Answer::Right,
                _ => Answer::Status(307, location, ""),
            });
            let mut options = RemoteOptions { retries: 0, ..options() };
            options.store.push(("endpoint".into(), format!("http://{}", server.address)));
            options.store.extend(
                given.split(' ').filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.into(), b.into())),
            );
            match open(url, &options) {
                Ok(source) => {
                    assert!(right, "{url} to {to}");
                    assert_eq!(fetch_one(&source, 2000..3000).unwrap(), pattern(5000)[2000..3000], "{url}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!right && text.contains("cannot follow the server's redirect"), "{url}: {text}");
                    assert!(!text.contains("`any`"), "{text}");
                }
            }
        }
    }
    assert!(inside.log().is_empty());
}

/// An archive that hands out signed URLs of a store.
#[test]
fn redirects_are_followed_once() {
    let store = Server::new(pattern(5000), |request: &Request| match request.number {
        2 => Answer::Status(403, "", "expired"),
        _ => Answer::Right,
    });
    let location: &'static str = format!("location: {}\r\n", store.url("signed?sig=1")).leak();
    let archive = Server::new(Vec::new(), move |_| Answer::Status(302, location, ""));
    let mut options = options();
    options.store.push(("token".into(), "secret".into()));
    options.store.push(("redirects".into(), "any".into()));
    let source = open(&archive.url("x.h5"), &options).unwrap();
    for _ in 0..3 {
        assert_eq!(fetch_one(&source, 2000..3000).unwrap(), pattern(5000)[2000..3000]);
    }
    // Once for opening, and once after the signature expired.
    assert_eq!(archive.log().len(), 2);
    assert!(archive.log().iter().all(|request| request.headers["authorization"] == "Bearer secret"));
    assert_eq!(store.log().len(), 5);
    assert!(store.log().iter().all(|request| !request.headers.contains_key("authorization")));
    let counted = source.remote().unwrap().counters().now();
    assert_eq!(counted, [4, 4000, 0, 4]);
}
