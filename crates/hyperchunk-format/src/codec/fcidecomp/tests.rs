//! Images written by hdf5plugin 7.1 (CharLS 2.1).

use super::Fcidecomp;
use crate::codec::sample::{Sample, check};
use crate::codec::testing::decoded;
use crate::{ErrorKind, Result};

const SAMPLES: &[Sample] = &[
    Sample {
        what: "8 bits",
        parameters: &[1, 1, 12, 17, 8, 1, 0, 0, 0, 0, 0, 0, 0],
        stored: "/9j/9wALCAAMABEBAREA/9oACAEBAAAAAAAAAcoClWVexnrApx4kSJEFE+n3yETSexh0LEiMQTkyl9D0KlIyONEfrgy2 \
            OqNlySYG89DxE0k1s4/0tmhPdC+iK9rpPPFRfkGEQ2LORjCCwmICBhhm07UlAAsTmEMxTIu6UTElaEQjM8rEVxD/2Q==",
        size: 204,
        sum: 0xcceaf54f,
    },
    Sample {
        what: "16 bits",
        parameters: &[2, 1, 12, 17, 16, 1, 0, 0, 0, 0, 0, 0, 0],
        stored: "/9j/9wALEAAMABEBAREA//gADQH//wASAEMBFABA/9oACAEBAAAAAAAAAAAAAe8mAchPmJKjIObVr7V+zxb6KanktXN+ \
            RKyLgxdgMByq4iN/2azJXuaUfH4szE5IodWz80aMH1ymMkCUxUaOX25VCmelMx8VaHGhAphBUTEEuMw/xygES6yw4FvU \
            07ak5l6AvEEagZKZnaXJ+7lerW9dji0LxswCc60vFCA50F4c4gS7ZDR3cgpNN80BDgOsnP8FFmN0tQKfNzlwjRJPMp+L \
            RnUWVP03FbVX/luQGgqSCVc5ikOUMVvLPzuIUNglY2DUvSoa/l9kuYI2XLt801B4s33SJyQZUC9gvk8p0s6VfP8lT7/c \
            R0QKOqfWEDFrEqgwUJDi0Aj6VLYkJp8yWUhu9hEYY+YKUobplLF4BQ8Z/CRp1V0Acq1pptsjZIu9PQ8JVxhz4CHAhALn \
            DlwoKS7Pn0uzRictY6lCrv3lAP/Z",
        size: 408,
        sum: 0xb219b3a8,
    },
    Sample {
        what: "13 bits, off by 3",
        parameters: &[2, 1, 12, 17, 13, 1, 0, 3, 0, 0, 0, 0, 0],
        stored: "/9j/9wALDQAMABEBAREA//gADQEf/wAbAFIBKQBA/9oACAEBAAMAAAAAAAAFobjKp07/cfJh02hwJRsEAQBE5eZ0cxmz \
            yQFGsZQpok1N8N5+o+PjwYdfdURVp2B+WQT4pWfHBgLHzG9qP1HBC895+UEyQkOaRSEWtnfENXnnVnnggENyfhFvki/Q \
            pBZXyZxnet5+v73V/UawWxpeivOxYmOAoWwbU49JXigtk88qOh0DxoLaK3NRLRCnzLlYNHDQA0UImSXUVpJI49QsoLDx \
            uOFiffp1yKLBEP/Z",
        size: 408,
        sum: 0xd3acd574,
    },
    Sample {
        what: "runs",
        parameters: &[1, 1, 12, 24, 8, 1, 0, 0, 0, 0, 0, 0, 0],
        stored: "/9j/9wALCAAMABgBAREA/9oACAEBAAAAACyv8AGV/x/Z/C6XTm/+OV/n5+fj4+Pg/9k=",
        size: 288,
        sum: 0x2f6324f2,
    },
    Sample {
        what: "runs, off by 2",
        parameters: &[1, 1, 12, 24, 8, 1, 0, 2, 0, 0, 0, 0, 0],
        stored: "/9j/9wALCAAMABgBAREA/9oACAEBAAIAAHf+3/39v4enpzyEtT72P0vit/b+fPnKPpnw/9k=",
        size: 288,
        sum: 0x37f0aa4c,
    },
    Sample {
        what: "its own thresholds",
        parameters: &[2, 1, 12, 17, 13, 1, 0, 0, 8191, 20, 40, 90, 31],
        stored: "/9j/9wALDQAMABEBAREA//gADQEf/wAUACgAWgAf/9oACAEBAAAAAAAAAAAD/gAKUSSU2ib4f8UBxHQq2mKPGKqM+NGN \
            cWopELcZ3/Sf/U2nwrrBDRmLZTSXD7rGBnO0m081jACCZjlaygTGiic4K2xhBqqO5KZfBqEiPQ0mcVPCQrFfMcNNvC5Y \
            O8/jrdRxkkvUf+AunjOggeR64zA0mQl2eWBlEm16BrjJEjfuFk2CKk5easmn5EOVQ6YnnKYbPUZcszET8Fty5ErR/rvR \
            Px8A6huEF3iCwUGsiPFUlBFIoTXEVwXglRYikHsklHbmJBkRFDmZiwH0thLE6M0JM/HoXbk3XJyjWnBBbVER3sfQsxwC \
            WIMR99paJiPCD7Hs/9k=",
        size: 408,
        sum: 0xc6d7d8e2,
    },
    Sample {
        what: "2 bits",
        parameters: &[1, 1, 36, 51, 2, 1, 0, 0, 0, 0, 0, 0, 0],
        stored: "/9j/9wALAgAkADMBAREA/9oACAEBAAAAAHN/89//Pf97q/xT6vxvqxycNu+WO2O3DTlpy0859yn+U/9/H5by3mnrf1z+ \
            O/HHrj13yx2x20//UW//a3/+16vxfhvlw24bd8sdsduGnLTlp5z/FP8U/3/H63re09b+ufx3449ceu+WO2O2n/9W/363 \
            /3a9X4vw3y4bcNu+WO2O3DTlpy085/lP8p//eP1vW9p639c/jvxx649d8sdsdsD/2Q==",
        size: 1836,
        sum: 0x9ce37650,
    },
    Sample {
        what: "three scans",
        parameters: &[1, 3, 12, 17, 8, 3, 0, 0, 0, 0, 0, 0, 0],
        stored: "/9j/9wARCAAMABEDAREAAhEAAxEA/9oACAEBAAAAAAAAAcoClWVexnrApx4kSJEFE+n3yETSexh0LEiMQTkyl9D0KlIy \
            ONEfrgy2OqNlySYG89DxE0k1s4/0tmhPdC+iK9rpPPFRfkGEQ2LORjCCwmICBhhm07UlAAsTmEMxTIu6UTElaEQjM8rE \
            VxD/2gAIAQIAAAAAAAABZDkr+agiDDEFEEEclmu+yTSU28+mqIyEutz1uVEzGy3/ce9RGzWTGuskSTSSsr2fNp3/MJV8 \
            OTnetsRGJe0SEiNCQRhVKShJNkRG1r0KTQk0mnJrSYD/2gAIAQMAAAAALK/wAZWf2fFwtM3/Y5V+fnz58+D/2Q==",
        size: 612,
        sum: 0x5a6d42b7,
    },
    Sample {
        what: "lines interleaved",
        parameters: &[1, 3, 12, 17, 8, 3, 1, 0, 0, 0, 0, 0, 0],
        stored: "/9j/9wARCAAMABEDAREAAhEAAxEA/9oADAMBAAIAAwAAAQAAAAHKAAABXndpEJKTlLkVCR+T7pC4Mp+ryMBQUleqo6eG \
            7OJgcHgW7pjp8I3c7o+lLVeD4+UFCmAJxQBQZgxACg0MIBqgOYzWZJ4ISUTAFSyDP2EBFKg5FCinwNLWYAAFC2jCjIDc \
            kEAAoABwYUAoKJuNdgAFABxTuIAAAoA5jSYAFAArIlAAAcACxIKKAAHKUBy9AABQAdgBQAHMAABgByAAgBoAgAwDqCAH \
            AAHCHDwHgAxADgQDgDgAMAANFgSBY2GBRMAUAAMJqAIOjAMAB9AGAAgAAAK6B4AAOAgkAACHAACiyS4AAALaTAuWJDQA \
            Bl5qQaAAAC3lzkg0yAAAhk3T4+4AADrLTgAAh0xY8AqgiFpVAAABcF27XR0KZPYfeLBv/ExF3y11XC1ljnlMX59Luabh \
            Ec/fERxo0JEAoHxOQxcjKw0kaZQAUFpuwK/kJBpd4HyZVSfADg+CgdABg7AwBUCguAIKA7qCgFBgDHEFF9AEujk3THB0 \
            UgFVgCkAIrJhQAAAFb2kQE9Iu3hJdkQ9JfKwkNZ+FTaFADkUaL1ybUADKpHBTcukm1IeTy6rdD1ZLvej1aj/ER/p9H+k \
            fS/R/Sf9/x5/nf754P/Z",
        size: 612,
        sum: 0x5a6d42b7,
    },
    Sample {
        what: "samples interleaved",
        parameters: &[1, 3, 12, 17, 8, 3, 2, 1, 0, 0, 0, 0, 0],
        stored: "/9j/9wARCAAMABEDAREAAhEAAxEA/9oADAMBAAIAAwABAgAAAADDLDEAAb7KPaxwQc48SJKTZfdZT3WGEFmnHiCUVXWV \
            0e3lbiCzTj3AjDGyREECImthnOBjCRIIEIQpYY73gZBS2YE3DAYckcDMJKqopgGaAG0AwRm4xGIjAMADLAMGMEWCMMGd \
            sMUAGADLAZGWM4GOAYKBoBAAQACABAGAhyQQEAiA4KDIEUACAAQATQ9CCEIKAIAgJwDAYAMAGAShRgxQYAEAAAgALFHN \
            AAMaUBGK5VgAgAAAKMABM44AMiAAZw0/yigoAAG979JIhIVOrGz1EsSitXM6iVKiLhGsx3ySy/RxrH54pFdsljO3x8Up \
            nZrapBldlcqbjOcEwCAjD7EIEwoZoRgTBCHyQgIwQAAgAEdZUvdT4EoLbLyts3MIYQp256pauJOgggtrV/vkm7dWilL9 \
            rmSHvqO/tfbrsIQvL/j8X/z/2Q==",
        size: 612,
        sum: 0xdda1e3bc,
    },
];

