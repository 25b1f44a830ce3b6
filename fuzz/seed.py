#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets to fuzz/corpus, or to another folder.

    seed.py [folder]

Seeds are named by their content, so that a second run adds nothing, and what the
fuzzer has found is kept.
"""

import base64
import hashlib
import itertools
import json
import pathlib
import struct
import sys
import zlib

CORPUS = pathlib.Path(sys.argv[1] if sys.argv[1:] else pathlib.Path(__file__).parent / "corpus")
KEY = "psk_" + "0aB" * 12 + "xy"


def write(target, seeds):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for seed in seeds:
        seed = seed.encode() if isinstance(seed, str) else seed
        (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
        count += 1
    print(f"{target}: {count} seeds")


def json_bodies():
    names = ["Rex", "", " ", "a" * 255, "a" * 256, "Zoë", "\u0000", "\U0001f436", '"\\']
    numbers = ["1", "-1", "0", "-0", "1.0", "1e2", "1E+2", "100e-2", "1.5", "1e400",
               "9223372036854775807", "9223372036854775808", "-9223372036854775808", "01", "null"]
    for name, number in itertools.product(names, numbers[:3]):
        yield f'{{"name":{json.dumps(name)},"categoryId":{number}}}'
    for number in numbers:
        yield f'{{"name":"Rex","categoryId":{number},"status":"available"}}'
    for status in ["available", "pending", "sold", "lost", ""]:
        yield json.dumps({"name": "Rex", "categoryId": 1, "status": status}, indent=1)
    yield from [
        "", "{}", "[]", "null", "{", "{}{}", " {} ", "\ufeff{}",
        '{"name":"a","name":"b","categoryId":1}',
        '{"x":{"y":1,"y":2}}',
        r'{"name":"\ud800","categoryId":1}',
        r'{"name":"\ud83d\udc36","categoryId":1}',
        '{"x":' + "[" * 127 + "]" * 127 + "}",
        '{"x":' + "[" * 200 + "]" * 200 + "}",
        '{"status":null}',
        '{"name":"Happy Paws","address":"12 Mill Lane\\nFrederick","receiptText":null,"currency":"USD"}',
        '{"currency":"usd"}',
        b'{"name":"\xff"}',
    ]


def with_checksum(body):
    """In URL-safe base64, as in crates/domain/src/page.rs and crates/domain/src/event/id.rs."""
    text = base64.urlsafe_b64encode(body + zlib.crc32(body).to_bytes(4, "big"))
    return text.rstrip(b"=").decode()


def cursor(kind, parameters, number, name=""):
    query = zlib.crc32(parameters.encode()).to_bytes(4, "big")
    position = number.to_bytes(8, "big", signed=True) + name.encode()
    return with_checksum(bytes([2]) + kind.encode() + query + position)


def event_id(sequence, checksum):
    body = bytes([1]) + sequence.to_bytes(8, "big") + checksum.to_bytes(8, "big")
    return "evt_" + with_checksum(body)


def cursors():
    # The letters of ListKind, with filters as the service writes them.
    lists = {
        "p": ["", "status=sold", "categoryId=-1", "name=re", "name=%C3%A9", "id=1%2C2", "sort=desc",
              "status=pending&categoryId=2&name=re&id=1%2C2&sort=desc"],
        "o": ["", "status=placed", "petId=1", "status=returned&petId=9007199254740991&sort=desc"],
        "c": [""],
        "w": [""],
        "d": ["", "state=failed", "state=retrying"],
        "k": [""],
        "r": [],
    }
    zone = "timeZone=Europe%2FBerlin"
    period = "from=2026-02-01&to=2026-02-28&" + zone
    for entry, name in [("acquired", "2026-02-28"), ("sold", f"{1_772_236_800_000_000:020}")]:
        yield f"entry={entry}&{period}"
        last = cursor("r", f"entry={entry}&{period}", 20, name)
        yield f"limit=2&entry={entry}&{period}&cursor={last}"
    for by in ["day", "week", "month", "category", "key"]:
        yield f"by={by}&{period}"
    numbers = [0, 1, 20, -1, 2**53 - 1, 2**63 - 1, -(2**63)]
    for kind, filters in lists.items():
        for number, name in itertools.product(numbers, ["", "rex", "\u00e9", "a" * 64]):
            yield cursor(kind, "", number, name)
        for parameters in filters:
            last = cursor(kind, parameters, 20, "rex" if "name=" in parameters else "")
            yield parameters
            yield "&".join(filter(None, ["limit=2", parameters, "cursor=" + last]))
    for sequence, checksum in itertools.product([0, 1, 42, 2**63 - 1], [0, 1, 2**64 - 1]):
        yield event_id(sequence, checksum)
    # Almost valid: padded, cut off, of another version, too long a name, another query's.
    text = cursor("p", "", 1)
    yield from [text + "==", text[:-4], "Q" + text[1:], cursor("p", "", 1, "a" * 65),
                "status=sold&cursor=" + text, event_id(2**63, 0), event_id(1, 1)[:-1]]
    yield from ["0", "1", "100", "101", "+1", "01", "9223372036854775807", "-1"]


def requests():
    key = f"Authorization: Bearer {KEY}\r\n"
    host = "Host: localhost\r\n"
    paths = ["/v1/pets", "/v1/pets?limit=2&status=sold", "/v1/pets/1", "/v1/store/orders",
             "/v1/store/inventory", "/v1/openapi.json", "/docs", "/healthz", "/readyz", "/", "*",
             "http://localhost/v1/pets", "/v1/pets/%31", "//", "/v1/pets#a", "/" + "a" * 9000]
    for path in paths:
        yield f"GET {path} HTTP/1.1\r\n{host}\r\n"
        yield f"GET {path} HTTP/1.1\r\n{host}{key}Connection: close\r\n\r\n"
    body = '{"name":"Rex","categoryId":1}'
    for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "X"]:
        yield f"{method} /v1/pets HTTP/1.1\r\n{host}{key}Content-Length: {len(body)}\r\n\r\n{body}"
    framing = [
        "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: +5\r\n", "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999\r\n", "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding : chunked\r\n", "Expect: 100-continue\r\nContent-Length: 5\r\n",
        "Content-Length:\r\n 5\r\n", "Upgrade: h2c\r\nConnection: Upgrade\r\n",
    ]
    for headers in framing:
        yield f"POST /v1/pets HTTP/1.1\r\n{host}{headers}\r\n5\r\nhello\r\n0\r\n\r\n"
    yield "GET /v1/pets HTTP/1.1\r\n\r\n"
    yield f"GET /v1/pets HTTP/1.1\r\n{host}{host}\r\n"
    yield "GET /v1/pets HTTP/1.0\r\n\r\n"
    yield "GET /v1/pets HTTP/2.0\r\n\r\n"
    yield "GET /v1/pets\r\n"
    yield f"GET /healthz HTTP/1.1\n{host}\n"
    yield f"GET /healthz HTTP/1.1\r\n{host}\r\n" * 3
    yield f"GET /healthz HTTP/1.1\r\n{host}" + "".join(f"X-{n}: {n}\r\n" for n in range(101)) + "\r\n"
    yield f"GET /healthz HTTP/1.1\r\n{host}X: \x01\r\n\r\n"
    yield b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
    # The HTTP/2 preface, SETTINGS, and HEADERS for GET / on stream 1.
    yield (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
           + b"\x00\x00\x03\x01\x05\x00\x00\x00\x01" + b"\x82\x84\x86")


def log_paths():
    def encode(text, times):
        for _ in range(times):
            text = text.replace("%", "%25") if "%" in text else text.replace("_", "%5F")
        return text

    yield from ["/v1/pets", "/v1/pets/%0a%e2%80%a8", "/\u2028\x1b[31m", "/" + "a" * 300, "/psk_"]
    for times in range(6):
        yield "/a/" + encode(KEY, times) + "/b"
    yield "/%70%73%6b%5f" + KEY[4:]
    yield "/" + "%25" * 50 + "70sk_" + KEY[4:]
    yield "/" + "a" * 250 + KEY


def photos():
    """Small images in every format, as crates/photo/tests/fixtures makes them."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    def png(depth, colour, row, interlaced=0, extra=b""):
        header = struct.pack(">IIBBBBB", 4, 4, depth, colour, 0, 0, interlaced)
        data = zlib.compress((b"\0" + row) * 4)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")

    def riff(name, data):
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def webp(*chunks):
        return riff(b"RIFF", b"WEBP" + b"".join(chunks))

    exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    # Bits of a sample, colour type, samples.
    for depth, colour, samples in [(8, 0, 1), (16, 0, 1), (8, 2, 3), (16, 2, 3), (8, 4, 2), (8, 6, 4), (16, 6, 4)]:
        yield png(depth, colour, bytes(range(samples * depth // 8)) * 4)
    yield png(1, 3, b"\xa0", extra=chunk(b"PLTE", b"\1\2\3\4\5\6") + chunk(b"tRNS", b"\0\xff"))
    yield png(8, 2, bytes(12), extra=chunk(b"eXIf", exif))
    yield png(8, 0, bytes(8), interlaced=1)

    lossy = base64.b64decode("kAEAnQEqEAAIAALATCWgAnS6AAOYAP7tTd67xaUa/+emf1t/H/jIAA==")
    alpha = base64.b64decode("ARASEP6flkQ9IiaANH8A")
    lossless = base64.b64decode("Lw/AAQAPcASLJ/z+IGT+Aw9iwWT+0p0pRPQ/MgA=")
    canvas = b"\x0f\0\0\x07\0\0"
    frame = b"\0" * 6 + canvas + b"\0" * 4 + riff(b"VP8 ", lossy)
    yield webp(riff(b"VP8 ", lossy))
    yield webp(riff(b"VP8L", lossless))
    yield webp(riff(b"VP8X", b"\x18\0\0\0" + canvas), riff(b"ALPH", alpha), riff(b"VP8 ", lossy), riff(b"EXIF", exif))
    yield webp(riff(b"VP8X", b"\x02\0\0\0" + canvas), riff(b"ANIM", b"\0" * 6), riff(b"ANMF", frame))

    def segment(marker, data):
        return bytes([0xff, marker]) + struct.pack(">H", len(data) + 2) + data

    # Blocks of one grey: the codes of a difference of 0 are 4 bits, the end of a block one.
    averages = segment(0xc4, b"\0" + b"\0\0\0\x0c" + b"\0" * 12 + bytes(range(12)))
    ends = segment(0xc4, b"\x10\x01" + b"\0" * 15 + b"\0")
    tables = segment(0xdb, b"\0" + b"\x08" * 64) + averages + ends
    for components, sampling in [(1, 0x11), (3, 0x11), (3, 0x22), (4, 0x11)]:
        parts = b"".join(bytes([n + 1, sampling if n == 0 else 0x11, 0]) for n in range(components))
        size = struct.pack(">BHHB", 8, 16, 16, components)
        names = [bytes([n + 1, 0]) for n in range(components)]
        start = b"\xff\xd8" + segment(0xe1, b"Exif\0\0" + exif) + segment(0xee, b"Adobe\0\x64\0\0\0\0\0") + tables
        data = bytes(components * 2 if sampling == 0x11 else 3)
        scan = segment(0xda, bytes([components]) + b"".join(names) + b"\0\x3f\0") + bytes(30)
        yield start + segment(0xc0, size + parts) + scan + b"\xff\xd9"
        first = segment(0xda, bytes([components]) + b"".join(names) + b"\0\0\0") + data
        rest = b"".join(segment(0xda, b"\1" + name + b"\1\x3f\0") + b"\0" for name in names)
        yield start + segment(0xc2, size + parts) + first + rest + b"\xff\xd9"
    yield from [b"GIF89a", b"\xff\xd8\xff", b"%PDF-1.7", b"\0\0\0\x18ftypheic", b"<svg/>"]


write("json", json_bodies())
write("cursor", cursors())
write("request", requests())
write("log_path", log_paths())
write("photo", photos())
