"""UUIDs for our numbers, where a protocol knows messages and tasks by UUIDs. Protocols and searches share them."""

from __future__ import annotations

_SPACE = (1 << 60) - 1
_STIR = 0x9E3779B97F4A7C1
_STIR_AGAIN = 0xD1B54A32D192ED3
_STIR_BACK, _STIR_AGAIN_BACK = pow(_STIR, -1, 1 << 60), pow(_STIR_AGAIN, -1, 1 << 60)
_TAIL = 0x2545F4914F6CDD1D


_VERSION_8 = 8 << 76
_VARIANT = 1 << 63


def uuid_text(high: int, middle: int, low: int) -> str:
    """The UUID of version 8 that holds these 48, 12 and 62 bits."""
    pairs = (high << 80 | _VERSION_8 | middle << 64 | _VARIANT | low).to_bytes(16, "big").hex("-", 2)
    # Eight groups of four digits, of which the first two are one, and the last three.
    return pairs[:4] + pairs[5:29] + pairs[30:34] + pairs[35:]


def uuid_of(number: int) -> str:
    """A UUID of version 8 for one of our numbers. Neighbours look nothing alike; `number_of` leads back."""
    stirred = (number * _STIR) & _SPACE
    stirred = ((stirred ^ (stirred >> 30)) * _STIR_AGAIN) & _SPACE
    return uuid_text(stirred >> 12, stirred & 0xFFF, (number * _TAIL) & 0x3FFFFFFFFFFFFFFF)


def number_of(uuid: str) -> int | None:
    """The number behind a UUID of ours; None for any other."""
    digits = uuid.replace("-", "")
    try:
        stirred = int(digits[:12] + digits[13:16], 16)
    except ValueError:
        return None
    stirred = (stirred * _STIR_AGAIN_BACK) & _SPACE
    number = ((stirred ^ (stirred >> 30)) * _STIR_BACK) & _SPACE
    return number if uuid_of(number) == uuid else None
