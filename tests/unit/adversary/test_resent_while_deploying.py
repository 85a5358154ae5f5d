"""An order that is sent again from the rejected messages while a deployment is rolling out is not lost."""

from __future__ import annotations

from functions.operations.rejected import Rejected
from functions.pattern.messages import SUBMISSIONS_QUEUE, put_back_for
from functions.pattern.rejected import Labels
from tests.fakes.clock import FakeClock
from tests.fakes.messages import RecordedPostbox
from tests.fakes.ports import fake_ports
from tests.fakes.rejected import MemoryRejected
from tests.fakes.workflows import DIAMOND, LINE, submission
from tests.unit.submission.test_intake import Bench


async def test_what_is_put_back_is_no_duplicate_of_what_was_sent_again() -> None:
    """The queue detects duplicates for ten minutes: under the id that has just come, it would be dropped."""
    clock, postbox = FakeClock(), RecordedPostbox()
    kept = MemoryRejected(clock)
    order = submission(DIAMOND)
    await kept.reject(f"{SUBMISSIONS_QUEUE}/$DeadLetterQueue", order.message_id, order.written, "died", Labels())
    desk = Rejected(fake_ports(rejected=kept, postbox=postbox, clock=clock))
    [line] = (await desk.listed(None)).messages
    await desk.resend(line.id, who="olga", why="tables are back")
    [(_, sent_as, content, _)] = postbox.sent
    other_host = Bench(LINE)  # of the other kind: it does not have the order's workflow
    await other_host.take(content.body, sent_as)
    assert not other_host.rejections.all
    [(_, put_back_as, _, _)] = other_host.postbox.sent
    assert put_back_as != sent_as, "dropped as a duplicate, and the order is gone"


async def test_what_waited_for_a_day_waits_again_when_it_is_sent_again() -> None:
    """Its workflow is being deployed at last: the first host that takes it may still be one of the old ones."""
    put_back = 0
    while put_back_for(put_back) is not None:
        put_back += 1
    order = submission(DIAMOND).model_copy(update={"put_back": put_back})
    clock, postbox = FakeClock(), RecordedPostbox()
    kept = MemoryRejected(clock)
    await kept.reject(SUBMISSIONS_QUEUE, order.message_id, order.written, "no 'diamond' was deployed for a day", Labels())
    desk = Rejected(fake_ports(rejected=kept, postbox=postbox, clock=clock))
    [line] = (await desk.listed(None)).messages
    await desk.resend(line.id, who="olga", why="it is deployed")
    [(_, sent_as, content, _)] = postbox.sent
    old_host = Bench(LINE)
    await old_host.take(content.body, sent_as)
    assert old_host.postbox.sent
    assert not old_host.rejections.all
