//! Packages from specs to site-packages, and everything that must be refused on the way.

mod fixture;
mod index;
mod installs;
mod interpreters;
mod lists;
mod locks;
mod native;
mod native_locks;
mod node;
mod refusals;
mod resolutions;
mod served;
mod smuggling;
mod specs;
