use super::*;

/// Memory of a GPU at one address.
struct TestMemory(Vec<u8>);

const BASE_ADDRESS: u64 = 0x7_0000_0000_0000;

impl Memory for TestMemory {
    fn read(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(address.checked_sub(BASE_ADDRESS)?).ok()?;
        self.0.get(start..start.checked_add(bytes)?)
    }

    fn write(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(BASE_ADDRESS)?).ok()?;
        self.0.get_mut(start..start.checked_add(bytes)?)
    }
}

/// Runs `body` with %rd1 pointing to the words and %r1 the thread's number; returns the words after it.
fn check(body: &str, words: &[u64], threads: u32) -> Result<Vec<u64>, String> {
    let text = format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n.const .align 4 .b8 table[8] = {{1, 2, 3, 4}};
        .visible .entry k(.param .u64 k_param_0) {{
        .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<20>; .reg .f64 %fd<20>;
        ld.param.u64 %rd1, [k_param_0]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x;
        {body}
        ret; }}"
    );
    let program = parse(&text).map_err(|wrong| format!("line {}: {}", wrong.line, wrong.text))?;
    let mut memory = TestMemory(words.iter().flat_map(|word| word.to_le_bytes()).collect());
    memory.0.extend([1, 2, 3, 4, 0, 0, 0, 0]);
    let globals = [BASE_ADDRESS + words.len() as u64 * 8];
    let grid = Grid { blocks: [1, 1, 1], threads: [threads, 1, 1], shared: 0 };
    run(&program, &program.functions["k"], &globals, grid, &BASE_ADDRESS.to_le_bytes(), &mut memory)
        .map_err(|fault| format!("{fault:?}"))?;
    let words = memory.0[..words.len() * 8].chunks(8);
    Ok(words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect())
}

/// Checks the result of an instruction on two 64-bit words, which are in %rd2 and %rd3 (and their low halves
/// in %r2 and %r3).
#[track_caller]
fn makes(instruction: &str, inputs: [u64; 2], expected: u64) {
    let body = format!(
        "ld.global.u64 %rd2, [%rd1]; ld.global.u64 %rd3, [%rd1+8]; ld.global.u32 %r2, [%rd1]; ld.global.u32 %r3, [%rd1+8];
        ld.global.f32 %f2, [%rd1]; ld.global.f32 %f3, [%rd1+8]; ld.global.f64 %fd2, [%rd1]; ld.global.f64 %fd3, [%rd1+8];
        mov.u64 %rd9, 0; mov.u32 %r9, 0; {instruction}"
    );
    let words = check(&body, &[inputs[0], inputs[1], 0], 1).unwrap();
    assert_eq!(words[2], expected, "{instruction} of {inputs:x?} is {:#x}", words[2]);
}

const TO_32: &str = "st.global.u32 [%rd1+16], %r9;";
const TO_64: &str = "st.global.u64 [%rd1+16], %rd9;";

