//! Packages from specs to site-packages, and everything that must be refused on the way.

mod fixture;
mod index;
mod installs;
mod lists;
mod locks;
mod refusals;
mod resolutions;
mod served;
mod smuggling;
mod specs;
