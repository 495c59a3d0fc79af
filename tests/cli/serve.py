"""serve.py ADDRESS IMAGE PREDICTED PID: asks a server of `detrgraph serve --limit 1 --pixels 1 --threshold 0`; a line per case, with
a fault after a tab. PREDICTED: what `predict --format jsonl` says of IMAGE. Ends the server, PID."""
import http.client, json, os, re, signal, socket, struct, sys, threading, time, urllib.error, urllib.request, zlib

address, image, predicted, process = sys.argv[1:]
picture = open(image, "rb").read()
known = json.loads(open(predicted).read())
host, port = address.removeprefix("http://").split(":")


def ask(path, body=None, method=None, **headers):
    q = urllib.request.Request(address + path, data=body, method=method, headers=headers)
    q.add_unredirected_header("Content-Type", headers.get("kind", "application/octet-stream"))
    try:
        with urllib.request.urlopen(q, timeout=600) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def form(*files):
    mark = b"0123456789abcdef"
    body = b"".join(
        b'--%s\r\nContent-Disposition: form-data; name="image"; filename="%s"\r\n'
        b"Content-Type: image/png\r\n\r\n%s\r\n" % (mark, name.encode(), data) for name, data in files)
    return ask("/detect", body + b"--%s--\r\n" % mark, kind="multipart/form-data; boundary=" + mark.decode())


def same(found):
    return found["width"] == known["width"] and found["detections"] == known["detections"]


def error(answer, status, id):
    got, headers, body = answer
    e = json.loads(body)
    e = (e[0] if isinstance(e, list) else e)["error"]
    if (got, e["id"]) != (status, id) or not e["message"]:
        return f"{got} {body!r}"
    return "" if headers["Content-Type"] == "application/json" else headers["Content-Type"]


def one():
    status, headers, body = ask("/detect", picture)
    return "" if status == 200 and len(known["detections"]) == 10 and same(json.loads(body)) else f"{status} {body!r}"


def threshold():
    least = known["detections"][3]["score"]
    found = json.loads(ask(f"/detect?threshold={least}", picture)[2])["detections"]
    return "" if 3 <= len(found) <= 5 and all(o["score"] >= least for o in found) else str(found)


def several():
    status, _, body = form(("a.png", picture), ("b.png", b"no image"), ("c.png", picture))
    r = json.loads(body)
    good = status == 200 and [x["image"] for x in r] == ["a.png", "b.png", "c.png"] and same(r[0]) and same(r[2])
    return "" if good and r[1]["error"]["id"] == "image-unknown" else f"{status} {body!r}"


