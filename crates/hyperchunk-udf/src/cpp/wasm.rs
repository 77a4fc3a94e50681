//! C and C++ sources for WebAssembly: their preludes, and the options of Zig.
//!
//! The module does not depend on the machine that compiled it, so the stored form runs everywhere.

use super::{PRELUDE, with_sizes};
use crate::datatype::{Datatype, declarations_for_wasm};
use crate::error::{Result, fail};
use crate::escape::escape;
use crate::wasm::{TARGET_C, TARGET_CPP};
use std::fmt::Write as _;
use std::path::Path;

const IMPORTS: &str = include_str!("imports.h");
const PRELUDE_C: &str = include_str!("prelude.h");
const EPILOGUE_C: &str = include_str!("epilogue.h");
const EPILOGUE_CPP: &str = include_str!("epilogue_wasm.hpp");

/// Name of the result in the compiler's folder.
pub(crate) const MODULE: &str = "udf.wasm";

/// Language that is compiled to WebAssembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C17 with the extensions of the system's library.
    C,
    /// C++17, without exceptions.
    Cpp,
}

/// Options for both languages. None depends on the compiling machine, so that results do not either.
const ARGUMENTS: &[&str] = &[
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-mcpu=baseline+simd128",
    "-O3",
    "-ffp-contract=off",
    "-fno-ident",
    "-fvisibility=hidden",
    "-Wno-unused-function",
    "-Wno-unused-const-variable",
    "-ferror-limit=5",
    "-fno-caret-diagnostics",
    "-fno-color-diagnostics",
    // Zig's checks for undefined behaviour would need an additional library.
    "-fno-sanitize=undefined",
    "-Wl,--gc-sections",
    "-Wl,-z,stack-size=1048576",
    "-s",
];

impl Language {
    /// Returns the language of a source, by its extension (`.c`, else C++).
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("c")) { Self::C } else { Self::Cpp }
    }

    /// Returns the language of a compiled form's source, by its target.
    #[must_use]
    pub fn with_target(target: &str) -> Option<Self> {
        [Self::C, Self::Cpp].into_iter().find(|l| l.target() == target)
    }

    /// Returns the language with this name, as given by [`Language::name`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::C, Self::Cpp].into_iter().find(|l| l.name() == name)
    }

    /// Returns the name for the worker.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "c++",
        }
    }

    /// Returns the target of the compiled form.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::C => TARGET_C,
            Self::Cpp => TARGET_CPP,
        }
    }

    /// Returns the name of the source in the compiler's folder.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::C => "udf.c",
            Self::Cpp => super::SOURCE,
        }
    }

    /// Returns the compiler's arguments after its own name.
    pub fn arguments(self) -> impl Iterator<Item = &'static str> {
        let first: &[&str] = match self {
            Self::C => &["cc", "-std=gnu17"],
            Self::Cpp => &["c++", "-std=c++17", "-fno-exceptions"],
        };
        first.iter().chain(ARGUMENTS).copied().chain(["-o", MODULE, self.file()])
    }

    /// Returns the complete text to compile for `source`, which uses the datasets `slots`.
    ///
    /// # Errors
    /// `Unsupported` for arrays of variable-length strings.
    pub(crate) fn assemble<'a>(
        self,
        source: &str,
        slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    ) -> Result<String> {
        let slots: Vec<_> = slots.into_iter().collect();
        if let Some((name, _)) = slots.iter().find(|(_, datatype)| has_array_of_strings(datatype)) {
            fail!(
                Unsupported,
                "{:?} has an array of strings of variable length, which C and C++ for WebAssembly cannot use; read it in another language",
                escape(name, 80)
            )
        }
        let (prelude, epilogue) = match self {
            Self::C => (PRELUDE_C, EPILOGUE_C),
            Self::Cpp => (PRELUDE, EPILOGUE_CPP),
        };
        let mut names = "static const char *const hyperchunk_names[] = {".to_owned();
        for (name, _) in &slots {
            names.push('"');
            for byte in name.trim_start_matches('/').bytes() {
                // Writing to a string does not fail.
                let _ = write!(names, "\\{byte:03o}");
            }
            names.push_str("\",");
        }
        names.push_str("};");
        let structures = with_sizes(&slots, declarations_for_wasm(slots.iter().copied()));
        let file = self.file();
        // The module's exported dynamic_dataset requests the datasets first.
        let mut defines = "#define dynamic_dataset hyperchunk_function\n".to_owned();
        // The C library's generator starts with the same numbers, but continues from one block to the next.
        if ["rand(", "random("].iter().any(|call| source.contains(call)) {
            defines.push_str("#define HYPERCHUNK_SEED_RAND\n");
        }
        if self == Self::Cpp {
            defines.push_str("#define throw hyperchunk::thrown() <<\n");
        }
        Ok(format!(
            "{IMPORTS}{prelude}\n{structures}\n{names}\n{defines}#line 1 \"{file}\"\n{source}\n#line 1 \"hyperchunk\"\n#undef throw\n{epilogue}"
        ))
    }
}

/// Returns whether a datatype contains an array of variable-length strings. Their addresses are 8 bytes apart
/// in memory, and 4 for the compiler.
fn has_array_of_strings(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::Array(base, _) => base.has_pointers(),
        Datatype::Compound(compound) => compound.members().iter().any(|m| has_array_of_strings(&m.datatype)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::ElementType;

    #[test]
    fn names_are_escaped_whatever_is_in_them() {
        let number = Datatype::Number(ElementType::Float32);
        let text = Language::C.assemble("void f(void);", [("/a\"\\\n", &number)]).unwrap();
        assert!(text.contains(r#"{"\141\042\134\012",}"#), "{text}");
        let text = Language::Cpp.assemble("", [("names", &Datatype::Pointer)]).unwrap();
        assert!(text.contains("char * value; uint32_t hyperchunk_value_rest; } names_t;"), "{text}");
        assert!(text.contains("static_assert(sizeof(names_t) == 8"), "{text}");
        let array = Datatype::Array(std::sync::Arc::new(Datatype::Pointer), vec![3]);
        let error = Language::Cpp.assemble("", [("names", &array)]).unwrap_err();
        assert!(
            error.to_string().contains("\"names\" has an array of strings of variable length"),
            "{error}"
        );
    }

    #[test]
    fn languages_are_told_by_their_names() {
        for language in [Language::C, Language::Cpp] {
            assert_eq!(Language::named(language.name()), Some(language));
            assert!(crate::wasm::is_target(language.target()));
            assert_eq!(Language::with_target(language.target()), Some(language));
        }
        assert_eq!(Language::from_path(Path::new("a/b.C")), Language::C);
        assert_eq!(Language::from_path(Path::new("a/b.cxx")), Language::Cpp);
    }
}
