//! Adds a build id to the worker, derived from its content: cached machine code is tied to the worker that
//! produced it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--build-id=sha1");
}
