"""The middle of the consumer, alone: what it asks for, in which order, and what it makes of the answers."""

from __future__ import annotations

import pytest

from penstock.consumer import protocol
from penstock.consumer.handlers import Handlers
from penstock.consumer.messages import DONE, Fate, RateLimit, Verdict
from penstock.consumer.protocol import Backoff, Source
from tests.consumer.play import ORDERS, Play, failing, message, plan

SETTLED = ["Run", "Begin", "Settle", "Commit"]


def handlers(**terms: object) -> Handlers:
    found = Handlers()
    found.on("order", **terms)(print)  # type: ignore[arg-type]
    return found


def test_a_batch_is_run_then_settled_in_a_transaction_then_the_next_is_asked_for() -> None:
    play = Play(plan(), [message(1), message(2)], [message(3)])

    play.run()

    assert play.kinds() == ["Connect", "Fetch", *SETTLED, "Fetch", *SETTLED, "Fetch", "Tick", "Wait"]
    assert play.settled == [{1: DONE, 2: DONE}, {3: DONE}]


def test_a_tick_made_on_demand_is_followed_by_a_fetch_at_once() -> None:
    play = Play(plan())
    play.unticked = True

    play.run()

    assert play.kinds() == ["Connect", "Fetch", "Tick", "Fetch", "Tick", "Wait"]


def test_a_consumer_with_conditions_asks_for_no_ticks() -> None:
    play = Play(plan(check_interval_s=0))

    play.run()

    assert play.kinds() == ["Connect", "Fetch", "Wait"]


def test_a_stop_lets_the_batch_under_way_finish() -> None:
    play = Play(plan(), [message(1)], [message(2)])
    play.stop_when = lambda step: isinstance(step, protocol.Run)

    play.run()

    assert play.kinds() == ["Connect", "Fetch", *SETTLED]


def test_the_verdicts_of_the_handlers_are_settled() -> None:
    play = Play(plan(), [message(1), message(2)], judge=failing(2, after_s=5))

    play.run()

    assert play.settled == [{1: DONE, 2: Verdict(Fate.RETRY, 5, "failed")}]


# Connections


