"""Wrong programs, and what the library says to them."""
