"""Sends mutated HTTP/1.1 requests to the service, and compares its reading of them with h11's.

Arguments: the binary of the service, the number of cases, and a seed, to repeat a run. The service
may reject what h11 accepts, but not the other way round, and both must agree on the method, the
target and the body of every request, and so on where the next one starts. `read_by_h11` lists the
differences that are meant. A case depends on the seed and its number only.
"""

import collections
import concurrent.futures
import json
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

import h11

BINARY, CASES = sys.argv[1], int(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
CONNECTIONS = 8

LINE_ENDS = [b"\n", b"\r", b"\n\r", b"\r\r\n", b"\r\n\r\n", b"\n\n", b" \r\n", b"\t\n", b"\0\r\n", b"\x0b\r\n", b"\r\n ", b"\r\n\t", b""]
BYTES = b"\r\n\t \0\x01\x0b\x0c\x1f\x7f\x80\x85\xa0\xff:;,.=+-_/#?@\"'\\%*()[]{}0123456789abcdefxXgG"
CODINGS = [
    b"chunked", b"Chunked", b" chunked", b"\tchunked\t", b"\x0bchunked", b"chunked\x0c", b"chunked\0", b"\xa0chunked", b"xchunked", b"chunked,", b",chunked",
    b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity", b"chunked, identity", b"chunked;a=b", b'"chunked"', b"", b"chunked\r\n gzip", b"chunked chunked",
]
NAMES = [
    b"Transfer-Encoding:", b"transfer-encoding:", b"TRANSFER-ENCODING:", b"Transfer-Encoding :", b"Transfer-Encoding\t:", b" Transfer-Encoding:", b"Transfer_Encoding:",
    b"Transfer-Encoding\0:", b"Transfer-Encoding\r:", b"X:\rTransfer-Encoding:", b"X: y\nTransfer-Encoding:", b"X: y\r Transfer-Encoding:", b"Transfer-Encoding: \r\n", b":Transfer-Encoding:", b"Transfer-Encoding",
]
LINES = [
    b"Content-Length: 0", b"Content-Length: 5", b"Content-Length:", b"content-length : 3", b"Content-Length: 3, 3", b"Content-Length: 3\r\nContent-Length: 3", b"Content-Length\xa0: 3",
    b"Connection: close", b"Connection: keep-alive", b"Connection: x,CLOSE", b"Connection: keep-alive, close", b"Connection: Upgrade", b"Upgrade: h2c", b"Expect: 100-continue",
    b"Host: y", b"Host:", b"Host: a b", b"Host: x\0", b"Host : x", b"X: y", b"X:y", b"X:", b" X: y", b"no colon", b": y", b"X\x80: y", b"X: \xe4\t\x80", b"X: \x01", b"X: \x7f", b"",
]
VERSIONS = [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.", b"HTTP/1", b"HTTP/1.1.1", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/+1.1", b"http/1.1", b"HTTPS/1.1", b"HTTP /1.1", b" HTTP/1.1", b"HTTP/1.1 ", b"HTTP/1.1 X", b"", b"\tHTTP/1.1", b"HTTP/1.1\0"]
TARGETS = [b"*", b"//x/y", b"/a b", b"/a\tb", b"/a#b", b"/a\rb", b"/a\\b", b"/a?b c", b"/%zz", b"/%0d%0aX:y", b"/\xe4", "/ä?ö".encode(), b"/a\0", b"/a\x7f", b"", b"a", b"x:80", b"http://x/a", b"HTTP://x/a?b", b"http://x", b"http://x?a", b"http://u@x/", b"http://", b"http:///a", b"ftp://x/a", b"http://x/a#b", b"/a\"<>`{|}^", b"/" + b"a" * 200]
METHODS = [b"get", b"GET,", b"GE T", b"G\0T", b"", b" GET", b"GET\t", b"CONNECT", b"OPTIONS", b"FOO", b"!#$%&'*+-.^_`|~", b"(GET)", b"G\xe4T", b"GET /x HTTP/1.1\r\nHost: x\r\n\r\nGET"]


def chunked(rng, body):
    """Returns a body in chunks."""
    coded = b""
    while body:
        size = rng.randint(1, len(body))
        digits = rng.choice([b"%x", b"%X", b"0%x", b"%04x"]) % size
        coded += digits + rng.choice([b"", b"", b";a", b";a=b;c", b';a="b c"']) + b"\r\n" + body[:size] + b"\r\n"
        body = body[size:]
    return coded + rng.choice([b"0", b"000", b"0;a=b"]) + b"\r\n" + rng.choice([b"", b"", b"X: y\r\n", b"X: y\r\nZ:\r\n"]) + b"\r\n"


def valid_request(rng, path, key):
    """Returns a request that both parsers accept, as its request line, headers and body."""
    version = rng.choice([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/1.2"])
    headers = [b"Host: x"]
    headers += rng.sample([b"X: y", b"Accept: */*", b"Empty:", b"TE: trailers", b"Cookie:a=b; c=d ", b"Z:\t \xc3\xa4"], rng.randint(0, 3))
    headers += rng.choice([[]] * 12 + [[b"Connection: close"], [b"Connection: keep-alive"], [b"Connection: Upgrade", b"Upgrade: h2c"], [b"Expect: 100-continue"]])
    method, body = rng.choice([b"GET", b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"]), b""
    target = rng.choice([b"%s", b"%s", b"%s?a=b&c", b"http://x:80%s", b"%s/%%41"]) % path
    if rng.random() < 0.3:
        # The service reads the body, and its response has the name.
        method, target, body = b"POST", b"/v1/pets", b'{"name":"%s","categoryId":1}' % rng.randbytes(rng.randint(1, 20)).hex().encode()
        headers += [b"Authorization: Bearer " + key, b"Content-Type: application/json"]
    elif rng.random() < 0.5:
        body = rng.choice([b"abc", b"x" * 200, b"GET /in-body HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n\r\n", b"0\r\n\r\n"])
    if body and version != b"HTTP/1.0" and rng.random() < 0.5:
        headers.append(b"Transfer-Encoding: chunked")
        body = chunked(rng, body)
    elif body or rng.random() < 0.2:
        headers.append(b"Content-Length: %d" % len(body))
    rng.shuffle(headers)
    return [method, target, version], headers, body


def replace_one(rng, data, old, new):
    """Replaces one occurrence, if there is any."""
    starts = [match.start() for match in re.finditer(re.escape(old), data)]
    if not starts:
        return data
    start = rng.choice(starts)
    return data[:start] + new + data[start + len(old):]


def mutated_length(rng, value):
    forms = [b"+%s", b"-%s", b"0x%s", b"0%s", b"%s ", b"%s\t", b"%s,%s", b"%s, %s", b"%s;", b"%s.0", b"%se0", b"%s_0", b"%s\x0b", b"%s\0", b"\xa0%s", b"%s %s", b'"%s"', b"00000000000000000000000%s", b"1%s", b"18446744073709551616%s", b""]
    if rng.random() < 0.3:
        return b"%d" % max(0, int(value) + rng.choice([-2, -1, 1, 2]))
    form = rng.choice(forms)
    return form.replace(b"%s", value)


def mutate_size(rng, body):
    """Changes the size of a chunk, or what is around it."""
    sizes = list(re.finditer(rb"(?:^|\r\n)([0-9A-Fa-f]+)(;[^\r]*)?\r\n", body))
    if not sizes:
        return body
    start, end = rng.choice(sizes).span(1)
    size = body[start:end]
    forms = [b"+%s", b"-%s", b"0x%s", b" %s", b"\t%s", b"%s ", b"%s\t", b"%s;\n", b"%s;\r", b"%s;\0", b"%s ;a", b"%s,", b"%sg", b"%s_0", b"%sh", b"", b"\n%s", b"\r\n%s", b"0000000000000%s", b"1000000000000000%s", b"%s\x0b", b"%s;a=\"\r\n0\r\n\r\n\"", b"%s%s", b"1%s", b"0"]
    return body[:start] + rng.choice(forms).replace(b"%s", size) + body[end:]


def mutate(rng, line, headers, body):
    """Changes a part of a request."""
    line, headers = list(line), list(headers)
    kind = rng.randrange(10)
    if kind == 0:
        at = rng.randrange(3)
        line[at] = rng.choice([METHODS, TARGETS, VERSIONS][at])
    elif kind == 1:
        headers.insert(rng.randint(0, len(headers)), rng.choice(NAMES) + rng.choice([b"", b" "]) + rng.choice(CODINGS))
    elif kind == 2:
        headers.insert(rng.randint(0, len(headers)), rng.choice(LINES))
    elif kind == 3:
        headers = [re.sub(rb"(?<=Length: )\d+", lambda match: mutated_length(rng, match[0]), header) for header in headers]
    elif kind == 4:
        body = mutate_size(rng, body)
    elif kind == 5:
        body = replace_one(rng, body, b"\r\n", rng.choice(LINE_ENDS))
    elif kind == 6:
        headers = [re.sub(rb"(?<=coding: ).*", lambda _: rng.choice(CODINGS), header) for header in headers]
    elif kind == 7:
        headers.pop(rng.randrange(len(headers))) if headers else None
    elif kind == 8 and headers:
        at = rng.randrange(len(headers))
        headers[at] = rng.choice([headers[at].replace(b":", b" :"), headers[at].replace(b": ", b":\r\n "), headers[at].upper(), headers[at] + b" \t", b" " + headers[at], headers[at] + b"\r\n" + headers[at]])
    else:
        body = rng.choice([body[:-1], body + b"x", body + b"\r\n", body[:len(body) // 2]])
    return line, headers, body


def case(number, key):
    """Returns the bytes of a case, the pieces that they are sent in, and whether they are valid."""
    rng = random.Random(f"{SEED}/{number}")
    sent, is_valid = b"", rng.random() < 0.15
    for _ in range(rng.randint(1, 2)):
        parts = valid_request(rng, b"/%d/a" % number, key)
        mutations = 0 if is_valid else rng.randint(1, 2)
        while mutations and rng.random() < 0.8:
            parts, mutations = mutate(rng, *parts), mutations - 1
        line, headers, body = parts
        request = b"\r\n".join([b" ".join(line), *headers, b"", body])
        if mutations and rng.random() < 0.4:
            request = replace_one(rng, request, b"\r\n", rng.choice(LINE_ENDS))
        elif mutations:
            at = rng.randrange(len(request))
            request = request[:at] + rng.choice([b"", bytes([rng.choice(BYTES)])]) + request[at + rng.randint(0, 1):]
        sent += request
    for name in [b"b", b"c"]:
        sent += b"GET /%d/%s HTTP/1.1\r\nHost: x\r\n\r\n" % (number, name)
    if not is_valid and rng.random() < 0.05:
        sent = sent[:rng.randrange(len(sent))]
    cuts = sorted(rng.randrange(len(sent) + 1) for _ in range(rng.randint(1, 3)))
    pieces = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)]) if start < end]
    return sent, pieces, is_valid


def escaped(text):
    """Returns a text as the service logs it."""
    characters = (c if " " <= c <= "~" else f"\\u{{{ord(c):x}}}" for c in text)
    return "".join(characters)


def path_of(target):
    if target.startswith("/") or target == "*":
        return target.split("?")[0]
    absolute = re.fullmatch(r"[A-Za-z]+://[^/?]*(/[^?]*)?(\?.*)?", target)
    # The target of CONNECT has no path.
    return (absolute[1] or "/") if absolute else ""


def read_by_h11(sent):
    """Returns the requests that h11 reads: method, path and body, which is None if it does not end."""
    requests = []
    while True:
        # h11 rejects empty lines in front of a request (RFC 9112, section 2.2).
        sent = re.sub(rb"^(\r?\n)+", b"", sent)
        # The service accepts UTF-8 in a target: curl sends what a person has typed.
        line, end, rest = sent.partition(b"\n")
        try:
            sent = escaped(line.rstrip(b"\r").decode()).encode() + line[len(line.rstrip(b"\r")):] + end + rest if not line.isascii() else sent
        except UnicodeDecodeError:
            pass
        # What is a field of the trailer for h11 does not matter: the service ignores it.
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=len(sent) + 1)
        connection.receive_data(sent)
        try:
            event = connection.next_event()
            if not isinstance(event, h11.Request):
                return requests
            request = event
            requests.append([request.method.decode(), path_of(request.target.decode()), None])
            body = b""
            while not isinstance(event := connection.next_event(), h11.EndOfMessage):
                if not isinstance(event, h11.Data):
                    return requests
                body += event.data
        except h11.RemoteProtocolError:
            return requests
        requests[-1][2] = body
        connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
        connection.send(h11.EndOfMessage())
        options = {option.strip().lower() for name, value in request.headers if name == b"connection" for option in value.split(b",")}
        # h11 never keeps a connection of HTTP/1.0 open (RFC 9112, section 9.3).
        keeps_alive = b"keep-alive" in options and b"close" not in options
        if connection.our_state is not h11.DONE and not (request.http_version == b"1.0" and keeps_alive):
            return requests
        sent = connection.trailing_data[0]


def exchange(port, pieces):
    """Sends bytes in pieces, and returns the responses: status, id, whether the connection closes, and the JSON
    of the body."""
    received = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            # It has closed already.
            pass
        try:
            while data := connection.recv(1 << 16):
                received += data
        except ConnectionResetError:
            pass
    responses = []
    while received:
        head, end, received = received.partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        assert end and line.startswith("HTTP/1.1 "), head
        if line.startswith("HTTP/1.1 1"):
            continue
        fields = dict(header.split(": ", 1) for header in headers)
        assert len(fields) == len(headers), head
        body = b""
        # A response to HEAD has no content.
        if received and not received.startswith(b"HTTP/1.1 "):
            length = int(fields["content-length"])
            body, received = received[:length], received[length:]
            assert len(body) == length, head
        is_object = body.startswith(b"{")
        status, closes = int(line.split()[1]), fields.get("connection") == "close"
        responses.append((status, fields["x-request-id"], closes, json.loads(body) if is_object else {}))
    return responses


def run(port, key, number):
    sent, pieces, is_valid = case(number, key)
    return number, sent, pieces, is_valid, exchange(port, [sent]), exchange(port, pieces)


def compare(sent, responses, log, counts):
    """Returns the deviation of the service from h11, if there is any."""
    expected = read_by_h11(sent)
    accepted = 0
    for status, request_id, closes, body in responses:
        logged = log.get(request_id)
        # A request that the transport rejects is not logged, and the last one.
        if logged is None or closes and status in [400, 505]:
            counts["rejections"] += 1
            break
        if accepted == len(expected):
            return f"request {accepted} is not one for h11: {logged}"
        method, path, expected_body = expected[accepted]
        if logged != (method, path):
            return f"request {accepted}: {logged}, and for h11 {(method, path)}"
        if status == 201:
            counts["bodies"] += 1
            if expected_body is None or json.loads(expected_body)["name"] != body["name"]:
                return f"request {accepted} has the body {body}, and for h11 {expected_body}"
        accepted += 1
    counts["requests"] += accepted
    counts["stricter"] += accepted < len(expected)
    return None


def main():
    started = time.monotonic()
    deviations = []
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        database = ["--database", f"sqlite:{folder}/petstore.db"]
        log_file = pathlib.Path(folder, "log")
        with log_file.open("wb") as stderr:
            service = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0", "--access-log", "--failed-auth-limit", "1000000/1s", *database], stderr=stderr)
        try:
            while "\n" not in log_file.read_text() and service.poll() is None:
                time.sleep(0.01)
            port = int(json.loads(log_file.read_text().partition("\n")[0])["url"].rpartition(":")[2])
            key = subprocess.run([BINARY, "keys", "create", "test", *database], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.strip()
            with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as executor:
                results = list(executor.map(lambda number: run(port, key, number), range(CASES)))
        finally:
            service.terminate()
            service.wait()
        events = map(json.loads, log_file.read_text().splitlines())
        log = {event["request_id"]: (event["http.request.method"], event["url.path"]) for event in events if event["message"] == "request"}
    for number, sent, pieces, is_valid, whole, split in results:
        deviation = compare(sent, whole, log, counts) or compare(sent, split, log, counts)
        statuses = [[status for status, *_ in responses] for responses in [whole, split]]
        # The service may respond before the body arrives, and closes then.
        expects = b"expect" in sent.lower()
        if statuses[0] != statuses[1] and not expects:
            deviation = deviation or f"{statuses[0]} at once, {statuses[1]} in pieces"
        if is_valid and not expects and len(whole) != len(read_by_h11(sent)):
            deviation = deviation or "a valid request is rejected"
        if deviation:
            deviations.append(f"case {number}: {deviation}\n  {pieces}\n  {statuses}\n  h11: {read_by_h11(sent)}")
    print(f"seed {SEED}, {CASES} cases in {time.monotonic() - started:.1f} s: {dict(counts)}")
    print("\n".join(deviations[:20]))
    if deviations:
        sys.exit(f"{len(deviations)} deviations with seed {SEED}")
    # The cases have all that is compared.
    assert all(counts[name] > CASES // 20 for name in ["requests", "rejections", "stricter", "bodies"]), counts


main()
