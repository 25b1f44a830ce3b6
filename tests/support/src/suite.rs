//! Runs suites whose cases are the same for several databases, in one process with one
//! PostgreSQL server.
//!
//! Each file of a suite names its cases with [`cases!`](crate::cases), and the `main` of the
//! suite its files. The compiler warns of a case or a file that was left out.

use std::{pin::Pin, process::ExitCode};

use libtest_mimic::{Arguments, Conclusion, Trial};

use crate::postgres;

/// A database and a transport that cases run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
    /// SQLite, with every connection over TLS.
    Tls,
}

impl Backend {
    pub const ALL: &[Self] = &[Self::Sqlite, Self::Postgres, Self::Tls];
    /// Both databases, for cases to which it does not matter how clients connect.
    pub const DATABASES: &[Self] = &[Self::Sqlite, Self::Postgres];
    pub const SQLITE: &[Self] = &[Self::Sqlite];
    pub const POSTGRES: &[Self] = &[Self::Postgres];
    pub const TLS: &[Self] = &[Self::Tls];

    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Tls => "tls",
        }
    }
}

/// A function that is a test of its own on each of its backends.
pub struct Case {
    /// The path of its module, which starts with the name of the suite.
    pub module: &'static str,
    pub name: &'static str,
    pub backends: &'static [Backend],
    pub run: fn(Backend) -> Pin<Box<dyn Future<Output = ()>>>,
}

impl Case {
    fn trial(&self, backend: Backend, list: bool) -> Trial {
        let (_, module) = self.module.split_once("::").unwrap();
        let name = format!("{}::{module}::{}", backend.name(), self.name);
        let run = self.run;
        let trial = Trial::test(name, move || {
            runtime().block_on(run(backend));
            Ok(())
        });
        match backend {
            Backend::Sqlite | Backend::Tls => trial,
            // Test runners take the name from the list, with the kind.
            Backend::Postgres if list => trial.with_ignored_flag(true),
            Backend::Postgres => trial
                .with_kind("needs PostgreSQL: --include-ignored, or make test")
                .with_ignored_flag(true),
        }
    }
}

/// Declares the constant `CASES` of a file: each group has the backends of its cases, which are
/// asynchronous functions that take a [`Backend`].
#[macro_export]
macro_rules! cases {
    ($($backends:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        pub const CASES: &[$crate::suite::Case] = &[$($($crate::suite::Case {
            module: module_path!(),
            name: stringify!($case),
            backends: $crate::Backend::$backends,
            run: |backend| Box::pin($case(backend)),
        },)*)*];
    };
}

/// A test that runs after all cases, in the same process, and only if none was filtered out.
pub struct FinalTest {
    pub name: &'static str,
    pub run: fn(),
}

/// The `main` function of a suite.
pub fn main(files: &[&'static [Case]], final_test: Option<FinalTest>) -> ExitCode {
    let arguments = Arguments::from_args();
    let conclusion = run(&arguments, files, final_test);
    postgres::delete_shared();
    conclusion.exit_code()
}

fn run(
    arguments: &Arguments,
    files: &[&'static [Case]],
    final_test: Option<FinalTest>,
) -> Conclusion {
    let mut trials = Vec::new();
    for backend in Backend::ALL {
        let cases = files.iter().copied().flatten();
        let cases = cases.filter(|case| case.backends.contains(backend));
        trials.extend(cases.map(|case| case.trial(*backend, arguments.list)));
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    let Some(final_test) = final_test.filter(|_| !arguments.list && !conclusion.has_failed())
    else {
        return conclusion;
    };
    // A run of some cases cannot tell.
    if conclusion.num_filtered_out > 0 {
        crate::note_skipped(final_test.name, "this run is filtered");
        return conclusion;
    }
    let final_test = Trial::test(final_test.name, move || {
        (final_test.run)();
        Ok(())
    });
    libtest_mimic::run(arguments, vec![final_test])
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
