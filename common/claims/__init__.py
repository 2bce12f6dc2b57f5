"""A paper's claims: predicates in claims.yaml (`file`), the rows that they are about (`select`),
and their verdicts by paired differences (`gaps`, `judge`)."""
