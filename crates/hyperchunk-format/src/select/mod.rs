//! Selections: which elements a caller wants, and which pieces of which chunks those are. Pure arithmetic.
