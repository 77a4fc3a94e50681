use super::*;
use crate::record::tests::sample;
use hyperchunk_expression::{InputBytes, Scratch};

/// Checks that a record that contradicts its expression is rejected before any computation.
#[test]
fn records_that_lie() {
    let good =
        || Record { source: "(NIR - '/g/Red') / 2".into(), scratch: Vec::new(), compiled: None, ..sample() };
    let kinds = [Kind::Float32; 2];
    let program = compile(&good(), &kinds).unwrap();
    assert_eq!((program.inputs(), program.output()), (&kinds[..], Kind::Float32));
    let check = |change: fn(&mut Record), part: &str| {
        let mut record = good();
        change(&mut record);
        let error = compile(&record, &kinds[..record.inputs.len()]).unwrap_err();
        assert!(error.message().contains(part), "{part}: {error}");
    };
    check(|r| r.source = "NIR -".into(), "got the end");
    check(|r| r.source = "NIR".into(), "inputs are not those");
    check(|r| r.source = "'/g/Red' - NIR".into(), "inputs are not those");
    check(|r| r.inputs.truncate(1), "inputs are not those");
    check(|r| r.scratch = sample().scratch, "one output");
    check(|r| r.compiled = sample().compiled, "no compiled form");
    check(|r| r.inputs[1].dims = vec![10, 8], "neither the output's shape");
    check(|r| r.inputs[1].dims = vec![70], "neither the output's shape");
    check(|r| r.output.datatype = Datatype::Text(4), "is not a number");
    let mut single = good();
    single.inputs[1].dims = Vec::new();
    assert!(compile(&single, &kinds).is_ok());
    assert!(compile(&good(), &kinds[..1]).is_err());
    // The profile's limit on the size of one evaluation.
    let mut profile = Profile::untrusted();
    check_data(&good(), &[4, 7], &profile).unwrap();
    profile.limits.data = 335;
    assert_eq!(check_data(&good(), &[4, 7], &profile).unwrap_err().kind(), ErrorKind::Limit);
}

/// Checks values and bits from NumPy's conversion of `float64` to `float16`; rounding through `float32` would
/// give others.
#[test]
fn doubles_become_halves_in_one_step() {
    let (one, step) = (1.0, 2f64.powi(-11));
    let cases = [
        (one + step, 0x3c00, 0x3c00),
        (one + step + 2f64.powi(-40), 0x3c01, 0x3c00),
        (one + 3.0 * step - 2f64.powi(-40), 0x3c01, 0x3c02),
        (-(one + step + 2f64.powi(-50)), 0xbc01, 0xbc00),
        (2f64.powi(-25) * (1.0 + 2f64.powi(-40)), 1, 0),
        (2f64.powi(-25), 0, 0),
        (65520.0 - 2f64.powi(-20), 0x7bff, 0x7c00),
        (65520.0, 0x7c00, 0x7c00),
        (1e300, 0x7c00, 0x7c00),
        (-1e-300, 0x8000, 0x8000),
        (0.1, 0x2e66, 0x2e66),
        (f64::NEG_INFINITY, 0xfc00, 0xfc00),
        (-0.0, 0x8000, 0x8000),
    ];
    let half = Datatype::Half;
    let input: Vec<u8> = cases.iter().flat_map(|(value, ..)| value.to_ne_bytes()).collect();
    let expression = Expression::parse("a").unwrap();
    let stored = |program: &Program| -> Vec<u16> {
        let (mut out, mut stored) = (vec![0; cases.len() * 4], vec![0; cases.len() * 2]);
        program.evaluate(&[InputBytes::Each(&input)], &mut out, &mut Scratch::default()).unwrap();
        half.store(&out, &mut stored);
        stored.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
    };
    let once = stored(&compile_for(&expression, &[Kind::Float64], &half).unwrap());
    assert_eq!(once, cases.map(|(_, bits, _)| bits));
    let twice = stored(&expression.compile(&[Kind::Float64], Kind::Float32).unwrap());
    assert_eq!(twice, cases.map(|(.., bits)| bits));
    // Rounding within an expression stays.
    let asked = compile_for(&Expression::parse("float32(a)").unwrap(), &[Kind::Float64], &half).unwrap();
    assert_eq!(stored(&asked), twice);
}
