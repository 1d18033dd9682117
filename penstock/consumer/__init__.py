"""Producing to and consuming from streams in Python, straight on PostgreSQL: no server takes part.

`pip install 'penstock[consumer]'` brings the driver.
"""

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError as error:
    raise ImportError("penstock.connect and the consumers need psycopg: pip install 'penstock[consumer]'") from error

from penstock import tracing as tracing
from penstock.consumer.asynchronous import AsyncConsumer
from penstock.consumer.messages import Message, RateLimit, UnreadablePayload
from penstock.consumer.producer import AsyncProducer, Producer, connect, connect_async
from penstock.consumer.several import AsyncMultiQueueConsumer, MultiQueueConsumer
from penstock.consumer.sync import Consumer
from penstock.tracing import TraceContext

__all__ = [
    "AsyncConsumer",
    "AsyncMultiQueueConsumer",
    "AsyncProducer",
    "Consumer",
    "Message",
    "MultiQueueConsumer",
    "Producer",
    "RateLimit",
    "TraceContext",
    "UnreadablePayload",
    "connect",
    "connect_async",
]
