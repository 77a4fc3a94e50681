use super::*;

/// Rewrites as where LuaJIT compiles.
fn rewrite(source: &str) -> Option<RewrittenSource> {
    super::rewrite(source, MIN_ITERATIONS)
}

/// Makes a function with these locals and this body.
fn function(body: &str) -> String {
    format!(
        "local outer = 2\nfunction dynamic_dataset()\n  local out, red = lib.getData('out'), lib.getData(\"red\")\n  \
         local n, cols, s = 5, 6, 7\n{body}\nend\n"
    )
}

/// Checks the rewritten loops; `taken` are the arrays and scalars of each.
fn check(body: &str, taken: &[&str]) {
    let source = function(body);
    let Some(found) = rewrite(&source) else { return assert!(taken.is_empty(), "not taken: {body}") };
    let got: Vec<String> = found
        .loops
        .iter()
        .map(|each| format!("{} | {}", each.computes.arrays.join(" "), each.computes.scalars.join(" ")))
        .collect();
    assert_eq!(got, taken, "{body}");
    assert_eq!(found.text.lines().count(), source.lines().count(), "{}", found.text);
    for (before, after) in source.lines().zip(found.text.lines()) {
        if !["for", "end", "do", "getData"].iter().any(|word| before.contains(word))
            && !before.starts_with("local outer")
        {
            assert_eq!(before, after);
        }
    }
}

fn refuses(body: &str) {
    check(body, &[]);
}

#[test]
fn loops_that_do_the_same_to_each_element_are_taken() {
    check("for i = 1, n do out[i] = red[i] end", &["out red | "]);
    check("for i = 1, n do out[i] = 0 end", &["out | 0"]);
    check("for i = 1, n do out[i] = (red[i] - s) / (red[i] + 1e-3) * -red[i]; end", &["out red | s 1e-3"]);
    check("for i = f(n), g(n) + 1 do out[i] = red[i] * outer end", &["out red | outer"]);
    check("for i = 1, n do local d = red[i] - 1 local e = d * d out[i] = e + d end", &["red out | 1"]);
    check("for i = 1, n do local a, b = red[i], s out[i] = a * b end", &["red out | s"]);
    check("for i = 1, n do local red = red[i] out[i] = red * red end", &["red out | "]);
    check("for i = 1, n do out[i + (n - 1) * cols] = red[cols + i - 1] end", &["out red | n 1 cols"]);
    check("for i = 1, n do local at = i - 1 out[at] = red[at + 1] end", &["out red | 1"]);
    check(
        "for r = 1, n do\n for c = 1, cols do\n  out[(r - 1) * cols + c] = red[(r - 1) * cols + c]\n end\nend",
        &["out red | r 1 cols"],
    );
    check("for i = 1, n do out[i] = red[i] end for i = 1, n do out[i] = 1 end", &["out red | ", "out | 1"]);
    check("for i = 1, n do -- a\n --[[ for ]] out[i] --\n = red[i] -- b\n end", &["out red | "]);
    check("for i = 1, n -- to the end\n do out[i] = red[i] end", &["out red | "]);
    check("for i = \"1\", '9' do out[i] = red[i] end", &["out red | "]);
    check("if n then repeat for i = 1, n do out[i] = red[i] end until true end", &["out red | "]);
    check(
        "for i = 1, (function() for j = 1, n do out[j] = 1 end return n end)() do out[i] = red[i] end",
        &["out | 1", "out red | "],
    );
    check("goto done for i = 1, n do out[i] = red[i] end ::done::", &["out red | "]);
    check("local goto = 1 for i = 1, n do out[i] = red[i] * goto end", &["out red | goto"]);
}

