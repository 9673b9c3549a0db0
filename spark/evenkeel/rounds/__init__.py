"""What the rounds of several tasks share: from rows to values, and from verdicts to rows."""
