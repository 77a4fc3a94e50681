//! Has the linker number the worker by its content: machine code is kept for the worker that made it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--build-id=sha1");
}
