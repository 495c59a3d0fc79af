"""live.py ADDRESS FOLDER PROCESS KIND: looks at a server of `detrgraph report --serve FOLDER`; a line per case, with a fault
after a tab. KIND "ended": FOLDER is a run's that has ended; its files are changed, removed and put back. KIND
"running": it is training, and is stopped. Ends the server, PROCESS."""
import json, os, queue, re, shutil, signal, socket, subprocess, sys, threading, urllib.error, urllib.request

address, folder, process, kind = sys.argv[1:5]
host, port = address.removeprefix("http://").split(":")
LONG = 300  # seconds; nothing here takes as long, on any machine


def ask(path, method="GET", **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, method=method, headers=headers), timeout=LONG) as r:
            return r.status, r.headers, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


class Viewer:
    """Reads events as a browser does."""

    def __init__(self):
        self.got = queue.Queue()
        self.reply = urllib.request.urlopen(address + "/events", timeout=LONG)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        name = ""
        try:
            for line in self.reply:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    self.got.put((name, json.loads(line[6:])))
        except (OSError, ValueError):
            pass
        self.got.put(("end", None))

    def until(self, what):
        """The first event that what(name, data) accepts."""
        while True:
            name, data = self.got.get(timeout=LONG)
            if what(name, data):
                return data
            if name == "end":
                raise Exception("the events ended")

    def run(self, what):
        return self.until(lambda n, d: n == "now" and what(d["runs"][0]))["runs"][0]


def page():
    status, headers, text = ask("/")
    faults = [] if status == 200 and headers["Content-Type"].startswith("text/html") else [str(status)]
    if "Content-Security-Policy" not in text or "default-src 'none'" not in text:
        faults.append("no policy")
    for known in ('id="live"', 'src="live.js"', 'id="losses"', 'id="headline"'):
        if known not in text:
            faults.append("without " + known)
    if re.search(r"<(script|img)[^>]*(alert|onerror)", text):
        faults.append("a name became an element")
    return " ".join(faults)


def sums_agree():
    sums = json.loads(re.search(r'data-sums="([^"]*)"', ask("/")[2]).group(1).replace("&quot;", '"'))
    seen = Viewer().until(lambda n, d: n == "page")
    parts = [ask("/part/" + i) for i in sums]
    bad = [i for i, p in zip(sums, parts) if p[0] != 200 or not p[2].startswith(f'<section id="{i}"')]
    return "" if list(sums) == list(seen) and len(sums) > 5 and not bad else f"{sums} {seen} {bad}"


def other_requests():
    wanted = {"/nothing": 404, "/part/nothing": 404, "/part/../run.json": 404, "//etc/passwd": 404, "/live.js": 200}
    got = {path: ask(path)[0] for path in wanted}
    got["post"], wanted["post"] = ask("/", "POST")[0], 405
    got["elsewhere"], wanted["elsewhere"] = ask("/", Host="elsewhere.example")[0], 403
    got["localhost"], wanted["localhost"] = ask("/", Host="localhost:1")[0], 200
    return "" if got == wanted else str(got)


def ended():
    r = Viewer().run(lambda r: True)
    return "" if r["there"] and not r["answers"] and r["ended"] == "done" and r["now"]["step"] == 2 else str(r)


def news():
    v = Viewer()
    first = v.until(lambda n, d: n == "page")
    with open(folder + "/metrics.jsonl", "a") as f:
        f.write('{"step":3,"epoch":0,"loss":77.125,"<script>alert(1)</script>":1}\n')
    seen = {}

    def both(name, data):  # in any order
        if name == "page" and data != first or name == "now" and data["runs"][0]["now"]["step"] == 3:
            seen[name] = data
        return len(seen) == 2

    v.until(both)
    r, second = seen["now"]["runs"][0], seen["page"]
    part = ask("/part/losses")[2]
    if r["now"]["loss"] != 77.125 or first["losses"] == second["losses"] or first["setup"] != second["setup"]:
        return f"{r} {first} {second}"
    return "" if "&lt;script&gt;alert(1)" in part and "<script>alert" not in part else "the section is not new, or not escaped"


def deleted():
    v = Viewer()
    os.rename(folder, folder + ".away")
    v.run(lambda r: not r["there"])
    status = ask("/")[0]
    os.rename(folder + ".away", folder)
    v.run(lambda r: r["there"])
    return "" if status == 200 else str(status)


def restarted():
    v = Viewer()
    v.run(lambda r: r["now"]["step"] == 3)
    os.unlink(folder + "/metrics.jsonl")  # a file system may give its number to the new one
    with open(folder + "/other", "w") as f:  # longer than the old one: only the file itself tells
        f.write('{"step":1,"epoch":0,"loss":5}\n' * 400)
    os.rename(folder + "/other", folder + "/metrics.jsonl")
    r = v.run(lambda r: r["now"]["step"] == 1)
    return "" if r["now"]["loss"] == 5 and r["now"]["best_AP"] is None else str(r)


def several():
    """Some do not read at all; the others have their news."""
    lazy = []
    for _ in range(20):
        s = socket.create_connection((host, int(port)))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        lazy.append(s)
    viewers = [Viewer() for _ in range(8)]
    for n in range(3):
        with open(folder + "/metrics.jsonl", "a") as f:
            f.write('{"step":%d,"epoch":0,"loss":4}\n' % (100 + n))
        for v in viewers:
            v.run(lambda r: r["now"]["step"] == 100 + n)
    for s in lazy:
        s.close()
    return "" if ask("/")[0] == 200 else "the page does not come"


def running():
    v = Viewer()
    r = v.run(lambda r: r["answers"] and r["now"]["state"] == "training" and r["now"]["step"] > 2)
    later = v.run(lambda x: x["now"]["step"] > r["now"]["step"])
    n = later["now"]
    faults = [k for k in ("loss", "mean_loss", "lr", "left_seconds", "images_per_s", "memory_bytes") if not n[k] > 0]
    if n["steps"] != 1000000 or n["rank"][0]["state"] != "here":
        faults.append(str(n))
    return " ".join(faults)


def stops():
    v = Viewer()
    subprocess.run([sys.argv[5], "ctl", folder, "stop"], stdout=subprocess.DEVNULL, check=True)
    r = v.run(lambda r: not r["answers"] and r["ended"] == "stopped")
    return "" if r["why"] else "no reason"


def signal_ends():
    v = Viewer()
    v.until(lambda n, d: n == "now")
    os.kill(int(process), signal.SIGTERM)
    v.until(lambda n, d: n == "end")
    return ""


ended_cases = (("the page", page), ("sections and their sums", sums_agree), ("other requests", other_requests),
               ("a run that has ended", ended), ("what is new is sent, escaped", news), ("a folder that is gone, and back", deleted),
               ("a run that begins again", restarted), ("several viewers, and some that do not read", several))
running_cases = (("a run that trains", running), ("other requests by its address", other_requests), ("its end", stops))
for name, case in (ended_cases if kind == "ended" else running_cases) + (("a signal ends the events", signal_ends),):
    try:
        fault = case()
    except Exception as e:
        fault = repr(e)
    print(f"{name}\t{fault}", flush=True)
print("end")
os._exit(0)
