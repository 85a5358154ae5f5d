"""Bugs of at most five lines that are planted in the product: the search proves that it finds them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

#: Lines that one bug may change.
MOST_LINES = 5
_FUNCTIONS = Path(__file__).parents[2] / "functions"


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement in the source of a module of `functions`; `old` occurs once."""

    module: str
    old: str
    new: str


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug while the block runs: the functions of the edited modules get the edited code.

    Raises `ValueError` if an edit does not fit, or changes no function.
    """
    sources = edited_sources(name)
    originals = [original for source in sources.items() for original in _replace_code(*source)]
    if not originals:
        raise ValueError(f"{name} changes no function")
    try:
        yield
    finally:
        for function, code in reversed(originals):
            function.__code__ = code


def edited_sources(name: str) -> dict[Path, str]:
    """Return the sources of the modules that a bug edits. Raises `ValueError` if an edit does not fit."""
    sources = dict[Path, str]()
    for edit in PLANTED[name]:
        path = _FUNCTIONS / f"{edit.module.replace('.', '/')}.py"
        source = sources.get(path) or path.read_text(encoding="utf-8")
        if source.count(edit.old) != 1:
            raise ValueError(f"{edit.module}: {edit.old!r} occurs {source.count(edit.old)} times")
        sources[path] = source.replace(edit.old, edit.new)
    return sources


def _replace_code(path: Path, source: str) -> Iterator[tuple[FunctionType, CodeType]]:
    """Replace the code of the functions that the edits of one module change; yield the original code."""
    name = ".".join(("functions", *path.relative_to(_FUNCTIONS).with_suffix("").parts))
    module, edited = importlib.import_module(name), ModuleType(name)
    edited.__file__ = str(path)
    exec(compile(source, path, "exec"), edited.__dict__)  # noqa: S102 - our own source
    others = dict(_functions(edited))
    for member, function in _functions(module):
        if function.__code__ != others[member].__code__:
            yield function, function.__code__
            function.__code__ = others[member].__code__


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions, methods and properties that a module defines."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, inspect.unwrap(value)
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            for member, given in vars(value).items():
                wrapper: Any = given.fget if isinstance(given, property) else given
                function = inspect.unwrap(wrapper)
                if inspect.isfunction(function) and function.__module__ == module.__name__:
                    yield f"{name}.{member}", function


PLANTED: dict[str, tuple[Edit, ...]] = {
    "undo_of_completed_steps_only": (
        Edit("core.derive", "step.number is not None and (", "step.do.state is OperationState.DONE and ("),
    ),
    "undo_in_order_of_dispatch": (Edit("core.derive", "reversed(ordered.values())", "ordered.values()"),),
    "refused_undo_blocks_direct_needs_only": (
        Edit("core.derive", "with_needs(record, names | further) if further else names", "names - further"),
    ),
    "refused_undo_blocks_nothing": (Edit("core.derive", ".union(*refused)", ".intersection(*refused)"),),
    "steps_start_while_suspended": (
        Edit("core.derive", "= record.suspension is not None or record.decision", "= record.decision"),
    ),
    "at_once_is_ignored": (
        Edit("core.derive", "if room[spec.step] < 0:", "if room[spec.step] < -len(room) * 90:"),
    ),
    "time_limit_runs_while_suspended": (Edit("core.operator_rules", "[(since, now)])", "[(now, now)])"),),
    "event_deadline_runs_while_suspended": (
        Edit("core.operator_rules", "(operation.complete_by or now) - since", "operation.complete_by - now"),
    ),
    "rebuild_after_an_unknown_start": (
        Edit("core.operator_rules", ".REFUSED and do.unknown_starts == 0", ".REFUSED"),
    ),
    "child_is_started_beside_one_that_may_still_end": (
        Edit("core.operator_rules", "do.unknown_starts == 0", "(not do.unknown_starts or not spec.agent)"),
    ),
    "request_of_an_earlier_generation_is_lost": (
        Edit("storage.record_rows", "each.request or do.request", "each.request"),
    ),
    "end_of_an_earlier_child_counts": (
        Edit("core.step_rules", ".RUNNING) and child == children[-1]:", ".RUNNING):"),
    ),
    "undo_of_an_earlier_child_counts_for_a_later_one": (
        Edit("core.step_rules", " and child == children[step.generation(Direction.UNDO)]:", ":"),
    ),
    "verdict_of_another_epoch_counts": (
        Edit(
            "core.operator_rules",
            "    if event.epoch != record.epoch:",
            "    if event.epoch != record.epoch and not isinstance(event, events.Answered):",
        ),
    ),
    "undo_of_the_newest_generation_only": (
        Edit("core.record", "if self.undone + 1 < len(self.dispatched):", "if self.undone < 0:"),
    ),
    "hold_counts_against_the_bound": (
        Edit("core.deadline_rules", "in holds.get(gate, ()):\n", "in holds.get(gate * 2, ()):\n"),
        Edit(
            "core.deadline_rules",
            "if current_hold(event.holds.get(spec.gate, ())) is not None:",
            "if not spec.gate:",
        ),
    ),
    "replies_do_not_reset_failures": (
        Edit("core.gate_rules", "gate.failures and gate.circuit is not Circuit.OPEN:", "gate.failures < 0:"),
    ),
    "overdue_request_counts_while_the_circuit_is_open": (
        Edit(
            "core.gate_rules",
            "if gate.is_away or _was_held_or_away(gate, sent_at, ends_at):\n        return True\n",
            "if gate.is_away:\n        return False\n",
        ),
    ),
    "request_that_was_not_reached_counts": (
        Edit("core.deadline_rules", "d = gate is not None", "d = gate is not None and gate.failures < 0"),
    ),
    "request_that_hangs_is_not_counted": (
        Edit(
            "core.gate_rules",
            "return any(each.up_to < sent_at + settings.skew for each in before[-1:] or valid[:1])",
            "return len(before) <= len(valid)",
        ),
    ),
    "request_that_expired_counts_when_younger_ones_are_answered": (
        Edit("core.gate_rules", "before[-1:] or valid[:1])", "(before and valid)[-1:] or valid[-1:])"),
    ),
    "late_reply_counts": (
        Edit("core.step_rules", "not None and now > operation.complete_by", "None and now < record.start_by"),
    ),
    "requests_are_sent_while_the_gate_is_closed": (
        Edit("core.plan", "if spec.agent and not operation", "if is_call and not operation"),
    ),
    "request_is_made_again": (
        Edit("core.step_rules", ".request if operation.request is None else operation.request", ".request"),
        Edit("core.plan", "is None:\n        try:", "is None or record.failures:\n        try:"),
    ),
    "outcome_of_an_old_epoch_counts": (
        Edit(
            "core.step_rules",
            "if event.epoch != record.epoch or event.direction is not record.direction:",
            "if event.epoch > record.epoch:",
        ),
        Edit("core.step_rules", "if operation.state is not OperationState.RUNNING:", "if not operation:"),
    ),
    "epoch_ends_during_a_payment": (
        Edit("core.epoch_rules", "if is_pending(record, decision.end) or (is_timed_out", "if (is_timed_out"),
    ),
    "decisions_are_forgotten": (Edit("core.epoch_rules", "or decision.is_derived", "or bool(decision.end)"),),
    "undo_does_not_wait_for_a_payment_in_a_queue": (
        Edit("core.epoch_rules", "if not (end is EpochEnd.RECOVERED and", "if not (end in EpochEnd and"),
    ),
    "run_repeats_a_payment": (
        Edit("core.step_rules", "is_own and not spec.must_not_repeat(record.direction):", "is_own:"),
    ),
    "run_repeats_an_overdue_call": (Edit("core.step_rules", " and not operation.is_overdue(now)", ""),),
    "overdue_payment_is_recovered": (
        Edit("core.deadline_rules", "(record.direction)\n", "(record.direction) and spec.can_find\n"),
    ),
    "time_limit_applies_before_the_question": (
        Edit("core.epoch_rules", "        if is_timed_out:\n", "        if is_timed_out and is_looked_up:\n"),
    ),
    "not_done_counts_without_a_fence": (
        Edit("messaging.agent_messages", "if fences_starts else", "if fences_starts or finding else"),
    ),
    "look_up_by_a_queue_counts_without_a_fence": (
        Edit("messaging.agent_messages", "fences_starts=self.fences_starts", "fences_starts=True"),
    ),
    "look_up_counts_after_its_deadline": (
        Edit("core.step_rules", "operation.finds_left > 0 and event.epoch", "event.epoch"),
    ),
    "look_up_by_a_queue_is_never_taken_by_a_run": (
        Edit("core.derive", " if op.finds_left and op.find_by is None]", " if op.finds_left and op.find_by]"),
    ),
    "task_ends_without_output": (
        Edit(
            "core.epoch_rules",
            "return suspend(record, str(error), now)",
            "ended = replace(ended, reason=str(error))",
        ),
    ),
    "rejected_result_stops_its_reader": (
        Edit("core.plan", "and record.direction is Direction.DO:", "and record.epoch < 0:"),
        Edit("scheduler.run", "kind=OutcomeKind.DONE_WITHOUT_RESULT, result=None, error=str", "error=str"),
    ),
    "call_outlasts_its_run": (
        Edit("core.plan", "complete_within) > limits", "complete_within) * 0 > limits"),
        Edit("core.plan", "min(complete_by, limits.ends_at)", "max(complete_by, now)"),
    ),
    "swap_without_the_version": (
        Edit("storage.record_rows", "task), _task_row(stored), base.etag)", 'task), _task_row(stored), "*")'),
    ),
    "write_without_an_answer_counts_as_written": (
        Edit(
            "storage.task_storage",
            "            result = await self.commit(inbox.task, changes)\n        except Unwritable",
            "            result = await self.commit(inbox.task, changes)\n"
            "        except TransientStorageError:\n            result = base.etag\n"
            "        except Unwritable",
        ),
    ),
    "pages_of_two_moments_are_one_record": (
        Edit(
            "storage.task_storage", "if len(pages) == 1 or etag in {None, previous}:", "if rows or previous:"
        ),
    ),
    "outbox_rows_are_forgotten_by_the_change": (
        Edit("storage.record_rows", "[*changes, *_additions(after)], stored", "changes, stored"),
    ),
    "request_is_sent_by_each_activity": (
        Edit("core.step_rules", "start in event.start_ids | event.given_up", "start in event.given_up"),
    ),
    "request_that_was_not_sent_is_not_due": (
        Edit("core.derive", "for time in (op.find_by, op.send_by))", "for time in [op.find_by])"),
    ),
    "run_begins_the_starts_of_another_run": (
        Edit("scheduler.run", "key in self._planned", "until is not None"),
    ),
    "second_end_of_a_child_is_a_duplicate": (
        Edit("core.epoch_rules", "+= [] if is_notice else", "+= [] if is_notice or step else"),
    ),
    "end_of_a_child_names_no_child": (
        Edit("scheduler.receivers", "child=name, is_done=is_done)", "child=name[:0], is_done=is_done)"),
    ),
    "child_of_an_undone_step_is_not_cancelled": (
        Edit(
            "scheduler.receivers",
            "await self.storage.change(message.to, cancelled)\n        except",
            "await self.storage.load(message.to)\n        except",
        ),
    ),
    "messages_that_were_not_sent_are_forgotten": (
        Edit("messaging.announcer", "in sent if is_sent and message", "in sent if message"),
    ),
    "message_of_a_child_is_forgotten_once_it_is_sent": (
        Edit("messaging.announcer", "message.kind not in CHILD_", "message.id not in CHILD_"),
    ),
    "deadline_of_a_request_runs_in_a_hold": (
        Edit("core.gate_rules", "if any(hold.start < ends_at and (", "if any(hold.start > ends_at and ("),
    ),
    "relay_deletes_what_it_could_not_send": (
        Edit("supervisor.outbox_relay", "        return sent\n", "        return messages\n"),
    ),
    "gate_without_compare_and_swap": (
        Edit("storage.gates", '("update", after.name, row, etag)]', '("update", after.name, row)]'),
    ),
    "gates_are_read_once": (
        Edit(
            "storage.gates", "is_outdated or time() - self._tried_at >= _FRESH_SECONDS", "self._tried_at < 0"
        ),
    ),
    "release_chain_does_not_continue": (
        Edit(
            "storage.gate_releases",
            "        if after.next_at is not None:\n"
            "            await self._gates.schedule_release(name, after.link, after.next_at)\n\n"
            "    async def start",
            "\n    async def start",
        ),
        Edit("storage.gate_releases", "is_lost and gate.hold is None", "is_lost and gate.next_at is None"),
    ),
    "release_message_is_dropped_as_a_duplicate": (
        Edit("messaging.task_messages", ".{self.link}.{self.at:%Y%m%dT%H%M%S.%f}", ".{self.link}"),
    ),
    "sweep_without_a_cursor": (
        Edit(
            "supervisor.task_sweep",
            "page.entries, examine, report)\n        return page.cursor",
            "page.entries, examine, report)\n        return None",
        ),
    ),
    "sweep_without_the_holds": (
        Edit(
            "supervisor.task_sweep",
            "is_overloaded=is_overloaded)\n            a",
            "is_overloaded=is_overloaded, holds={})\n            a",
        ),
    ),
    "full_sweep_does_not_restore_index_rows": (
        Edit("storage.table_maintenance", "for key in missing]\n", "for key in missing[:0]]\n"),
    ),
    "retention_deletes_an_open_task": (
        Edit("storage.table_maintenance", "return False  # an outdated", "pass  # an outdated"),
    ),
    "retention_deletes_a_child_before_its_parent": (
        Edit("storage.table_maintenance", "return False  # the undo", "pass  # the undo"),
    ),
    "retention_leaves_step_rows": (
        Edit(
            "storage.table_maintenance",
            "for row in page.rows]\n    epochs",
            'for row in page.rows if "|step|" not in _key(row)]\n    epochs',
        ),
    ),
    "suspended_task_is_never_resumed": (
        Edit("supervisor.task_sweep", "found(name, version) is not None", "found(name, version) is None"),
    ),
    "corrupt_row_fails_its_sweep": (
        Edit(
            "supervisor.task_sweep",
            "except Exception as error:  # noqa: BLE001 - the other tasks continue",
            "except TimeoutError as error:",
        ),
    ),
    "recoveries_are_not_counted": (
        Edit("core.epoch_rules", "failures + 1 if is_recovery else", "failures + 0 if is_recovery else"),
    ),
    "one_recovery_too_many": (
        Edit("core.step_rules", "failures < settings.threshold", "failures <= settings.threshold"),
    ),
    "exhausted_undo_stops_the_others": (
        Edit(
            "core.step_rules",
            "if record.direction is Direction.DO or decision.end is EpochEnd.RECOVERED:",
            "if decision.reason:",
        ),
    ),
    "timer_waits_for_its_message_only": (
        Edit(
            "core.deadline_rules",
            "in WAITING_TYPES and operation.is_overdue(now):",
            "in WAITING_TYPES - {StepType.TIMER} and operation.is_overdue(now):",
        ),
    ),
    "admission_overwrites_a_task": (
        Edit("storage.record_rows", '"insert", keys.task_key', '"upsert", keys.task_key'),
        Edit("storage.record_rows", '"update" if reserved else "insert"', '"upsert"'),
    ),
    "no_record_is_cached": (
        Edit("storage.task_inbox", "if stored.record.finished_at is not None:", "if stored.record.epoch:"),
    ),
    "results_are_not_recorded": (
        Edit("core.step_rules", "=event.result, error=error)", "=operation.result, error=error)"),
    ),
    "index_rows_are_not_deleted": (
        Edit("storage.record_rows", "if key not in missing]", "if key not in {*missing, base.index}]"),
    ),
    "deferred_steps_have_no_gate_row": (
        Edit("storage.record_rows", "if earlier.get(key) != row]", "if earlier.get(key)]"),
    ),
    "refusal_concerns_the_whole_group": (
        Edit(
            "storage.group_commits",
            "            self._end(each, Conflicted(change.key))\n            return [each]",
            "            for other in group:\n"
            "                self._end(other, UnwritableRowsError(each.task + change.key))\n"
            "            return group",
        ),
    ),
    "supervisor_examines_nothing": (
        Edit("supervisor.task_sweep", "if stored is None:\n", "if stored is None or stored.etag:\n"),
    ),
    "unknown_outcome_asks_no_question": (
        Edit("core.derive", "_left and not spec.may_fail)", "_left and spec.name in spec.needs)"),
    ),
    "version_that_is_not_deployed_stops_the_task": (
        Edit(
            "core.plan",
            "return events.Suspended(reason=bounded(str(error)), epoch=record.epoch)",
            "text = bounded(str(error))\n"
            "            broken = events.StepBroken(epoch=record.epoch, step=spec.name, error=text)\n"
            "            return broken if not request else events.Suspended(reason=text)",
        ),
    ),
    "conditions_never_hold": (
        Edit("core.plan", "return bool(step.when(*self._inputs(spec, step)))", "return step.when is None"),
    ),
    "conditions_always_hold": (
        Edit(
            "core.plan", "return bool(step.when(*self._inputs(spec, step)))", "return step.when is not None"
        ),
    ),
    "every_item_is_the_first": (
        Edit(
            "core.plan",
            "[spec.item or 0]\n            is_same = item_digest(item) == spec.item_digest",
            '[0]\n            is_same = item_digest(item) != ""',
        ),
    ),
    "calls_of_an_instance_are_not_limited": (
        Edit(
            "storage.gates",
            "return gate.calls_at_once\n        return self._calls_at_once.get(name)",
            "return gate.calls_at_once\n        return None",
        ),
    ),
    "steps_at_once_is_ignored": (
        Edit("scheduler.run", "steps_at_once - calls", "steps_at_once - min(calls, 0)"),
    ),
    "calls_outlast_their_deadline": (
        Edit(
            "agents.agent_call",
            "total_seconds()):\n            return await",
            "total_seconds() + 30):\n            return await",
        ),
    ),
    "undo_is_cancelled": (
        Edit("core.operator_rules", "if is_undoing or (decided", "if record.failures or (decided"),
    ),
    "each_recovery_is_alerted": (
        Edit("core.epoch_rules", "if decision.end in {", "if is_recovery or decision.end in {"),
    ),
    "outcome_is_dropped_at_a_fault": (
        Edit(
            "storage.task_storage",
            "inbox.base, tries = None, tries + 1",
            "inbox.base, tries = None, tries + 1\n                    inbox.fail(fault, inbox.last)",
        ),
    ),
    "conflict_fails_the_events": (
        Edit(
            "storage.task_storage",
            "inbox.conflicted(base.etag, named)",
            "inbox.fail(TransientStorageError(write), last)\n            inbox.conflicted(base.etag, named)",
        ),
    ),
    "deadlines_are_decided_while_suspended": (
        Edit("core.deadline_rules", " or record.suspension is not None:", ":"),
    ),
    "due_task_whose_version_is_missing_is_not_suspended": (
        Edit("core.deadline_rules", "in {None, EpochEnd.RECOVERED}", "in {EpochEnd.RECOVERED}"),
    ),
    "operator_resumes_a_version_that_is_not_deployed": (
        Edit(
            "core.operator_rules", "by_operator is not event.by_operator:", "by_operator > event.by_operator:"
        ),
    ),
    "newest_deferral_is_released_first": (
        Edit("storage.gate_releases", "for each in page)[:most]", "for each in page)[-most:]"),
    ),
    "newest_step_of_a_task_is_released_first": (
        Edit("core.deadline_rules", "sorted(waiting)[: event.most]", "sorted(waiting)[-event.most :]"),
    ),
    "release_does_not_double": (Edit("core.gate_rules", "gate.amount * 2 or 1", "gate.amount or 1"),),
    "not_begun_is_an_unknown_outcome": (
        Edit("agents.agent_call", "(OutcomeKind.NOT_BEGUN, bounded", "(OutcomeKind.UNKNOWN, bounded"),
    ),
    "event_for_a_missing_version_is_lost": (
        Edit("core.step_rules", "        return Rejection.NOT_DEPLOYED", "        return record"),
    ),
    "id_is_not_reserved": (Edit("api.orders", "if not draft.is_named:", "if draft.order.task_id:"),),
    "repeated_submission_without_a_task_is_not_sent": (
        Edit("messaging.reservations", "return found\n", "return replace(found, is_admitted=True)\n"),
    ),
    "reservation_without_an_order_stays": (
        Edit("supervisor.table_sweep", 'having="Reserved"', 'having="Reservation"'),
    ),
    "reserved_id_is_taken_by_another_order": (
        Edit("submission.admission", "found.rejected is None", "found.rejected is not None"),
    ),
}
