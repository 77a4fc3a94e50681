//! CUDA on this machine. All parts are optional: a missing one is reported, and is not a failure.

use hyperchunk_cuda::cufile::{CuFile, Mode};
use hyperchunk_cuda::nvcomp::{Algorithm, Nvcomp};
use hyperchunk_cuda::nvrtc::Nvrtc;
use hyperchunk_cuda::{Context, Driver, Error, ErrorKind};
use hyperchunk_udf::host::Programs;

/// Prints the driver, the GPUs and NVIDIA's libraries.
pub(super) fn print(programs: &Programs) {
    let driver = Driver::load();
    let devices = match &driver {
        Ok(driver) => {
            let (major, minor) = driver.version();
            say!("cuda       {major}.{minor} {}", driver.path().display());
            print_gpus(driver)
        }
        Err(error) => {
            say!("cuda       {}", reason(error));
            0
        }
    };
    // The library that compiles live datasets.
    match programs.nvrtc().map(|path| Nvrtc::load(Some(&path))) {
        Ok(Ok(nvrtc)) => {
            let (major, minor) = nvrtc.version();
            let architectures = nvrtc.architectures();
            let (least, most) = (architectures.first().unwrap_or(&0), architectures.last().unwrap_or(&0));
            say!("nvrtc      {major}.{minor} {}, for sm_{least} to sm_{most}", nvrtc.path().display());
        }
        Ok(Err(error)) => say!("nvrtc      {}", reason(&error)),
        Err(error) => say!("nvrtc      none: {error}"),
    }
    let folder = programs.nvidia("HYPERCHUNK_NVCOMP", "libnvcomp/lib64");
    let nvcomp = match &driver {
        Ok(driver) => Nvcomp::beside(driver, folder.as_deref()),
        Err(_) => Nvcomp::load(folder.as_deref()),
    };
    match nvcomp {
        Ok(nvcomp) => {
            let (major, minor) = nvcomp.version();
            let named = [
                (Algorithm::Snappy, "Snappy"),
                (Algorithm::Lz4, "LZ4"),
                (Algorithm::Deflate, "deflate"),
                (Algorithm::Zstd, "zstd"),
            ];
            let done: Vec<&str> = named
                .iter()
                .filter(|(which, _)| nvcomp.decompresses(*which))
                .map(|(_, name)| *name)
                .collect();
            say!("nvcomp     {major}.{minor} {}, for {}", nvcomp.path().display(), done.join(", "));
        }
        Err(error) => say!("nvcomp     {}", reason(&error)),
    }
    if devices > 0 {
        print_cufile();
    }
}

/// Prints the GPUs; returns their number.
fn print_gpus(driver: &Driver) -> usize {
    match driver.devices() {
        Ok(devices) if devices.is_empty() => {
            say!("gpu        none that this process may use");
            0
        }
        Ok(devices) => {
            for gpu in &devices {
                let ((major, minor), gib) = (gpu.capability, gpu.memory as f64 / f64::from(1 << 30));
                let uuid = uuid(&gpu.uuid);
                say!("gpu        {}: {}, sm_{major}{minor}, {gib:.1} GiB, {uuid}", gpu.ordinal, gpu.name);
            }
            devices.len()
        }
        Err(error) => {
            say!("gpu        {}", reason(&error));
            0
        }
    }
}

/// Prints how cuFile reads files into the first GPU.
fn print_cufile() {
    match Context::for_device(0).and_then(|context| CuFile::load(&context, None)) {
        Ok(cufile) => {
            let version =
                cufile.version().map(|(major, minor)| format!("{major}.{minor} ")).unwrap_or_default();
            let mode = match cufile.mode() {
                Mode::Direct => "reads straight into the memory of GPUs",
                Mode::Compatibility => {
                    "in its compatibility mode (nvidia-fs is not loaded), so files are read through \
                     page-locked memory"
                }
            };
            say!("cufile     {version}{}, {mode}", cufile.path().display());
        }
        Err(error) => say!("cufile     {}", reason(&error)),
    }
}

/// Returns why a library is missing or not usable.
fn reason(error: &Error) -> String {
    let none = if error.kind() == ErrorKind::Missing { "none" } else { "not usable" };
    format!("{none}: {error}")
}

/// Returns a UUID in the form of NVIDIA's programs.
fn uuid(bytes: &[u8; 16]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default());
    format!("GPU-{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let bytes = std::array::from_fn(|place| u8::try_from(place * 17).unwrap());
        assert_eq!(uuid(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
