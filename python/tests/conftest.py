"""A test that hangs says where, and ends."""

import faulthandler

import pytest


@pytest.fixture(autouse=True)
def _limit():
    faulthandler.dump_traceback_later(200, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
