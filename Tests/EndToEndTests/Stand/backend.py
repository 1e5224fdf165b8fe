"""An existing REST backend for the tests (Django REST framework), and a relay with faults before it."""
import json, os, socket, struct, sys, threading, http.client, http.server, socketserver
folder = sys.argv[1]
import django
from django.conf import settings
settings.configure(
    DEBUG=False, SECRET_KEY="test", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, USE_TZ=True,
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.path.join(folder, "backend.db"),
               "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"}}},
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_PERMISSION_CLASSES": [],
                    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
                    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination", "PAGE_SIZE": 5})
django.setup()
from django.db import connection, models, transaction
from django.urls import include, path
from django.core.wsgi import get_wsgi_application
from rest_framework import routers, serializers, viewsets
from rest_framework.exceptions import APIException
from rest_framework.response import Response

class Site(models.Model):
    name = models.CharField(max_length=200)
    updated_at = models.DateTimeField(auto_now=True)
    class Meta: app_label = "field"
class Order(models.Model):
    title = models.CharField(max_length=200)
    site = models.ForeignKey(Site, null=True, on_delete=models.CASCADE)
    visits = models.IntegerField(default=0)
    notes = models.TextField(default="", blank=True)
    finding = models.CharField(max_length=100, default="", blank=True)
    client_ref = models.CharField(max_length=64, null=True, unique=True)
    revision = models.IntegerField(default=0)
    deleted_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)
    class Meta: app_label = "field"
class Remark(models.Model):
    text = models.CharField(max_length=200)
    order = models.ForeignKey(Order, null=True, on_delete=models.CASCADE)
    updated_at = models.DateTimeField(auto_now=True)
    class Meta: app_label = "field"
class Known(models.Model):
    key = models.CharField(max_length=100, unique=True)
    body = models.TextField()
    status = models.IntegerField()
    class Meta: app_label = "field"
if not os.path.exists(os.path.join(folder, "made")):
    with connection.schema_editor() as editor:
        for model in (Site, Order, Remark, Known): editor.create_model(model)
    open(os.path.join(folder, "made"), "w").close()

class Moved(APIException):
    status_code, default_detail = 412, "the record has another version"
class Missing(APIException):
    status_code, default_detail = 428, "If-Match is required"
class Denied(APIException):
    status_code, default_detail = 401, "no credentials"

def serializer(model, read_only=()):
    meta = type("Meta", (), {"model": model, "fields": "__all__", "read_only_fields": read_only})
    return type(model.__name__ + "Serializer", (serializers.ModelSerializer,), {"Meta": meta})
class Checked(viewsets.ModelViewSet):
    def initial(self, request, *rest, **more):
        super().initial(request, *rest, **more)
        if request.headers.get("X-Api-Key") != "secret": raise Denied()
    def get_queryset(self):
        rows = self.model.objects.order_by("id")
        since = self.request.query_params.get("updated_since")
        return rows.filter(updated_at__gte=since) if since else rows
class Sites(Checked):
    model, serializer_class = Site, serializer(Site)
    def create(self, request, *rest, **more):
        key = request.headers.get("Idempotency-Key", "")
        if not (key.startswith('"') and key.endswith('"')): return Response({"detail": "a quoted Idempotency-Key is required"}, 400)
        with transaction.atomic():
            known = Known.objects.filter(key=key).first()
            if known: return Response(json.loads(known.body), known.status)
            answer = super().create(request, *rest, **more)
            Known.objects.create(key=key, body=json.dumps(answer.data), status=answer.status_code)
            return answer
class Orders(Checked):
    model, serializer_class = Order, serializer(Order, ("revision", "deleted_at"))
    def get_queryset(self):
        rows = super().get_queryset()
        if self.action != "list": return rows.filter(deleted_at=None)
        ref = self.request.query_params.get("client_ref")
        if ref: return rows.filter(client_ref=ref)
        return rows if self.request.query_params.get("updated_since") else rows.filter(deleted_at=None)
    def tag(self, row): return '"%d-%d"' % (row.pk, row.revision)
    def tagged(self, answer, row):
        answer["ETag"] = self.tag(row)
        return answer
    def locked(self, request):
        row = self.get_object()
        given = request.headers.get("If-Match")
        if given is None: raise Missing()
        if given != self.tag(row): raise Moved()
        return row
    def retrieve(self, request, *rest, **more):
        row = self.get_object()
        return self.tagged(Response(self.get_serializer(row).data), row)
    def create(self, request, *rest, **more):
        with transaction.atomic():
            answer = super().create(request, *rest, **more)
            return self.tagged(answer, Order.objects.get(pk=answer.data["id"]))
    def partial_update(self, request, *rest, **more):
        with transaction.atomic():
            row = self.locked(request)
            form = self.get_serializer(row, data=request.data, partial=True)
            form.is_valid(raise_exception=True)
            row = form.save(revision=row.revision + 1)
            return self.tagged(Response(form.data), row)
    def destroy(self, request, *rest, **more):
        from django.utils import timezone
        with transaction.atomic():
            row = self.locked(request)
            row.deleted_at, row.revision = timezone.now(), row.revision + 1
            row.save()
            return Response(status=204)
