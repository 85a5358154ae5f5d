"""A workflow of five steps for tests of the whole application that need a rich one, with services of ours."""

from __future__ import annotations
