//! Chunks written by SZ3 3.1.7.

use super::Sz3;
use crate::codec::sample::{Sample, check, check_damaged};
use crate::codec::testing::decoded;
use crate::{Error, ErrorKind};

#[test]
fn values_are_the_library_s_own() {
    check(&Sz3, SAMPLES);
}

/// Damage inside the Zstandard compression.
#[test]
fn damage_inside() {
    for sample in SAMPLES.iter().filter(|sample| sample.size >= 160) {
        let stored = sample.stored();
        let (rest, size) = stored.split_last_chunk::<4>().unwrap();
        let (packed, configuration) = rest.split_at(rest.len() - u32::from_le_bytes(*size) as usize);
        let unpacked = zstd::bulk::decompress(&packed[8..], 1 << 20).unwrap();
        check_damaged(&Sz3, sample, &unpacked, |unpacked| {
            let packed = zstd::bulk::compress(&unpacked, 1).unwrap();
            [&(unpacked.len() as u64).to_le_bytes(), &packed[..], configuration, size].concat()
        });
    }
}

#[test]
fn other_versions() {
    let check = |stored: &[u8]| -> Error { decoded(&Sz3, stored, &[1, 0, 0, 100], 400).unwrap_err() };
    let error = check(&[0x10, 0xf3, 0x42, 0xf3, 0, 2, 3, 3, 0, 0]);
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Unsupported, "an SZ3 chunk of version 3.3.2: expected 3.1")
    );
}

