//! Lowering of the PTX version. A compiler declares its newest version, which slightly older drivers reject,
//! although the text mostly needs only a much older one.
//!
//! Source: *Parallel Thread Execution ISA*, "PTX ISA Notes" and "Target ISA Notes" of each instruction, and
//! its release notes. Anything not in these lists may be newer, so that a text with it stays unchanged.

use std::collections::BTreeSet;

/// Version that supports everything in the lists.
const MIN_PTX_VERSION: (u32, u32) = (6, 2);

/// Architectures with the PTX version that introduced each, the oldest first.
const MACHINES: [(u32, (u32, u32)); 7] =
    [(70, (6, 0)), (72, (6, 1)), (75, (6, 3)), (80, (7, 0)), (86, (7, 1)), (87, (7, 4)), (90, (7, 8))];

/// Directives.
const DIRECTIVES: &[&str] = &[
    "address_size",
    "align",
    "const",
    "entry",
    "extern",
    "file",
    "func",
    "global",
    "loc",
    "local",
    "maxnctapersm",
    "maxnreg",
    "maxntid",
    "minnctapersm",
    "param",
    "pragma",
    "ptr",
    "reg",
    "reqntid",
    "shared",
    "target",
    "version",
    "visible",
    "weak",
];

/// Types of variables and of instructions.
const TYPES: &[&str] =
    &["b16", "b32", "b64", "b8", "f32", "f64", "pred", "s16", "s32", "s64", "s8", "u16", "u32", "u64", "u8"];

/// Instructions.
const INSTRUCTIONS: &[&str] = &[
    "abs",
    "activemask",
    "add",
    "addc",
    "and",
    "atom",
    "bar",
    "barrier",
    "bfe",
    "bfi",
    "bfind",
    "bra",
    "brev",
    "call",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "cvt",
    "cvta",
    "div",
    "dp2a",
    "dp4a",
    "ex2",
    "exit",
    "fma",
    "isspacep",
    "ld",
    "lg2",
    "lop3",
    "mad",
    "madc",
    "match",
    "max",
    "membar",
    "min",
    "mov",
    "mul",
    "mul24",
    "neg",
    "not",
    "or",
    "popc",
    "prmt",
    "rcp",
    "red",
    "rem",
    "ret",
    "rsqrt",
    "sad",
    "selp",
    "set",
    "setp",
    "shf",
    "shfl",
    "shl",
    "shr",
    "sin",
    "slct",
    "sqrt",
    "st",
    "sub",
    "subc",
    "testp",
    "trap",
    "vote",
    "xor",
];

/// Special registers.
const SPECIAL: &[&str] = &[
    "clock",
    "clock64",
    "ctaid",
    "globaltimer",
    "laneid",
    "lanemask_eq",
    "lanemask_ge",
    "lanemask_gt",
    "lanemask_le",
    "lanemask_lt",
    "nctaid",
    "nsmid",
    "ntid",
    "nwarpid",
    "smid",
    "tid",
    "warpid",
];

/// Modifiers of instructions other than types.
const MODIFIERS: &[&str] = &[
    "add",
    "all",
    "and",
    "any",
    "approx",
    "arrive",
    "ballot",
    "bfly",
    "ca",
    "cas",
    "cc",
    "cg",
    "clamp",
    "const",
    "cs",
    "cta",
    "cv",
    "dec",
    "down",
    "eq",
    "equ",
    "exch",
    "finite",
    "ftz",
    "full",
    "ge",
    "geu",
    "gl",
    "global",
    "gt",
    "gtu",
    "hi",
    "hs",
    "idx",
    "inc",
    "infinite",
    "l",
    "le",
    "leu",
    "lo",
    "local",
    "ls",
    "lt",
    "ltu",
    "lu",
    "max",
    "min",
    "nan",
    "nc",
    "ne",
    "neu",
    "normal",
    "notanumber",
    "num",
    "number",
    "or",
    "param",
    "popc",
    "r",
    "red",
    "rm",
    "rmi",
    "rn",
    "rni",
    "rp",
    "rpi",
    "rz",
    "rzi",
    "sat",
    "shared",
    "shiftamt",
    "subnormal",
    "sync",
    "sys",
    "to",
    "uni",
    "up",
    "v2",
    "v4",
    "volatile",
    "warp",
    "wb",
    "wide",
    "wrap",
    "wt",
    "xor",
];

