"""The page for a reader with two minutes: `make report` writes results/report/index.html.

sources (what is read, and from where) -> views (what is shown of it) -> page (one HTML file).
"""
