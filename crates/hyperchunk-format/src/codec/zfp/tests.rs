//! Arrays written by hdf5plugin 7.1 (zfp 1.0.1).

use super::Zfp;
use crate::ErrorKind;
use crate::codec::sample::{Sample, check};
use crate::codec::testing::decoded;

const SAMPLES: &[Sample] = &[
    Sample {
        what: "float, 1 dimension, rate",
        parameters: &[269504785, 91252346, 130, 32505856],
        stored: "E+2UZhMN8sgRDYKo",
        size: 36,
        sum: 0xf6ed3ae1,
    },
    Sample {
        what: "double, 2 dimensions, rate",
        parameters: &[269504785, 91252346, 1073741911, 124780544],
        stored: "E2irtn6zEf3FJKsSwVWME2jQcEFEcRExhYBgiGoME2jQkwQEggRJIQJgggEAE2g1gqIACKIogIIoAAIA",
        size: 240,
        sum: 0x8ecb447b,
    },
    Sample {
        what: "float, 3 dimensions, precision",
        parameters: &[269504785, 91252346, 3145770, 2159018048],
        stored: "E630wfwuYYcBrkBCgJnsTKBXFcgNVheIp6LmwZWwFCASk000GIjwDAJIMECBAAAEFAAAxgkAEIAgIMIJBgqAAA==",
        size: 240,
        sum: 0xdbf73ec0,
    },
    Sample {
        what: "double, 4 dimensions, accuracy",
        parameters: &[269504785, 91252346, 268566591, 3408921600],
        stored: "E2jlDAmYH2BJAAEaGAAAhgSUAAsCAEAYAAAAAIggDRAiEAKAAQAAAEAGewARgBAKBACBIAAYQQEBKAAAYAAIBAHgAGAA \
            EEAegAIARA0BMOAAAMFgADAAAAAAAHSwBxJbgGHBCBAwAsAwgACYAIAAAoBOlERbCzBoAAABAAAQABIAEACQAAAIQRRi \
            BQilRGN0IACAAmAAcAIYEgAAGRhA9ABlNGGIShQABghwAEQAQxABgBhFDAEQEhIuFEAABAAUCioYAAAEiQA4YgCGBwBA \
            A1iAk6EADAyRjSBACwELhglgACIAhgNgCAEAg2JSAGJBAMsIAwYCgBUyGIATQIMEABQXQAACCIABVLEg8BJKQNcYbTgA \
            arCZYJAAmCAAfAgAJBBAAADQBBoMgAZgAAxoAAQgYAAAGCSAAUAAAACCAQAAAEABCAABAAAAAAAAAAAqwABgAAAAQAAA \
            AADACAhAQgAACABAAAAACDAAAgIAQBAAAgAAaAAAACQAA8AAAFACAAAAAIAAgADoBAQgEIAAAAAAAABAAAABMAAAAAAA \
            kQAAIAYQBCAAAAAAIAAAAAIAAAAAUAkIQmAAAAgAQAAAsAIAACAAAAAAAJDgABQCEAAAAAAAAAAAAAACAAQAAAAAAEIC \
            AEEJAkABADAAAAAAAAAAAACIoCA0BACAAQAAAAAqAAAAAgAEAABUAARCYwAAGQJAAQCQAgACIAAAAABAAgAAAABA",
        size: 960,
        sum: 0x8255d54f,
    },
    Sample {
        what: "float, 4 dimensions, rate",
        parameters: &[269504785, 91252346, 537133118, 804258048],
        stored: "E60B4AzABAAB8BoBA2BjAMAAOBIcAAgAAAFwAAAAAFALCgCLAKEAAAAAAABEgAKABUDIAwKEABAAhfIgBAkA8IAAAQAE \
            gAYAAACXAoGAI0AoAAJ8AAAAhQAAAAukQeANEw0aAB4AawAMgAYAgAHQAAIAAAAAABgAAAAAaAANAAIAAAAAAAAAAABA \
            A4ASABAAAAAAAAAGwQCoBAAEAAAAAACgACQAKAAAChAgAAAASBAIAAoAgAIECAAAAASAElAA",
        size: 480,
        sum: 0x53e314c3,
    },
    Sample {
        what: "int32, 3 dimensions, rate",
        parameters: &[269504785, 91252346, 4194360, 334495776],
        stored: "AICpBhoygIgH02MABOCYBAIB3CMnA2JJTgj4yFz4GXgIDy7fWFEAoABgEQ0MGAUCYABKAEQAWAFEABoBRABaFUQASgBE \
            AAaYBAUQAAARQAg=",
        size: 240,
        sum: 0x8fbe8168,
    },
    Sample {
        what: "int64, 2 dimensions, precision",
        parameters: &[269504785, 91252346, 1342177349, 2167406592],
        stored: "AAAAAAAAAAAAAA==",
        size: 240,
        sum: 0xd44dfc6c,
    },
    Sample {
        what: "int32, nothing lost",
        parameters: &[269504785, 91252346, 805306452, 2281701376],
        stored: "HwAA0AHh/8cdVwIQOiMCi7QPAADW5186VUBbUKMSllZmEFtQ",
        size: 96,
        sum: 0x1be4e2c3,
    },
    Sample {
        what: "int64, 4 dimensions, nothing lost",
        parameters: &[269504785, 91252346, 268566557, 2281701888],
        stored: "PwAAAAAAAAQAAAAgAAAAAAIAAQBIAAAAAAAAAAAAAAAAAIA8QAAACAAACAcAAAAAAAAAAAAgAAAAAAAAAABkgAAAUAAA \
            QDgAAAAgKAAAAAAAAAAAgCAAAACQBQCAQAGAgAIAADiOYQAAAAAAAgAAQYIAABCBAAAASOh5UI4AQIAxACAcB3EAANiB \
            GQAAgCBAAAAIIIAgAKI6neWD44hBGAAIRAAUAAA0AEAARVEUEKAoAAAAAAD48eje6ChOHAEIwFEYAUCBC2ABwHEcBQQ4 \
            DgCCCgIAEadVlFh4BEMAkFAQAQBRgAUSACAIBAAABCGAoIIAiGchGKMUHYGxSn0UhZB5FCgADygcR0BAgOOAICgAAND5 \
            Xcfo0YBB6AEMwUHoBwBA4AYeAABMAAIAIAAAAAAA",
        size: 288,
        sum: 0x79fc66e9,
    },
    Sample {
        what: "float, nothing lost: bits, exponents and zeros",
        parameters: &[269504785, 91252346, 1342177350, 2281701376],
        stored: "xz/+cf7/AAAAADgc/n/A4/h/O+CbboxuaPrCqjQempyKX/TcCP4lLmsxBQChAImICgQ=",
        size: 120,
        sum: 0x7a97d62d,
    },
    Sample {
        what: "double, nothing lost",
        parameters: &[269504785, 91252346, 195, 2281701376],
        stored: "JXBBQVyMRPzHAgBADJnnQz3bAQAAAAAAAAAAAAAAAAAAAAAAAAAAMpXAZRFQFQ==",
        size: 104,
        sum: 0xb46af343,
    },
    Sample {
        what: "tiny floats",
        parameters: &[269504785, 91252346, 114, 2179989504],
        stored: "A5oKAAAAAAAAAAAAAAAAAAAMaCoAAAAAAAAAAAAAAAAAAAA=",
        size: 32,
        sum: 0xa125288c,
    },
    Sample {
        what: "tiny doubles",
        parameters: &[269504785, 91252346, 115, 4293918720, 3767042048, 493487],
        stored: "A9BUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABgAJoKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        size: 64,
        sum: 0xf1f80a83,
    },
    Sample {
        what: "all limits",
        parameters: &[269504785, 91252346, 1610612838, 4293918720, 3231023123, 527748],
        stored: "E23V1m82or+YZFUiuIqRIGtpPju3oKYjiHLUiQZpXjRTDMgKb1lJJTVjIq68hUPdVBgPySorF10TDTuCWzMkAunT4iAF \
            KDR+IhcLMsx0knCfgLR2UGw50YbAXMRAENMMKGIImBMhEh4cL7XELt5ICV8ENCNJEwc=",
        size: 196,
        sum: 0x59f9d536,
    },
];

