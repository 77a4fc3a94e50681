//! What there is of CUDA. None of it is needed: what is missing is told, and is no failure.

use hyperchunk_cuda::{Driver, ErrorKind};

/// Tells the driver and the GPUs.
pub(super) fn tell() {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => {
            let none = if error.kind() == ErrorKind::Missing { "none" } else { "not usable" };
            say!("cuda       {none}: {error}");
            return;
        }
    };
    let (major, minor) = driver.version();
    say!("cuda       {major}.{minor} {}", driver.path().display());
    match driver.devices() {
        Ok(devices) if devices.is_empty() => say!("gpu        none that this process may use"),
        Ok(devices) => {
            for gpu in devices {
                let ((major, minor), gib) = (gpu.capability, gpu.memory as f64 / f64::from(1 << 30));
                let uuid = uuid(&gpu.uuid);
                say!("gpu        {}: {}, sm_{major}{minor}, {gib:.1} GiB, {uuid}", gpu.ordinal, gpu.name);
            }
        }
        Err(error) => say!("gpu        none: {error}"),
    }
}

/// As NVIDIA's own programs print it.
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