def test_a_lost_connection_is_opened_again_after_longer_and_longer_pauses() -> None:
    play = Play(plan())
    play.lose = lambda step: isinstance(step, protocol.Connect) and len(play.of(protocol.Connect)) <= 11

    play.run()

    pauses = [step.seconds for step in play.of(protocol.Pause) if isinstance(step, protocol.Pause)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_the_pauses_are_short_again_once_the_database_has_answered() -> None:
    backoff = Backoff(failures=8)
    steps = protocol._serve(plan(), backoff, protocol.Attempts())
    next(steps)

    steps.send(protocol.Seen(0))
    steps.send([])

    assert backoff.longer() == 0.1


def test_a_connection_lost_before_the_commit_brings_the_batch_again() -> None:
    play = Play(plan(), [message(1)])
    lost: list[protocol.Step] = []
    play.lose = lambda step: isinstance(step, protocol.Settle) and not lost and not lost.append(step)  # type: ignore[func-returns-value]

    play.run()

    assert play.ran == [1, 1]
    assert play.settled == [{1: DONE}]


def test_a_stop_while_the_database_is_away_ends_the_consumer() -> None:
    play = Play(plan())
    play.lose = lambda step: isinstance(step, protocol.Connect)
    play.stop_when = lambda step: isinstance(step, protocol.Pause) and len(play.of(protocol.Pause)) == 3

    play.run()

    assert play.kinds() == ["Connect", "Pause"] * 3


# Transactions


def test_a_transactional_batch_runs_inside_the_transaction_that_settles_it() -> None:
    play = Play(plan(handlers(transactional=True)), [message(1)])

    play.run()

    assert play.kinds()[1:6] == ["Fetch", "Begin", "Run", "Settle", "Commit"]


def test_a_transaction_is_rolled_back_when_someone_else_has_settled_the_batch() -> None:
    play = Play(plan(handlers(transactional=True)), [message(1)])
    play.ours = False

    play.run()

    assert play.kinds()[1:6] == ["Fetch", "Begin", "Run", "Settle", "Rollback"]


# Order


def test_messages_of_a_key_share_a_lane_and_others_have_one_each() -> None:
    found = handlers(ordered_by="extra1")
    messages = [message(1, key="a"), message(2, key="b"), message(3, key="a"), message(4)]

    sequences = [[each.msg_id for each in sequence] for sequence in found.sequences(messages)]

    assert sequences == [[1, 3], [2], [4]]


def test_a_failed_ordered_message_is_tried_again_in_place_before_those_behind_it() -> None:
    batch = [message(1, key="a"), message(2, key="b"), message(3, key="a")]
    play = Play(plan(handlers(ordered_by="extra1")), batch, judge=failing(1, times=2, after_s=7))

    play.run()

    assert play.ran == [1, 2, 1, 1, 3]
    assert play.ran_at == [0, 0, 7, 14, 14]
    assert play.settled == [{1: DONE, 2: DONE, 3: DONE}]


def test_an_ordered_message_that_keeps_failing_becomes_a_dead_letter_and_the_rest_goes_on() -> None:
    batch = [message(1, key="a"), message(2, key="a")]
    play = Play(plan(handlers(ordered_by="extra1"), max_retries=2), batch, judge=failing(1, times=99))

    play.run()

    assert play.ran == [1, 1, 1, 2]
    assert play.settled == [{1: Verdict(Fate.DEAD, reason="failed"), 2: DONE}]


def test_a_stop_while_an_ordered_message_waits_leaves_the_batch_open() -> None:
    play = Play(plan(handlers(ordered_by="extra1")), [message(1, key="a")], judge=failing(1))
    play.stop_when = lambda step: isinstance(step, protocol.Pause)

    play.run()

    assert play.settled == []


def test_a_failed_ordered_message_in_a_transaction_rolls_everything_back_and_comes_again() -> None:
    found = handlers(ordered_by="extra1", transactional=True)
    batch = [message(1, key="a"), message(2, key="a")]
    play = Play(plan(found), batch, judge=failing(1, after_s=3))

    play.run()

    assert play.kinds()[1:] == [
        *("Fetch", "Begin", "Run", "Rollback", "Pause"),
        *("Fetch", "Begin", "Run", "Settle", "Commit"),
        *("Fetch", "Tick", "Wait"),
    ]
    assert play.ran == [1, 1, 2]


def test_a_transaction_is_not_rolled_back_for_ever() -> None:
    found = handlers(ordered_by="extra1", transactional=True)
    batch = [message(1, key="a"), message(2, key="a")]
    play = Play(plan(found, max_retries=1), batch, judge=failing(1, times=99))

    play.run()

    assert play.ran == [1, 1, 2]
    assert play.settled == [{1: Verdict(Fate.DEAD, reason="failed"), 2: DONE}]


# Priority


def test_the_first_queue_is_drained_before_the_second_is_touched() -> None:
    high, low = Source("high", "shop"), Source("low", "shop")
    play = Play(plan(sources=[high, low]))
    play.queues = {"high": [[message(1)], [message(2)]], "low": [[message(3)], [message(4)]]}

    def more(step: protocol.Step) -> bool:
        """Something comes for the first queue while the second is being served."""
        if isinstance(step, protocol.Run) and step.sequences[0][0].msg_id == 3:
            play.queues["high"].append([message(5)])
        return isinstance(step, protocol.Wait)

    play.stop_when = more
    play.run()

    assert play.ran == [1, 2, 3, 5, 4]


# Rate limits


def test_no_minute_sees_more_messages_than_allowed() -> None:
    found = handlers(rate_limit=RateLimit(max_per_minute=3))
    play = Play(plan(found), [message(number) for number in range(1, 9)])

    play.run()

    assert play.ran == [1, 2, 3, 4, 5, 6, 7, 8]
    assert play.ran_at == [0, 0, 0, 60, 60, 60, 120, 120]


def test_what_the_limit_does_not_allow_yet_stays_in_the_queue() -> None:
    found = handlers(rate_limit=RateLimit(max_per_minute=2))
    play = Play(plan(found), [message(number) for number in range(1, 5)])

    play.run()

    assert [len(verdicts) for verdicts in play.settled] == [2, 2]


def test_other_types_do_not_use_a_limit_up() -> None:
    found = handlers(rate_limit=RateLimit(max_per_minute=1))
    found.on("other")(print)
    play = Play(plan(found), [message(number, "other") for number in range(1, 4)])

    play.run()

    assert play.ran_at == [0, 0, 0]


def test_attempts_count_against_the_limit() -> None:
    found = handlers(rate_limit=RateLimit(max_per_minute=2), ordered_by="extra1")
    batch = [message(1, key="a"), message(2, key="a")]
    play = Play(plan(found), batch, judge=failing(1, after_s=1))

    play.run()

    assert (play.ran, play.ran_at) == ([1, 1, 2], [0, 60, 60])


def test_a_plan_asks_for_no_more_than_it_wants() -> None:
    play = Play(plan(max_messages=2), [message(1), message(2), message(3)])

    play.run()

    assert play.of(protocol.Fetch)[0] == protocol.Fetch(ORDERS, 2)
    assert [len(verdicts) for verdicts in play.settled] == [2, 1]
