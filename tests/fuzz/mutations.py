"""Damage to bytes: what disks, transfers, editors and ill will do to files. The same seed does the same damage."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

TOKENS = (
    b"", b"0", b"-1", b"1e999", b"-1e308", b"nan", b"inf", b"1e-320", b"99999999999999999999", b"0x10", b"1_0", b" ",
    b",", b"\n", b"\r", b"\t", b'"', b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"%", b"#", b"null", b"true", b"[", b"{",
    b"\\u0000",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**30, "", "x", "1", [], [1], {}, {"a": 1}, [[]],
    "\x00",
)  # fmt: skip


def flip(content: bytes, rng: random.Random) -> bytes:
    """Change single bits."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(content: bytes, rng: random.Random) -> bytes:
    """Write other bytes over a stretch: random ones, zeros, or the ends of the range of whole numbers."""
    start, length = rng.randrange(len(content)), rng.choice((1, 2, 4, 8, 16))
    new = rng.choice((rng.randbytes(length), bytes(length), b"\xff" * length, b"\xff" * (length - 1) + b"\x7f"))
    return content[:start] + new + content[start + length :]


def cut(content: bytes, rng: random.Random) -> bytes:
    """Lose the end."""
    return content[: rng.randrange(len(content))]


def remove(content: bytes, rng: random.Random) -> bytes:
    """Lose a stretch in the middle."""
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.choice((1, 2, 7, 50)) :]


def repeat(content: bytes, rng: random.Random) -> bytes:
    """Have a stretch twice, there or elsewhere."""
    start, place = rng.randrange(len(content)), rng.randrange(len(content))
    return content[:place] + content[start : start + rng.choice((1, 8, 64))] + content[place:]


def token(content: bytes, rng: random.Random) -> bytes:
    """Put something that readers of text stumble over in the place of a word, or between two."""
    start = rng.randrange(len(content))
    return content[:start] + rng.choice(TOKENS) + content[start + rng.choice((0, 1, 3)) :]


BYTES: tuple[Damage, ...] = (flip, overwrite, cut, remove, repeat, token)


def any_bytes(content: bytes, rng: random.Random) -> bytes:
    """One of the damages above, sometimes several."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(BYTES)(content, rng) if content else content
    return content


def inside_zip(content: bytes, rng: random.Random) -> bytes:
    """Damage a member of a zip archive (.npz) whose checksums are then right again, or drop it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    if rng.random() < 0.1:
        del members[name]
    else:
        members[name] = any_bytes(members[name], rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for member, inner in members.items():
            archive.writestr(member, inner)
    return stream.getvalue()


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        found.append((value, key))
        places(inner, found)
    return found


def inside_json(content: bytes, rng: random.Random) -> bytes:
    """Another value, or none, somewhere in sound JSON."""
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 3))):
        container, key = rng.choice(places(value, []))
        if rng.random() < 0.2 and isinstance(container, dict):
            del container[key]
        else:
            container[key] = rng.choice(VALUES)
        if not places(value, []):
            break
    return json.dumps(value).encode()


def damage(name: str, content: bytes, rng: random.Random) -> bytes:
    """Damage the content of a file: inside its format where that is known, or anywhere."""
    inner = inside_zip if content[:2] == b"PK" else inside_json if name.endswith(".json") else None
    if inner is not None and rng.random() < 0.5:
        return inner(content, rng)
    return any_bytes(content, rng) if content else rng.randbytes(3)
