"""Other libraries' names over this one, so that a program written for them needs one changed line."""
