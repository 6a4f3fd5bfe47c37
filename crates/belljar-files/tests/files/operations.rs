//! What can be done with files through a door.
