from __future__ import annotations

import unittest
from typing import Any, NamedTuple, Optional

from edgesync import errors
from edgesync.core.retry import RetryPolicy
from edgesync.errors import EdgeSyncError


class Case(NamedTuple):
    name: str
    error: EdgeSyncError
    expected: Optional[float]
    was_sent: bool = True
    is_repeatable: bool = True
    was_connected: bool = True
    elapsed: float = 0.0
    left: float = 30.0
    tries: int = 1


CASES = [
    Case("an agent that restarts", errors.Unreachable("x"), 0.075, was_sent=False),
    Case("an answer that broke off", errors.BrokenAnswer("x"), 0.075),
    Case("a request that may not be repeated, and was sent", errors.BrokenAnswer("x"), None, is_repeatable=False),
    Case("the same before it was sent", errors.BrokenAnswer("x"), 0.075, was_sent=False, is_repeatable=False),
    Case("a busy agent has done nothing", errors.Busy("x"), 0.075, is_repeatable=False),
    Case("an unknown outcome may have been one", errors.OutcomeUnknown("x"), None, is_repeatable=False),
    Case("an unknown outcome under a key", errors.OutcomeUnknown("x"), 0.075),
    Case("Retry-After counts as the least", errors.Starting("x", retry_after=5), 5.5),
    Case("Retry-After behind the deadline", errors.ReadOnly("x", retry_after=30), None),
    Case("a wait behind the deadline", errors.Busy("x"), None, left=0.05),
    Case("a full outbox is for the app to know", errors.QueueFull("x", retry_after=1), None),
    Case("a mistake stays one", errors.ValidationFailed("x"), None),
    Case("no permission", errors.SocketNotPermitted("x"), None),
    Case("what is no agent", errors.BadAnswer("x"), None),
    Case("a socket that may come", errors.NoSocket("x"), 0.075, was_connected=False, elapsed=1.9),
    Case("a wrong path", errors.NoSocket("x"), None, was_connected=False, elapsed=2.0),
    Case("a socket that was there", errors.NoSocket("x"), 0.075, elapsed=20.0),
    Case("the eighth try", errors.Busy("x"), 3.75, tries=8),
    Case("the millionth try", errors.Busy("x"), 3.75, tries=1_000_000),
]


class RetryTests(unittest.TestCase):
    def test_decisions(self) -> None:
        for case in CASES:
            with self.subTest(case.name):
                options: Any = case._asdict()
                del options["name"], options["error"], options["expected"]
                wait = RetryPolicy().decide(case.error, draw=0.5, **options)
                if case.expected is None:
                    self.assertIsNone(wait)
                else:
                    assert wait is not None
                    self.assertAlmostEqual(wait, case.expected)

    def test_the_wait_doubles_and_is_random(self) -> None:
        policy = RetryPolicy()
        for tries, longest in [(1, 0.1), (2, 0.2), (3, 0.4), (6, 3.2), (7, 5.0), (100, 5.0)]:
            self.assertAlmostEqual(policy.wait(tries, 0.0), longest / 2)
            self.assertAlmostEqual(policy.wait(tries, 1.0), longest)


class ErrorTests(unittest.TestCase):
    def test_every_error_says_what_to_do_next(self) -> None:
        kinds = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, EdgeSyncError)]
        self.assertGreater(len(kinds), 30)
        for kind in kinds:
            with self.subTest(kind.__name__):
                self.assertTrue(kind.__doc__)
                if kind not in (EdgeSyncError, errors.Refused):
                    error = kind("the sentence")
                    self.assertTrue(error.code and error.next_step)
                    self.assertIn("the sentence", str(error))
                    self.assertIn(f"({error.code})", str(error))

    def test_errors_can_be_pickled(self) -> None:
        import pickle

        error = errors.QueueFull("full", status=507, members={"setting": "store.max_mutations"}, retry_after=60)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.status, again.retry_after), (str(error), 507, 60))
        self.assertIn("raise store.max_mutations", again.next_step)


if __name__ == "__main__":
    unittest.main()
