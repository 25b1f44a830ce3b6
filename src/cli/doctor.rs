//! `petstore doctor`: diagnoses the installation and suggests fixes.

mod backups;
mod checks;
mod listeners;
mod target;

use std::{collections::BTreeSet, path::PathBuf};

use clap::{Arg, Args, CommandFactory, builder::FalseyValueParser};
use serde::Serialize;

use super::{
    CommandLine, CommandResult, block_on, counted, escape_for_terminal, explain_os_errors,
    packaged_settings::{SETTINGS, SETTINGS_VARIABLE},
    print, status,
};
use listeners::FileProcess;
use target::ServiceOptions;

#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    service: ServiceOptions,
    /// Settings of the packaged service, which are used and checked for mistakes.
    #[arg(
        long,
        env = SETTINGS_VARIABLE,
        default_value = SETTINGS,
        value_name = "FILE"
    )]
    packaged_settings: PathBuf,
    /// Print the findings as a JSON array.
    #[arg(long, env = "PETSTORE_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warning,
    Problem,
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    /// The suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The findings so far, and the check that is running.
#[derive(Default)]
struct Report {
    check: &'static str,
    findings: Vec<Finding>,
}

impl Report {
    fn on(&mut self, check: &'static str) -> &mut Self {
        self.check = check;
        self
    }

    fn add(&mut self, level: Level, message: impl Into<String>, advice: Option<String>) {
        self.findings.push(Finding {
            check: self.check,
            level,
            message: explain_os_errors(&message.into()),
            advice,
        });
    }

    fn ok(&mut self, message: impl Into<String>) {
        self.add(Level::Ok, message, None);
    }

    fn warning(&mut self, message: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warning, message, Some(advice.into()));
    }

    fn problem(&mut self, message: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Problem, message, Some(advice.into()));
    }

    /// Adds a finding whose message ends with the advice.
    fn advised(&mut self, level: Level, message: &str) {
        let (message, advice) = split_advice(message);
        self.add(level, message, advice);
    }
}

/// Divides the message of an error from the advice at its end.
fn split_advice(message: &str) -> (&str, Option<String>) {
    match message.split_once("; ") {
        Some((message, advice)) => (message, Some(advice.into())),
        None => (message, None),
    }
}

impl Doctor {
    pub fn run(self) -> CommandResult {
        let findings = block_on(async { Ok(self.examine().await) })?;
        print(self.render(&findings).as_bytes())?;
        let count = |level| findings.iter().filter(|found| found.level == level).count() as u64;
        let warnings = match count(Level::Warning) {
            0 => String::new(),
            warnings => format!("; {}", counted(warnings, "warning")),
        };
        match count(Level::Problem) {
            0 => status!("No problems found{warnings}."),
            problems => {
                let problems = counted(problems, "problem");
                return Err(format!("{problems} found{warnings}").into());
            }
        }
        Ok(())
    }

    async fn examine(&self) -> Vec<Finding> {
        let file = &self.packaged_settings;
        let mut target = self.service.target(file);
        if target.is_packaged {
            let file = file.display();
            status!("Examining the installed service, with its settings in {file}.");
        }
        let known = known_variables();
        let mut settings = Report::default();
        checks::environment(settings.on("settings"), &known);
        // Unreadable settings were already a finding about the store.
        if !target.is_denied {
            checks::settings(settings.on("settings"), file, &known);
        }
        let mut report = Report::default();
        let mut store = None;
        let mut process = None;
        match checks::store(report.on("store"), &target).await {
            Ok(inspection) => {
                checks::keys(report.on("keys"), &inspection.keys, &target);
                process = FileProcess::find(&inspection.details).await;
                store = Some(inspection);
            }
            Err(error) => report.advised(Level::Problem, &error.to_string()),
        }
        checks::clock(report.on("clock"), store.as_ref());
        checks::disk(report.on("disk"), &target);
        let is_ready = listeners::port(report.on("port"), &target, process.as_ref()).await;
        listeners::imports(report.on("imports"), &target, process.as_ref());
        listeners::metrics(report.on("metrics"), &target, is_ready).await;
        checks::certificate(report.on("certificate"), &target.tls);
        backups::check(report.on("backups"), &mut target, store.as_ref()).await;
        report.findings.append(&mut settings.findings);
        report.findings
    }

    fn render(&self, findings: &[Finding]) -> String {
        if self.json {
            let json = serde_json::to_string_pretty(findings);
            return json.expect("findings serialize to JSON") + "\n";
        }
        let line = |found: &Finding| {
            let level = match found.level {
                Level::Ok => "ok",
                Level::Warning => "warning",
                Level::Problem => "problem",
            };
            let mut line = format!("{level:7}  {:11}  {}", found.check, found.message);
            if let Some(advice) = &found.advice {
                line += &format!("; {advice}");
            }
            escape_for_terminal(&line) + "\n"
        };
        findings.iter().map(line).collect()
    }
}

/// Returns the environment variables of all options, and the one that commands read themselves.
fn known_variables() -> BTreeSet<String> {
    let mut known = BTreeSet::from(["PETSTORE_KEY".to_string()]);
    let mut commands = vec![CommandLine::command()];
    while let Some(command) = commands.pop() {
        let variables = command.get_arguments().filter_map(Arg::get_env);
        known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
        commands.extend(command.get_subcommands().cloned());
    }
    known
}
