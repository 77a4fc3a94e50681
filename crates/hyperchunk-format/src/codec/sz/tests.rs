//! Chunks written by SZ 2.1.12.

use super::Sz;
use crate::codec::sample::{Sample, check, check_damaged};
use crate::codec::testing::decoded;
use crate::{Error, ErrorKind};

#[test]
fn values_are_the_library_s_own() {
    check(&Sz, SAMPLES);
}

/// Damage inside the lossless compression.
#[test]
fn damage_inside() {
    for sample in SAMPLES {
        if let Some(unpacked) = super::unpack(&sample.stored(), 1 << 20).unwrap() {
            check_damaged(&Sz, sample, &unpacked, |unpacked| zstd::bulk::compress(&unpacked, 1).unwrap());
        }
    }
}

#[test]
fn other_versions() {
    let check = |stored: &[u8]| -> Error { decoded(&Sz, stored, &[1, 0, 0, 100], 400).unwrap_err() };
    let error = check(&[2, 0, 2, 0, 0, 0]);
    let message = "an SZ chunk of version 2.0.2: expected 2.1.8 to 2.1.12";
    assert_eq!((error.kind(), error.message()), (ErrorKind::Unsupported, message));
    assert_eq!(check(&[1, 4, 13, 0]).kind(), ErrorKind::Unsupported);
    assert_eq!(check(&[2, 2, 0, 0, 0, 0]).kind(), ErrorKind::Unsupported);
    assert_eq!(check(&[]).kind(), ErrorKind::Filter);
}

#[test]
fn nothing_to_do() {
    let bytes: Vec<u8> = (0..80).collect();
    for parameters in [&[][..], &[1, 0, 0, 19], &[1, 0, 0, 20], &[2, 0, 4, 4]] {
        assert_eq!(decoded(&Sz, &bytes, parameters, 80).unwrap(), bytes);
    }
}

