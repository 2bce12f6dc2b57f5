"""What a test says of an error: the key and the value that it names, not its sentence."""

import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from common.errors import UserError


def refuses(key: str, value: object = None) -> AbstractContextManager:
    """pytest.raises for a UserError that names `key=value`, or `key=` where no value is given."""
    named = f"{key}=" if value is None else f"{key}={value}"
    end = "" if value is None else r"(?![\w.])"
    return pytest.raises(UserError, match=r"(?<!\w)" + re.escape(named) + end)


def refuses_file(path: Path) -> AbstractContextManager:
    """pytest.raises for a UserError that names this file or folder, and no longer path."""
    return pytest.raises(UserError, match=re.escape(str(path)) + r"(?![\w/])")