#[test]
fn images() {
    check(&Fcidecomp, SAMPLES);
}

/// Decodes the first sample after replacing some of its bytes.
fn with(at: usize, cut: usize, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stored = SAMPLES[0].stored();
    stored.splice(at..at + cut, bytes.iter().copied());
    decoded(&Fcidecomp, &stored, SAMPLES[0].parameters, SAMPLES[0].size)
}

#[test]
fn markers() {
    let plain = with(0, 0, &[]).unwrap();
    // A comment and fill bytes are skipped.
    assert_eq!(with(2, 0, b"\xff\xfe\x00\x05abc\xff\xff").unwrap(), plain);
    assert_eq!(with(2, 0, b"\xff\xe8\x00\x07mrfx\x00").unwrap(), plain);
    for (at, cut, bytes, kind) in [
        (2, 0, &b"\xff\xe8\x00\x07mrfx\x01"[..], ErrorKind::Unsupported),
        (2, 0, b"\xff\xdd\x00\x04\x00\x05", ErrorKind::Unsupported),
        (2, 0, b"\xff\xf8\x00\x04\x02\x00", ErrorKind::Unsupported),
        (2, 0, b"\xff\xd9", ErrorKind::Filter),
        (6, 1, &[1], ErrorKind::Filter),
        (8, 1, &[0], ErrorKind::Unsupported),
        (8, 1, &[11], ErrorKind::Filter),
        (21, 1, &[1], ErrorKind::Unsupported),
        (22, 1, &[200], ErrorKind::Filter),
        (23, 1, &[3], ErrorKind::Filter),
        (24, 1, &[1], ErrorKind::Unsupported),
        (40, 0, b"\xff\xd9", ErrorKind::Filter),
    ] {
        assert_eq!(with(at, cut, bytes).unwrap_err().kind(), kind, "{at}: {bytes:?}");
    }
}