#[test]
fn integers() {
    let minus = |value: i32| u64::from(value.cast_unsigned());
    for (instruction, inputs, expected) in [
        ("add.s32 %r9, %r2, %r3;", [minus(-5), 3], minus(-2)),
        ("sub.s32 %r9, %r2, -3;", [4, 0], 7),
        ("mul.lo.s32 %r9, %r2, %r3;", [minus(-5), 3], minus(-15)),
        ("mul.hi.s32 %r9, %r2, %r3;", [minus(-5), 3], minus(-1)),
        ("mul.hi.u32 %r9, %r2, %r3;", [minus(-5), 3], 2),
        ("mad.lo.s32 %r9, %r2, %r3, 7;", [minus(-5), 3], minus(-8)),
        ("div.s32 %r9, %r2, %r3;", [minus(-7), 2], minus(-3)),
        ("div.u32 %r9, %r2, %r3;", [minus(-7), 2], 0x7fff_fffc),
        ("rem.s32 %r9, %r2, %r3;", [minus(-7), 2], minus(-1)),
        ("div.s32 %r9, %r2, %r3;", [minus(i32::MIN), minus(-1)], minus(i32::MIN)),
        ("min.s32 %r9, %r2, %r3;", [minus(-7), 2], minus(-7)),
        ("min.u32 %r9, %r2, %r3;", [minus(-7), 2], 2),
        ("abs.s32 %r9, %r2;", [minus(-7), 2], 7),
        ("neg.s32 %r9, %r2;", [7, 2], minus(-7)),
        ("shr.s32 %r9, %r2, %r3;", [minus(-8), 2], minus(-2)),
        ("shr.u32 %r9, %r2, %r3;", [minus(-8), 40], 0),
        ("shr.s32 %r9, %r2, %r3;", [minus(-8), 40], minus(-1)),
        ("shl.b32 %r9, %r2, %r3;", [3, 31], 0x8000_0000),
        ("shl.b32 %r9, %r2, %r3;", [3, 32], 0),
        ("not.b32 %r9, %r2;", [3, 0], 0xffff_fffc),
        ("popc.b32 %r9, %r2;", [0xff00_00ff, 0], 16),
        ("clz.b32 %r9, %r2;", [0xff, 0], 24),
        ("brev.b32 %r9, %r2;", [1, 0], 0x8000_0000),
        ("bfind.u32 %r9, %r2;", [0x100, 0], 8),
        ("bfe.u32 %r9, %r2, 4, 8;", [0xabcd, 0], 0xbc),
        ("bfe.s32 %r9, %r2, 4, 8;", [0xabcd, 0], 0xffff_ffbc),
        ("bfi.b32 %r9, %r2, %r3, 4, 8;", [0xff, 0x1000_0001], 0x1000_0ff1),
        ("prmt.b32 %r9, %r2, %r3, 0x7410;", [0x3322_1100, 0x7766_5544], 0x7744_1100),
        ("shf.l.wrap.b32 %r9, %r2, %r3, 8;", [0x1122_3344, 0x5566_7788], 0x6677_8811),
        ("shf.r.wrap.b32 %r9, %r2, %r3, 8;", [0x1122_3344, 0x5566_7788], 0x8811_2233),
        ("lop3.b32 %r9, %r2, %r3, 0xf0f0f0f0, 0x96;", [0xff, 0xf00f], 0xf0f0_f0f0 ^ 0xff ^ 0xf00f),
        ("mov.u32 %r9, 0x1f;", [0, 0], 31),
        ("cvt.s32.s8 %r9, %r2;", [0x80, 0], minus(-128)),
        ("cvt.u32.u8 %r9, %r2;", [0x180, 0], 0x80),
        ("cvt.sat.u8.s32 %r9, %r2;", [minus(-4), 0], 0),
        ("cvt.rzi.s32.f32 %r9, %f2;", [u64::from((-2.9_f32).to_bits()), 0], minus(-2)),
        ("cvt.rni.s32.f32 %r9, %f2;", [u64::from(2.5_f32.to_bits()), 0], 2),
        ("cvt.rzi.u32.f32 %r9, %f2;", [u64::from(f32::NAN.to_bits()), 0], 0),
        ("cvt.rzi.s32.f32 %r9, %f2;", [u64::from(1e20_f32.to_bits()), 0], minus(i32::MAX)),
        ("setp.lt.s32 %p1, %r2, %r3; selp.b32 %r9, 1, 2, %p1;", [minus(-1), 3], 1),
        ("setp.lt.u32 %p1, %r2, %r3; selp.b32 %r9, 1, 2, %p1;", [minus(-1), 3], 2),
        ("setp.lt.u32 %p1|%p2, %r2, %r3; selp.b32 %r9, 1, 2, %p2;", [minus(-1), 3], 1),
        ("setp.gt.u32 %p2, 5, 4; setp.lt.and.u32 %p1, %r2, %r3, !%p2; selp.b32 %r9, 1, 2, %p1;", [1, 3], 2),
        ("setp.ltu.f32 %p1, %f2, %f3; selp.b32 %r9, 1, 2, %p1;", [u64::from(f32::NAN.to_bits()), 3], 1),
        ("setp.lt.f32 %p1, %f2, %f3; selp.b32 %r9, 1, 2, %p1;", [u64::from(f32::NAN.to_bits()), 3], 2),
        ("set.eq.u32.u32 %r9, %r2, %r3;", [3, 3], 0xffff_ffff),
        ("mov.u64 %rd5, table; ld.const.u8 %r9, [%rd5+2];", [0, 0], 3),
        ("ld.const.u8 %r9, [table+3];", [0, 0], 4),
    ] {
        makes(&format!("{instruction} {TO_32}"), inputs, expected);
    }
    for (instruction, inputs, expected) in [
        ("mul.wide.s32 %rd9, %r2, %r3;", [minus(-5), 3], (-15_i64).cast_unsigned()),
        ("mul.wide.u32 %rd9, %r2, %r3;", [minus(-5), 3], u64::from(u32::MAX - 4) * 3),
        ("mad.wide.s32 %rd9, %r2, %r3, %rd2;", [minus(-5), 3], u64::from(u32::MAX - 4).wrapping_sub(15)),
        ("mul.hi.u64 %rd9, %rd2, %rd3;", [u64::MAX, u64::MAX], u64::MAX - 1),
        ("div.u64 %rd9, %rd2, %rd3;", [u64::MAX, 10], u64::MAX / 10),
        ("cvt.s64.s32 %rd9, %r2;", [minus(-5), 0], (-5_i64).cast_unsigned()),
        ("cvt.u64.u32 %rd9, %r2;", [minus(-5), 0], minus(-5)),
        (
            "mov.b64 {%r9, %r8}, %rd2; mov.b64 %rd9, {%r8, %r9};",
            [0x1111_2222_3333_4444, 0],
            0x3333_4444_1111_2222,
        ),
        ("add.cc.u64 %rd9, %rd2, %rd3; addc.u64 %rd9, %rd2, 0;", [u64::MAX, 2], 0),
        (
            "sub.cc.u32 %r9, %r2, %r3; subc.cc.u32 %r8, 5, 0; subc.u32 %r7, 9, 0; mov.b64 %rd9, {%r8, %r7};",
            [1, 2],
            9 << 32 | 4,
        ),
        (
            "mad.lo.cc.u32 %r9, %r2, %r3, %r2; madc.hi.u32 %r8, %r2, %r3, 0; mov.b64 %rd9, {%r9, %r8};",
            [0xffff_ffff, 3],
            0xffff_ffff * 4,
        ),
        ("bfi.b64 %rd9, %rd2, %rd3, 32, 32;", [7, 5], 7 << 32 | 5),
    ] {
        makes(&format!("{instruction} {TO_64}"), inputs, expected);
    }
}

