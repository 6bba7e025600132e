//! Pinfold's own diagnostics: silent unless asked for, on standard error.

use super::args::LogFormat;
use tracing::level_filters::LevelFilter;

/// Starts the diagnostics at the level that `-v` asks for.
pub(super) fn start(verbose: u8, format: LogFormat) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}
