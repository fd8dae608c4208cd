"""Error texts made from templates: the same error again, and an error that is another one.

A slot in capitals identifies the error; one in small letters varies from one occurrence to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final, NamedTuple

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Pair(NamedTuple):
    """Two error texts of a template, and whether they are the same error."""

    template: str
    one: str
    other: str
    is_same: bool


def _digits(low: int, high: int) -> Callable[[Random], str]:
    return lambda random: str(random.randint(low, high))


def _hex(length: int) -> Callable[[Random], str]:
    # A digest without a letter or without a digit would be a number or a word.
    return lambda random: "3e" + "".join(random.choices("0123456789abcdef", k=length - 2))


def _word(length: int) -> Callable[[Random], str]:
    return lambda random: "".join(random.choices(_LETTERS + "0123456789", k=length))


def _made(pattern: str) -> Callable[[Random], str]:
    """Return a maker of texts like the pattern: `9` is a digit, `x` a hexadecimal digit."""
    made = {"9": "0123456789", "x": "0123456789abcdef"}
    return lambda random: "".join(random.choice(made.get(each, each)) for each in pattern)


def _of(*choices: str) -> Callable[[Random], str]:
    return lambda random: random.choice(choices)


def _iso(random: Random) -> str:
    date = f"202{random.randint(3, 6)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"{date}T{_clock(random)}{random.choice(['Z', '.123Z', '+02:00', '.004113'])}"


def _clock(random: Random) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"


def _temporary(random: Random) -> str:
    name = _word(8)(random)
    return random.choice(
        [
            f"/tmp/{name}/out.txt",
            f"/var/folders/zz/{name}/T/x.o",
            f"/tmp/tmp.{name}",
            f"/var/tmp/pip-{name}/a.py",
        ]
    )


VARYING: Final[Mapping[str, Callable[[Random], str]]] = {
    "pid": _digits(2, 99_999),
    "addr": lambda random: "0x" + _made(random.choice(["7fxxxxxxxxxx", "00007fxxxxxxxx", "5x3a2b"]))(random),
    "iso": _iso,
    "clock": _clock,
    "syslog": lambda random: (
        f"{random.choice(['Jan', 'Mar', 'Nov'])} {random.randint(10, 28)} {_clock(random)}"
    ),
    "dur": lambda random: (
        f"{random.randint(1, 900)}{random.choice(['ms', ' ms', 's', ' seconds', '.25s', ' s'])}"
    ),
    "ms": _digits(1, 9_000),
    "tmp": _temporary,
    "wintmp": lambda random: rf"C:\Users\ann\AppData\Local\Temp\{_word(7)(random)}\a.obj",
    "sha": _hex(40),
    "short": _hex(7),
    "container": _hex(12),
    "uuid": _made("xxxxxxxx-xxxx-4xxx-axxx-xxxxxxxxxxxx"),
    "request": lambda random: "A7" + _made("xxxxxxxxxxxxxx")(random).upper(),
    "count": _digits(1, 90_000),
    "line": _digits(1, 2_000),
    "column": _digits(1, 90),
    "bytes": _digits(1_000, 90_000_000),
    "tries": _digits(2, 9),
    "ip": _made("10.9.9.9"),
    "ephemeral": _digits(32_768, 60_999),
    "epoch": lambda random: f"17{_made('99999999')(random)}",
    "pod": lambda random: f"{_made('7d9fxxxxxx')(random)}-{_word(5)(random)}",
    "home": _of("/home/ann", "/home/bob", "/Users/eve", "/root"),
}
IDENTIFYING: Final[Mapping[str, Callable[[Random], str]]] = {
    "EXIT": _of("1", "2", "3", "17", "22", "126", "127", "128", "137", "139", "143", "255"),
    "HTTP": _of("400", "401", "403", "404", "409", "413", "422", "429", "500", "502", "503", "504"),
    "ERRNO": _of("2", "5", "13", "17", "20", "24", "28", "32", "98", "104", "110", "111", "113"),
    "SIGNAL": _of("4", "6", "7", "8", "9", "11", "13", "15"),
    "CURL": _of("3", "5", "6", "7", "22", "28", "35", "52", "56", "60"),
    "GRPC": _of("1", "2", "3", "4", "5", "7", "8", "12", "13", "14", "16"),
    "PORT": _of("22", "80", "443", "3000", "3306", "5432", "6379", "8000", "8080", "9092", "27017"),
    "VERSION": _of("1.2.3", "1.2.4", "2.0.0", "3.11.4", "0.9.12", "18.20.1", "20.3.0", "4.0.0-rc.1"),
    "SERIES": _of("3.8", "3.9", "3.10", "3.12", "2.7", "1.22"),
    "MAJOR": _of("14", "16", "17", "18", "20", "21", "11", "8"),
    "FILE": _of("config.yaml", "settings.toml", "main.tf", "app.py", "users.sql", "index.html", "Makefile"),
    "SOURCE": _of("main", "users", "orders", "parser", "cache", "auth", "queue"),
    "ETC": _of("/etc/hosts", "/etc/passwd", "/etc/nginx/nginx.conf", "/etc/ssl/openssl.cnf", "/etc/fstab"),
    "LIB": _of("libssl.so.3", "libssl.so.1.1", "libz.so.1", "libffi.so.8", "libffi.so.7", "libpq.so.5"),
    "NAME": _of("users", "orders", "invoices", "events", "sessions", "clinics"),
    "MODULE": _of("numpy", "yaml", "requests", "psycopg2", "boto3", "h5py"),
    "RUSTC": _of("E0308", "E0382", "E0433", "E0499", "E0502", "E0599"),
    "TS": _of("TS2304", "TS2322", "TS2345", "TS7006", "TS2554"),
    "CS": _of("CS0103", "CS0246", "CS1002", "CS8600"),
    "MSVC": _of("C2065", "C2143", "C1083", "LNK2019", "LNK1120"),
    "ORA": _of("ORA-00942", "ORA-01017", "ORA-12154", "ORA-00001", "ORA-12541"),
    "SQLSTATE": _of("42P01", "42703", "23505", "23503", "40001", "40P01", "57014", "28P01"),
    "MYSQL": _of("1045", "1049", "1054", "1062", "1064", "1146", "1205", "1213", "2002"),
    "MSSQL": _of("208", "547", "2627", "4060", "18456", "1205"),
    "HRESULT": _of("0x80070005", "0x80070002", "0x80004005", "0x80131500", "0xC0000005", "0x8007000E"),
    "CVE": _of("CVE-2024-3094", "CVE-2021-44228", "CVE-2023-4863", "CVE-2022-22965"),
    "MONGO": _of("E11000", "E11001", "E12012"),
    "WIN": _of("5", "32", "1326", "10048", "10060", "10061", "126"),
    "NPM": _of("ERESOLVE", "E404", "E401", "E403", "EACCES", "ENOENT", "E409"),
    "LINT": _of("F401", "E501", "W291", "SC2086", "SC2046", "DL3008", "CKV_AWS_20"),
}

TEMPLATES: Final[tuple[str, ...]] = (
    # Shells and the system.
    "make[{tries}]: *** [Makefile:{line}: all] Error {EXIT}",
    "bash: line {line}: {pid} Killed  python {FILE}, signal {SIGNAL}",
    "Process {pid} exited with code {EXIT} after {dur}",
    "{syslog} host systemd[1]: app.service: Main process exited, code=exited, status={EXIT}/FAILURE",
    "command terminated with exit code {EXIT} (pid {pid}, took {dur})",
    "subprocess.CalledProcessError: Command '['git', 'pull']' returned non-zero exit status {EXIT}.",
    "[{clock}] worker {pid}: terminated by signal {SIGNAL} (core dumped)",
    "cp: cannot create regular file '{ETC}': Permission denied",
    "rsync error: some files/attrs were not transferred (code {EXIT}) at main.c({line}) [sender=3.2.7]",
    "Segmentation fault: {SIGNAL} at address {addr}, pid {pid}",
    "sh: {line}: cannot open {ETC}: No such file",
    "tar: {tmp}: Cannot open: No such file or directory",
    "ssh: connect to host {ip} port {PORT}: Connection timed out",
    "kex_exchange_identification: read: Connection reset by {ip} port {PORT}",
    "scp: {ETC}: Permission denied after {dur}",
    "kernel: [{ms}.{ms}] Out of memory: Killed process {pid} (java) total-vm:{bytes}kB",
    "docker: Error response from daemon: driver failed, container {sha}: exit status {EXIT}",
    "mv: cannot move '{tmp}' to '{ETC}': Device or resource busy",
    "error while loading shared libraries: {LIB}: cannot open shared object file",
    "/bin/app: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_{SERIES}' not found",
    "timeout: sending signal {SIGNAL} to command after {dur}",
    # Languages.
    "FileNotFoundError: [Errno 2] No such file or directory: '{home}/app/{FILE}'",
    "OSError: [Errno {ERRNO}] failed: '{tmp}'",
    "Traceback:\n  File \"{home}/shop/{SOURCE}.py\", line {line}, in run\nKeyError: 'id'",
    "RuntimeError: <Session object at {addr}> is closed ({iso})",
    "ModuleNotFoundError: No module named '{MODULE}' (python {SERIES})",
    "{iso} ERROR [pid={pid}] {MODULE} requires Python >={SERIES}",
    "Error: ENOENT: no such file, open '{home}/shop/{FILE}'\n    at Object.open (node:fs:{line}:{column})",
    "Error: listen EADDRINUSE: address in use :::{PORT}\n    at Server.setup (node:net:{line}:{column})",
    "node: process {pid} ended, JavaScript heap out of memory at {addr} after {dur}: exit={EXIT}",
    "panic: open {ETC}: permission denied\n\ngoroutine {pid} [running]:\n\t{home}/x/main.go:{line} +{addr}",
    "dial tcp {ip}:{PORT}: connect: connection refused",
    "read tcp {ip}:{ephemeral}->{ip}:{PORT}: read: connection reset by peer",
    "java.net.ConnectException: Connection refused: localhost/127.0.0.1:{PORT} ({dur})",
    "UnsupportedClassVersionError: compiled by a more recent version, class file version {MAJOR}.0",
    'Exception in thread "pool-{tries}-thread-{tries}" java.io.IOException: {ETC} (Permission denied)',
    "thread 'main' panicked at src/{SOURCE}.rs:{line}:{column}: called `unwrap()` on an `Err`",
    'Os {{ code: {ERRNO}, kind: Other, message: "no" }} in thread {pid}',
    "std::io::Error: (os error {ERRNO}) while reading {tmp}",
    "Ruby {VERSION}: undefined method `x' for #<Foo:{addr}>",
    "PHP Fatal error:  Memory of {bytes} bytes exhausted in {home}/web/{SOURCE}.php on line {line}",
    "Unhandled exception: System.IO.IOException: HRESULT {HRESULT} at {iso}",
    "Faulting process id: {addr}, exception code: {HRESULT}, start time: {epoch}",
    "OSError: [WinError {WIN}] The operation failed: '{wintmp}'",
    # Compilers and linters.
    "src/{SOURCE}.c:{line}:{column}: error: expected ';' before '}}' token",
    "error[{RUSTC}]: mismatched types\n  --> src/lib.rs:{line}:{column}",
    "src/{SOURCE}.ts({line},{column}): error {TS}: wrong",
    "src/{SOURCE}.ts:{line}:{column} - error {TS}: wrong",
    "{SOURCE}.cs({line},{column}): error {CS}: wrong [{tmp}]",
    "{wintmp} : error {MSVC}: unresolved symbol {NAME}",
    "{SOURCE}.py:{line}:{column}: {LINT} not good",
    "collect2: error: ld returned {EXIT} exit status in {tmp}",
    "In file included from {tmp}:{line}: fatal error: {SOURCE}.h: No such file or directory",
    "cmake: CMake {VERSION} or higher is required. Ran in {dur}",
    "ninja: build stopped: subcommand failed after {count} steps ({dur}), {SOURCE}.o",
    "{SOURCE}.java:{line}: error: cannot find symbol {NAME}",
    "error TS18003: No inputs were found in config file '{home}/shop/{SOURCE}.json', {dur}",
    # Databases.
    'ERROR:  relation "{NAME}" does not exist at character {column}',
    "psycopg.errors.Error: ({SQLSTATE}) failed after {dur}",
    "ERROR: {SQLSTATE}: could not do it (pid {pid})",
    "ERROR: no way (SQLSTATE {SQLSTATE}), transaction {count}",
    "{iso} UTC [{pid}] FATAL:  sorry, too many clients already on port {PORT}",
    'connection to server at "{ip}", port {PORT} failed: Connection refused',
    "ERROR {MYSQL} (HY000): it failed at line {line}",
    "pymysql.err.OperationalError: ({MYSQL}, 'it failed (thread {pid})')",
    "Msg {MSSQL}, Level 16, State 1, Server db, Line {line}",
    "{ORA}: it failed, process ID: {pid} Session ID: {count}",
    "MongoServerError: {MONGO} duplicate key, opTime {epoch}",
    "redis.exceptions.ConnectionError: Error {ERRNO} connecting to cache.internal:{PORT}. Refused.",
    "sqlite3.OperationalError: no such table: {NAME} ({dur})",
    "Deadlock found: process {pid} waits for ShareLock on transaction {count}; SQLSTATE={SQLSTATE}",
    "could not connect to postgres:{MAJOR} container {container}",
    "SQLCODE=-{MSSQL}, SQLSTATE={SQLSTATE}, DRIVER=4.26.14",
    "pg_restore: error: server version mismatch: server version: {MAJOR}; file {tmp}",
    # HTTP and the network.
    "HTTP {HTTP} for request {uuid}",
    "HTTP/1.1 {HTTP} Status, x-request-id: {request}",
    "requests.exceptions.HTTPError: {HTTP} Client Error: no for url: https://api.example.com/v1/items?t={epoch}",
    "Request failed with status code {HTTP} ({dur})",
    "urllib.error.HTTPError: HTTP Error {HTTP}: no, trace id {uuid}",
    "curl: ({CURL}) failed after {ms} ms",
    "curl: (7) Failed to connect to localhost port {PORT} after {ms} ms: Couldn't connect to server",
    "GET https://api.example.com/items/{count} {HTTP} (Failed) in {dur}",
    "upstream returned {HTTP} after {tries} retries, request_id={uuid}",
    "nginx: {iso} [error] {pid}#{pid}: *{count} connect() failed ({ERRNO}: no) while connecting to upstream",
    "The requested URL returned error: {HTTP}, retry {tries}/10",
    "rpc error: code = {GRPC} desc = failed, {dur}",
    "grpc-status: {GRPC}, grpc-message: no, peer {ip}:{PORT}",
    "wget: server returned error: HTTP/1.1 {HTTP} No -- {iso}",
    "fetch failed: response status: {HTTP}, body length {bytes}",
    "x509: certificate has expired: current time {iso} is after {iso}, host port {PORT}",
    "Attempt {tries} of 5 failed: 127.0.0.1:{PORT} timed out in {dur}",
    "WebSocket closed with code {MYSQL} after {dur}",
    # Package managers.
    "npm ERR! code {NPM}\nnpm ERR! A complete log can be found in: {home}/.npm/_logs/{epoch}-debug-0.log",
    "npm error engine Not compatible with your version of node: wanted node@{VERSION}",
    "ERROR: Could not find a version that satisfies the requirement {MODULE}=={VERSION}",
    "pip: cannot build {MODULE} in {tmp}, took {dur}",
    "E: Unable to fetch libfoo_{VERSION}_amd64.deb  {HTTP}  Failed [IP: {ip} 80]",
    "E: Could not get lock {ETC}. It is held by process {pid} (apt-get)",
    "error: package `{MODULE} v{VERSION}` cannot be built, finished in {dur}",
    "Because shop depends on {MODULE} (^{VERSION}), version solving failed. ({dur})",
    "go: github.com/acme/x@v{VERSION}: reading: {HTTP} Gone",
    "requires Java {MAJOR}, ran daemon pid {pid}",
    'yarn: The engine "node" is incompatible. Expected version ">={MAJOR}". Done in {dur}',
    "found {CVE} in {MODULE}, scan {uuid}",
    "gem: {MODULE} requires Ruby version >= {SERIES}. {count} gems checked",
    "Checksum mismatch for {MODULE}-{VERSION}.tar.gz: got {sha}, want {sha}",
    # Clouds, containers, continuous integration.
    "Back-off restarting failed container web in pod web-{pod}, exit code {EXIT}",
    'pods "api-{pod}" is forbidden: {HTTP}',
    'Readiness probe failed: Get "http://{ip}:{PORT}/healthz": dial refused',
    "An error occurred (Throttling) when calling {NAME}: RequestId: {uuid}, StatusCode: {HTTP}",
    "W0914 {clock}.004113   {pid} warnings.go:{line}] unknown field {NAME}",
    "Error: creating EC2 Instance: StatusCode: {HTTP}, RequestID: {uuid}",
    'Error: Invalid index\n  on {FILE} line {line}, in resource "x" "y"',
    "##[error]Process completed with exit code {EXIT}. Run {epoch}, job {count}",
    "Cannot start service db: port {PORT} is already allocated (container {container})",
    'failed to solve: process "/bin/sh -c {SOURCE}.sh" did not complete successfully: exit code: {EXIT}',
    "fatal: unable to access 'https://git.example.com/x.git/': The requested URL returned error: {HTTP}",
    "error: Your local changes to {FILE} would be overwritten; HEAD is now at {short}",
    "fatal: bad object {sha}, exit code {EXIT}",
    "helm: release web-{SOURCE} failed: timed out waiting for the condition after {dur}",
    "terraform: Error acquiring the state lock, ID: {uuid}, Version: {VERSION}, Created: {iso} UTC",
    "OOMKilled: container {container} used {bytes} bytes, exit code {EXIT}",
    "ansible: fatal: [{ip}]: FAILED! => rc={EXIT}, delta 0:00:{clock}",
    "FAILED tests/test_{SOURCE}.py::test_run - AssertionError ({count} passed in {dur})",
    "E   TimeoutError: {NAME} not ready in {dur} (attempt {tries})",
    "systemd: {SOURCE}.service: Failed with result 'exit-code', pid {pid} at {syslog}",
    "CloudFormation stack update failed: {NAME}: Status Code: {HTTP}; Request ID: {request}",
    "gcloud: ERROR: (gcloud.run.deploy) code={GRPC}, message=no, operation {uuid}",
    "mount: {ETC}: can't find UUID={uuid}.",
    "sudo: unable to resolve host web-{SOURCE}: it took {dur}",
    "Windows cannot access {FILE}. Error code: {HRESULT} (thread {addr})",
    "The service did not start: error {WIN}, {iso}",
    "{iso} level=error msg=failed pid={pid} status={HTTP} duration={dur}",
    '{{"level":"error","ts":{epoch}.123,"msg":"failed","code":{ERRNO},"pid":{pid}}}',
    # Of all kinds.
    "error: process didn't exit successfully: `target/debug/shop` (exit status: {EXIT}), {dur}",
    "/bin/sh: line {line}: {pid} Segmentation fault      (core dumped) ./{SOURCE} {tmp}",
    "gzip: {tmp}: unexpected end of file (exit code {EXIT})",
    "chown: changing ownership of '{ETC}': Operation not permitted",
    "{syslog} db postgres[{pid}]: FATAL:  could not bind to port {PORT}",
    "fork: retry: Resource temporarily unavailable, errno {ERRNO}, uid {pid}",
    "dpkg: error processing package libbar (--configure): subprocess returned error exit status {EXIT}",
    "strace: wait4 returned -1, errno={ERRNO}, {clock}.{ms}",
    'File "{home}/lib/{SOURCE}.py", line {line}\nConnectionRefusedError: [Errno {ERRNO}] no',
    "TypeError: Cannot read properties of undefined\n    at run ({home}/web/{SOURCE}.js:{line}:{column})",
    "java.lang.OutOfMemoryError: Java heap space, used {bytes} bytes, dump {tmp}, exit code {EXIT}",
    "fatal error: unexpected signal {SIGNAL}, addr={addr} pc={addr}",
    "goroutine {pid} [select, {count} minutes]: deadlock in {SOURCE}.go:{line}",
    "System.Net.Sockets.SocketException ({WIN}): No connection could be made, {iso}",
    "Elixir: ** (exit) exited in: GenServer.call(#PID<0.{pid}.0>, :get, {ms}), {SOURCE}",
    "R: Error in readRDS(file) : cannot open '{home}/data/{FILE}': after {dur}",
    "{SOURCE}.cpp({line}): error {MSVC}: 'x': no",
    "{SOURCE}.go:{line}:{column}: undefined: {NAME}",
    "{home}/shop/{SOURCE}.kt:({line}, {column}): unresolved reference",
    "swiftc: error: module compiled with Swift {SERIES} cannot be imported, {dur}",
    "In {FILE} line {line}: {LINT} (warning)",
    "g++: internal compiler error: Killed (program cc1plus), {count} kB, pid {pid}",
    "ERROR:  deadlock detected, SQL state: {SQLSTATE}, process {pid}",
    'django.db.utils.OperationalError: ({MYSQL}, "Lost connection") after {dur}',
    "SQL Error [{MSSQL}] [S0001]: failed at {iso}",
    "cassandra: Unable to connect to any servers, {ip}:{PORT}, tried {tries} times in {dur}",
    'psql: could not connect: is the server running on socket "/var/run/postgresql/.s.PGSQL.{PORT}"?',
    "elasticsearch: [{iso}][WARN] index {NAME} blocked, node {uuid}, took [{dur}]",
    "etcdserver: request timed out, waited {dur}, raft index {count}, listen :{PORT}",
    "axios: AxiosError: Request failed with status {HTTP}, x-trace-id={uuid}",
    'level=warn ts={iso} caller={SOURCE}.go:{line} msg="push failed" code={HTTP} attempt={tries}',
    '{ip} - - [21/Nov/2026:{clock} +0000] "POST /api/items HTTP/1.1" {HTTP} {bytes}',
    "net::ERR_CONNECTION_REFUSED at http://localhost:{PORT}/ after {dur}",
    "ssl.SSLError: [SSL] handshake with {ip} failed, TLS version {SERIES}, {addr}",
    "botocore: An error occurred ({HTTP}) when calling HeadObject, RequestId={request}",
    "cargo: failed to select a version for `{MODULE}`, required `={VERSION}`, index {sha}",
    "composer: your php version ({VERSION}) does not satisfy it; memory {bytes} bytes",
    "conda: PackagesNotFoundError: {MODULE}={SERIES}, retried {tries} times",
    "npm warn EBADENGINE required: {{ node: '>={MAJOR}' }}, took {dur}",
    "brew: {MODULE}@{MAJOR} is not installed, {iso}",
    "container {container} is unhealthy: health check exceeded {dur}, exit code {EXIT}",
    'kubelet: Failed to pull image "registry.local/web:{VERSION}": after {dur}',
    "Error: googleapi: Error {HTTP}: no, trace {uuid}",
    "Job failed: exit code {EXIT}, runner {short}, duration {dur}",
    "aws: StatusCode={HTTP} RequestID={uuid} HostID={request}",
    "vault: Error making API request. URL: PUT http://{ip}:{PORT}/v1/x Code: {HTTP}",
    "pq: duplicate key ({SQLSTATE}) at {iso}",
    "Pod web-{pod} OOMKilled (exit code {EXIT}), node {ip}",
)
HELD_BACK: Final[tuple[str, ...]] = (
    "HTTP {HTTP}",
    "exit code {EXIT}",
    "got HTTP status {HTTP} at {clock}",
    "connection refused: db.internal:{PORT} (pid {pid})",
    "bind: address already in use (port {PORT}), started {iso}",
    "failed with error {WIN} at {addr}",
    "cannot read {ETC} (pid {pid})",
    "cannot write to {tmp}: disk full after {bytes} bytes",
    "Unit app.service entered failed state, code=killed, signal={SIGNAL}, main pid: {pid}",
    "zsh: exit {EXIT}     ./{SOURCE}.sh",
    "PowerShell: The term failed at C:\\work\\{SOURCE}.ps1:{line} char:{column}",
    "fish: Job {tries}, './{SOURCE}' terminated by signal {SIGNAL}",
    "dotnet: error {CS}: The name is missing [{home}/shop/{SOURCE}.csproj]",
    "warning C4996: deprecated; {SOURCE}.cpp({line},{column})",
    "rustc {VERSION} is required, found other; checked at {iso}",
    "tsc: {SOURCE}.ts:{line}:{column} {TS}",
    "AssertionError: expected {MODULE} v{VERSION} ({sha})",
    "DB::Exception: Code: {MSSQL}. Failed (query id: {uuid})",
    "ORA error {ORA} at line {line}, session {count}",
    "mysqldump: Got error: {MYSQL}: no when trying to connect after {dur}",
    "redis: dial unix /run/redis/{SOURCE}.sock: no, attempt {tries}",
    "kafka: broker {ip}:{PORT} disconnected, correlation id: {count}",
    "amqp: Exception ({HTTP}) Reason: no, conn {addr}",
    "smtp: {HTTP} 5.7.1 rejected, id {request}",
    "ldap: Result Code {ERRNO}: no, msgid {count}",
    "response {HTTP}: body {bytes} bytes in {ms}ms",
    "requests to https://api.example.com:{PORT}/v1 time out ({dur})",
    "DNS lookup of web-{SOURCE}.internal failed, query {count}, server {ip}",
    "pip: {MODULE} {VERSION} has requirement, but you have other. {clock}",
    "apt: Depends: libc6 (>= {SERIES}) but it is not installable ({syslog})",
    "pnpm: ERR_PNPM_FETCH_{HTTP}  GET https://registry.local/{MODULE}: no",
    "go.mod requires go >= {SERIES} (running in {tmp})",
    "maven: Could not find artifact org.acme:{MODULE}:jar:{VERSION} (took {dur})",
    "Vulnerability {CVE} found at {iso} in image {sha}",
    "terraform: {FILE}:{line},{column}-12: Unsupported argument",
    "gh: HTTP {HTTP}: no (https://api.example.com/repos/a/b/pulls/{count})",
    "Lambda: RequestId: {uuid} Error: Runtime exited with error: exit status {EXIT}, Duration: {ms}.12 ms",
    "azure: Code={HTTP} Message=no, CorrelationId={uuid}, Timestamp={iso}",
)
"""Written after the rules were chosen, and not used to choose them."""

_SLOT: Final = re.compile(r"{(\w+)}")


def pairs(templates: tuple[str, ...], count: int, seed: int) -> Iterator[Pair]:
    """Yield pairs of texts, of the same error and of different errors in turn."""
    random = Random(seed)
    identified = [each for each in templates if _slots(each, IDENTIFYING)]
    varied = [each for each in templates if _slots(each, VARYING)]
    for number in range(count):
        is_same = number % 2 == 0
        template = random.choice(varied if is_same else identified)
        yield _pair(template, random, is_same=is_same)


def _pair(template: str, random: Random, *, is_same: bool) -> Pair:
    known = {slot: IDENTIFYING[slot](random) for slot in _slots(template, IDENTIFYING)}
    changed = dict(known)
    if not is_same:
        slot = random.choice(sorted(known))
        while changed[slot] == known[slot]:
            changed[slot] = IDENTIFYING[slot](random)
    return Pair(template, _filled(template, known, random), _filled(template, changed, random), is_same)


def _filled(template: str, known: Mapping[str, str], random: Random) -> str:
    filled = _SLOT.sub(lambda slot: known.get(slot[1]) or VARYING[slot[1]](random), template)
    return filled.replace("{{", "{").replace("}}", "}")


def _slots(template: str, makers: Mapping[str, object]) -> list[str]:
    return [slot for slot in _SLOT.findall(template) if slot in makers]