#[test]
fn other_loops_are_left_as_they_are() {
    for body in [
        "for i = 1, n, 1 do out[i] = red[i] end",
        "for i = 1, 3 do out[i] = red[i] end",
        "for i = 1, 3071 do out[i] = red[i] end",
        "for _, i in ipairs(t) do out[i] = red[i] end",
        "for i = 1, n do end",
        "for i = 1, n do local x = red[i] end",
        "for i = 1, n do s = s + red[i] end",
        "for i = 1, n do out[i] = i end",
        "for i = 1, n do out[i] = red[i] ^ 2 end",
        "for i = 1, n do out[i] = red[i] % 2 end",
        "for i = 1, n do out[i] = math.sqrt(red[i]) end",
        "for i = 1, n do out[i] = red[i].x end",
        "for i = 1, n do out[i].x = red[i] end",
        "for i = 1, n do out[i] = red[i](2) end",
        "for i = 1, n do out[i] = red[i] f(2) end",
        "for i = 1, n do out[i] = red[i] > 1 and 1 or 0 end",
        "for i = 1, n do out[i] = red[i] < 1 end",
        "for i = 1, n do out[i] = not red[i] end",
        "for i = 1, n do out[i] = #red end",
        "for i = 1, n do out[i] = red[i] .. 1 end",
        "for i = 1, n do out[i] = 'x' end",
        "for i = 1, n do out[i] = nil end",
        "for i = 1, n do out[i] = {1} end",
        "for i = 1, n do out[i] = red[i] break end",
        "for i = 1, n do if s then out[i] = red[i] end end",
        "for i = 1, n do ::again:: out[i] = red[i] end",
        "for i = 1, n do do out[i] = red[i] end end",
        "for i = 1, n do out[i] = function() return 1 end end",
        "for i = 1, n do out[2 * i] = red[i] end",
        "for i = 1, n do out[i + i] = red[i] end",
        "for i = 1, n do out[n - i] = red[i] end",
        "for i = 1, n do out[-i] = red[i] end",
        "for i = 1, n do out[n] = red[i] end",
        "for i = 1, n do out[red[i]] = 1 end",
        "for i = 1, n do out[i] = out[i] + 1 end",
        "for i = 1, n do out[i] = out[i - 1] + red[i] end",
        "for i = 1, n do out[i] = 1 out[i + 1] = 2 end",
        "for i = 1, n do out[i] = red[i] * red end",
        "for i = 1, n do local red = red[i] out[i] = red[i] end",
        "for i = 1, n do out[i], red[i] = 1, 2 end",
        "for i = 1, n do local a, b = red[i] out[i] = a * b end",
        "for i = 1, n do local i = 2 out[i] = red[i] end",
        "for i = 1, n do i[i] = red[i] end",
        "for i = 1, n do global[i] = red[i] end",
        "for i = 1, n do out[i] = global[i] end",
        "for i = 1, n do out[i] = red[i] * global end",
        "for i = 1, n do out[i] = later end local later = 1",
        "do local hidden = 1 end for i = 1, n do out[i] = hidden end",
        "for i = 1, n do out[i] = ... end",
        "for\ni = 1, n do out[i] = red[i] end",
        "for i --[[\n]] = 1, n do out[i] = red[i] end",
        "local text = 'for i = 1, n do out[i] = red[i] end'",
        "local text = [==[ for i = 1, n do out[i] = red[i] end ]]]=] ]==]",
        "-- for i = 1, n do out[i] = red[i] end",
        "--[[ for i = 1, n do\n out[i] = red[i] end ]]",
        // Invalid Lua is not rewritten at all.
        "for i = 1, n do out[i] = red[i] end end",
        "for i = 1, n do out[i] = red[i] end x x",
        "for i = 1, n do out[i] = red[i] end (",
        "for i = 1, n do out[i] = red[i] end 'open",
        "for i = 1, n do out[i] = red[i] end return 1 n = 2",
    ] {
        refuses(body);
    }
    assert!(rewrite("local a = ... for i = 1, 5000 do a[i] = 0 end").is_none());
    assert!(rewrite("#!/usr/bin/lua\nlocal a = b for i = 1, 5000 do a[i] = 0 end").is_none());
    assert!(rewrite("local a = b for i = 1, 5000 do a[i] = 0 end").is_some());
    let deep = format!("local a = b for i = 1, 5000 do a[i] = {}0{} end", "(".repeat(1000), ")".repeat(1000));
    assert!(rewrite(&deep).is_none());
    let deep = format!("local a = b {}local c = 1 {}", "do ".repeat(100_000), "end ".repeat(100_000));
    assert!(rewrite(&deep).is_none());
}