#[test]
fn arrays() {
    check(&Zfp, SAMPLES);
}

#[test]
fn headers_of_the_other_byte_order() {
    for sample in SAMPLES {
        let plain = decoded(&Zfp, &sample.stored(), sample.parameters, sample.size).unwrap();
        let mut parameters = sample.parameters.to_vec();
        parameters[1..].iter_mut().for_each(|word| *word = word.swap_bytes());
        let swapped = decoded(&Zfp, &sample.stored(), &parameters, sample.size).unwrap();
        let size = if sample.what.contains("double") || sample.what.contains("int64") { 8 } else { 4 };
        let back: Vec<u8> = swapped.chunks(size).flat_map(|value| value.iter().rev().copied()).collect();
        assert!(back == plain, "{}", sample.what);
    }
}

#[test]
fn other_headers() {
    let Sample { parameters, size, .. } = SAMPLES[0];
    let (first, stored) = (parameters[0], SAMPLES[0].stored());
    let with = |changes: &[(usize, u32)]| {
        let mut parameters = parameters.to_vec();
        changes.iter().for_each(|(at, value)| parameters[*at] = *value);
        decoded(&Zfp, &stored, &parameters, size).map_err(|error| error.kind())
    };
    // Filters before 1.1 do not store the coding version.
    assert!(with(&[(0, 0x0055_0100)]).is_ok());
    assert!(with(&[(0, 0x0100_7100)]).is_ok());
    assert_eq!(with(&[(0, first & !0xf000 | 0x6000)]), Err(ErrorKind::Unsupported));
    assert_eq!(with(&[(1, parameters[1] ^ 0x0100_0000)]), Err(ErrorKind::Unsupported));
    assert_eq!(with(&[(1, 0)]), Err(ErrorKind::Filter));
    // A larger array, and contradictory limits.
    assert_eq!(with(&[(2, u32::MAX)]), Err(ErrorKind::Limit));
    let long = [parameters, &[0; 3]].concat();
    let mut long = long;
    long[3] |= 0xfff << 20;
    long[4] = 500;
    assert_eq!(decoded(&Zfp, &stored, &long, size).unwrap_err().kind(), ErrorKind::Filter);
    for count in 0..3 {
        let short = decoded(&Zfp, &stored, &parameters[..count], size).unwrap_err();
        assert!(matches!(short.kind(), ErrorKind::Filter | ErrorKind::Limit), "{short}");
    }
}
