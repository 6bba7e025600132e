//! The `pinfold` program.
fn main() {}
