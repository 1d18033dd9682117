"""The bounds of every input, in one place. Stores and doors read them; nothing else defines one."""

from __future__ import annotations

import re

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
GROUP_ID = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
"""Group and deduplication ids: 1 to 128 letters, digits and ASCII punctuation. Use with fullmatch."""