const SAMPLES: &[Sample] = &[
    Sample {
        what: "f32, 4 axes, stored as they are, Zstandard",
        parameters: &[4, 0, 2, 5, 2, 2],
        stored: "KLUv/SDIRQMAhAQCAQxQRABkJqygAAAAAD13MeplAAABAADAJb//QDLq6QAoP5ZYDb9/1dtAKT6dwAN9QonTiUAHY7jAHuHZ \
            EYnBwCW//z+WWA0MAC+aPQSACwCadghGZMGAabIUjp1HXiy+QzoDeAI",
        size: 160,
        sum: 0x52f7fdbf,
    },
    Sample {
        what: "i8, 1 axis, stored as they are, zlib",
        parameters: &[1, 3, 0, 44],
        stored: "eF5jYuQJcGFIUVtjbHFxuzgIZzAwMDKgAz0tLa0QLRD4Za21UgsK7sMYpv5as0D0Oi0GLZByANjfEG8",
        size: 44,
        sum: 0x40ae3b4f,
    },
    Sample {
        what: "u8, 4 axes, all the same, not packed",
        parameters: &[4, 2, 8, 3, 6, 10],
        stored: "AgEMQ0QAZCasMjjRtxc40bcXZQAAAQAAAAAAAAAAAAAAAAAAAAAFoHM",
        size: 1440,
        sum: 0x6aa38d3f,
    },
    Sample {
        what: "i16, 1 axis, Lorenzo, Zstandard",
        parameters: &[1, 5, 0, 2371, 0, 0x3f171ba7, 0x47bfaf8d, 0, 0, 0, 0, 0, 0],
        stored: "KLUv/WCoAEUDALQDAgEMRkQAZCasBTjRtxcAAAAAZQAAAQAJQyA/FxunR7+vjQFHAAAACAMAAAAgAhABAcADMAwBAAEAAgAS \
            AMCDpTJvYIYCOi7AfLlpXch8Re7msK3Cr4wFR1IsjjmYJ2EtuV2yXYAm",
        size: 4742,
        sum: 0x15c98f54,
    },
    Sample {
        what: "f64, 1 axis, Lorenzo, zlib",
        parameters: &[1, 1, 0, 1157],
        stored: "eNpjYuRxcGFIUVvDaCUR1c8ABKlHGBgZGOx9DjtJe680tU9YEL1IsfEuAxiwtILkgEDBPvyijsaXHC0ee2fuwJvNfQoQBQxn \
            oTQTlAYpZwdpALKYWcASbKxQOQEGBOCH0oJQTYyMjFsY6AnYTQ4gOCwHsCtS2O8CAP4sFng",
        size: 9256,
        sum: 0x5a688e72,
    },
    Sample {
        what: "f32, 1 axis, Lorenzo, zlib",
        parameters: &[1, 0, 0, 301],
        stored: "eNpjYuRxcGFIUVvD4GCVqcQABKnFDIwMDAfbE4wdVQKkGMCAURckBgQKB0IezOBxYPdVcWCAgwYozQSlQUq5QYqBLGYWBjZ2 \
            iCQXKwMnB0yPAEI7Az8SWxiIeaFsQahhIAQEu0EW8EFsA2tnmgoiJUAEDwODBTOQNgDiAwwCDiEAUPoPUQ",
        size: 1204,
        sum: 0x7c22f363,
    },
    Sample {
        what: "f32, 2 axes, Lorenzo, Zstandard",
        parameters: &[2, 0, 6, 45],
        stored: "KLUv/SC6zQMAJAUCAQxARABkJqwwNPvwUzjRtxdlcwABAAC2Z0DXOMVxAwABDgAAACA4Pjb9ET6ffgpgAF8CBAAAAAcAAQAD \
            AAUEAAYQDxEAAQH8QYAUGLg+t94AECBwgnJ7tgSgh2/H5eJeSMemk6O7Dw7eCswqM5uzwKrXaLkAGQ",
        size: 1080,
        sum: 0x97eb0c58,
    },
    Sample {
        what: "f32, 4 axes, all the same, not packed, clamped",
        parameters: &[4, 0, 2, 7, 4, 4],
        stored: "AgEMRUQAZCasADdUpw4AAAAAZQAAAQAAN8Zx8zgTyOkAAAAAAAAA4DfHX5I",
        size: 896,
        sum: 0x2c7e6ccd,
    },
    Sample {
        what: "f64, 2 axes, stored as they are, zlib",
        parameters: &[2, 1, 5, 6],
        stored: "eF5jYuQJcGFIUVuzkAEIrCzn7UwtZmBkYNivqL19v0nSZXsF/vr/7hN9QbJAIGcvmKNz4eM0nf1ymy83ee6rtLsS9cItlrfd \
            7o1dcfj9DJH9MporhZeeXbGf21OicHNel92LC8suLdt0HGbefhaVzi/uj0TsJee+3pzo6AQz357J8YlQV7TNfoHvC677Fr3a \
            z6//03Hfi2P2QqIuhpv//LaX0JbO5RbugbqDwW7tYavSGK/T+yWZHrAzXna2O1kq5PCPb+9+Ge3wCR5sy+wFPh3t8goN3c96 \
            2p7dOTDd7vU7pil7+kPt+SrLJ6jXyO4XmyTP42P3a7+wj5DoZsH59uK7t8bcfb/HnmcPG6OORr49r3iwZ0/sSwBusHCR",
        size: 240,
        sum: 0xeefca376,
    },
    Sample {
        what: "u32, 3 axes, Lorenzo, Zstandard",
        parameters: &[3, 6, 12, 5, 12, 0, 0x3f4985b8, 0x3ae0581c, 0, 0, 0, 0, 0, 0],
        stored: "KLUv/WAVAKUDAAQEAgEMSkQAZCasBjjRtxcAAAAAZQAAAQAEAALQAT9Jhbg64FgcAHgARAADAoAAAQEDADAwA2AABgBgBgAA \
            BFO9kBcAMxEYCoEdwMoCrVYeCAwa4jhgoXDMGy12VMaBzK4iWQkADAwGBnMgAJiL8zBouAaa",
        size: 2880,
        sum: 0x807f3657,
    },
    Sample {
        what: "u64, 4 axes, Lorenzo, zlib",
        parameters: &[4, 8, 2, 5, 2, 4],
        stored: "eAFjYuTxY2FIUVvDYHFxuzgDEKQCMQuIAQYcUDqAgRHEAkrIrPucxfWp2gEmA1GgAVX3AolmBqsH6mOCCsJoRsYJeyM5NJqZ \
            PLv0GD7v4mJcZzh1uNMAmKdpeQ",
        size: 640,
        sum: 0xec29bf5a,
    },
    Sample {
        what: "u16, 4 axes, Lorenzo, zlib",
        parameters: &[4, 4, 2, 5, 6, 2],
        stored: "eNpjYuRxc2FIUVujYnFxuzgIpzIwMDLAAYxZAWbBJRgl7O4/D0MoY9CF0gFINDNMDxOSwgaQEGOGBgdIkPVm3LP9/c0NjOQA \
            ZtxSAPS1D6s",
        size: 240,
        sum: 0x83837d5c,
    },
    Sample {
        what: "u8, 1 axis, stored as they are, Zstandard",
        parameters: &[1, 2, 0, 33, 0, 0x3f16787a, 0xacda62b2, 0, 0, 0, 0, 0, 0],
        stored: "KLUv/SBLRQEA4AIBDFBEAGQmrAI40bcXAAAAAGUAAAEAIwAJ2BQEACADn3nBhSOgCQ",
        size: 33,
        sum: 0x9c78e1ab,
    },
    Sample {
        what: "u8, 1 axis, Lorenzo, zlib",
        parameters: &[1, 2, 0, 1054],
        stored: "eAFjYuRxcmFIUVvDZHFxuzgDEKQyMDCCaAiAMlnkoIIKUPFiByUoC0Idh/KYkGh2IFsBqI+ZBchgYmBjhcoJQGkQxQ9lC4Jo \
            oGWMjIxboEK0opjnPLc8VwwjzhCyBgAhew+Y",
        size: 1054,
        sum: 0x751003e9,
    },
    Sample {
        what: "f32, 2 axes, regression, not packed, clamped",
        parameters: &[2, 0, 46, 4],
        stored: "AgEMxEAAZCasADfCbYEAAAAAZQAAAQAAvytHNj6Tf3QAAAAAAAAAuAAAABA3wm2BAAAAIAAAABYAAAADAAEAAAIAAAAAAAAQ \
            AAAAAAAAAAABAQAAAAAAwDAAAAAAAAAAe5hzvHuY87xcsja9e5hzvU0/mL1csra9ayXVvXuY873FBQm+TT8YvtR4J75csja+ \
            5OtFvmslVb7zXmS+e5hzvgFpgb7FBYm+iaKQvk0/mL4Q3J++1Hinvu6pxD3uqUQ+c3+TPpgVr75csra+IE++vuTrxb6niM2+ \
            ayXVvi/C3L7zXuS+t/vrvnuY874+Nfu+AWkBv2M3Bb/FBQm/J9QMv4miEL/rcBS/TT8Yv64NHL8Q3B+/cqojv9R4J782Ryu/ \
            f///AAACAAAEAAAP///gAAAAAAAAAAA",
        size: 736,
        sum: 0xd4147584,
    },
    Sample {
        what: "i8, 3 axes, Lorenzo, Zstandard",
        parameters: &[3, 3, 29, 9, 4, 0, 0x3fa1b3e1, 0xcc30294d, 0, 0, 0, 0, 0, 0],
        stored: "KLUv/WAKAD0DAJQDAgEMQkQAZCasAzjRtxcAAAAAZQAAAQAEFD+hs+HMMClNsAUBAAMAAAIABAAAgAAOgAEBwAIEAAFAEwBa \
            1QBE8BMkAIDlXa5DFsqgqga4IVTjFOGVYEVtpLRL0zHPGFoEuuSwAE0",
        size: 1044,
        sum: 0x580e2458,
    },
    Sample {
        what: "f32, 4 axes, Lorenzo, Zstandard, clamped",
        parameters: &[4, 0, 2, 11, 2, 8],
        stored: "KLUv/SCk/QIA9AMCAQxERABkJqwwO6ySqDjRtxdlxAABAAA7s+YBPDlUNgABYDwJo5sJP3WSVQBKAAgAAgAAAAOAAAEBJVG7 \
            ugMNAC4DnkLQ0jBAxFnAtIAqosHAYGDc4s7ATcNpwRM",
        size: 1408,
        sum: 0x61cf6c72,
    },
    Sample {
        what: "f32, 2 axes, ratios, Zstandard",
        parameters: &[2, 0, 72, 36, 10, 0, 0, 0, 0, 0x3f1a0d7c, 0x4a4c3130, 0, 0],
        stored: "KLUv/WDEBNUHAHJHGiWQK40BqIuf+XNQjfzZyPY/IL0MtMnzHVVnDFXFAwwtKVWKbJkCUxaV2CKemC2vbC2x59VM/1BbaSqP \
            pd20nzbb/hF+9kdf+S3AO+4PiAaDMpDyImmaAhcmi28QpCPhJP4vGMNjRURwLFCo8UmbC5Vhz0ADoXHGEkBCSRomCRASMGek \
            mYAComAi5ZYW6wanrcXJTrQ36OKWSwYQeIZQYYZPm0rHPRFWS2JgjcfJ/eQaVEtifY3VzBiXIiVn4yVsZUWFwlLUg8FxzzRX \
            MihJDlpQRMIr/YvEv74lAtZBdgNbEe5fbD02y5D6WNi9AEoz+02fAPsNXAU",
        size: 10368,
        sum: 0xec9d42e3,
    },
    Sample {
        what: "f64, 2 axes, Lorenzo, zlib",
        parameters: &[2, 1, 18, 4],
        stored: "eF5jYuRxcGFIUVvDaMosdYUBCFKPAImG/cxJRxf7cuaBRJCAB0gOhPd9hsgL2i1Ijio+G3gNqigMSjNCaSYgzQnWxMjAzMLA \
            BmQyMXCwMrBD5R2gNIhyhLJtoLQ9iAYaxMjAyMi4f85zy3NFDQwiDAwLgMJ2nxkAtB4Zqw",
        size: 576,
        sum: 0xd3c4bddc,
    },
    Sample {
        what: "i32, 1 axis, Lorenzo, Zstandard",
        parameters: &[1, 7, 0, 3592, 0, 0x3f7e7ece, 0x27468bfd, 0, 0, 0, 0, 0, 0],
        stored: "KLUv/WA8AS0DAJQDAgEMSkQAZCasBzjRtxcAAAAAZQAAAQAOCCAAABM/fn7OJ0aL/QAB3wAAAAQDAAAAIAIQAcABIAEAEwCA \
            AMBDR6ABFsACIAACQEAsFHZzxFZBVyaAIyk2YjZPEawlt0u2C9AE",
        size: 14368,
        sum: 0x00c8ced2,
    },
    Sample {
        what: "f32, 3 axes, Lorenzo, zlib",
        parameters: &[3, 0, 9, 3, 8],
        stored: "eF5jYuRxcGFIUVsjwAAEFhe3i6cWMzAyMBwx2LbA+cbkGSBRILgBEgMChcMcN1fI2ofu4IdKgIAllBaC0gZAzAzECiBNTBAx \
            sPEgwMj4/4CCAETcgYGBgwFssgIDAwuQYhF0YBRw5rjptNKOxeBg5/lDzUr39h+WEnSUTWFz4WtwfnbHaUmo48MnBw/OOTTl \
            1ue6w6rNvgor+fgYMje27nlbc/sAABgSLnU",
        size: 864,
        sum: 0xf9bed039,
    },
    Sample {
        what: "f32, 1 axis, logarithms, zlib",
        parameters: &[1, 0, 0, 541],
        stored: "eF5jYuRJcGFIUVuzgAEIbD/UMqQCaSYGi41Z4VbFn3hAokC+LEgMBlSgDIWDNiff8dofadh0AC7HAGPClDMejGb7C5TmB2IF \
            BkYGZhZWNgYGTi6wDiYGPl4OdgYGHm64AQIIo+AsPiBLCElcEsgG6gIDkLmCIAYjmACSjCAw50zCgQMGjA3MDAwSDAxAG6EE \
            iIEBRFg2AcVYgTiAgamB0YGL0WFDj9JCx16OGRJsDAYMBgL77zUAAOpKHmI",
        size: 2164,
        sum: 0x8619c667,
    },
    Sample {
        what: "f64, 3 axes, regression, not packed",
        parameters: &[3, 1, 14, 11, 20],
        stored: "AgEMwEAAZCasEQAAAAA40bcXZQAAAQAAP2ILSUq/86c/iII4pFGAjQAAAAAAAAwIAAAABj4hkuNSOcd1AAAAIAAAAAgAAAAB \
            AAAAEAAAAAEAAAAAAAAAAAAAPaK+0Fe1GQUAAIAAAAAAFgAAAAMAAQAAAgAAAAAAAACAAAAAAAAAAAEBAAAAAAAAAAGAAAAA \
            ATJiIyybrSs/PZRzEdQLYR0AAIAAAAAAFgAAAAMAAQAAAgAAAAAAAACAAAAAAAAAAAEBAAAAAAAAAAGAAAAAAQjwJLwI4j0/ \
            PaARRN12p7sAAIAAAAAAFgAAAAMAAQAAAgAAAAAAAACAAAAAAAAAAAEBAAAAAAAAAAGAAAAAARQ1Xf0ODBg/PcweOIOPpYgA \
            AIAAAAAACAAAAAEAAAAAAAAAAQAAAAAAAAAAAAAABrrzv0pJC2I/n1cskuxNZz9xbg8uPSduPxfpvTrwtHE/5XSviJghdT/D \
            pmUs6sJ3PwAAAAAAAAAA",
        size: 24640,
        sum: 0x817d5190,
    },
    Sample {
        what: "f64, 4 axes, Lorenzo, zlib",
        parameters: &[4, 1, 7, 2, 5, 3],
        stored: "eNpjYuRxcGFIUVvDaL6kyIABCFJDgYTCfiE9p9OpS0vsxVdtu/T29gUGCLgEkgNhu6cfL8gp3Czgs/vS58b7oec6VEEplGZG \
            ojnBmhiBbFYGdgYGJgYWBjYGDoi8AFQdP5QWhNJCUBqoDQwZPx1JkWLdIpkxd8F1pQyxi49OZEhl7OA1iVZc7pIh7t6tuCBz \
            0QupjN2OaxelCC9g2Gdn//xAAwDODy7+",
        size: 1680,
        sum: 0xf491aff7,
    },
    Sample {
        what: "f64, 1 axis, as a line, zlib",
        parameters: &[1, 1, 0, 1121],
        stored: "eNpjYuRxYGFIUVvD6NSlsocBCDKOMDCwMOy/lLR+dv0mI4eq41Pyz1eqM4ABSyIDI5hmcMg69Pvwi5nWvA6BLtPL1miKQBQw \
            PIfSTFAapJwbpAHIYmZhYGNg4ARJcrAysDMwcKEpBqmHsv8zIsSYgGL/GCGGMTIwgtBuBgqBAG4pUaAtAeguswMR8hAKBliQ \
            2AoHsh0AVjAbvQ",
        size: 8968,
        sum: 0x1f396f8f,
    },
    Sample {
        what: "f32, 1 axis, ratios, Zstandard",
        parameters: &[1, 0, 0, 1489, 10, 0, 0, 0, 0, 0x3fd25b11, 0xffdaf52c, 0, 0],
        stored: "KLUv/WCGAN0FAJIIHylwTxoDOHv9f0N8O3QHx70A0HBq1AgyMy0w9TvDMd+szUbQLC3yySZSpp/k8S+1KgV6l49hUlSiJJYe \
            Ph/OycFcqoWfcDf3gQHD97e1s3XB7+CAHvumL16tWGdZRWAWVY2Vh9/wIzztlR2RBvU6KeNhfSD/oVEC82Qz0A0bADET8Kpo \
            PBcDMBDMABrA5AONAbbAIAw+YlsaJIyBYG4uKpA3EAwGBjOCWFbDBYEAMCNwB5C9GfAZcAI",
        size: 5956,
        sum: 0x0ddd3187,
    },
    Sample {
        what: "f32, 4 axes, logarithms, Zstandard",
        parameters: &[4, 0, 2, 11, 8, 8],
        stored: "KLUv/WBnAU0OADYZXUrQsjiNAZD7BmKKo2h5YD0hxx1DWv5RPRoJoZBlmHku3Gd8zPrCoitnATW1sIJcl8N1NET58FgfMYOS \
            U8X1kRVlQoc/KmtfPGsyBUIAPQBUAN2vegGbXDLJb5o0GlwU8v6EvK/+k/8BiO+1B9lxLqYZDkilCJjX6gPvFXRONbDykp6v \
            300NKg1E5P/pguVyBNlouzA59GbTpQouxMBcL+66LKlwLQeWEzma3d19R37Sg3/4f//oP/0mv+gvQZVMBD51gMNRP4BLI4v8 \
            nQYMKnA1KmMrdeZI8c6s0AP5/DmdEBfj3Si8CGFTkuihsRKaXKCDJLU47qH7GbGGxlr4iOHQfrBgMHGxD/sOnbDCVjVuiJy0 \
            GnCxZlrIGTG72nhkKM2HgkepDBlV9a4vp/TUm5ZW9VhkSBlPef7WJUzUZEgc5kltwakwlqp6l8tmGx69fTrcoFYk2JlV25L7 \
            WQFcAgoMBl8/cZxJY/Q4QbBhm4ByiuCkBSgg0IKxmzYw8F/Lr+btxoItCaTdQ8EMREfOr35Y1SJbNLQAEIABEwblMRjbDx3o \
            ckteYoklWAJ7VsjdOLYzyuN+hlVEIvWwKbHHQBIDL53rPQE",
        size: 5632,
        sum: 0xb24b6080,
    },
    Sample {
        what: "f32, 4 axes, regression, Zstandard, clamped",
        parameters: &[4, 0, 8, 7, 8, 6],
        stored: "KLUv/WBHAh0JAJKMKC1wbZoDILQAfFTRzgZTcQ/+3j+I/WsbXE0HwSL4njzEZqsAfqwgEREhcu8tZQoZlsWwqHAmq2qUCuYQ \
            IgXQAGNv+nHaOxkIpITPw8Y72ZFcKaXyRL1Vs9Xyj4hBoBMaXUxrrV3pUbsSR/JrMZkpU1XlF8vtia0AB32CgtO50BGiWWtp \
            HpC9Tif4pv1dfhyMeDw0Ijg2Et8gUuA5Mgh1AMksFjug8Z1TVRUVpTCMAaCCopnz1QV0Fdz6OmMS/DtB9RkwXydRuhI5Ew7A \
            hRUsUgDfZkp6uuSi7kbZ32s3rm/ZNGVtUSrJiUSyAy59helONmlgE7KKdLIAe/OSYhHQVuSpE/toomfSrLv5OQiMA68BHZNK \
            FyetkwUV50S3H6v4Aw",
        size: 10752,
        sum: 0x970bbc91,
    },
    Sample {
        what: "i64, 2 axes, Lorenzo, Zstandard",
        parameters: &[2, 9, 7, 19, 0, 0x412fc488, 0x31d600f0, 0, 0, 0, 0, 0, 0],
        stored: "KLUv/SCzDQQA1AUCAQxORABkJqwBONG3FwAAAABlAAABAAQAhQEAAP++XvxBL8SIMdYA8ABWAAcAAQADAgAGBYD/fwAAAQEB \
            pMhwQ0mRiYTBwcaGjcZGR5M40OGOAmExJoaNAABBoQQPADADvmQEZQHyxQIRmEFTxa2EmIoAMDCYhAvCeS8YeAGa",
        size: 1064,
        sum: 0x15a391f6,
    },
    Sample {
        what: "f64, 4 axes, regression, zlib",
        parameters: &[4, 1, 11, 6, 3, 9],
        stored: "eJxjYuQ54MKQorZGkAEILC5uF08F0g0MDkJJWw86TJrnYPGQs2GVmhUDGLB9AxH2hdGTYxY1A9mMIMEKIBYEMplZGBjYOTgZ \
            uBkY+IBCTAxsrAwMArxcDDwMDPwQ/UCDEaARiOsZUEE/lO4D4nQk8QwgPgtiAG1kZATTjCDECFfxgQ3KmDfJ4eDWJCEH/S3p \
            Wladkg4Ps4573g9XcFj5O6pO8bWyQ1HPu03JdeoO1rJNz5cKajtcMzpmOM1wmgnQjguMC5gd2GEmliyYAvX1K50QCIvxAFRO \
            BkozzgmJWABhWmooQBh8MANuLToKZT2A0nxQExl4r0RsgLCYYUFiAaWZLVZsdIAwC6BC7KosUOu2unbhcsluUTEos1CDAVU/ \
            W2FgUgOaS7w4oCwAVaBIAw",
        size: 14256,
        sum: 0xec2a6b9d,
    },
    Sample {
        what: "f64, 3 axes, Lorenzo, zlib",
        parameters: &[3, 1, 3, 13, 3],
        stored: "eF5jYuRxcGFIUVvDaLq8XokBCFKLGRgZGPYL/nGoK/uvwYAKSkFyYHlGiLyg3Zb3T9x+qjdDFWRCaUYozQTE3FBNzAysbOwQ \
            QRYGLk4OuKkNEOp/PQMK+APlMwLl/9aDjQAbBATnBEFAow8ow7ig2gGszJ6xAQDiGhw1",
        size: 936,
        sum: 0x551fd4a1,
    },
    Sample {
        what: "f32, 3 axes, ratios, Zstandard",
        parameters: &[3, 0, 4, 7, 15, 10, 0, 0, 0, 0, 0x3f44cc87, 0x4bc8b43c, 0, 0],
        stored: "KLUv/WAFABUGAIKKJzNQa9QYMJOu6rZg0k0aPFH9zqp3ltHmFXF9pO5acoqKOf/uAbB1+uizyPgYY/9/ydZamQJU1r0LL9I4 \
            G8ALMyEkSOxb0VWG8R1tGn8+CPzZh/OFgZkBBmgQ5Tic72D9U+zuVn6L5AklPpYgP9R0BL3PP/IXdFz1GRzAQoMAYqPjJOjC \
            4WSdZyb2AwNZKY2sv28Utg/b/iMqsO+OodonDwC6ESBokNFlGViDzLRAu8/AVREABg7GAgMBhZuBc4En",
        size: 1680,
        sum: 0x294b2419,
    },
    Sample {
        what: "f32, 3 axes, regression and a mean, Zstandard",
        parameters: &[3, 0, 3, 19, 12],
        stored: "KLUv/WBtBDUZAGYto0RgmlJr2/Qp/mumgjsMaIaYTxCfBkHsovdTQ3H8TQYwn8OM0jrYgBUALALcyY7Dgm93x90pYHJtwJ+i \
            AHZ5HVszuDYrU3kAbACoAO/1NTbXFdZUWS814G9yenrnSt9EegAvNPQvf37nHB6gIqYhDvEVXPZkBz7swaJfgEDXW1ZVQ6c+ \
            CuoXEOD5Syf9kdETPTPo9+l5nZVJ5NFY/IXB+4LfKfgtIiCREn+54HfEmRiLt7O6gz8G5pErWv88cs8LD5kobzDXvue3M9rA \
            b7toGQu20L+6OPHt3Ct9m0V+0fjHJyavj+VB5/X//X7vev8ZZODP5vhX57+/xfn+4gzP/mP+vL87u2nzv/H706D5xbwG8C+j \
            /PfU/CUafzN/c8j8fckb/Cv8ezc7wU8RvNhLDQRQDC5YDaAqtQYbKgSq2gUcKK8sIFGcT7cYUzenn3Nqw2+OTqstja1BB7w9 \
            B1dCzT0mUQqVKlVNGiLHhr+crJGMKnlGaxRHCTCkOi5XK1lvxSmlDxhWvDI2MEzLCnFxJY7SqjtZx6Fo4NMR0AI1ugQtwj6W \
            zFDx2uTe8W9RKIiqZE8UDnIbLMT8R7jY+usWuW97XH++1bOaWEbDHFu7v1bA/oV9oaHw4gNRJ0SafPGCE96pOE6xE6yIuuxy \
            uFkxB4Wx1rXGQg2XHRrgzPrYpnTlYTHSpkIEg6X1iHUpBDEmwx1WGRs/ziGVEhMNLJ0SobQnTS0E0pTYhLtqFuqarF7QoklQ \
            oGs6YpLQWAL68sU1JAVWylmld8MDHx1fBh2BWkgsYFN+EFKEJuFFW3ZPQ/LavZn5WD2J43DW7W6I8AyvuIwHV6h4IG9ULEgR \
            Ij+kgF6OQUWyQKjOKBv+mmZLqAElJAa7CUJRGSlIG/CCISLOARKgdDXUGGjNTJiwyPxfB89VahfXWSYNJ0AIgbx1V/6Z8Em1 \
            QmrTbQf2EOL7Sf5wC79E5CBXFKQnIhL8S/KQJKIifbetcCQgdznxnV/FSpjdyOr1Eokqpx2AxYYvhQYK8pA2g/ZFGc3UuoHH \
            wXxBn5/Cdub0PcRUyaQ8rL6l/j9SbDwN",
        size: 2736,
        sum: 0xf8a67036,
    },
    Sample {
        what: "f64, 2 axes, regression, Zstandard",
        parameters: &[2, 1, 39, 59],
        stored: "KLUv/WDtAe0LADQSAgEMwEQAZCasATaU4KkAAAAAZQAAAQAAv4FkugSQq/IACP0AAAAQPtKcFSSLqPwAAAAgAAAAMgAAAAcA \
            AQADAAUAAAIABAAGABAACQAKAAAAAAEAAQABAQD8JgCtvbMpM+IgvzC/hJyNvkxTOUC/F60g9L8aRUm/74v6iNmLTVC/YzXq \
            jnn+UlW/ziRXWQY3V1m/OBTEI5NvW12/pQMx7h+oX2C/h/lOXFbwYWK/PXGFwZwMZGW/8ui7JuMoZme/qWDyiylFaGm/Xtgo \
            8W9hamu/E1BfVrZ9bG2/yseVu/yZbm+/vx9mkCFbcHC/mlsBw0RpcXG/dZec9Wd3cnK/UNM3KIuFc3S/bbbbbbbbbaAAAQAA \
            CAAAQAACgAAEAAAggAOAJSCAAhEq9ZcB8jV0VuIY8AGDHeDgA4oCeRHHlwVsLvB02ab5TMhn8XwG5rOTz0w+K/mM57PNZzKf \
            pXwG5LOZz2Q+i/kMymedz7x8hsEZI5Lc2MH4KjkuGQ",
        size: 18408,
        sum: 0x8340e7ec,
    },
    Sample {
        what: "f32, 3 axes, logarithms, Zstandard",
        parameters: &[3, 0, 24, 2, 2, 10, 0, 0, 0, 0, 0x3eb5c02e, 0xcd74fd3, 0, 0],
        stored: "KLUv/SDxtQMAJAQCAQxgRABkJqygAAAAADWuAXBlrQABAEl0JABgIL6hfvGAABAAAGAAY0Gfc9oAAAABAT//QZ9z29va29ra \
            2tra2toXAFIdwUkAJQHYAcusGpLU3kpjAEvNAQDE4GoUwSCVGeAQWACtkHKQEwFYuEkuSLIFTQ",
        size: 384,
        sum: 0xfc5d7b62,
    },
    Sample {
        what: "f32, 4 axes, ratios, Zstandard",
        parameters: &[4, 0, 3, 10, 9, 11, 10, 0, 0, 0, 0, 0x3fc21a3f, 0xd6032aa2, 0, 0],
        stored: "KLUv/WD9AJUDAAQFAgEMaEQAZCasoAAAAAA+ENH/ZQAAAQAARhwpj0YcV1QAC5okACBGHEBwDAMBP8IaP9YDKqIAAZIAAUXv \
            uTwAAAADAAAAIAIAABABAYAARhAOAF45BeAdkAB3TIEGxJUzfFUkgBnBXWAgoHAzcC7wBA",
        size: 11880,
        sum: 0x76747fd7,
    },
    Sample {
        what: "i8, 1 axis, as a line, Zstandard",
        parameters: &[1, 3, 0, 1674],
        stored: "KLUv/WBqAEUDAMQDAgEMQkQAZCasEwAAAAA40bcXaAAAAQAGiiA/icqav4IksADwAAAhAwAAACACEAEBwAbBeJuw30GABgEB \
            EgA5kZ3rAGMv00UI0AJrXch8Re7msK3Cr4wFN1IajomZJ2EtuV2yXYAm",
        size: 1674,
        sum: 0x1e073743,
    },
    Sample {
        what: "f32, 3 axes, regression, not packed",
        parameters: &[3, 0, 6, 9, 4],
        stored: "AgEMwEAAZCasAD8XBIcAAAAAZQAAAAQAwuSrD0KNIosAAAAAAAAA2AAAAAY/FwSHAAAAgAAAAQQAAAAlAAEAAwQABgcICQoA \
            AA0AABARAAAUAAAXABkAABwAHh8AACIAAAACACQFABsWDwwLAAAOAAATEgAAFQAAGAAaAAAdACEgAAAjAAAAAAAAAEAAAAAA \
            AAAAAAAAAEEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAG0AAABTAAAAAAAAAE4AAAAtAAAAAAAAAAAAAAApAAAANAAAAAAAAAAo \
            AAAAIAAAAAAAAABCAAAAAAAAAFgAAAA3AAAAAAAAAD4AAAAAAAAAAAAAADYAAABMAAAAAAAAAEkAAABLAAAAPwAAAAABAAAB \
            AAAAAAABAQABAQAAAQEAAQEAAQABAQABAAABAQABAQEAAAAAAIAAAAAAAAAAAFHS92hraa9HFwFMCkBXBfBWBT6HUyWQDJoc \
            YIDAUENN1OJYEOMmgMEAURxlVkLVGgjGmRw0wQA",
        size: 864,
        sum: 0x0a4b87ca,
    },
    Sample {
        what: "f32, 2 axes, logarithms, not packed",
        parameters: &[2, 0, 42, 4],
        stored: "AgEMYEAAZCasoAAAAAA+Kr7HZVUAAQAAPTxP2T6Ma/UAAAAAAAAAqAABAAAAAAAAAAAAACQAAAAAAAAAIMBJ5pUNP8x6ciAA \
            AAAAAAAAAAAAVgAAAAAAAAABAAAAAAAAAAHAlUwCAAAABwAAACAAAQADBAAAAAIABgUAAAAAAAAAEAAAAAAAAAAAAAAADwAA \
            AAAAAAARAAAAAAEAAAEBAacHAOAHAAcegTAhgQGBDmBDAgMCADQwIDAgAMAAv6A",
        size: 672,
        sum: 0x41d22bba,
    },
    Sample {
        what: "f32, 4 axes, regression and a mean, zlib, clamped",
        parameters: &[4, 0, 6, 9, 4, 2],
        stored: "eF5jYuQ5wsKQorbGwFHg0GWLi9vFUxkYGFgYHFfLvXLOkgOyQYBxA5BgA6kAyQEBiC/JwMjAzMLKxsDAycDAwwsUERQSBpLi \
            DAxMDALcHOwMDFwMDPx8QCExUREgKQHSCQRMUBqJ+s/IwPAbiEGAHSjPiKSGDchmAWJmNH1MQP4/oJ4/UH1/gTQrSA2Yz8gI \
            QkAM4oFIMAMIbJ7Pk2dgaAAxOUBSQPy/HqoJrAAIbM4+fIymhrkBTY2tVGYWmpp/6ObYpWPY9QrdHJidOlYNKlrCCoLyhg4a \
            MgktpQw/tKYxl05gvDBBz+7D4Q/czMnaxW0tDgyCkixqXJHFLHzbub855zAoBnwQStzr0yCsw2TMYMOowMDu7eYxUUVLKUON \
            pWcNg1SAGkMh097oFUxinxkuBDv8ZwAA8JNACw",
        size: 1728,
        sum: 0x7b85ffd4,
    },
];
