//! The `pinfold` program: calls the library, returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pinfold::front::cli::main(std::env::args_os()))
}