#[test]
fn elements_are_given_as_they_lie_to_those_whom_only_loops_see() {
    let told = |body: &str| rewrite(&function(body)).unwrap().lying;
    let taken = "for i = 1, n do out[i] = red[i] end ";
    assert_eq!(told(taken), ["out", "red"]);
    for (rest, out, red) in [
        ("out[1] = 2", "", "red"),
        ("local x = red[1]", "out", ""),
        ("f(red)", "out", ""),
        ("red = lib.getData('other')", "out", ""),
        ("local again = function() return red end", "out", ""),
        ("for i = 1, n, 1 do out[i] = red[i] end", "", ""),
        ("do local red = 1 f(red) end", "out", "red"),
    ] {
        let body = format!("{taken}{rest}");
        let names: Vec<_> = [out, red].into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(told(&body), names, "{rest}");
    }
    for value in [
        "lib.getData('a').x",
        "lib:getData('a')",
        "lib.getData 'a'",
        "lib.getData(a)",
        "lib.getDims('a')",
        "lib.getData('\\97')",
        "(lib.getData('a'))",
    ] {
        let body = format!("local a = {value} for i = 1, n do out[i] = a[i] end");
        assert_eq!(told(&body), ["out"], "{value}");
    }
    // The source itself keeps the array from call to call.
    let source =
        "local red, out = lib.getData('red'), lib.getData('out') for i = 1, 5000 do out[i] = red[i] end";
    assert_eq!(rewrite(source).unwrap().lying, [""; 0]);
    let shadowed =
        "local lib = mine function f() local out = lib.getData('out') for i = 1, 5000 do out[i] = 1 end end";
    assert_eq!(rewrite(shadowed).unwrap().lying, [""; 0]);
}

#[test]
fn a_rewritten_source_asks() {
    let source =
        "function f(out, n) local a = lib.getData('a')\n for i = 1, n do\n  out[i] = a[i] * 2\n end\nend";
    let expected = "local ask0, ask0_long, ask0_odd, ask0_readable = ... function f(out, n) local a = lib.getData('a', ask0)\n \
                    do local ask0_a, ask0_b, out, a =  1, n , out, a if ask0_long(ask0_a, ask0_b) and \
                    ask0(0, ask0_a, ask0_b, out, a, 2) then ask0_b = ask0_a - 1 elseif ask0_odd() then a = ask0_readable(1, a) end \
                    for i = 1, ask0_b do\n  out[i] = a[i] * 2\n end end\nend";
    assert_eq!(rewrite(source).unwrap().text, expected);
    assert!(rewrite(&format!("{source} -- ask0 ask1")).unwrap().text.starts_with("local ask2, "));
}

/// Sources are untrusted: none may take longer than its size justifies.
#[test]
fn hostile_sources_take_little_time() {
    let many = |count: usize, text: &dyn Fn(usize) -> String| (0..count).map(text).collect::<String>();
    let taken = "local a = b for i = 1, 5000 do a[i] = 0 end ";
    let names = many(60_000, &|n| format!("local v{n} = v0 "));
    assert!(rewrite(&format!("{names}{taken}{}", "v0 = v0 ".repeat(60_000))).is_some());
    let captured = many(60_000, &|n| format!("local v{n} = function() v{n} = 1 end "));
    assert!(rewrite(&format!("{captured}{taken}")).is_some());
    let asks = many(60_000, &|n| format!("ask{n}() "));
    assert!(rewrite(&format!("{asks}{taken}")).is_none());
    let locals = many(60_000, &|n| format!("local v{n} = b "));
    let stores = many(60_000, &|n| format!("v{n}[i] = 0 "));
    assert!(rewrite(&format!("{locals}for i = 1, 5000 do {stores} end")).is_none());
    let sums = "a[i + 1 - 1 + 1 - 1 + 1 - 1] = 0 ".repeat(60_000);
    assert!(rewrite(&format!("local a = b for i = 1, 5000 do {sums} end")).is_none());
    let loops = "for i = 1, 5000 do a[i] = 0 end ".repeat(20_000);
    assert_eq!(rewrite(&format!("local a = b {loops}")).unwrap().loops.len(), MAX_LOOPS);
    assert!(
        rewrite(&format!("local a = b {}{}", "for i = 1, 5000 do ".repeat(100), "end ".repeat(100)))
            .is_none()
    );
}