const SAMPLES: &[Sample] = &[
    Sample {
        what: "i32, 1 axes, linear interpolation, order 0",
        parameters: &[1, 7, 0, 2957],
        stored: "yQEAAAAAAAAotS/9YMkA/QEAVAKNCwAQAAItBmLjQEvsQAgAAAABAHqdHQADAAAABQIAAAgBAXJACgBmOQVPvSuVG+AH7OW5 \
            NHAEwBVsa4EbAY0LAAAAAAAAjQsAAAAAAAACAC0GYuNAS+xAAAAAAAAAAAABAQEAAAAQAAAAAQEQAAAAgAAAAAYAAAABAAAA \
            AEAAAAA",
        size: 11828,
        sum: 0xd44edcc4,
    },
    Sample {
        what: "u8, 1 axes, cubic interpolation, order 0",
        parameters: &[1, 2, 0, 322],
        stored: "lQAAAAAAAAAotS/9IJUNAwDiRBAdsCetAQwVeAcgKeSGFGYW8G6gHCQQL0YYJ4SQLVN/x6XzQC0Do6AqPSfRyNoUVjY7M7uz \
            y5wSFAnEojF4oAesQwwAIAOnCAbDz8yw8EWQjCoTbLYlU3g3R3XJ3IIhAUIBAAAAAAAAQgEAAAAAAAACAOArq51aj5c/AAAA \
            AAAAAAABAAAAAQAcAAAAAQEAAAEAgAAAAAYAAAABAAAAAEAAAAA",
        size: 322,
        sum: 0x39106c22,
    },
    Sample {
        what: "i64, 1 axes, cubic interpolation, order 0",
        parameters: &[1, 9, 0, 2666],
        stored: "rwEAAAAAAAAotS/9YK8APQIAlAJqCgAEAAAAAQAC4oY9tY1IJEMAgAAFAAAAAgABAAMEAgEAAQFOAQAAYgwAPUAFRt0AUa24 \
            IUSAC0DVVQn3MgDYCUy5wBABagoAAAAAAABqCgAAAAAAAAIA4oY9tY1IJEMAAAAAAAAAAAEAAQABAAQAAAABAQAAAQCAAAAA \
            BgAAAAEAAAAAQAAAAA",
        size: 21328,
        sum: 0x842e36f7,
    },
    Sample {
        what: "i16, 1 axes, linear interpolation, order 0",
        parameters: &[1, 5, 0, 879],
        stored: "wQAAAAAAAAAotS/9IMHVAQAUAm8DACYAApBTqQvkAEZAAIAARgABAAACAIsBAW4AAABAAAoAAyQBkKjYaLEYVEkV4GUAsBNY \
            3IIhAW8DAAAAAAAAbwMAAAAAAAACAJBTqQvkAEZAAAAAAAAAAAAAAQEAAAAmAAAAAQEAAAEAXAAAAAYAAAABAAAAAEAAAAA",
        size: 1758,
        sum: 0xddbe5547,
    },
    Sample {
        what: "u32, 4 axes, linear interpolation, order 11",
        parameters: &[4, 6, 2, 3, 5, 2],
        stored: "/QAAAAAAAAAotS/9IP1dBgDECgIAAwAFAAIACwAAAAIavLmwsIVmQQQAAAAeAKHlQwPasxsDEiV3AllWQATKlXMDkxB1A4Py \
            zAOE61EDdM2pA62H3gKdaTYD9CqFAuQM3QJBXPICXNNbAmv4fgKFb+gBspslAs0SjwHJn9gEy4HQArxcrQLl+DkCLZzgAbhV \
            rwXTzBgF4vE7BfxopQQpleIEQwxMBAQAAQQDAAUAAAAHAAEBAQwAf//88ACSSQAMACthgKEBKfgOldnJZ8YYO4etkAVGA6OB \
            0QbQBgQCAAAAAAAAAAMAAAAAAAAABQAAAAAAAAACAAAAAAAAADwAAAAAAAAAAgAavLmwsIVmQQAAAAAAAAAAAQEBAAALAgAA \
            AAEBCAAAAAYAAAAGAAAABAAAAABYAAAA",
        size: 240,
        sum: 0x3dae1250,
    },
    Sample {
        what: "u16, 2 axes, linear interpolation, order 1",
        parameters: &[2, 4, 33, 53],
        stored: "PgEAAAAAAAAotS/9YD4AZQIApAIhADUACAABAAAAAgAYQAQAAAA+E04SFwwoCwAAAAMAAAAFAAEB2wAA8AAOAE9ABcix0gP2 \
            nFoBlYOolr+suyzDuRoQEIwGRhtAGwIhAAAAAAAAADUAAAAAAAAA1QYAAAAAAAACAAAAAAAAABhAAAAAAAAAAAABAAEAAAEI \
            AAAAAQEQAAAAEAAAAAYAAAACAAAAAEgAAAA",
        size: 3498,
        sum: 0xa095f90d,
    },
    Sample {
        what: "i8, 1 axes, cubic interpolation, order 0",
        parameters: &[1, 3, 0, 190],
        stored: "awAAAAAAAAAotS/9IGvNAQDwvgAmAAAAAQACABBAAIAAAwAAAAMCAAQBARgAAABADABgAoBExQbFDjQDK5pa+oIDWA0aBrgM \
            AAsBvgAAAAAAAAC+AAAAAAAAAAIAAAAAAAAAEEAAAAAAAAAAAAABAAEBACYAAAABAQAAAQC1AAAABgAAAAEAAAAAQAAAAA",
        size: 190,
        sum: 0xe077524f,
    },
    Sample {
        what: "f64, 2 axes, linear interpolation, order 0",
        parameters: &[2, 1, 28, 3],
        stored: "dQAAAAAAAAAotS/9IHVVAgAUAxwAAwAGAAJTcFm+4sBnQACAAAUAAAACAAECAAQBAAAAAQABAQxoBVUKgAAAAAAAABAKACD5 \
            Z2MgLFA1tgr2MgDYCWwMBh4AFgIcAAAAAAAAAAMAAAAAAAAAVAAAAAAAAAACAFNwWb7iwGdAAAAAAAAAAAAAAAABAAAGAAAA \
            AQEAAAEADAAAAAYAAAACAAAAAEgAAAA",
        size: 672,
        sum: 0xecf0f0a0,
    },
    Sample {
        what: "f32, 4 axes, Lorenzo 10, regression 00",
        parameters: &[4, 0, 9, 9, 1, 2],
        stored: "nQAAAAAAAAAotS/9IJ1VAwCUBAkACQABAAIABgAAAAECNBi+mpigpj8AgAD/fwAHAAAAAgABAAMABQQAAwEBHW0AK4AIADFY \
            AbUAM0S2BGBAZDIGQxYCswFg1AAOADsJc8FcIVQIAPmYYFHVXRbzwI6gLDAwGBgMPAAsBAkAAAAAAAAACQAAAAAAAAABAAAA \
            AAAAAAIAAAAAAAAAogAAAAAAAAAAADQYvpqYoKY/AAAAAAAAAAABAAAAAQIsAAAAAQEAAAEABgAAAAYAAAAEAAAAAFgAAAA",
        size: 648,
        sum: 0x1325a7e6,
    },
    Sample {
        what: "f32, 4 axes, cubic interpolation, order 12",
        parameters: &[4, 0, 7, 8, 6, 9],
        stored: "BAIAAAAAAAAotS/9YAQBJQMAIoQOHKBFrQF/rqoCTwHGbWvTq/9dM/R+TXV2l2xtyxSrgCOALt0dTw7XROFtZ5UNEwEeahqs \
            I78vjcWWBREAXTkFQBwoAWrxLwTmgrHE48KGCgHjYkLZlwEAe4DRwGhgtAG0AQQHAAAAAAAAAAgAAAAAAAAABgAAAAAAAAAJ \
            AAAAAAAAANALAAAAAAAAAgDviZRypnszQAAAAAAAAAAAAAEBAAEMKgAAAAEBAEAAAAYAAAAGAAAABAAAAABYAAAA",
        size: 12096,
        sum: 0x2acdd7b6,
    },
    Sample {
        what: "f32, a volume, Lorenzo 11, regression 1, 3 axes",
        parameters: &[3, 0, 18, 5, 20],
        stored: "VQMAAAAAAAAotS/9YFUCLQwAxhFBPAAlzTAG8SJSZU2PSh0aSISyF6AfReuVtxkCk1DVWE8qE0CJBFMVHdK5+b/1+gBA2FtD \
            Af9tu+293faWKTAAKAAwAOibJflZ3F+/wEcMad9D024kOxeeWg0nCLM03TecvMznm0GQyfXAhiE7iw67+48/GfvusT/hZ/ht \
            v+y/rfDDnkn8D6+F1xWr5Sp9+icoZHo8vSqFUgNGog/lf77IZL2eWiWhaUhUMp1Wq0YNOsd3829tgBc34A1UmEoOJjo2ypHK \
            xVDDBsj71Q3jUFpwMZwKQBiRqjhWHcFqYlFwowOSkfIbGVHUjD6GiEe5QCFEr7fy281cwZHGlvPyLMeSkrt/nvxAqJGxZEKz \
            oIyUFoYDsII5EvUSYNZFo+XU+mf9PwNIcts0h61zzwGwN+exY9c8UKkETbEWrCSOVXab5ueS71RUy+p7LJO3yjA0CjIhvRJU \
            b6r0bAUXeLOhnLmUtyodwZpPvIgyQXPnwJ4kWmAtlywf94oFQeA5+LwRc6oFTwEDEgAAAAAAAAAFAAAAAAAAABQAAAAAAAAA \
            CAcAAAAAAAAAAEdH8biKklM/AAAAAAAAAAABAQEAAAACAAAAAQEABAAABQAAAAYAAAADAAAAAFAAAAA",
        size: 7200,
        sum: 0x6fc5915f,
    },
    Sample {
        what: "f32, 3 axes, cubic interpolation, order 0",
        parameters: &[3, 0, 22, 7, 17],
        stored: "qwEAAAAAAAAotS/9YKsALQIAVAIWAAcAEQAQAAAAAQAClEpV/v5wQ0AgAAMBAAACAAABAUgBAEAADQA2QAkQYCdhcBXTgp5F \
            S917yQFsD0YBA4OBB4AFAxYAAAAAAAAABwAAAAAAAAARAAAAAAAAADoKAAAAAAAAAgCUSlX+/nBDQAAAAAAAAAAAAQEBAQEA \
            EAAAAAEBQAAAAAYAAAAGAAAAAwAAAABQAAAA",
        size: 10472,
        sum: 0x923c8e69,
    },
    Sample {
        what: "u64, 4 axes, linear interpolation, order 1",
        parameters: &[4, 8, 2, 5, 7, 1],
        stored: "zQEAAAAAAAAotS/9YM0AxQwAFBcCAAUABwABABIAAgAUQCcAADybcbaY5wPAZrTAYls0BGBvn/Ze22EDIJq4RQuergNA0SeZ \
            DPoNBMBVHbQKuqQDYIA2A7d88QPAszqIX79rAyC0FGhbg3sD4M2Wqq+kOAOA5xjtA8b1AkABmy9Y57ICYEmhj7HkoQMgYyPS \
            BQZfA8B8pRRaJxwDgJYnV65I2QLA3i23B0bIA4D4r/lbZ4UDIBIyPLCIQgMALLR+BKr/AsAb7qy3KiEEoDVw7wtM3gMAumUK \
            Cgx1A2BP8jFgbZsDAJRno1wVtQOAx2soBVgvA4BiXtW0SoMDQK0k6V97lgMAx6YrtJxTA+AoL85hu/8DgHP14QzsEgQgjXck \
            YQ3QA+Cm+Wa1Lo0DwNrXy1k1FwMAcGTzr5Y9AwChqMQGppMDoLoqB1vHUANABfEaBvhjAwAfc11aGSEDggABAAMABQAAAgAE \
            AAYAAAADAQAAAgEBDgAABNYAAkPS8qUalCV6YoAQAEAoF/cVzLdC5AoAQ8GZW2aCwTFjWu5m2gAGBgODgcHAA8ACBAIAAAAA \
            AAAABQAAAAAAAAAHAAAAAAAAAAEAAAAAAAAARgAAAAAAAAACAAAAAAAAABRAAAAAAAAAAAABAQEAAAESAAAAAQEAAgAABgAA \
            AAYAAAAEAAAAAFgAAAA",
        size: 560,
        sum: 0x5a3d640b,
    },
    Sample {
        what: "f32, 1 axes, Lorenzo 01, regression 00",
        parameters: &[1, 0, 0, 581],
        stored: "4gAAAAAAAAAotS/9IOJFAwC0BEUCANUAAAABAjYlHkrflW0+AIAA3H8ABwAAABMAAQADBAAAAAIABgUAJAAjACUBAAABAQF6 \
            AAAAVw4OHBw4OHBw4OHBw4OHBxwOAAwAQBTAHFBhKNODi22KZWA0sBswFgQXFLiAGwFFAgAAAAAAAEUCAAAAAAAAAAA2JR5K \
            35VtPgAAAAAAAAAAAAEAAAAAHAAAAAEBAAABANUAAAAGAAAAAQAAAABAAAAA",
        size: 2324,
        sum: 0xbb454494,
    },
    Sample {
        what: "f64, 2 axes, cubic interpolation, order 0",
        parameters: &[2, 1, 45, 15],
        stored: "zQAAAAAAAAAotS/9IM3dAgDUAy0ADwAKAAAAAQACaUsqZ0p1iD8AgABvfwAHAAAAuAABAAMABQAAAgAEAAYAkQCtAAAAbwEB \
            VnCqoAAAAA0MAJEjsIVogHLMl1FhfUC2QCwIDhQKBgSjDaANAi0AAAAAAAAADwAAAAAAAACjAgAAAAAAAAIAaUsqZ0p1iD8A \
            AAAAAAAAAAEBAAABAAoAAAABAQAAAQAQAAAABgAAAAIAAAAASAAAAA",
        size: 5400,
        sum: 0x13902c39,
    },
    Sample {
        what: "f64, 1 axes, cubic interpolation, order 0",
        parameters: &[1, 1, 0, 2488],
        stored: "igEAAAAAAAAotS/9YIoA/QEANAK4CQAuAAAAAQACEIR8CFKmRD8AgAADAQAAAgAAAQE3AQBAAAsAJUAJEGAnYXAV0wKeRUvd \
            exkB7ASmXGAIAbgJAAAAAAAAuAkAAAAAAAACABCEfAhSpkQ/AAAAAAAAAAABAQAAAQAuAAAAAQEAAAEAOgAAAAYAAAABAAAA \
            AEAAAAA",
        size: 19904,
        sum: 0xad7152dd,
    },
    Sample {
        what: "f32, 4 axes, Lorenzo 00, regression 10",
        parameters: &[4, 0, 2, 1, 8, 7],
        stored: "ygAAAAAAAAAotS/9IMrdAwDCxRQhoCmtAfD/c1G1eSEAwNiYPEz3Suqq4pyybI3bbkI2IVumW1RwNE6xnggBURFImhokTRXG \
            DXf3vkHmFRB4NS1zZpaXXfBJOJxQJInHQlVvOtmrAhAANEPvgQhGjmFMALlgyAOrgo2iYqtboGEAPXAFYAwGBgMPAAsEAgAA \
            AAAAAAABAAAAAAAAAAgAAAAAAAAABwAAAAAAAABwAAAAAAAAAAAAdrZbw/zTAEAAAAAAAAAAAAAAAQAABiwAAAABASAAAAAG \
            AAAABgAAAAQAAAAAWAAAAA",
        size: 448,
        sum: 0x11787c43,
    },
    Sample {
        what: "f32, 3 axes, linear interpolation, order 4",
        parameters: &[3, 0, 22, 1, 24],
        stored: "pQAAAAAAAAAotS/9IKUdAgCUAhYAAQAYAAwABAAAAAL0GTAL0J/NPgCAAPt/AAMBAAACAAUAAQFCAHAACwAFEoNBQGJc050w \
            EBxQABgNjAZGG0AbAxYAAAAAAAAAAQAAAAAAAAAYAAAAAAAAABACAAAAAAAAAgD0GTAL0J/NPgAAAAAAAAAAAAABAQAEDAAA \
            AAEBAAABAAYAAAAGAAAAAgAAAABQAAAA",
        size: 2112,
        sum: 0x8f312475,
    },
    Sample {
        what: "f32, 1 axes, linear interpolation, order 0",
        parameters: &[1, 0, 0, 1246],
        stored: "RQAAAAAAAAAotS/9IEU1AQC43gQAJAAC7CthkzlL7z8ACAABAAAAAAAGAIDALt/LCGAnsLgFQwHeBAAAAAAAAN4EAAAAAAAA \
            AgDsK2GTOUvvPwAAAAAAAAAAAAEBAAAAJAAAAAEBABAAAIAAAAAGAAAAAQAAAABAAAAA",
        size: 4984,
        sum: 0xb6501ffd,
    },
    Sample {
        what: "i32, a volume, Lorenzo 10, regression 1, 2 axes",
        parameters: &[3, 7, 1, 12, 14],
        stored: "/AIAAAAAAAAotS/9YPwBjQ4A1pdVRtCQWGtY2EEDKaSg88YQYJB8wh66ntaTnsKiqfkUKnDJiDBCm0WnHj7EsKGgj4d1xYyN \
            g9YD+UPp/z22jCZPxuVhbRyRTAFCADkANABfUqPN/tct1pP8IykV9SIP8ugQiLPx0GTupz/JoIYy8z14wMCCBxhCtFMFyvtT \
            PhD6vWi0RdHCigRGGTYP9/tnfk4/JD7we76g8Vlet+N9ym9iO7n9sF2xb3/Vyq7e9CGTFpU+Op7PSfbHB/Axwv89zItLy6+8 \
            Sg73KAesiBMR1g4vbnAYPv8C937vvfdD7/o7/9Na/4r9R7/6g05fUo3621k/6ff8r2tqqUX/QX4xOGYwPaLnK6nBCKP1wq0E \
            gBsYrzNAl0Gd+krsgH1IgVSdJWaA4/DWc+rYgILFbkmi2RzRCh3IKLhYWV4MAomoAkSOmQ1prsIFqW1qgtKYSWiAwMRSQIw1 \
            IRcjNyCgAqqizQNpYRgDvcCQA4IErDsrDE27SIKJJjjbdqBIFRdgsIGIW2CuFznCddu26JNtAxDR5ESbWZTcYO66yiRiVt3G \
            +bqLxiMzxiRNhzMNswVTZluWugAYN0bfYjbDt0zhcGJnMmprhaJS4yYRAwfXzXwE2JW9AwEAAAAAAAAADAAAAAAAAAAOAAAA \
            AAAAAKgAAAAAAAAAAAAes5qJfW9xQQAAAAAAAAAAAQABAAAFDgAAAAEBAAABAAYAAAAGAAAAAgAAAABQAAAA",
        size: 672,
        sum: 0x79d8e411,
    },
    Sample {
        what: "f32, 1 axes, Lorenzo 11, regression 11",
        parameters: &[1, 0, 0, 1561],
        stored: "1gMAAAAAAAAotS/9YNYCNRMAFuJ2RwCzpjW43CDfUxgEjtCJFAT/64IoUCsNfdivN4oQ6/MUC20fIOKT25gYMoRW2QXwLFIB \
            lv0gpG+FDLa02mK7SYhsubttuWUKXABaAGwAIMmX3iOZAHzrWSclAT71qNOPfP0Rt/IexcbFgqLUqiTBihf2T9EdI1yezjlf \
            /aqTgL9kpPTec6P6k77vnm7TdCPkpaXBDAg+OLbFGciY2RBkAoyi7brN+Ue4MwmwKY9nw7GF/ITrlNpTrfhy1fopc87nqL7N \
            0ee0VsN1QrHzpNx8+0eT+GGzuZCAwJHwk+Z8/sm+wnBDvlaw8DXDV5oSP9LxYzgdeI9GzXcfTHwt2SdQwGTAqz40CuP9amWr \
            pOMNx/u5uJIGDqLKZUhGfXCmWV0Xu3x2QaamyCKtFUhEu0GdywOopDOf35ssFusnyJKvVQea5uMVb61s0e53w3duaLeUN46R \
            Ka55YMidiCwhZkRMUmVFgRALF6MipxVvOPIAKcunkB1YJaHJQgUK3XZuRPHS7vyGcpRDHtTEbDjGZOPQnG3D8YZERMoSNc4s \
            Ag7IhsqpBpV+odnaHxGkv2Ac9MhpoVp55cR4xQRxXI6BupVZmeRCMNnrkCVscFu8EqHG21PCbLh1nwfU49xwC0GoYTEyRira \
            giTLGHACUjVUHRBYRFWTpDkhYNhhvwrgqSdxowxpOmQzUTpoHXYZcX15c6nx342atEkOQ1FKvmCVUE87dDE0a4BolVWgUGaV \
            rwByXW8Qi5UkAlOz0t97/Kor3wcn0yURA5NZFSkEn1k6LNkEL3rJjt0zxxJbK1Vxs9CV/EQhWsIBGQYAAAAAAAAZBgAAAAAA \
            AAAA8qVb7W9pwz4AAAAAAAAAAAEBAQEAAAYAAAABAQAAAQBYAAAABgAAAAEAAAAAQAAAAA",
        size: 6244,
        sum: 0x97aee14c,
    },
    Sample {
        what: "f32, 4 axes, Lorenzo 01, regression 00",
        parameters: &[4, 0, 3, 10, 2, 11],
        stored: "RwIAAAAAAAAotS/9YEcBTQ0AZhdbR9AWVWuAQfX75N9jI9u+vpgVv2pdAUIleM+RHxszuECQjmGxdjoAGUT14Sa1+CJe6eKq \
            S+SqOoIz7/mfXeBZNC/Xtm2d/nunPgA0AFcArRfwpIr1JxSCRw5OeQBh2uxjr6BM4HoDT2DArz4VAMCbSqRF4yExXMUfYZl0 \
            3zmeFSQ7PE5AEcNf9Glx06HnmN4jDMPDH/GL+Ev8MD+O3/yf/LP8KIj8KttA/nOdv8g8v/wuh5jENQa/4F8wWYM/8AUCF2jm \
            h58eoPLmck4+GWholOULhXQDixEnt8WCCxfEI7msP5YJcsI4qjdWDEfITcmY2eBJmlpW4JAZLmCsRBsfCxtJ7g2GmuCoWnNX \
            k9OBZ4O9mB6acvAQvpkmK5gsaaUqjI7EiJUmzM8tJkoKmRc0NaxotBpwMvRTxSpZyZlbsys2ut4KVFFhL6vzKwXdXwndQVE7 \
            HWnHC6jaro8WpQjiBudGjh86gvgAXQk9ARsAYBB3xUwGOsMVG1AS63oA1HLAFZhOczB69ODPBjAK2AUMGHgFSAxgfOBfwRQQ \
            XFAAGA2MBkYbQBsEAwAAAAAAAAAKAAAAAAAAAAIAAAAAAAAACwAAAAAAAACUAgAAAAAAAAAA+nW60ORS0T8AAAAAAAAAAAAB \
            AAAAAiIAAAABAQAAAQAGAAAABgAAAAQAAAAAWAAAAA",
        size: 2640,
        sum: 0x1aebdc07,
    },
    Sample {
        what: "f32, 1 axes, Lorenzo 00, regression 10",
        parameters: &[1, 0, 0, 2096],
        stored: "nwAAAAAAAAAotS/9IJ+dAgDEAjAIAIAAAAACIgACIHVoq+8sbkD+PwMAAAABAAEAAAIAAAEBBX5AAQAAAAAAEAAgw1XkXrLA \
            lCMXKl4CAKMxQ5CqIFEZABxx5gAJdLYD0LRgCAEwCAAAAAAAADAIAAAAAAAAAAAgdWir7yx+QAAAAAAAAAAAAAABAAAAHgAA \
            AAEBAAQAAIAAAAAGAAAAAQAAAABAAAAA",
        size: 8384,
        sum: 0xd278ef29,
    },
    Sample {
        what: "f32, 1 axes, Lorenzo 10, regression 00",
        parameters: &[1, 0, 0, 2179],
        stored: "mAEAAAAAAAAotS/9YJgA9QIAZAODCACAAAAAAQKbfl/EN91wPgAABQAAAAQAAQADAAACAAQGAAEAAQE+AQDECBAgQIECBECB \
            AoARAGAGgAkAEwAmgBsAzMEpE6hiOBDDHfxsAAgMzPoMAAiQeaoFQwGDCAAAAAAAAIMIAAAAAAAAAACbfl/EN91wPgAAAAAA \
            AAAAAQAAAAAAJAAAAAEBAAABAIAAAAAGAAAAAQAAAABAAAAA",
        size: 8716,
        sum: 0x275634d7,
    },
    Sample {
        what: "f32, 2 axes, Lorenzo 10, regression 00",
        parameters: &[2, 0, 61, 67],
        stored: "cwIAAAAAAAAotS/9YHMBJQUA8gYWH6An6f//nwXv6vrXbb6YfT1XzBAE7ZAYG1tIvoSQLVP/K5ZdIkJyQ7NKAsBxfjpHAzGi \
            D4p949jLdS4RKVQvG1np96CfQHu3bj/afJLEwiTLQrD+x4YLAR4AQQjg7QJXwxyGiFrHARdwQ96IEei2Hmkr94XBpIeIirFl \
            hWjUKGgYigL4uA1Q1o25BGLqoUm38wLYO1RimWZAwwBcAOMBYAECPQAAAAAAAABDAAAAAAAAAPcPAAAAAAAAAAA0/v5AA65w \
            QAAAAAAAAAAAAQAAAAAABgAAAAEBCAAAABMAAAAGAAAAAgAAAABIAAAA",
        size: 16348,
        sum: 0x63a5fb62,
    },
    Sample {
        what: "f32, a volume, Lorenzo 10, regression 1, 3 axes",
        parameters: &[3, 0, 22, 4, 20],
        stored: "dAUAAAAAAAAotS/9YHQEpSEAikCIDz0wpE5jkcaaR7k2y/UpTZOckomM4rIr4ESFcftfOnT/kfODm52/uRiMNsVyeVB4QX+i \
            k+qB0L6GDFFsImTL4gDoAOoASoWgTpalx8PQDN7LxodrufH5CBxS9zC45RfyQA9lk7sBRa4rNRrRjJhcacQtX7TfNE7PsS1e \
            i5SeY0mK8yVrKW7ieEXfeRKWq08waK44MIdTTrWTIS/0V4dWR5ugrIkOLljBupywHYyxe7SS6WTbti3G+KzF2KwRxmZZfIS0 \
            xEdlEolb3LoYJ2H8r6HQf2xb2s4gqnWMIdfmIHXm3XjML7o1rc4Nc68hvDD6CKMexhgAE1PbHjHGSVz1decD9Dk15WkBQlt1 \
            hrFrxdiDGzdvqEAcnaRR3ib4+GxxizFGYoyPAkM2VgBlX1XxthUU8IrSBO9zlfUWgGU/kYhnO2WYsZt7ZZvLg9vWUjNmK88w \
            bmRuZg7HNu+XO2tWPzXIJ82ulxHYdyhcqF4GB/BjVwkbQZC8bYCR4PYqMmh3HSXtJWzWVkqr8SBT6i4mprkPgNntAoL+dgwe \
            ivtFouMOcA2xAfzoegkpdwdh17SbUmN7iU5ta1X4sql538cwyo2nnE+mgdGHXKg39hkeUSFzv4HkdpUP/cPB5fEcSrUA6JFV \
            MMp0wDAv7xNiZ0dAw9xSVg9u94Pwc2nINwojP2/cGuinrGlyJ4R8m5mj3QF/TlT5jRLJ/YPI+CLILjpZcu1hDBTfuABPrxlC \
            FVnvSXMfHZKbRobdQSfYm92pHUggoJfNjsCLRchWloOBlulMUHVrNWXFy6HjbdLGSxEhwQWjZpDbuCdQPkDo2QeJCblKIpUM \
            p4Ivu2H58pG3ZUazGuYkd3RaT5OLBhzx9TRy3n4GMVB/lVX1h8Wo7FyUZgiCdK6loM6nHKQvtEDGr9End05F/4SCyZuh2rxh \
            XrCe5Q2824nsfpKL2k0WNjxJlqKjvYigxZCK2gqI2OkokXzQicyuoAS7o00Dvtesexnn4QucIPyS2NQ+VgnZbDabxWJ8xmBZ \
            JE/bulG3sALsD3z87WUd5z7y0rCzDlnsKdjYEel9nRCbKjovDw0NN+D5xA4Mjjilbqq46c4QnXE3Ikjcb4uIe7Wx3LsiWI5n \
            4nq6LudWUCdmI9DA5m0uDFzKDawXERVqVlLAupA0YNeBx2+3jE9v1IjF38K9UxVK8CGFLv68PvWP6aJXBIU5ucYYmbxDa+tM \
            Ky6eJKN3wa6ot8lB1WK8Yui3tgX5rY+ArGWOHg0je52hh9Xh7MRe5Xvjm2swxl0WZsl6XZjZ2mZYpYZWdWeU9R2JoB0/w1bf \
            G3mHr1qDuhwjIMCCIqotNgmE/VEYBHA4BshhgNorfKAAGnEVL4U8wSdnjGHIYJF1a04xYJPImyG3EGb42Ch7USttGF/QFbRZ \
            JIZOWHBjjjPgcAjPoJQDFgAAAAAAAAAEAAAAAAAAABQAAAAAAAAA4AYAAAAAAAAAAJQ0JCU+2mY/AAAAAAAAAAABAAEAAAUG \
            AAAAAQGAAAAABgAAAAYAAAADAAAAAFAAAAA",
        size: 7040,
        sum: 0xc3c99101,
    },
    Sample {
        what: "f32, 2 axes, Lorenzo 01, regression 00",
        parameters: &[2, 0, 19, 4],
        stored: "dgEAAAAAAAAotS/9YHYADQsA9BQTAAQAEAAAAAECIb6WH3l2JT8gAAAATADnORhC9z/NQScKD0Gu0iNAuJg/QgayNELjMlhC \
            jXYvQpP2KUF70mdA9aGowVCngUHZWttBONPqwaQzoEElDyvCQUSbwK+kg8H+p4XB/k9gQqJ7v8G57yPCs0iCwVVe1kEPW05C \
            dkD+QbWiG8LxFlPCbOUHwSw8j0FPqQJCbIfSwVSgT0L1jjzCJOo9QsmvOkLmC9NAjjspwk1+NMJREN3BWMvAQR6IrUFHhChC \
            i2S6waWjYUHR8x3C15v/wR3EJ0K/8ADCMj/jQZid9UE0JtdBIMaNQS0YDcJma/1AcXg+wb3AlMH9gRXCG1a8Qeu8VcKh9+NB \
            LoYYP/U0sUHFyR1AkQ4uwOTLjUE9MhdCDsBMwgmV7EHoMsXBqfBewnrVGcJfmdVAk6XQQdlIREIV3PRBAAEAAAAAAAYALwOq \
            Fa4YMCYwGBh4AFgCEwAAAAAAAAAEAAAAAAAAAEwAAAAAAAAAAAAhvpYfeXYlPwAAAAAAAAAAAAEAAAEBFAAAAAEBQAAAABAA \
            AAAGAAAAAgAAAABIAAAA",
        size: 304,
        sum: 0xa402785e,
    },
    Sample {
        what: "f32, 4 axes, linear interpolation, order 4",
        parameters: &[4, 0, 9, 1, 2, 8],
        stored: "jAAAAAAAAAAotS/9IIy9AgBEAwkAAQACAAgAKAAEAAAAAl0VQ4lJRB9AAIAA/38ABQABAAMAAAICAQABARMAAABiAAAAAAAP \
            ACAAEYjEDAXBEOwKFqA6G8ousAMoCwwMBgYDg4EHgAUECQAAAAAAAAABAAAAAAAAAAIAAAAAAAAACAAAAAAAAACQAAAAAAAA \
            AAIAXRVDiUlEH0AAAAAAAAAAAAEAAAAABCgAAAABAQAAAQAGAAAABgAAAAQAAAAAWAAAAA",
        size: 576,
        sum: 0xd01645c4,
    },
    Sample {
        what: "f32, 2 axes, Lorenzo 00, regression 01",
        parameters: &[2, 0, 46, 4],
        stored: "zAcAAAAAAAAotS/9YMwGJR4A9vmpJkC02wEwnyrgc7jCtfODgnNv0Au0+rNY/t5ePnvA92K2kbtPSZKkoACTAH4AcScBN+JN \
            xD3swOEMWxjCAwdsH7ha2gcICEDkrwJY9BZ4ydJ0DRBDpmSPTU0mYZjs0saijY2dADZcBbg255mJ0PAIWyjU/pA3gsJuc2OC \
            bajxW6zP5DaRiY7LJvgsPIHCEGZzEOEEGzhw2mcHEICmpuAKS2j7wQ0YLBjBBdYm8IDNygCQjQ3T4gs4amH6o4Or1jLnhpE4 \
            oeRkEQC4gWVDBEmUOLHS5UN+AAmyjm9MowaOHXdxju4p5F7CxAkVL/6hG4g1fAHDE47QRmHDDE6g4GsF0AgYaBCiSN9ZrRrV \
            pf5IHWpPb9KUCdMpTfojRxktUvShDxIUaD/v0fOddejMGU43+61Rk+YzkxlzmPW+eHnLWK58ylGgPPkSvJHc2R0x8joh99GD \
            xzm28QwZMWC8RRYrAquMhyQMK+XcyWmyXMw5vAMOL5dxvjZ4XNLXPO9C6oy7od+45Y+HeIEz3lcHoL/M5zG+l+cQ5J5Ze6AU \
            R9PK1ak2dUrVov40p06gRr2SpUOKtJGkSyM6oUKG/jOfPuNpJw+g43wzmzZyEo3mMmbmew+MmLmcRcupLCWvypk0OWXK1rjh \
            FcxUlFJLAuzpoXKBhpBd2l8ZHkqAqvyZ7f0Rsjs0K5hfn1zbXaVbv5zc6bmRoZNTogmQUY06wbXjF7crE4ZbvhS8JfIDd6am \
            RVOENEZ4tyj1qNuUAVfcm1yu1hQdoptCrBexhfbc5OqbI6wu1ppJNgil4PPrm/HJgY8ViWhZYfQqVTC8OiSXirFZIetMlxA+ \
            I2IGFZIBK0iZGdpakLHHxsaO9O2F9JzN3XesJ+U0sDzJag5iuCVv8Dk693N723ZnG0WNA4CXqMElQ0M2k4I62TmAgkI30joR \
            EB2Fztk0GfYM9KgAP2/iKXTrzSmgUr1xOLE0hQpKUBiKBMZpJb2cBFLfeQGWch/lHT1hRvj6k/KPAJllo1Z6/skfClaPoMju \
            6WT8mrUb3AXc/4BgY24JSHqUaJz0j7QcmR8SKHNlE4Txz0GcEwXJmPFqB7WbL2OEXUC00s4yyTb7aMtdcR8tE4jrpI/LlA5z \
            5YpnG9jTRCUzTR+3ByqFmz+7mLM22DIYvN/At8S+yi0CU3a1eMhXE+C1htFndA78G89Yy4NFcl59uXUsphomiJqpRFV48adn \
            Ess/MK8OTzSWR1kzK6rZt3diDlEfWhfCAMuiNCtQUwyBejntlBf03JDMiSLzDgIuAAAAAAAAAAQAAAAAAAAAuAAAAAAAAAAA \
            AH0I5gwCAGE/AAAAAAAAAAAAAAABAQEkAAAAAQEACAAAEAAAAAYAAAACAAAAAEgAAAA",
        size: 736,
        sum: 0x9cb22c2e,
    },
    Sample {
        what: "f32, 3 axes, Lorenzo 11, regression 11",
        parameters: &[3, 0, 9, 22, 2],
        stored: "mgEAAAAAAAAotS/9YJoApQgABA0JABYAAgABAQADNwABAALRAACGC3naPgCAAAD9fxcAAAAHAAUGBwAJCgsADQ4TBAMAABYV \
            CAASEQwAEA8UAgUACAAJAAAADQAAAAsGAAQAAQEBAXsAJKPKhemgiAd0bj3BCJxY2KL7ohFxxi6AQxRPlOJHSsOACLgD6jCd \
            EWHNU0wdE2Le+mIJY7LKkiV2BEQF3cdcHARNylZiFKIGwCdFwsdYF5EoSSQAOIibAjdM7ZrGxRSxY7E7sCLg4sPz87DAAWTm \
            RgxFx1HyhiAuD9swISDwgjkSDzgYHN4tO6bmENgBGNgJ93tuGIkiyoeQDXKBwL8qrob3ZhHXKnVBDJJLwAFcoha9S3g4eNwV \
            wPjAQ8ECAwkAAAAAAAAAFgAAAAAAAAACAAAAAAAAAIwBAAAAAAAAAADRAACGC3naPgAAAAAAAAAAAQEBAQABDAAAAAEBAAAB \
            AAIAAAAGAAAAAwAAAABQAAAA",
        size: 1584,
        sum: 0x5b6063a5,
    },
    Sample {
        what: "f32, 1 axes, Lorenzo 00, regression 01",
        parameters: &[1, 0, 0, 1801],
        stored: "JAIAAAAAAAAotS/9YCQB3QgAws8xMTCzNgPBs08YUG6NTQZ/on1uxVPVcHrCwiCLnKnoH+fujDGmVv/3vOe+523btuftLVP/ \
            y/jQ/cRqWCxAJC0wOR03D5CIzEbu4sQFhWfzsXBQrPy+3+f6aFbvJ9Tfd1mKLWYbSG3mWe9m286qsy561UxLvdVbvRTDDSuh \
            OELiD7obvi3gdhdMqx0Lk916xfo0qYRyGVR8Ygjecw4zrJCAcLBtgtkDBV4HrEptegQgCoG+PqstRnRCenBUTDBeeGg0DroL \
            nSTJFCYgoIKinHYgsPN9Wcjt8n+XD2FxZZgBA3CTKmjA9ZIcuU5C2mZ9Nho8qgpwSyGzSS+GYIK9YQrKdABXp4aqPbSqLmO5 \
            2iOZjDrbBU0cx1xhCAEJBwAAAAAAAAkHAAAAAAAAAAA1qssX+SxPPwAAAAAAAAAAAAAAAQEAKgAAAAEBAAABAIAAAAAGAAAA \
            AQAAAABAAAAA",
        size: 7204,
        sum: 0x4d5f37af,
    },
    Sample {
        what: "f32, 4 axes, Lorenzo 11, regression 10",
        parameters: &[4, 0, 10, 1, 1, 6],
        stored: "6AAAAAAAAAAotS/9IOh9BACkBQoAAQAGAQECAAABAAKwxxAEk8JoPwCAAACrdgANAAAFqAABAAMEAAAHCAkCAAYFAAAMCwpV \
            CU0LAABUTgsAAFYBAAABAQEBARAAbjcbPRD1AQPmhHpB7AT0ABcAuCk4g/yM0QpkQwQIYKYp7gJo2Kk/bm4F6y31KHBS1YOo \
            EIAFLAXDHAPMrZAABh4AFgQKAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAGAAAAAAAAADwAAAAAAAAAAACwxxAEk8JoPwAAAAAA \
            AAAAAQEBAAAHJgAAAAEBAAABAAYAAAAGAAAABAAAAABYAAAA",
        size: 240,
        sum: 0x1600a727,
    },
    Sample {
        what: "f32, 2 axes, Lorenzo 00, regression 10",
        parameters: &[2, 0, 19, 22],
        stored: "aAEAAAAAAAAotS/9YGgAdQYAdAgTABYABQAAAAI8AAJHtfLP8KllQACAAAI5xFumwFRB8n8RAAAADwABAgMABQYACAAACwwQ \
            DwQACgcACQAADg0PAAAADBIAHAAAABAOAQAAAQABRDXFyqAyURlzSd6KYDikjrAC9Qf2m3Q/gP8CAAEAAwQAAjfzEABAAEAA \
            AAAgAFIAAAqoAAoiIOACMskOBpj7dszC2z0EJOVQIxxsCC11xdBKiA23mpuGATYCA6RQzBUOISRrOczYmXhyrQQFJfOC0G3D \
            JyqUsQ08GCwCEwAAAAAAAAAWAAAAAAAAAKIBAAAAAAAAAAD1B/abdD+AQAAAAAAAAAAAAAABAAAAJgAAAAEBAAABAAUAAAAG \
            AAAAAgAAAABIAAAA",
        size: 1672,
        sum: 0x01bc01a4,
    },
    Sample {
        what: "f32, a volume, Lorenzo 10, regression 1, 2 axes",
        parameters: &[3, 0, 7, 3, 24],
        stored: "dwEAAAAAAAAotS/9YHcAdQYAgskjMHDHGQ6QZARi52UQeAAWvrBccBGgl6AKYw1yVIVOq9EaCcUcqn/rh7/ZgctybdtbpjOo \
            xUPOuQJBhrX9PnSeHMZ75yj9cBZA4tP+sx8woThK2Hs9NObKgRl8EUzyUdsUDVwLEQLbFGVaZrJ5yPvbxp8tgAYHITFINDgg \
            1Jp/aV9xXEKlyzgWyoHm0vvDXwYbAAAHBAWWws7FMRAF+AGriOFpzguypzXkAIyBnXWAA0iihsbHoQNNqwimBMazQTHiCMMF \
            hwPiQYAFJQkDBwAAAAAAAAADAAAAAAAAABgAAAAAAAAA+AEAAAAAAAAAAP3lEPnMFHw/AAAAAAAAAAABAAEAAQIeAAAAAQEA \
            CAAABgAAAAYAAAACAAAAAFAAAAA",
        size: 2016,
        sum: 0xef2b51f5,
    },
    Sample {
        what: "i16, 4 axes, Lorenzo 11, regression 10",
        parameters: &[4, 5, 10, 3, 3, 7],
        stored: "GQIAAAAAAAAotS/9YBkBFQwABBQKAAMABwQAAAABAQIAAAYBAAEAAAIBAQEMQACA7H8bAAAAGQAFBgcICQAADA0ODxAAAAAU \
            AAAEAwAAGhkYCwoAABcWExIRAAAAFQAAExcgAAAADAAAAC8AAAALAAAAMAAAAB8AAAASAAAAFgEAAdAA4sRixCJE0Ylps1mz \
            Ev//Rj//UZQRZEh3GXE49NlNR9l1kZ7MIM0jxyjgiFlCpTsFCyxYjF0x/NWdGWVHxWU3IOH8pDBpjnlGVwKsi6MuuJDLA+Zd \
            mIBCy4olZhg7B4mzCzDBH77Oy6DPCcMH+UGex+Jo/ilJQunzUvMaJoifidHMp2DZ4cdDxGapRgsoiIppZsG4lmEZdGcTKQjK \
            co9Pf0pwIlKQwWBmMdxHNMcsDU86EMHGnjpuU2UoCVGebpyqZSGBgpiWYZv/4mJSzRLLNB0AYGDcGFWBqWXAYQqjSQ4QAPqm \
            spEjwM0cCAASqoFbYrDi0jCA89W7Lg95PgYwRDULgmUhA+YwkG+FBDDwALAECgAAAAAAAAADAAAAAAAAAAMAAAAAAAAABwAA \
            AAAAAAB2AgAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAEBAQAADggAAAABAQAAAQAEAAAABgAAAAQAAAAAWAAAAA",
        size: 1260,
        sum: 0x58081993,
    },
    Sample {
        what: "f32, 3 axes, Lorenzo 00, regression 01",
        parameters: &[3, 0, 2, 10, 4],
        stored: "gAIAAAAAAAAotS/9YIABJQsAxpI9ORBRpjlQWISnxXFEERwFAAoAoAPUgaIDFIEKIMcAW3TPGSeWYJTwt8DT83+vYUa43P6b \
            y535SkNbpi4AKgAhAEuLQlfY08mZIOEIO8i8YIIDBioP+AQAhySyvZ13+GDEaID4cAnhIWQb+VaScgurVq8vPCIN+sOlYMG0 \
            5gcQZlCB5YKZwAMIoBRA0GBzx7TZY7DuLdYp1GknuaoGza45iW4669w5Xz0a+ue010qoXxyubXgGDbJjcAUlEze6GCUwISCc \
            ixSLiQ3Sx6PiAZJCxIeMbiLjOK8Pk+REixozOlgqLKEXI0i8FSIU733vey9s49l65t1UMyCgArKbeDgAvjGQAJIEU4Nag1PA \
            LngOCn2jW5oX3kQQh3hVvpyxg4HVo+ziAe11VEbwAyVr1NfbZ0NZn4Y3jQUYJ1jOQiZfzDRekFAJwO39S9zRYv3DpEhBwTwO \
            P4TgSKu3wxUwfuBBYQEDAgAAAAAAAAAKAAAAAAAAAAQAAAAAAAAAUAAAAAAAAAAAALhLVRJMTuA/AAAAAAAAAAAAAAABAQEC \
            AAAAAQEABAAAAgAAAAYAAAADAAAAAFAAAAA",
        size: 320,
        sum: 0x9b18317a,
    },
    Sample {
        what: "f32, 2 axes, Lorenzo 11, regression 11",
        parameters: &[2, 0, 23, 33],
        stored: "dAQAAAAAAAAotS/9YHQDTRUANqaER4DUUmtUVsxlan4fTl+QE87GUUQwUKqdm4v0fJ5RqUae8Ln7+cEQuAeCXwqPsLzoVIOu \
            QBUSUvdikLg6vvAw8gEenqjebpkCZABdAHMAQx8UvoK468N7+GeHsa6+aqofqsl8J6VHOjLKUET0QgO9z/dUoPAT1vnkOQ5w \
            HvmCT/A1CGiWOQDzsssTGCBgFgDDXwF+Z/pHtIi7XckECZAbSbSS69B/713/fhcOfL33d1nBxct46Ucx04r/7KvA/uF3jfVI \
            v85T//Qff6OXO3+tpZo/1CH2iv7Wa0HP4nqrOfxRUlO/vOk3fJKGpSeniFce9BjewoWf31nCQ/hBBJ5vMAOjzfGZGzZmA99S \
            gHiAYlXntBrnI2oXxawux9qdyMihrCK0oijSbUiJZOsCjJjGwvFBqT3wos8bNRxvesaF1hy+J5xOOFuRKQ3Owf0m5IcTac3d \
            zM9f2JE2HsAURaD43Xvv/ct86U+zUvFP+hP/2B8BfRbZbzX9vOz/WuxveehOq/i70Ti2bE77gmSDwUWN+uSbERPuGaS5wm7h \
            WF8YdS6bEjooNSlFtsEnODHrkufWsNsoxLa85pURnrSgtCAbamPTOh4iLzk+li8qLOTUnHc1lmVWU3bEoO5MZVglCTCf6nL2 \
            T0gvx+wu70bILE/vxobKqOzrW1PTIaXJn1+1ih8MErG4nLFnVyZmYqfnhyxahQpNqCEthgJBknIKKlkO0AIxo7QBEfBEq6pK \
            khQ6d6tB6Z/47uuEsP9Dx9/1m7/xnSlpMRIz7WBixeOMHLKEPIaauw0JHzkoJ5Y5dwdsEPoYgFaBwBn1AjcduuSOrEPaA+JH \
            ZGg1uWhtGmiy2uz7kVlv+BZu95ZrRpASbGatpGTWXyBTLUBWNZ5g3Rs9W685TkUgM5gOAhcAAAAAAAAAIQAAAAAAAAD3AgAA \
            AAAAAAAALGHanL7Y6D8AAAAAAAAAAAEBAQEBASIAAAABAQAAAQAQAAAABgAAAAIAAAAASAAAAA",
        size: 3036,
        sum: 0xe0d3e74b,
    },
    Sample {
        what: "f32, a volume, Lorenzo 11, regression 1, 2 axes",
        parameters: &[3, 0, 15, 10, 23],
        stored: "zAQAAAAAAAAotS/9YMwDlRoABCsGAAAAAgAAAAEBAUG7LqY6pJNdOc3MzD0AAMBAAACAPwHE7eZ3zzcfTfepPwAEAAUBBAMB \
            AAEBAb3vcADifAANAAACQgABAgMECQwLCAcGAAAACpwAAAAYBAA4BAAAggQAADsDAAAeAwEBASQn0GPQAoD8fxMAAAAFAAEA \
            AwQFBgcICQALAgASERAPDg0KAAwACAkAAAAHAAAFASIAAABAQzkBDOQEM5AQzNQEMPeGGHYMdzWa7zevdM1mu83r3T6Pomj3 \
            T6PowYN0+jBgwY7gwYMGO51G8wwxvMMMbzDDG8wwxgum6bpum6bpAAAC5VyrlXKuVcsBATKAgJlAQEygICZQEBMoCAmVChQo \
            UKBhhhhhhwwE7hgJ3AQzuAhnfR9GDHcGO5rNd8dmupo90mu+Hun0YN0wYI3mGGN5hhjeYYY3mGF03TdN0wBYCAmUBATKAgJl \
            AQEyoUKFwwwwwYMGDBgwdxgwYvlzuuudx3GDF8rajrruvWdx1ncYvlbUdDUdAAdGvWUVRVFUVRVFA2AFyri5el6Xpel6Xgdz \
            udzudzuYNcwYGLg1zuMra9Yuudxi+VtR10a9Z3HdfvW1HRRVFUVRQAAAAAAADpum6boLyugdzudzuL9LN4jt4/BgOMwZmygy \
            AHBh495s2zGzGbXBhoARgIxgIkQAEYCJx7DApj2GBTHsMCjewwKN7DApg9hgV0wZjpgzApTBnJgzkwZumDPHu490DgXdx7uP \
            dx7oUXMKLmFFzCi5hRcwouYMpjGDKYxgymMYMpjGdFzoudFzoudFzouYMxcGYuDMXBmLgzFwZi5JjJMZJjJMZJjJMQzFwZi4 \
            7DAp42GBQ2r9LN4rNFmgAWQAAAIYPYYFDB7DAuPYYFMewwK6YM3THTBnj3ce7j3ce6HHRc6LnRc6LmAsR6jRQKYMIsGMjAQi \
            o0xtA3ACImfFAxGAJUGSjU1pCsN2pAfypQ9hwh+NzOgOuykHa7m9InPZzohYEZa+lliWJNYJVJ1EnL2ybIYvBfg5aITus2ql \
            lnKP0ilKDqm4UJD6/BVgi17wHltsKBuFnABnk9YROzNRDg/u6Ra2m34NUGDIEmKiDEDluv4ZSa2AdQeEAaPSEWcM6UWI9DMB \
            BMveHgMPAAAAAAAAAAoAAAAAAAAAFwAAAAAAAAB6DQAAAAAAAAAAd883H033qT8AAAAAAAAAAAEBAQABBCoAAAABAQAAAQAG \
            AAAABgAAAAIAAAAAUAAAAA",
        size: 13800,
        sum: 0x6c6452b9,
    },
    Sample {
        what: "too small to be compressed",
        parameters: &[1, 2, 0, 1, 0, 0x3efe9f7c, 0x1f1300a9, 0, 0, 0, 0, 0, 0],
        stored: "AA",
        size: 1,
        sum: 0x8ba9414b,
    },
    Sample {
        what: "no error allowed",
        parameters: &[1, 5, 0, 1612, 3, 0, 0, 0, 0, 0, 0, 0, 0],
        stored: "mAwAAAAAAAAotS/9YJgLTQAAEMz9AQCTzHdYAUwGAAAAAAAATAYAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAABAAEAAQAgAAAA \
            AQEAAAEAgAAAAIAAAAABAAAAAEAAAAA",
        size: 3224,
        sum: 0x319f0f11,
    },
];
