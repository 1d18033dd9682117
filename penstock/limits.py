"""The bounds of every input, in one place. Stores and doors read them; nothing else defines one."""

from __future__ import annotations

import re
from datetime import UTC, datetime

ID = (0, 2**63 - 1)
"""Numbers of messages, tasks, batches and so on: PostgreSQL's bigint, from zero on."""
MOMENT = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))
"""The earliest and the latest moment a caller may name. Both ends leave room for sums with any duration and any time
zone; Python's own calendar ends in the year 9999."""
SHORTEST_S = 0.001
"""Seconds that are given as a fraction are zero or at least this."""
JSON_DEPTH = 500
"""Arrays and objects inside each other. Python's parser, which the clients use, stops near 1000."""
LARGEST_NUMBER = 1.7976931348623157e308
"""In JSON that clients parse: a number must fit a double, also one that is written as a long integer."""

QUEUE_NAME = re.compile(r"(?=.{1,80}\Z)[A-Za-z0-9_-]+(\.fifo)?")
"""Amazon's rule, on every door: 80 characters at most, the `.fifo` included. Use with fullmatch."""

VISIBILITY_TIMEOUT_S = (0, 43_200)
DELAY_S = (0, 43_200)
RETENTION_S = (60, 1_209_600)
RECEIVE_WAIT_S = (0, 20)
MESSAGE_BYTES = (1, 10_485_760)
"""A queue's own limit lies within; the default is 1 MiB."""
PRIORITY = (0, 1000)
DEFAULT_PRIORITY = 100
MAX_RECEIVES = (1, 1000)
MAX_LENGTH = (1, 1_000_000_000)
DEDUP_WINDOW_S = (1, 43_200)
RECEIVE_LIMIT = (1, 1000)
"""Messages in one native receive; the SQS door allows 10."""
BATCH_ENTRIES = (1, 1000)
MOVE_RATE = (1, 500)
ANSWER_BYTES = 16_777_216
"""Contents of one answer to a receive, a peek or a list. A larger one ends early, after at least one item."""
GROUP_ID = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
"""Group and deduplication ids: 1 to 128 letters, digits and ASCII punctuation. Use with fullmatch."""
TOPIC_NAME = re.compile(r"(?=.{1,256}\Z)[A-Za-z0-9_-]+(\.fifo)?")
"""Amazon's rule: 256 characters at most, the `.fifo` included. Use with fullmatch."""
ROUTING_KEY = re.compile(r"(?=.{1,255}\Z)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""Segments between dots. Use with fullmatch."""
ROUTING_PATTERN = re.compile(r"(?=.{1,255}\Z)([A-Za-z0-9_-]+|\*|#)(\.([A-Za-z0-9_-]+|\*|#))*")
"""A routing key in which a segment may be `*`, any one, or `#`, any number. Use with fullmatch."""
ENDPOINT_BYTES = 2048
SUBSCRIPTION_PAGE = (1, 1000)
SCHEDULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
"""Use with fullmatch."""
SCHEDULE_TARGET = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
"""A stream or a queue of jobs. Use with fullmatch."""
SCHEDULE_CATCHUP = (1, 1000)
"""Missed fires that are made up for at once."""
SCHEDULE_JITTER_S = (0, 86_400)
SCHEDULE_FAILURES = (1, 1000)
"""Failures in a row before a schedule is paused."""

JOB_PRIORITY = (-32_767, 32_767)
JOB_RETRIES = (0, 1000)
JOB_AFTER = (0, 10_000)
"""Jobs that one job, or all of one request together, come after."""
JOB_TAGS = (0, 20)
JOB_TAG_CHARACTERS = (1, 100)
JOB_LEASE_S = (1, 3600)
JOB_WAIT_S = (0, 60)
JOB_LEASE_LIMIT = (1, 1000)
JOB_PAYLOAD_BYTES = 1_048_576
"""The payload of a job, and its result, may have so many."""
JOB_ERROR_CHARACTERS = 10_000
"""What is longer is cut: the end of a traceback says most, so that is kept."""
JOB_NOTE_CHARACTERS = 1000
JOB_KEY_CHARACTERS = (1, 256)
JOB_UNIQUE_S = (1, 2_592_000)
JOB_DELAY_S = (0, 2_592_000)
"""Of a backoff."""
JOB_DELAYS = (1, 100)
WORKER_CHARACTERS = (1, 256)
JOB_CONCURRENCY = (1, 1_000_000)
LOWEST_JOB_RATE = 0.001
HIGHEST_JOB_RATE = 1_000_000
JOB_PAGE = (1, 200)
JOB_OFFSET = (0, 10_000)
"""Further down, follow the cursor: an offset is walked anew for every page."""
STREAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
"""Of a stream and of its consumers: with the prefix of a tenant it is still short enough for a channel of PostgreSQL.
Use with fullmatch."""
STREAM_TICK_COUNT = (1, 1_000_000)
STREAM_TICK_S = (0, 86_400)
STREAM_ROTATION_S = (1, 31_536_000)
STREAM_RETRIES = (0, 1000)
EVENT_TTL_S = (1, 31_536_000)
EVENT_DELAY_S = (0, 31_536_000)
"""Of a delayed event, and of one that is tried again."""
EVENT_TYPE_CHARACTERS = (1, 256)
EVENT_EXTRA_CHARACTERS = (0, 4096)
EVENT_REASON_CHARACTERS = (0, 1000)
INSIGHT_ROWS = (1, 10_000)
INSIGHT_ERRORS = (1, 1000)
PRIVATE_BATCH = (1, 1000)
"""Private queues in one request."""
PRIVATE_KEYS = (1, 8)
"""Public keys of a recipient."""
PRIVATE_LINK_BYTES = (0, 65_536)
"""The fixed and the mutable part of a link, each."""
PRIVATE_REASON_CHARACTERS = (1, 256)
PRIVATE_CLOCK_SKEW_S = 300
"""How far the moment of a signed request may be from the server's clock."""