#[test]
fn floats() {
    let bits = |value: f32| u64::from(value.to_bits());
    let to = "mov.b32 %r9, %f9; st.global.u32 [%rd1+16], %r9;";
    for (instruction, inputs, expected) in [
        ("add.rn.f32 %f9, %f2, %f3;", [bits(0.1), bits(0.2)], bits(0.1_f32 + 0.2)),
        ("sub.f32 %f9, %f2, 0f3F800000;", [bits(0.25), 0], bits(-0.75)),
        ("div.rn.f32 %f9, %f2, %f3;", [bits(1.0), bits(3.0)], bits(1.0_f32 / 3.0)),
        ("div.rn.f32 %f9, %f2, %f3;", [bits(0.0), bits(0.0)], 0x7fff_ffff),
        ("fma.rn.f32 %f9, %f2, %f3, %f2;", [bits(0.1), bits(0.3)], bits(0.1_f32.mul_add(0.3, 0.1))),
        ("max.f32 %f9, %f2, %f3;", [bits(f32::NAN), bits(3.0)], bits(3.0)),
        ("min.f32 %f9, %f2, %f3;", [bits(0.0), bits(-0.0)], bits(-0.0)),
        ("max.f32 %f9, %f2, %f3;", [bits(-0.0), bits(0.0)], bits(0.0)),
        ("min.f32 %f9, %f2, %f3;", [bits(-1.0), bits(2.0)], bits(-1.0)),
        ("max.f32 %f9, %f2, %f3;", [bits(-1.0), bits(2.0)], bits(2.0)),
        ("abs.f32 %f9, %f2;", [bits(-1.5), 0], bits(1.5)),
        ("neg.f32 %f9, %f2;", [bits(-1.5), 0], bits(1.5)),
        ("sqrt.rn.f32 %f9, %f2;", [bits(2.0), 0], bits(2.0_f32.sqrt())),
        ("add.sat.f32 %f9, %f2, %f3;", [bits(0.7), bits(0.7)], bits(1.0)),
        ("add.ftz.f32 %f9, %f2, %f3;", [1, 1], 0),
        ("cvt.rn.f32.s32 %f9, %r2;", [16_777_217, 0], bits(16_777_216.0)),
        ("cvt.rn.f32.f64 %f9, %fd2;", [0.1_f64.to_bits(), 0], bits(0.1)),
        ("cvt.rmi.f32.f32 %f9, %f2;", [bits(-1.5), 0], bits(-2.0)),
        ("cvt.rn.f16.f32 %rs1, %f2; cvt.f32.f16 %f9, %rs1;", [bits(1.0009), 0], bits(1.000_976_6)),
        ("add.rm.f32 %f9, %f2, %f3;", [bits(1.0), bits(1e-9)], bits(1.0)),
        ("add.rp.f32 %f9, %f2, %f3;", [bits(1.0), bits(1e-9)], bits(1.0_f32.next_up())),
        ("add.rz.f32 %f9, %f2, %f3;", [bits(-1.0), bits(1e-9)], bits((-1.0_f32).next_up())),
        ("mul.rp.f32 %f9, %f2, %f3;", [bits(0.1), bits(0.1)], bits(0.1_f32 * 0.1)),
        ("fma.rm.f32 %f9, %f2, %f3, 0f00000000;", [bits(0.1), bits(0.1)], bits((0.1_f32 * 0.1).next_down())),
        ("fma.rm.f32 %f9, %f2, %f3, 0f3F800000;", [bits(-1e-9), bits(1e-9)], bits(1.0_f32.next_down())),
        ("copysign.f32 %f9, %f2, %f3;", [bits(-1.0), bits(3.0)], bits(-3.0)),
    ] {
        makes(&format!("{instruction} {to}"), inputs, expected);
    }
}

