//! `make test` runs every part, and ends with what failed and what was skipped.

use std::fs;

use support::CommandResult;

use crate::harness::Home;

const FAILING_RUST: &str = r#"
    #[test] fn rust_test_that_passes() {}
    #[test] fn rust_test_that_fails() { panic!("the reason in Rust") }
"#;

const FAILING_JAVASCRIPT: &str = r#"
    import { test } from "node:test";
    test("JavaScript test that passes", () => {});
    test("JavaScript test that fails", (test) => {
        test.diagnostic("The page had this text:\nNothing here");
        throw new Error("the reason in JavaScript");
    });
"#;

/// Runs the script of `make test` with these commands as two of its parts.
fn run(test_rust: &str, test_outside: &str) -> CommandResult {
    let home = Home::new();
    fs::create_dir(home.path("tests")).unwrap();
    fs::copy("tests/run", home.path("tests/run")).unwrap();
    fs::write(home.path("failing.rs"), FAILING_RUST).unwrap();
    fs::write(home.path("failing.mjs"), FAILING_JAVASCRIPT).unwrap();
    let makefile = format!(
        "tools outside-tools format test-build postgres-versions \
         tests/postgres-versions/node_modules/.installed:\n\
         test-rust:\n\t{test_rust}\n\
         test-outside:\n\t{test_outside}\n"
    );
    fs::write(home.path("Makefile"), makefile).unwrap();
    let script = home.path("tests/run");
    let mut command = home.command(script.to_str().unwrap());
    CommandResult::of(command.env_remove("MAKEFLAGS"))
}

#[test]
#[ignore = "needs make and node; make test installs node and runs this"]
fn a_failed_run_ends_with_every_failed_test() {
    let rust = "rustc --test -o failing failing.rs && ./failing";
    let outside = "node --test --test-reporter=spec failing.mjs";
    let failed = run(rust, outside);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let (_, end) = failed
        .stdout
        .split_once("Failed: test-rust test-outside.")
        .unwrap();
    for expected in [
        "rust_test_that_fails",
        "the reason in Rust",
        "JavaScript test that fails",
        "the reason in JavaScript",
        "Nothing here",
    ] {
        assert!(end.contains(expected), "{expected} in {end}");
    }
    assert!(!end.contains("that passes"), "{end}");
}

#[test]
#[ignore = "needs make; make test runs this"]
fn a_part_without_a_test_report_ends_with_its_last_lines() {
    let failed = run("@echo no such tool; exit 3", "@echo fine");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let (start, end) = failed.stdout.split_once("Failed: test-rust.").unwrap();
    assert!(start.contains("fine"), "{start}");
    assert!(end.contains("no such tool"), "{end}");
}

#[test]
#[ignore = "needs make; make test runs this"]
fn a_run_that_passes_ends_with_what_was_skipped() {
    let note = "note: counting was skipped: another compiler";
    let passed = run(&format!("@echo '{note}' && echo counted"), "@echo fine");
    let end = format!("\n{note}\nAll tests passed.\n");
    assert!(passed.success().stdout.ends_with(&end));
}
