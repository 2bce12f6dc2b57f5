"""The embeddings e of Sec. 2.4 and App. G, as printed, and the kernel computed from them."""

import numpy as np

LABELS = ("cat", "dog", "persian", "siamese")
CAT, PERSIAN, SIAMESE = 0, 2, 3
SIMILARITY = {  # case -> e_Siamese
    "high": (0.25, 0.5, 0.75, 0.1),
    "mid": (0.1, 0.5, 0.9, 0.1),
    "low": (0.0, 0.5, 1.0, 0.1),
}
EMBEDDING = {
    "cat": (0.5, 0.5, 0.5, 0.1),
    "dog": (0.1, 0.1, 0.1, 0.9),
    "persian": (0.75, 0.5, 0.25, 0.1),
    "siamese": SIMILARITY["high"],
}


def kernel(similarity: str) -> tuple[float, float]:
    """Return App. G's lambda = |e_Persian|^2 and rho = e_Persian . e_Siamese."""
    persian = EMBEDDING["persian"]
    return float(np.dot(persian, persian)), float(np.dot(persian, SIMILARITY[similarity]))