#[test]
fn branches_barriers_and_calls() {
    // Every thread stores its number in shared memory; after the barrier each loads its neighbour's.
    let swap = ".shared .align 8 .b8 area[512]; mov.u32 %r2, area; shl.b32 %r3, %r1, 3; add.s32 %r4, %r2, %r3;
        cvt.u64.u32 %rd2, %r1; st.shared.u64 [%r4], %rd2; bar.sync 0; xor.b32 %r5, %r3, 8; add.s32 %r5, %r5, %r2;
        ld.shared.u64 %rd3, [%r5]; cvt.u64.u32 %rd4, %r3; add.s64 %rd5, %rd1, %rd4; st.global.u64 [%rd5], %rd3;";
    assert_eq!(check(swap, &[9; 4], 4).unwrap(), [1, 0, 3, 2]);
    let sum = "mov.u32 %r2, 0; mov.u64 %rd3, 0; $again: cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd3, %rd2; add.s32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r2, 10; @%p1 bra $again; st.global.u64 [%rd1], %rd3;";
    assert_eq!(check(sum, &[0], 1).unwrap(), [45]);
    let table = "ts: .branchtargets $a, $b; brx.idx %r1, ts; $a: st.global.u64 [%rd1], 5; ret; $b: st.global.u64 [%rd1+8], 6;";
    assert_eq!(check(table, &[0, 0], 2).unwrap(), [5, 6]);
    let atomic = "atom.global.add.u32 %r2, [%rd1], 3; red.global.max.u32 [%rd1+8], %r1;";
    assert_eq!(check(atomic, &[1, 2], 5).unwrap(), [16, 4]);
    // The sum of 32 lanes, and a ballot of the odd ones.
    let warp = "mov.u32 %r2, %r1;
        shfl.sync.down.b32 %r3|%p1, %r2, 16, 31, -1; add.s32 %r2, %r2, %r3;
        shfl.sync.bfly.b32 %r3, %r2, 8, 31, -1; add.s32 %r2, %r2, %r3;
        shfl.sync.down.b32 %r3, %r2, 4, 31, -1; add.s32 %r2, %r2, %r3;
        shfl.sync.down.b32 %r3, %r2, 2, 31, -1; add.s32 %r2, %r2, %r3;
        shfl.sync.down.b32 %r3, %r2, 1, 31, -1; add.s32 %r2, %r2, %r3; bar.warp.sync -1;
        and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 1; vote.sync.ballot.b32 %r5, %p2, -1;
        shfl.sync.idx.b32 %r6, %r1, 7, 31, -1; shfl.sync.up.b32 %r7, %r1, 1, 0, -1;
        setp.eq.u32 %p3, %r1, 40; vote.sync.any.pred %p4, %p3, -1; selp.b32 %r8, 1, 0, %p4;
        mul.wide.u32 %rd2, %r1, 32; add.s64 %rd3, %rd1, %rd2; mov.b64 %rd4, {%r2, %r5}; mov.b64 %rd5, {%r6, %r7};
        cvt.u64.u32 %rd6, %r8; st.global.u64 [%rd3], %rd4; st.global.u64 [%rd3+8], %rd5; st.global.u64 [%rd3+16], %rd6;";
    let words = check(warp, &[0; 48 * 4], 48).unwrap_err();
    assert!(words.contains("takes no part"), "{words}");
    let words = check(warp, &[0; 64 * 4], 64).unwrap();
    assert_eq!(words[..3], [0xaaaa_aaaa << 32 | 496, 7, 0]);
    assert_eq!(words[4..7], [0xaaaa_aaaa << 32 | words[4] & 0xffff_ffff, 7, 0]);
    assert_eq!(words[32 * 4..32 * 4 + 3], [0xaaaa_aaaa << 32 | (496 + 1024), 32 << 32 | 39, 1]);
    assert_eq!(words[33 * 4 + 1], 32 << 32 | 39);
    let vector = "ld.global.v2.u64 {%rd2, %rd3}, [%rd1]; st.global.v2.u64 [%rd1], {%rd3, %rd2};";
    assert_eq!(check(vector, &[1, 2], 1).unwrap(), [2, 1]);
}