class Remarks(Checked):
    model, serializer_class = Remark, serializer(Remark)

router = routers.DefaultRouter()
for name, view in (("sites", Sites), ("orders", Orders), ("remarks", Remarks)): router.register(name, view, name)
urlpatterns = [path("api/", include(router.urls))]

from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
class Quiet(WSGIRequestHandler):
    def log_message(self, *rest): pass
backend = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
backend.set_app(get_wsgi_application())
threading.Thread(target=backend.serve_forever, daemon=True).start()

# A relay with faults. rules: [{"method", "path", "fault", "count"}], or {"seed", "share"} for a share of all requests.
lock, rules, seen = threading.Lock(), [], []
import random
dice, share = random.Random(1), [0.0]
# A client that repeats itself without end, as RepetitionOracle.swift sees it; told with the next answer to /__faults.
import hashlib, time
LIMIT_ALL, LIMIT_SAME, HALF = 4000, 400, 5
complaints, counted = [], {"slot": None, "all": [0, 0], "same": [{}, {}]}
def watch(method, target, body):
    slot = int(time.monotonic()) // HALF
    if slot != counted["slot"]:
        follows = counted["slot"] is not None and slot == counted["slot"] + 1
        counted["all"] = [0, counted["all"][0] if follows else 0]
        counted["same"] = [{}, counted["same"][0] if follows else {}]
        counted["slot"] = slot
    name = hashlib.sha256(b"%s %s %s" % (method.encode(), target.encode(), body)).digest()[:8]
    counted["all"][0] += 1
    counted["same"][0][name] = counted["same"][0].get(name, 0) + 1
    if sum(counted["all"]) == LIMIT_ALL + 1: complaints.append("more than %d requests in 10 s" % LIMIT_ALL)
    if sum(c.get(name, 0) for c in counted["same"]) == LIMIT_SAME + 1:
        complaints.append("more than %d times the same request in 10 s: %s %s" % (LIMIT_SAME, method, target))
KINDS = ["reset-before", "reset-after", "500-before", "500-after", "503", "429", "409", "412"]
def choose(method, target):
    with lock:
        for rule in rules:
            if rule["method"] == method and rule["path"] in target and rule["count"] > 0:
                rule["count"] -= 1
                return rule["fault"]
        if share[0] and dice.random() < share[0]: return dice.choice(KINDS)
    return None
class Relay(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *rest): pass
    def say(self, status, body=b"{}", headers=()):
        self.send_response(status)
        for name, value in headers: self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
    def any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/__faults":
            wish = json.loads(body)
            with lock:
                rules[:] = wish.get("rules", [])
                share[0] = wish.get("share", 0.0)
                dice.seed(wish.get("seed", 1))
                said = json.dumps({"seen": seen, "complaints": complaints}).encode()
                complaints.clear()
                if wish.get("forget"): seen.clear()
            return self.say(200, said, [("Content-Type", "application/json")])
        json_type = [("Content-Type", "application/json")]
        fault = choose(self.command, self.path)
        with lock: watch(self.command, self.path, body)
        with lock: seen.append([self.command, self.path, fault or "", self.headers.get("If-Match") or ""])
        if fault == "reset-before": return self.reset()
        if fault in ("500-before", "503"): return self.say(int(fault[:3]), b'{"detail": "broken"}', json_type)
        if fault == "429": return self.say(429, b'{"detail": "slow down"}', json_type + [("Retry-After", "1")])
        if fault == "409" and self.command == "POST" and "sites" in self.path:
            return self.say(409, b'{"type": "urn:x:request-in-progress", "detail": "in progress"}', json_type)
        if fault == "412" and self.headers.get("If-Match"): return self.say(412, b'{"detail": "moved"}', json_type)
        link = http.client.HTTPConnection("127.0.0.1", backend.server_port, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "accept-encoding", "content-length")}
        link.request(self.command, self.path, body or None, headers)
        answer = link.getresponse()
        content = answer.read()
        link.close()
        if fault == "reset-after": return self.reset()
        if fault == "500-after": return self.say(500, b'{"detail": "broken"}', json_type)
        kept = [(k, v) for k, v in answer.getheaders() if k in ("Content-Type", "ETag", "Location", "Date")]
        self.send_response_only(answer.status)
        for name, value in kept: self.send_header(name, value)
        if answer.status != 204: self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = any
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
relay = Server(("127.0.0.1", 0), Relay)
print("ready %d %d" % (backend.server_port, relay.server_port), flush=True)
relay.serve_forever()
