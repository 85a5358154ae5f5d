"""The tables of the log, and the statements that write to them. Times are milliseconds since 1970 UTC."""

from __future__ import annotations

from enum import Enum

#: Kept in SQLite's `user_version`. Increase it with every change of the tables.
VERSION = 3

TABLES = """
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    address TEXT NOT NULL,
    sequence_number INTEGER NOT NULL,
    state INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    enqueued_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    scheduled_ms INTEGER,
    message_id TEXT NOT NULL,
    time_to_live_ms INTEGER,
    durable INTEGER,
    priority INTEGER,
    first_acquirer INTEGER,
    delivery_annotations BLOB NOT NULL,
    annotations BLOB NOT NULL,
    properties BLOB NOT NULL,
    application_properties BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE queue (name TEXT PRIMARY KEY, next_sequence_number INTEGER NOT NULL);
CREATE TABLE seen_message_id (
    queue TEXT NOT NULL, message_id TEXT NOT NULL, until_ms INTEGER NOT NULL,
    PRIMARY KEY (queue, message_id)
) WITHOUT ROWID;
CREATE TABLE event (
    hub TEXT NOT NULL,
    partition INTEGER NOT NULL,
    sequence_number INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    enqueued_ms INTEGER NOT NULL,
    wire BLOB NOT NULL,
    PRIMARY KEY (hub, partition, sequence_number)
) WITHOUT ROWID;
CREATE TABLE hub_partition (
    hub TEXT NOT NULL,
    partition INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    next_number INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    last_offset INTEGER NOT NULL,
    last_enqueued_ms INTEGER NOT NULL,
    PRIMARY KEY (hub, partition)
) WITHOUT ROWID;
"""


class Statement(Enum):
    """All writes."""

    INSERT_MESSAGE = "INSERT INTO message VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    UPDATE_MESSAGE = (
        "UPDATE message SET address=?, sequence_number=?, state=?, delivery_count=?, enqueued_ms=?, "
        "expires_ms=?, scheduled_ms=?, application_properties=? WHERE id=?"
    )
    DELETE_MESSAGE = "DELETE FROM message WHERE id=?"
    #: Sequence numbers below this one may be in use.
    RESERVE_NUMBERS = (
        "INSERT INTO queue VALUES (?,?) "
        "ON CONFLICT (name) DO UPDATE SET next_sequence_number=excluded.next_sequence_number"
    )
    REMEMBER_ID = (
        "INSERT INTO seen_message_id VALUES (?,?,?) "
        "ON CONFLICT (queue, message_id) DO UPDATE SET until_ms=excluded.until_ms"
    )
    FORGET_IDS = "DELETE FROM seen_message_id WHERE queue=? AND until_ms<=?"
    INSERT_EVENT = "INSERT INTO event VALUES (?,?,?,?,?,?)"
    DROP_EVENTS = "DELETE FROM event WHERE hub=? AND partition=? AND sequence_number<?"
    #: The numbers with which a partition without events resumes.
    SAVE_PARTITION = (
        "INSERT INTO hub_partition VALUES (?,?,?,?,?,?,?) "
        "ON CONFLICT (hub, partition) DO UPDATE SET next_number=excluded.next_number, "
        "next_offset=excluded.next_offset, last_offset=excluded.last_offset, "
        "last_enqueued_ms=excluded.last_enqueued_ms"
    )