/// Returns the text with the lowest sufficient version, or unchanged if that is not known.
pub(super) fn with_lowest_version(ptx: &str) -> String {
    let Some((start, line)) = version_line(ptx) else { return ptx.to_owned() };
    match (number(line), needed(ptx)) {
        (Some(now), Some((major, minor))) if (major, minor) < now => {
            let (head, tail) = (ptx.get(..start), ptx.get(start + line.len()..));
            format!("{}.version {major}.{minor}{}", head.unwrap_or_default(), tail.unwrap_or_default())
        }
        _ => ptx.to_owned(),
    }
}

/// Finds the line of the version.
fn version_line(ptx: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for line in ptx.split_inclusive('\n') {
        if line.starts_with(".version ") {
            return Some((at, line.trim_end()));
        }
        at += line.len();
    }
    None
}

fn number(line: &str) -> Option<(u32, u32)> {
    let (major, minor) = line.strip_prefix(".version ")?.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns a version that supports everything in a text.
fn needed(ptx: &str) -> Option<(u32, u32)> {
    let mut machine = None;
    let registers = registers(ptx);
    let new = || Scan { registers: &registers, begins: true, in_instruction: false };
    let mut scan = new();
    for line in ptx.lines() {
        let line = line.split_once("//").map_or(line, |(code, _)| code).trim();
        if let Some(target) = line.strip_prefix(".target ") {
            let number = target.strip_prefix("sm_")?.parse::<u32>().ok()?;
            machine = MACHINES.iter().rfind(|(of, _)| *of == number).map(|(_, version)| *version);
            machine?;
        } else if !line.starts_with(".version ") && !scan.line(line) {
            return None;
        }
        // These end with their line, others with a semicolon.
        if [".target ", ".version ", ".address_size ", ".file ", ".loc "].iter().any(|d| line.starts_with(d))
        {
            scan = new();
        }
    }
    machine.map(|version| version.max(MIN_PTX_VERSION))
}

/// Returns the names of the declared registers, without the numbers at their end.
fn registers(ptx: &str) -> BTreeSet<&str> {
    let declared = ptx.split(".reg").skip(1).filter_map(|rest| rest.split(';').next());
    let names = declared.flat_map(|list| list.split(|c: char| c.is_whitespace() || c == ','));
    names.filter_map(|name| name.split('<').next()?.strip_prefix('%')).collect()
}

/// Scanner of statements.
struct Scan<'a> {
    /// Registers that the text declares.
    registers: &'a BTreeSet<&'a str>,
    /// Set if the next word is the first of its statement.
    begins: bool,
    /// Set if the statement is an instruction instead of a directive.
    in_instruction: bool,
}

impl Scan<'_> {
    /// Returns whether everything in a line is in the lists.
    fn line(&mut self, line: &str) -> bool {
        let mut rest = line;
        while let Some(start) = rest.chars().next() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '%');
            let end = |is: &dyn Fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
            let length = if start.is_ascii_digit() {
                end(&|c| c.is_ascii_alphanumeric())
            } else if is_part(start) {
                let length = end(&is_part);
                let (word, after) = rest.split_at(length);
                if self.begins && after.starts_with(':') && !word.starts_with('.') {
                    // A label.
                    length + 1
                } else if self.word(word) {
                    length
                } else {
                    return false;
                }
            } else {
                match start {
                    ';' => (self.begins, self.in_instruction) = (true, false),
                    // In an instruction, braces enclose a vector.
                    '{' | '}' if !self.in_instruction => self.begins = true,
                    // The only known pragma.
                    '"' if rest.starts_with("\"nounroll\"") => {
                        rest = rest.get("\"nounroll\"".len()..).unwrap_or_default();
                        continue;
                    }
                    '@' | '!' | '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | ',' | '=' | '+' | '-'
                    | '|' => {}
                    other if other.is_whitespace() => {}
                    _ => return false,
                }
                start.len_utf8()
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        true
    }

    fn word(&mut self, word: &str) -> bool {
        if let Some(parts) = word.strip_prefix('.') {
            self.begins = false;
            return parts.split('.').all(|part| DIRECTIVES.contains(&part) || TYPES.contains(&part));
        }
        if word.starts_with('%') {
            // A predicate precedes its instruction.
            return self.is_known_register(word);
        }
        if !self.begins {
            return !word.contains('.');
        }
        (self.begins, self.in_instruction) = (false, true);
        is_known_instruction(word)
    }

    /// Returns whether `word` is a special register, or one that the text declares.
    fn is_known_register(&self, word: &str) -> bool {
        let name = word.trim_start_matches('%').split('.').next().unwrap_or_default();
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
        SPECIAL.contains(&name) || self.registers.contains(name) || self.registers.contains(letters)
    }
}

