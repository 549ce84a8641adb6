//! The way from an issue to a reviewed pull request, with nobody watching: plan, do, push, check, fix, act.
//!
//! Each phase that needs a model is a process of this same program, with a session, a confinement and a budget of its
//! own. It gets files of earlier phases, which it cannot change, and leaves files for later ones. What follows from
//! what is decided by plain functions ([`phase`], [`issue`], [`verdict`]); what was done is written down after each
//! phase ([`journal`]), so a run that was killed goes on at the phase that was not finished.
//!
//! The text of an issue is written by strangers. It is data in every prompt, the agents that read it hold no token of
//! the hub and reach no network, and what they leave is checked before it is pushed or posted.

pub mod action;
pub mod agent;
pub mod agent_repo;
pub mod artifact;
pub mod bench;
pub mod folder;
pub mod git;
pub mod github;
pub mod hub;
pub mod issue;
pub mod journal;
pub mod lock;
pub mod phase;
pub mod run;
pub mod settings;
pub mod summary;
pub mod verdict;
