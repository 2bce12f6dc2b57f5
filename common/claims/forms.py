"""The six forms of a predicate. common/claims/judge.py says how they are written.

A form makes comparisons of what its selectors find: weighted sums such as a - b, each with an
interval. They are tested against `null`, or else `side` compares the one interval with bounds.
"""

from dataclasses import dataclass, field
from itertools import pairwise, product
from math import inf
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import MinLen
from pydantic import BeforeValidator, PositiveInt, Strict

from common.claims.gaps import Gap, combine, interval_text, on_shared_seeds, order_text
from common.claims.select import SELECTABLE, Found
from common.claims.sizes import inside, level, near
from common.config.strict import checked
from common.errors import require, unknown

Number = Annotated[float, Strict()]  # YAML reads 1e-3, without a dot, as text
Selector = dict[str, Any]
Selectors = Annotated[list[Selector], MinLen(2)]
Pairs = Annotated[list[tuple[Selector, Selector]], MinLen(1)]
Sign = Literal[">", "<"]
Grid = dict[str, Annotated[list, MinLen(1)]]  # column -> values
Grids = Annotated[
    list[Grid], MinLen(1), BeforeValidator(lambda x: [x] if isinstance(x, dict) else x)
]


@dataclass(frozen=True, kw_only=True)
class Form:
    """What all forms have. `where` is merged into every selector."""

    where: Selector = field(default_factory=dict)

    def __post_init__(self):
        for key, value in (item for selector in self.selectors for item in selector.items()):
            if key not in SELECTABLE:
                raise unknown(key, value, SELECTABLE)
            one = not isinstance(value, dict) and value != []
            require(one, key, value, "must be a value or a list of values")

    @property
    def selectors(self) -> list[Selector]:
        """The selectors in the order written, pair by pair, for each combination of `each`."""
        grids = getattr(self, "each", [{}])
        times = [dict(zip(x, at, strict=True)) for x in grids for at in product(*x.values())]
        given = [getattr(self, key, []) for key in ("order", "a", "b", "of", "pairs")]
        return [{**self.where, **at, **one} for at in times for one in _flat(given)]

    @property
    def null(self) -> float | None:
        """The number that comparisons are tested against; None: `side` decides."""
        return None

    @property
    def up(self) -> bool:
        """Whether the claim says that comparisons are above `null`."""
        return getattr(self, "relation", "") == ">"

    def gaps(self, values: list[Found], **how) -> list[Gap]:
        """Return the comparisons of what the selectors found; `how` is for `combine`."""
        raise NotImplementedError

    def whole(self, values: list[Found], **how) -> Gap | None:
        """Return the mean of the comparisons if the sentence is about all of several, else None."""
        return None

    def side(self, gap: Gap) -> str:
        """Return "holds", "fails" or "inconclusive" for the one comparison."""
        raise NotImplementedError

    def numbers(self, gaps: list[Gap], sides: list[str]) -> str:
        """Return, as text, the numbers behind the verdict; `sides` are those of the gaps."""
        return order_text(gaps)


@dataclass(frozen=True, kw_only=True)
class Order(Form):
    order: Selectors
    relation: Sign
    margin: Number = 0

    @property
    def null(self):
        return self.margin if self.up else -self.margin

    def gaps(self, values, **how):
        return [combine([(1, a), (-1, b)], **how) for a, b in pairwise(on_shared_seeds(values))]

    def whole(self, values, **how):
        """Return the least squares slope over the places in the order, downwards."""
        x = (len(values) - 1) / 2 - np.arange(len(values))
        weights = x / (x**2).sum()
        terms = list(zip(weights, on_shared_seeds(values), strict=True))
        return combine(terms, **how) if len(values) > 2 else None


@dataclass(frozen=True, kw_only=True)
class Size(Form):
    """A difference or a mean gain: a - b, or its mean over pairs, against a value."""

    relation: Literal["~", ">", "<"]
    value: Number
    within: Number | None = None

    def __post_init__(self):
        super().__post_init__()
        fine = self.relation == "~" or self.within is None
        require(fine, "within", self.within, "needs relation ~")

    @property
    def null(self):
        return None if self.relation == "~" else self.value

    def gaps(self, values, **how):
        pairs = len(values) // 2
        weights = [1 / pairs, -1 / pairs] * pairs
        return [combine(list(zip(weights, on_shared_seeds(values), strict=True)), **how)]

    def side(self, gap):
        return near(gap, self.value, self.within or 0)


@dataclass(frozen=True, kw_only=True)
class Difference(Size):
    a: Selector
    b: Selector


@dataclass(frozen=True, kw_only=True)
class MeanGain(Size):
    pairs: Pairs
    each: Grids = field(default_factory=lambda: [{}])

    def numbers(self, gaps, sides):
        return f"mean gain {interval_text(gaps[0].interval)} over {len(gaps[0].terms) // 2} pairs"


