"""The page of all papers (`make report`), and the generated tables of README and docs/evidence.md.

verdicts (a paper's claims, as they came out) -> page (one HTML file), readme (tables, a figure).
"""
