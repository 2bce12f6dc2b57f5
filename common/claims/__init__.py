"""A paper's claims: predicates in claims.yaml (`file`), the rows that they read (`select`), and
verdicts by paired differences (`gaps`, `judge`)."""
