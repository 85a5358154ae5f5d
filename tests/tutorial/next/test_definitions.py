"""The definitions of the tutorial and of the recipes can be deployed together."""

from __future__ import annotations

from functions.core.workflow_definition import WorkflowRegistry
from functions.workflows_next.registration import agent_classes
from tests.tutorial.next import (
    bookings,
    convoys,
    invitations,
    journeys,
    lookups,
    parcels,
    purchases,
    rentals,
    reports,
    sales,
    searches,
    statements,
    trips,
)

REGISTRATIONS = [
    each.REGISTRATION
    for each in (
        convoys,
        invitations,
        journeys,
        lookups,
        parcels,
        purchases,
        rentals,
        reports,
        sales,
        searches,
        statements,
        trips,
    )
] + [bookings.REGISTRATION_2]


def test_all_are_served_together() -> None:
    """Children, versions and own Agents included; each has the name of its resource in the singular."""
    versions = [version for each in REGISTRATIONS for version in each.versions]
    registry = WorkflowRegistry([*versions, trips.LONG_TRIPS, trips.NIGHTLY_TRIPS])
    assert len(list(registry)) == len(versions) + 2
    assert agent_classes(REGISTRATIONS).keys() == {
        "card",
        "contract",
        "partner",
        "report-state",
        "logistics",
        "statement",
    }
    assert len(bookings.BOOKINGS.specs) + 1 == len(bookings.BOOKINGS_2.specs)