def together():
    """50 requests at a time: all are answered, each as if it were alone. How they share batches depends on time."""
    before = json.loads(ask("/health")[2])
    gate, faults = threading.Barrier(50), []

    def client():
        gate.wait()
        for _ in range(4):
            status, _, body = ask("/detect", picture)
            if status != 200 or not same(json.loads(body)):
                faults.append(f"{status} {body[:80]!r}")

    threads = [threading.Thread(target=client) for _ in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    after = json.loads(ask("/health")[2])
    images, batches = after["images"] - before["images"], after["batches"] - before["batches"]
    if images != 200 or not 100 <= batches <= 200 or after["waiting"]:
        faults.append(f"{images} images in {batches} batches, {after['waiting']} wait")
    return "; ".join(faults[:3])


def batches():
    """Images that wait together are computed together: eight of a form in four batches of two."""
    before = json.loads(ask("/health")[2])
    status, _, body = form(*[("a.png", picture)] * 8)
    after = json.loads(ask("/health")[2])
    n = after["batches"] - before["batches"]
    return "" if status == 200 and all(map(same, json.loads(body))) and n == 4 else f"status {status}, {n} batches"


def chunked():
    """A body without a length, larger than the limit."""
    c = http.client.HTTPConnection(host, int(port), timeout=600)
    try:
        c.request("POST", "/detect", iter([b"x" * 65536] * 20), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        r = c.getresponse()
        return error((r.status, r.headers, r.read()), 413, "serve-large")
    finally:
        c.close()


def endless(part):
    """A form of that part again and again, without a length: refused past the limit, and not read for ever."""
    def sent(most):
        s = socket.create_connection((host, int(port)), timeout=600)
        s.sendall(b"POST /detect HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
                  b"Content-Type: multipart/form-data; boundary=0123456789abcdef\r\n\r\n")
        piece = part * (65536 // len(part))
        try:
            for _ in range(most // len(piece)):
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            s.sendall(b"0\r\n\r\n")
            answer = s.makefile("rb").read()
        except ConnectionError:
            answer = b""
        s.close()
        return answer

    short, long = sent(3 << 19), sent(64 << 20)
    if b" 413 " not in short or b"serve-large" not in short:
        return f"of 1.5 MiB: {short!r}"
    return f"of 64 MiB: {long!r}" if long else ""


def large():
    c = http.client.HTTPConnection(host, int(port), timeout=600)
    c.putrequest("POST", "/detect")
    c.putheader("Content-Length", str(3 << 20))
    c.endheaders()
    r = c.getresponse()
    return error((r.status, r.headers, r.read()), 413, "serve-large")


def png(side):
    """A black square of 1-bit pixels: some KiB, whatever its side."""
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = zlib.compress(bytes(1 + (side + 7) // 8) * side, 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)) +
            chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def pixels():
    """A small file of a large image is refused by its header, alone and among others; its pixels take no memory."""
    peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{process}/status").read())[1])
    before = peak()
    for side, id in ((16000, "serve-pixels"), (1001, "serve-pixels"), (32769, "image-size")):
        fault = error(ask("/detect", png(side)), 413, id)
        if fault:
            return f"{side}: {fault}"
    status, _, body = form(("a.png", picture), ("b.png", png(16000)))
    r = json.loads(body)
    if status != 200 or not same(r[0]) or "16000 x 16000" not in r[1]["error"]["message"]:
        return f"{status} {body!r}"
    return "" if peak() - before < 100 << 10 else f"{before} KiB became {peak()}"


def together_large():
    """Two of a batch's size, but of more pixels than the limit together: each gets a batch of its own."""
    before = json.loads(ask("/health")[2])
    status, _, body = form(*[("a.png", png(800))] * 4)
    n = json.loads(ask("/health")[2])["batches"] - before["batches"]
    return "" if status == 200 and n == 4 else f"status {status}, {n} batches"


def cut():
    """A client that goes away leaves the server as it was."""
    s = socket.create_connection((host, int(port)))
    s.sendall(b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
    s.close()
    return one()


def busy():
    """Eight requests hold all but eight bytes of what the server holds in all. One that asks before it has read them takes
    room from them and has them refused, so each try holds anew and gives it more time; it closes silent ones after 10 s."""
    size, pause, answer = 1 << 20, 0.01, (400,)
    while answer[0] == 400 and pause < 8:
        held = []
        for _ in range(8):
            s = socket.create_connection((host, int(port)))
            s.sendall(b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * (size - 1))
            held.append(s)
        time.sleep(pause)
        answer, pause = ask("/detect", b"x" * size), pause * 2
        for s in held:
            s.close()
    fault = error(answer, 503, "serve-busy") or ("" if answer[1]["Retry-After"] else "no Retry-After")
    while ask("/detect", b"x" * size)[0] == 503:  # until it has seen that they are gone
        pass
    return fault


def ends():
    """Images that wait when a signal comes get an answer: what predict finds, or that the server ends. One answer may be
    for all images of a request. A request that is still on its way may be cut."""
    answers = []

    def send():
        try:
            answers.append(json.loads(form(*[("a.png", picture)] * 64)[2]))
        except (OSError, http.client.HTTPException):
            pass

    clients = [threading.Thread(target=send) for _ in range(4)]
    for t in clients:
        t.start()
    while any(t.is_alive() for t in clients) and json.loads(ask("/health")[2])["waiting"] < 128:
        pass
    os.kill(int(process), signal.SIGTERM)
    for t in clients:
        t.join()
    got = [x for a in answers for x in ([a] * 64 if isinstance(a, dict) else a)]
    late = sum(x.get("error", {}).get("id") == "serve-ending" for x in got)
    right = late + sum(map(same, (x for x in got if "error" not in x)))
    return "" if right == len(got) >= 128 else f"{len(got)} answers, {right} right, {late} of them late"


def pages():
    health, classes, page = json.loads(ask("/health")[2]), json.loads(ask("/classes")[2]), ask("/")
    if health["state"] != "ready" or health["batch"] != 2 or health["threshold"] != 0:
        return str(health)
    if not classes or [c["label"] for c in classes] != list(range(len(classes))) or not all(c["name"] for c in classes):
        return str(classes)
    return "" if page[1]["Content-Type"].startswith("text/html") and page[2].endswith(b"</html>\n") else str(page)


cases = {
    "one image: what predict finds": one,
    "a threshold of the request": threshold,
    "a threshold that is none": lambda: error(ask("/detect?threshold=much", picture), 400, "serve-threshold"),
    "a form with several files, one of them broken": several,
    "health, classes, and the page": pages,
    "images that wait together": batches,
    "50 requests at a time": together,
    "no image": lambda: error(ask("/detect", b"text"), 400, "image-unknown"),
    "a picture that is cut": lambda: error(ask("/detect", picture[:60]), 400, "image-broken"),
    "nothing": lambda: error(ask("/detect", b""), 400, "serve-empty"),
    "too many files": lambda: error(form(*[("a.png", b"x")] * 65), 413, "serve-many"),
    "a request that is too large": large,
    "one that does not say how large it is": chunked,
    "an image that is too large": pixels,
    "images that are too large together": together_large,
    "a form of empty files that never ends":
        lambda: endless(b'--0123456789abcdef\r\nContent-Disposition: form-data; name="i"; filename="a.png"\r\n\r\n\r\n'),
    "a field that never ends": lambda: endless(b'--0123456789abcdef\r\nContent-Disposition: form-data; name="i"\r\n\r\nx'),
    "a place that is not there": lambda: error(ask("/elsewhere"), 404, "serve-path"),
    "another method": lambda: error(ask("/detect"), 405, "serve-method") or error(ask("/health", b"x"), 405, "serve-method"),
    "a client that goes away": cut,
    "more than the server holds": busy,
    "an end while images wait": ends,
}
for name, case in cases.items():
    try:
        fault = case()
    except Exception as e:
        fault = repr(e)
    print(name, fault.replace("\n", " "), sep="\t", flush=True)
print("end")
