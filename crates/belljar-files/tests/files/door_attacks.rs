//! Whoever changes a directory while its door is used gets nothing by it.