fn is_known_instruction(word: &str) -> bool {
    let mut parts = word.split('.');
    let Some(name) = parts.next().filter(|name| INSTRUCTIONS.contains(name)) else { return false };
    parts.all(|part| {
        // Later additions to old instructions.
        let newer = match name {
            "atom" | "red" => matches!(part, "v2" | "v4"),
            "bar" | "barrier" => part == "cta",
            "cvta" | "isspacep" => part == "param",
            "lop3" => part != "b32",
            _ => false,
        };
        !newer && (TYPES.contains(&part) || MODIFIERS.contains(&part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, body: &str, expected: &str) {
        let text = |version: &str| {
            format!(
                "//\n.version {version}\n.target {target}\n.address_size 64\n\t// .globl k\n.visible .entry k(\n\t.param .u64 .ptr .global .align 4 k_param_0\n)\n.maxntid 32, 8, 1\n{{\n\t.reg .b32 \t%r<9>;\n\t.reg .b64 %rd<30>, %fd<3>;\n\t.reg .f32 %f<9>;\n\t.reg .pred %p<4>;\n\t.reg .b16 %rs<5>;\n{body}\n\tret;\n}}\n"
            )
        };
        assert_eq!(with_lowest_version(&text("8.8")), text(expected), "{target} {body}");
    }

    #[test]
    fn old_instructions_are_of_an_old_version() {
        check("sm_70", "", "6.2");
        check("sm_75", "", "6.3");
        check("sm_80", "", "7.0");
        check("sm_103", "", "8.8");
        for body in [
            "\tld.param.u64 %rd27, [k_param_0];\n\tcvta.to.global.u64 %rd1, %rd27;",
            "\tmov.u32 %r4, %ctaid.y;\n@%p1 bra $L__BB0_9;\n$L__BB0_9:\n\t@!%p2 bra.uni $L;",
            "\tld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+-16];\n\tfma.rn.f32 %f5, %f1, 0f3F800000, %f2;",
            "\t.pragma \"nounroll\";\n\tmov.b64 {%r1, %r2}, %rd3;",
            "\t{ // callseq 0, 0\n\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd1;\n\tcall.uni (retval0),\n\tvprintf,\n\t(\n\tparam0\n\t);\n\t}",
            "\tatom.global.add.f64 %fd1, [%rd1], %fd2;\n\tshfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;\n\tlop3.b32 %r1, %r2, %r3, 1, 0x96;",
        ] {
            check("sm_70", body, "6.2");
        }
    }

    #[test]
    fn what_may_be_newer_stays_as_it_is() {
        for body in [
            "\tcp.async.ca.shared.global [%r1], [%rd1], 16;",
            "\tatom.global.v2.f32.add {%f1, %f2}, [%rd1], {%f3, %f4};",
            "\tlop3.or.b32 %r1|%p1, %r2, %r3, %r4, 0x96, %p2;",
            "\tisspacep.param %p1, %rd1;",
            "\tld.global.L2::128B.u32 %r1, [%rd1];",
            "\tbarrier.cta.sync 0;",
            "\tmov.u32 %r1, %cluster_ctaid.x;",
            "\tfma.rn.f16 %rs1, %rs2, %rs3, %rs4;",
            "\t.pragma \"used_bytes_mask 0x3\";",
            "\t.loc 1 5 3\n\ttanh.approx.f32 %f1, %f2;",
            "\t.attribute(.managed) .global .b32 x;",
            "\tmin.NaN.f32 %f1, %f2, %f3;",
            "\t/* a comment */",
        ] {
            check("sm_70", body, "8.8");
        }
        check("sm_70a", "", "8.8");
        check("sm_70, texmode_independent", "", "8.8");
        assert_eq!(with_lowest_version("no PTX"), "no PTX");
        assert_eq!(with_lowest_version(".version 6.0\n.target sm_70\n"), ".version 6.0\n.target sm_70\n");
    }
}
