"""What reaches the application from outside: orders, poison messages, operators' actions."""

from __future__ import annotations
