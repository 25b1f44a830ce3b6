//! What is installed beside the program: manual pages.

use std::{collections::BTreeSet, fs};

use crate::{
    cli::commands,
    harness::{Finished, Home},
};

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::new();
    home.petstore(&["man", "."]).success();
    let named = |(command, _): (Vec<String>, String)| {
        let words = [vec!["petstore".into()], command].concat();
        words.join("-") + ".1"
    };
    let expected: BTreeSet<_> = commands(&home).into_iter().map(named).collect();
    assert_eq!(home.files().into_iter().collect::<BTreeSet<_>>(), expected);
    let page = fs::read_to_string(home.path("petstore-serve.1")).unwrap();
    let title = concat!("\"petstore ", env!("CARGO_PKG_VERSION"), "\"");
    for part in [title, "PETSTORE_LISTEN", "SIGTERM"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
#[ignore = "needs groff; make test installs it and runs this"]
fn manual_pages_are_well_formed() {
    let home = Home::new();
    home.petstore(&["man", "."]).success();
    let mut groff = home.command("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-z"]);
    let read = Finished::of(groff.args(home.files())).success();
    assert_eq!(read.stderr, "");
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let refused = Home::new().petstore(&["man", "/dev/null/man"]);
    refused.assert_refused(1, "cannot write to /dev/null/man: ");
}
