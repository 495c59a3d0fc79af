"""web.py PORTFILE FILE [CERT KEY]: serves FILE at /plain, with faults at other paths; writes its port to PORTFILE.

/cut      sends a quarter of what is asked for and closes, until all was sent
/stuck    closes without a byte
/changed  another file each time, with another ETag, cut once
/norange  cuts once and knows no ranges
/away     redirects to /plain; /round redirects to itself; /down redirects to http
/page     a web page; /empty  nothing; /slow  takes a second; /late  the same, without a tag
/gone     404; /busy  503 once
"""
import hashlib, http.server, os, ssl, sys, time

portfile, name = sys.argv[1:3]
body = open(name, "rb").read()
seen = {}

class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        with open(portfile + ".log", "a") as f:
            f.write(f"{self.path} {self.headers.get('Range', '-')}\n")

    def send(self, data, most=None, ranges=True):
        tag = '"' + hashlib.md5(data).hexdigest() + '"'
        start, asked = 0, self.headers.get("Range")
        if asked and ranges and self.headers.get("If-Range", tag) == tag:
            start = int(asked[6:].split("-")[0])
        if start >= len(data) and start:
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", tag)
        self.end_headers()
        part = data[start:]
        if most is not None and len(part) > most:
            part = part[:most]
            self.close_connection = True
        self.wfile.write(part)

    def redirect(self, to):
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        path = self.path
        n = seen[path] = seen.get(path, 0) + 1
        if path == "/cut":
            self.send(body, len(body) // 4 + 1)
        elif path == "/stuck":
            self.close_connection = True
        elif path == "/changed":
            self.send(bytes([n]) + body[1:], len(body) // 2 if n == 1 else None)
        elif path == "/norange":
            self.send(body, len(body) // 2 if n == 1 else None, ranges=False)
        elif path == "/away":
            self.redirect("/plain")
        elif path == "/round":
            self.redirect("/round")
        elif path == "/down":
            self.redirect("http://127.0.0.1:1/plain")
        elif path == "/busy" and n == 1:
            self.send_error(503)
        elif path in ("/page", "/empty"):
            page = b"<html>log in</html>" if path == "/page" else b""
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8" if page else "application/octet-stream")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
        elif path in ("/slow", "/late"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if path == "/slow":
                self.send_header("ETag", '"slow"')
            self.end_headers()
            for at in range(0, len(body), 30000):
                self.wfile.write(body[at:at + 30000])
                time.sleep(0.1)
        elif path == "/gone":
            self.send_error(404)
        elif path == "/other":
            self.send(b"another" + body)
        else:
            self.send(open(name, "rb").read())

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(portfile + ".tmp", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(portfile + ".tmp", portfile)
server.serve_forever()
