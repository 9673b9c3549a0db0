"""Place: which broker each shed bundle, and each bundle without owner, goes to."""
