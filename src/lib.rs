//! Pinfold keeps untrusted AI agents in a pinfold on Linux.
pub mod source;
pub mod record;
pub mod trail;