@dataclass(frozen=True, kw_only=True)
class Range(Form):
    of: Selector
    low: Number = -inf
    high: Number = inf

    def __post_init__(self):
        super().__post_init__()
        require(self.low > -inf or self.high < inf, "range", self.of, "needs a bound, low or high")

    def gaps(self, values, **how):
        return [level(combine([(1, values[0])], **how))]

    def side(self, gap):
        return inside(gap, self.low, self.high)

    def numbers(self, gaps, sides):
        return interval_text(gaps[0].interval)


@dataclass(frozen=True, kw_only=True)
class Count(Form):
    relation: Sign
    at_least: Annotated[PositiveInt, Strict()]
    each: Grids = field(default_factory=lambda: [{}])

    def __post_init__(self):
        super().__post_init__()
        n = len(self.selectors)
        most = n // 2 if isinstance(self, CountOfPairs) else n
        fine = n >= 2 and self.at_least <= most
        require(fine, "at_least", self.at_least, f"must be 1..{most}, of two or more selectors")

    def numbers(self, gaps, sides):
        n = {side: sides.count(side) for side in ("holds", "fails", "inconclusive")}
        return f"{n['holds']} hold, {n['fails']} fail, {n['inconclusive']} open of {len(sides)}"


@dataclass(frozen=True, kw_only=True)
class CountOfPairs(Count):
    pairs: Pairs
    margin: Number = 0

    null = Order.null

    def gaps(self, values, **how):
        pairs = zip(values[::2], values[1::2], strict=True)
        pairs = [on_shared_seeds(list(pair)) for pair in pairs]
        return [combine([(1, a), (-1, b)], **how) for a, b in pairs]

    def whole(self, values, **how):
        n = len(values) // 2
        if n < 2 or 2 * self.at_least <= n:  # it says neither all nor most
            return None
        return combine(list(zip([1 / n, -1 / n] * n, on_shared_seeds(values), strict=True)), **how)


@dataclass(frozen=True, kw_only=True)
class CountOfValues(Count):
    of: list[Selector]
    value: Number

    @property
    def null(self):
        return self.value

    def gaps(self, values, **how):
        return [combine([(1, value)], **how) for value in values]

    def whole(self, values, **how):
        n = len(values)
        terms = [(1 / n, x) for x in on_shared_seeds(values)]
        return combine(terms, **how) if n == self.at_least else None


@dataclass(frozen=True, kw_only=True)
class Trend(Form):
    of: Selectors
    at: list[Number]
    relation: Sign

    def __post_init__(self):
        super().__post_init__()
        fine = len(self.at) == len(self.of) and len(set(self.at)) >= 3
        require(fine, "at", self.at, "needs a number for each selector, three of them different")

    @property
    def null(self):
        return 0

    def gaps(self, values, **how):
        x = np.array(self.at) - np.mean(self.at)
        slope = zip(x / (x**2).sum(), on_shared_seeds(values), strict=True)
        return [combine(list(slope), **how)]

    def numbers(self, gaps, sides):
        return f"slope {interval_text(gaps[0].interval)} over {len(self.of)} settings"


FORMS = {"order": Order, "difference": Difference, "range": Range, "count": Count}
FORMS |= {"mean_gain": MeanGain, "trend": Trend}


def form_of(predicate: dict | None, *, cluster: bool = False) -> Form | None:
    """Return a predicate as its form; None for the null that only a cluster may have. In YAML an
    order's keys stand beside `order`. Raises UserError naming key and value."""
    if cluster and predicate is None:
        return None
    known = [*FORMS, "where", "relation", "margin"]
    remedy = f"must be a map of {', '.join(known)}"
    require(isinstance(predicate, dict), "predicate", predicate, remedy)
    for key in predicate:
        if key not in known:
            raise unknown(str(key), predicate[key], known)
    named = [name for name in FORMS if name in predicate]
    require(len(named) == 1, "form", named, f"give one of {', '.join(FORMS)}")
    (name,) = named
    if name == "order":
        return checked(Order, predicate)
    body = predicate[name]
    fine = isinstance(body, dict) and "where" not in body and set(predicate) <= {name, "where"}
    require(fine, name, body, "must be a map of all keys but `where`, which stands beside it")
    kind = CountOfValues if "of" in body else CountOfPairs
    schema = kind if name == "count" else FORMS[name]
    form = checked(schema, body | {"where": predicate.get("where", {})})
    bounded = cluster or getattr(form, "relation", "") != "~" or form.within is not None
    require(bounded, "within", None, "relation ~ needs it")  # on a cluster the noise is enough
    return form


def _flat(selectors) -> list[Selector]:
    if isinstance(selectors, dict):
        return [selectors]
    return [one for part in selectors for one in _flat(part)]
