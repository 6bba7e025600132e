//! The house rules.
fn main() {}