#[test]
fn a_function_of_the_module_is_called() {
    let text = ".version 7.0 .target sm_70 .address_size 64
        .func (.param .b32 func_retval0) twice(.param .b32 p) { .reg .b32 %r<3>; ld.param.u32 %r1, [p];
            add.s32 %r2, %r1, %r1; st.param.b32 [func_retval0+0], %r2; ret; }
        .visible .entry k(.param .u64 a) { .reg .b32 %r<3>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [a];
            { .reg .b32 temp_param_reg; .param .b32 param0; st.param.b32 [param0+0], 21; .param .b32 retval0;
            call.uni (retval0), twice, ( param0 ); ld.param.b32 %r1, [retval0+0]; }
            st.global.u32 [%rd1], %r1; ret; }";
    let program = parse(text).unwrap();
    let grid = Grid { blocks: [1, 1, 1], threads: [1, 1, 1], shared: 0 };
    let mut memory = TestMemory(vec![0; 4]);
    run(&program, &program.functions["k"], &[], grid, &BASE_ADDRESS.to_le_bytes(), &mut memory).unwrap();
    assert_eq!(memory.0, 42_u32.to_le_bytes());
}

#[test]
fn faults_and_what_is_not_known() {
    for (body, expected) in [
        ("st.global.u64 [%rd1+16], 1;", "Address"),
        ("ld.global.u32 %r2, [%rd1+-4];", "Address"),
        ("ld.shared.u32 %r2, [%rd1];", "Address"),
        ("ld.global.u32 %r2, [%rd1+2];", "Misaligned"),
        ("st.const.u8 [table], 1;", "Address"),
        ("trap;", "Trap"),
        ("shfl.down.b32 %r2, %r3, 1, 31;", "shfl.down.b32 is not known"),
        (
            "bar.warp.sync 3; setp.eq.u32 %p1, %r1, 9; bar.red.popc.u32 %r2, 0, %p1;",
            "bar.red.popc.u32 is not known",
        ),
        ("div.rz.f32 %f1, %f2, %f3;", "div.rz.f32 is not known"),
        ("fma.rz.f64 %fd1, %fd2, %fd3, %fd4;", "fma.rz.f64 is not known"),
        ("addc.hi.u32 %r2, %r3, %r4;", "addc.hi.u32 is not known"),
        ("fma.rn.s32 %r2, %r3, %r4, %r5;", "is not known"),
        ("sqrt.rn.u32 %r2, %r3;", "is not known"),
        ("add.f16 %rs1, %rs2, %rs3;", "is not known"),
        ("add.s32 %r2, %r99, 1;", "neither declared nor known"),
        ("bra $nowhere;", "no label"),
        ("call printf, (k_param_0);", "does not define"),
    ] {
        let error = check(body, &[0], 1).unwrap_err();
        assert!(error.contains(expected), "{body}: {error}");
    }
}
