#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the inputs from which fuzzing starts to tests/fuzz/corpus/TARGET/seed-NAME, or below --out DIR.

They are what the targets read (see the head of each .cpp): a few bytes that choose, then valid bytes, and some that a
fuzzer would hardly find by itself.
"""

import argparse
import pathlib
import struct


def u8(x: int) -> bytes:
    return struct.pack("<B", x)


def u16(x: int) -> bytes:
    return struct.pack("<H", x)


def u32(x: int) -> bytes:
    return struct.pack("<I", x)


def u64(x: int) -> bytes:
    return struct.pack("<Q", x)


def listed(items: list[bytes]) -> bytes:
    return u64(len(items)) + b"".join(items)


def text(x: str) -> bytes:
    return u64(len(x)) + x.encode()


def doubles(*x: float) -> bytes:
    return struct.pack(f"<{len(x)}d", *x)


def archive() -> dict[str, bytes]:
    """Type numbers as in `checks`."""
    leaf, no = u32(0), u8(0)
    tree = listed([]) + listed([])
    particle = doubles(1, 2) + listed([u32(3), u32(4)]) + u8(1) + text("p") + u8(1)
    times = u64(5) + doubles(1, 2) + text("a") + text("b") + u8(1) + u8(1) + b"\0\1\0" + u64(7)
    values = [
        listed([listed([text("a"), text("bc")]), listed([])]),
        listed([text("a") + u64(2) + doubles(1, 2), text("b") + u64(0)]),
        u8(1) + listed([u8(0), u8(1) + text("x")]),
        listed([u32(0), u32(1) + u32(7), u32(2) + text("v"), u32(3) + u64(1) + u16(9), u32(4) + u8(1) + u32(5)]),
        listed([u32(1) + u32(5) + listed([u32(2) + u32(6) + listed([]) + u32(3) + text("l")]) + u32(3), u32(2), leaf]),
        text("abc") + u64(2) + u16(65) + u16(66) + u64(1) + u32(67),
        listed([particle, particle]),
        u64(9) + b"\x55\x01" + b"\0\1\0" + u64(2) + b"\1\0" + u64(2) + b"\0\1\1\0",
        listed([text("bytes"), text("")]),
        b"\1" * 40 + b"\0",
        listed([tree, listed([tree]) + listed([text("n") + tree])]) + listed([]),
        listed([listed([u32(1) + u32(2), u32(3) + u32(4)]), listed([])]),
        listed([text("k") + u32(1), text("l") + u32(2)]),
        listed([text("m"), text("m"), text("n")]),
        listed([b"\0", b"\0"]) + listed([u32(1), u32(1)]) + listed([text("s"), text("s")]) + u64(2) + b"ab",
        listed([text("reads") + u8(1), text("") + no]),
        listed([times]),
        listed([doubles(1, 2)]) + listed([doubles(3, 4), doubles(5, 6)]),
        u32(1) + u32(4) + u32(2) + text("t") + listed([u32(1), u32(0), u32(3) + u32(8)]) + listed([b"\0", b"\0"]),
    ]
    seeds = {f"type-{i:02}": u8(i) + u8(i % 3) + value for i, value in enumerate(values)}
    seeds["deep-chain"] = u8(9) + u8(0) + b"\1" * 2000
    seeds["deep-tree"] = u8(10) + u8(0) + u64(1) * 300
    seeds["long-length"] = u8(7) + u8(0) + u64(2**64 - 1) + b"\xff" * 8
    seeds["cycle"] = u8(4) + u8(0) + listed([u32(1) + u32(5) + listed([u32(1)]) + u32(0)])
    return seeds


def header(handler: int = 0, flags: int = 0, reply: int = 0) -> bytes:
    return u32(handler) + u32(flags) + u64(reply)


RANGE, JOINED = 4, 8


def message() -> dict[str, bytes]:
    def one(what: int, head: bytes, body: bytes = b"", places: int = 0) -> bytes:
        return u8(what) + u8(places) + u8(0) + u16(len(head)) + head + body

    calls = [
        u32(3) + text("x"),
        u64(2 << 1) + doubles(1, 2),
        u64(3 << 1) + b"abc" + u64(1 << 1) + b"\0" * 5 + doubles(1) + u32(4),
        u64(2 << 1) + doubles(1, 2),
        u64(1 << 1) + doubles(1) + u64(1 << 1) + doubles(2),
        listed([text("a")]) + u64(1 << 1) + b"\0" + u16(5) + listed([u32(1) + text("v")]),
        text("bytes") + u64(1 << 1) + b"\0" * 3 + u64(9) + u8(1) + text("o"),
        u64(3) + b"\5" + u64(1 << 1) + b"\0" * 7 + doubles(1, 2) + u64(0) + u64(2 << 1) + b"xy",
        listed([text("s"), text("t")]) + listed([u8(1) + u8(0)]),
    ]
    seeds = {f"call-{i}": one(i, header() + arguments, places=i) for i, arguments in enumerate(calls)}
    seeds["body-view"] = one(1, header(0, RANGE) + u64(2 << 1 | 1), doubles(1, 2))
    seeds["body-view-misaligned"] = one(1, header(0, RANGE) + u64(2 << 1 | 1), doubles(1, 2), 0x30)
    seeds["body-buffer"] = one(3, header(0, RANGE) + u64(2 << 1 | 1), doubles(1, 2))
    seeds["body-buffer-misaligned"] = one(3, header(0, RANGE) + u64(2 << 1 | 1), doubles(1, 2), 0x50)
    seeds["body-twice"] = one(4, header(0, RANGE) + u64(2 << 1 | 1) + u64(2 << 1 | 1), doubles(1, 2))
    seeds["body-unused"] = one(0, header(0, RANGE) + calls[0], b"12345678")
    seeds["body-whole"] = one(0, header(), header() + calls[0])
    head = header(0, JOINED) + u64(16 + 8)
    seeds["joined"] = one(1, head, header() + u64(2 << 1 | 1) + doubles(1, 2))

    def batch(*messages: bytes) -> bytes:
        return header(0, 1, len(messages)) + b"".join(u64(len(m)) + m + b"\0" * (-len(m) % 8) for m in messages)

    small = header() + u32(1)
    seeds["batch"] = one(15, batch(small, header(), small), b"\xff")
    seeds["batch-given-up"] = one(15, batch(small, small, small), b"\1")
    seeds["batch-cut"] = one(15, batch(small, small)[:-8], b"\xff")
    seeds["batch-longer"] = one(15, batch(small, small) + b"\0" * 8, b"\xff")
    return seeds


def node() -> dict[str, bytes]:
    NOTE, ADD, TWICE, REFUSE, WAIT = range(5)
    REPLY, ERROR, COLLECTIVE, MULTICAST, SHARE, BATCH = range(6)

    def bytes_of(arguments: bytes, source: int = 1, place: int = 0) -> bytes:
        return u8(len(arguments)) + arguments + u8(source) + u8(place)

    def program(which: int, arguments: bytes, reply: int = 0, body: bytes | None = None, flags: int = 0) -> bytes:
        step = u8((0x80 if body is not None else 0) | flags) + u8(which) + u8(reply) + bytes_of(arguments)
        return step + (u16(len(body)) + body + u8(0) if body is not None else b"")

    def runtime(which: int, arguments: bytes, reply: int = 0, source: int = 1) -> bytes:
        return u8(1) + u8(which) + u8(reply) + bytes_of(arguments, source)

    settle = u8(3) + u8(0) + u8(0)
    add = u64(2 << 1) + u32(1) + u32(2) + listed([text("x")])
    failure = u16(4) + text("m") + text("h") + text("p")
    route = struct.pack("<IiiiI", NOTE, 0, 1, 4, 0)
    listing = struct.pack("<IiiiI", NOTE, 0, 0, 0, 2) + u32(1) + u32(2)
    return {
        "program": program(NOTE, text("hello")) + program(ADD, add, 2) + settle + program(WAIT, u32(3)) +
                   program(REFUSE, u32(3), 3) + program(REFUSE, u32(3)),
        "body": program(TWICE, u64(2 << 1 | 1), 2, doubles(1, 2), 0x10) + program(ADD, add, 2, b"x" * 16, 0x10),
        "traced": program(NOTE, text("hello"), 0, None, 0x40),
        "reply": runtime(REPLY, u32(7), 4) + runtime(REPLY, b"", 1, 2) + runtime(REPLY, u32(7), 4),
        "error": runtime(ERROR, failure, 4) + runtime(ERROR, failure, 1, 2),
        "collective": runtime(COLLECTIVE, u64(0) + u64(1) + u64(2) + u32(0) + u32(1)) +
                      runtime(COLLECTIVE, u64(1 << 32) + u64(0) + u64(2) + u32(0) + u32(0) + text("v")),
        "multicast": runtime(MULTICAST, route + text("m")) + runtime(MULTICAST, listing + text("m")) + settle,
        "share": runtime(SHARE, u32(0) + u32(1) + text("v"), 4),
        "share-error": runtime(SHARE, u32(1) + u32(1) + failure, 4),
        "share-gone": runtime(SHARE, u32(2) + u32(1), 4) + runtime(SHARE, u32(2) + u32(1), 4),
        "batch": u8(2) + u8(1) + u8(0) + u8(NOTE) + bytes_of(text("b")) + u8(WAIT) + bytes_of(u32(1)) + settle,
        "batch-of-batches": runtime(BATCH, b""),
    }


def checkpoint() -> dict[str, bytes]:
    HEAD, TABLES, OBJECTS, ANY, RAW = 0, 1, 5, 6, 7
    OVERWRITE, INSERT, ERASE, NUMBER = range(4)

    def change(where: int, how: int, at: int, rest: bytes, file: int = 0) -> bytes:
        return u8(file | where << 1 | how << 4) + u16(at) + rest

    def some(content: bytes) -> bytes:
        return u8(len(content)) + content

    seeds = {f"ranks-{ranks}": u8(ranks - 1) for ranks in (1, 2, 3)}
    seeds["version"] = u8(1) + change(HEAD, OVERWRITE, 8, some(u32(9)))
    homes = some(u32(1 << 24))
    seeds["homes"] = u8(1) + change(HEAD, OVERWRITE, 20, homes, 0) + change(HEAD, OVERWRITE, 20, homes, 1)
    seeds["cut"] = u8(1) + change(RAW, ERASE, 3000, u16(60000))
    seeds["longer"] = u8(1) + change(RAW, INSERT, 65535, some(b"more"))
    seeds["flipped"] = u8(1) + change(RAW, OVERWRITE, 100, some(b"x"))
    seeds["object"] = u8(0) + change(OBJECTS, OVERWRITE, 3, some(b"\xff" * 9), 1)
    seeds["program"] = u8(0) + change(ANY, OVERWRITE, 60, some(b"other"))
    for n in range(0, 12):  # numbers, all over the tables
        seeds[f"numbers-{n:02}"] = u8(n % 3) + b"".join(
            change(TABLES, NUMBER, 37 * n + 8 * k, u8((n + k) % 12 + 128 * (k % 2)), k % 2) for k in range(2))
    return seeds


def codec() -> dict[str, bytes]:
    SIGNED, GIVEN, CODECS = 0x40, 0x80, 7
    HEADER = {"stored": 8, "extent": 20, "element": 28, "kind": 32, "codec": 33, "unused": 88}

    def one(shape: int, how: int, content: bytes, *changes: tuple[int, int]) -> bytes:
        return u8(shape) + u8(how) + u8(len(changes)) + b"".join(u16(at) + u8(to) for at, to in changes) + content

    floats = struct.pack("<60f", *(0.25 * i * i - 3 * i for i in range(60)))
    seeds = {f"codec-{c}": one(2, c, floats) for c in range(CODECS)}
    seeds |= {f"doubles-{c}": one(3, c, doubles(*(1 / (i + 1) for i in range(90)))) for c in range(CODECS)}
    seeds |= {f"field-{name}": one(0, SIGNED | 1, floats, (at, 7)) for name, at in HEADER.items()}
    seeds |= {f"stream-{c}": one(0, SIGNED | c, floats, (96, 255), (99, 0), (110, 3)) for c in range(CODECS)}
    seeds |= {f"given-{c}": one(6, GIVEN | c, floats[:64]) for c in range(CODECS)}
    seeds["damaged"] = one(4, 1, floats, (100, 1))
    seeds["cut"] = one(4, SIGNED | 1, floats, (0xff00, 9))
    seeds["nothing"] = one(4, SIGNED, floats, (0xff00, 255), (0xff00, 255))
    return seeds


def words() -> dict[str, bytes]:
    worlds = [
        "", "ranks=4", "ranks=256,workers=4,seed=7,topology=fat-tree:16:8:4,taper=0.5,faults=delay:reorder:crash=3@2ms",
        "ranks=72,topology=dragonfly:2:4:2,host=2,hop=100ns", "faults=slow=0@2.5:pause=0@1ms+1e-3s:delay=1us",
        "faults=none,slots=8,jitter=0.25,latency=1.5us,overhead=300ns,gap=0,bandwidth=12.5G,preempt=0.5,step=1e+2ns",
        "ranks=4,ranks=4", "rnaks=4", "seed=18446744073709551615,step=100000us", "latency=1e-400ns", "taper=0.5",
    ]
    files = [
        '{"fuzz-number": 4, "fuzz-real": 1e3, "fuzz-word": "b", "fuzz-switch": true, "fuzz-long": -5}',
        '// comment\n{"workers": 2, "sim": "ranks=4", /* more */ "log-level": "off"}', '{"fuzz-nmuber": 4}', "[1]", "{",
        '{"fuzz-number": [[1, {"a": null}], 1.5]}', '{"fuzz-word": "\\ud83d\\ude00\\u0000"}',
        '{"fuzz-long": 9223372036854775808, "fuzz-real": 1e400}',
        '{"fuzz-number": ' + "[" * 1500 + "]" * 1500 + "}",
    ]
    lines = [
        "--tern-fuzz-number=7\n--tern-fuzz-word\nb\n--tern-no-fuzz-switch\nown\n--\n--tern-x",
        "--tern-fuzz-nmuber=7", "--tern-fuzz-real=+1e3\n--tern-help", "--tern-fuzz-switch=maybe", "--tern-fuzz-long",
    ]
    seeds = {}
    for which, (kind, texts) in enumerate((("world", worlds), ("file", files), ("line", lines))):
        seeds |= {f"{kind}-{i:02}": u8(which) + each.encode() for i, each in enumerate(texts)}
    return seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "corpus")
    out = parser.parse_args().out
    for target, seeds in (("archive", archive()), ("checkpoint", checkpoint()), ("codec", codec()),
                          ("message", message()), ("node", node()), ("text", words())):
        folder = out / f"fuzz_{target}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / f"seed-{name}").write_bytes(content)


if __name__ == "__main__":
    main()
